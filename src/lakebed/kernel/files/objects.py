"""Object stores: S3, GCS, Azure, over one Rust client (obstore)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore as Client
from obstore.store import from_url

from lakebed.errors import RetryableError, StorageError, UsageError
from lakebed.kernel.files.credentials import Credentials
from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store, failed, inside


class RemoteStore(Store):
    """A prefix of a bucket. Pickled as its location and the name of its credential provider."""

    def __init__(self, location: str, credentials: Credentials) -> None:
        self._location, self._credentials = location, credentials
        self._opened: Client | None = None

    def __reduce__(self) -> tuple[type[RemoteStore], tuple[str, Credentials]]:
        return RemoteStore, (self._location, self._credentials)

    @property
    def location(self) -> str:
        """The URL."""
        return self._location

    @property
    def _client(self) -> Client:
        if self._opened is None:
            settings: Mapping[str, Any] = self._credentials.settings()
            try:
                self._opened = from_url(self._location, **settings)
            except (BaseError, ValueError, TypeError) as error:
                raise UsageError(f"cannot reach {self._location}", why=str(error).splitlines()[0]) from error
        return self._opened

    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder."""
        try:
            found = obstore.list_with_delimiter(self._client, folder or None)
        except FileNotFoundError:
            return Listing((), ())
        except BaseError as error:
            raise self._failed("list", folder, error) from error
        folders = sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        files = [FileInfo(meta["path"], meta["size"]) for meta in found["objects"] if not meta["path"].endswith("/")]
        return Listing(tuple(folders), tuple(sorted(files, key=lambda info: info.path)))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """All files below a folder."""
        try:
            for chunk in obstore.list(self._client, folder or None):
                yield from (FileInfo(meta["path"], meta["size"]) for meta in chunk)
        except BaseError as error:
            raise self._failed("list", folder, error) from error

    def size(self, path: str) -> int:
        """Bytes of a file."""
        try:
            return obstore.head(self._client, inside(path))["size"]
        except BaseError as error:
            raise self._failed("look at", path, error) from error

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it."""
        try:
            if start == 0 and length is None:
                return bytes(obstore.get(self._client, inside(path)).bytes())
            end = self.size(path)
            stop = end if length is None else min(end, start + length)
            return bytes(obstore.get_range(self._client, path, start=start, end=stop)) if stop > start else b""
        except BaseError as error:
            raise self._failed("read", path, error) from error

    def open_input(self, path: str) -> pa.NativeFile:
        """A random-access file that fetches ranges."""
        return pa.PythonFile(_RangeFile(self, path, self.size(path)), mode="r")

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A multipart upload: nothing is visible before the block ends well."""
        upload = obstore.open_writer(self._client, inside(path))
        yield pa.PythonFile(_Uploading(upload), mode="w")  # an upload that is not closed never becomes visible
        try:
            upload.close()
        except BaseError as error:
            raise self._failed("write", path, error) from error

    def write(self, path: str, data: bytes) -> None:
        """Put or replace a whole file."""
        try:
            obstore.put(self._client, inside(path), data)
        except BaseError as error:
            raise self._failed("write", path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """A conditional put, whose verdict is read back: `already exists` may speak of our own retried bytes, or of none."""
        with suppress(BaseError):
            obstore.put(self._client, inside(path), data, mode="create")
            return PutOutcome.CREATED
        try:
            there = bytes(obstore.get(self._client, path).bytes())
        except (FileNotFoundError, BaseError):
            return PutOutcome.UNKNOWN
        return PutOutcome.CREATED if there == data else PutOutcome.EXISTS

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is no error."""
        try:
            obstore.delete(self._client, inside(path))
        except FileNotFoundError:
            return
        except BaseError as error:
            raise self._failed("delete", path, error) from error

    def _failed(self, verb: str, path: str, error: BaseError) -> StorageError:
        refused = isinstance(error, (PermissionDeniedError, UnauthenticatedError, InvalidPathError))
        return failed(verb, self._location, path, error, StorageError if refused else RetryableError)


class _RangeFile(io.RawIOBase):
    """Reads ranges of one object."""

    def __init__(self, store: RemoteStore, path: str, size: int) -> None:
        super().__init__()
        self._store, self._path, self._size, self._at = store, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size - self._at if size is None or size < 0 else min(size, self._size - self._at)
        data = self._store.read(self._path, self._at, wanted) if wanted > 0 else b""
        self._at += len(data)
        return data

    def size(self) -> int:
        """Bytes of the object."""
        return self._size


class _Uploading:
    """What Arrow writes into; closing it does not end the upload, which the store's block does."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        return int(self._sink.write(bytes(data)))

    def flush(self) -> None:
        """Nothing to do: parts are sent as they fill."""

    def close(self) -> None:
        self.closed = True
