"""The store of a prefix in an object store (S3, GCS, Azure), over one client in Rust, obstore."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore as Client
from obstore.store import from_url

from lakebed.errors import NotWrittenError, RetryableError, StorageError, UsageError, first_line
from lakebed.kernel.files.credentials import Credentials
from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store, failed, inside

T = TypeVar("T")
R = TypeVar("R")
_REFUSALS = (PermissionDeniedError, UnauthenticatedError, InvalidPathError)


class RemoteStore(Store):
    """A prefix of a bucket. It pickles as its location and the name of its credential provider."""

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
                self._opened = from_url(_escaped(self._location), **settings)
            except (BaseError, ValueError, TypeError) as error:
                raise UsageError(f"cannot reach {self._location}", why=first_line(error)) from error
        return self._opened

    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder."""
        try:
            result = obstore.list_with_delimiter(self._client, inside(folder) or None)
        except (BaseError, FileNotFoundError) as error:
            raise self._failed("list", folder, error) from error
        folders = sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in result["common_prefixes"])
        # Consoles and Hadoop create an object `folder/` for an empty folder. It is listed without its slash.
        files = [FileInfo(meta["path"], meta["size"]) for meta in result["objects"] if meta["path"] != folder]
        return Listing(tuple(folders), tuple(sorted(files, key=lambda info: info.path)))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """All files below a folder. Empty objects come last. One with the name of a folder only marks that folder, and
        is left out."""
        empty: list[FileInfo] = []
        folders = {folder}
        try:
            for chunk in obstore.list(self._client, inside(folder) or None):
                for meta in chunk:
                    info = FileInfo(meta["path"], meta["size"])
                    folders.add(info.path.rpartition("/")[0])
                    if info.size:
                        yield info
                    else:
                        empty.append(info)
        except (BaseError, FileNotFoundError) as error:
            raise self._failed("list", folder, error) from error
        folders |= {above for path in folders for above in _above(path)}
        yield from (info for info in empty if info.path not in folders)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        try:
            return obstore.head(self._client, inside(path))["size"]
        except FileNotFoundError as error:
            raise self._missing(path) from error
        except BaseError as error:
            raise self._failed("look at", path, error) from error

    def modified(self, path: str) -> float:
        """When a file was last written, by the store's clock."""
        try:
            return obstore.head(self._client, inside(path))["last_modified"].timestamp()
        except FileNotFoundError as error:
            raise self._missing(path) from error
        except BaseError as error:
            raise self._failed("look at", path, error) from error

    def together(self, act: Callable[[T], R], items: Iterable[T]) -> Sequence[R]:
        """The results of `act` for each item, in order, with many requests at once."""
        items = [*items]
        if len(items) < 2:
            return [act(item) for item in items]
        with ThreadPoolExecutor(min(self.at_once, len(items))) as pool:
            futures = [pool.submit(act, item) for item in items]
        return [future.result() for future in futures]

    @property
    def at_once(self) -> int:
        """How many requests are worth making at once."""
        return 64

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it."""
        try:
            if start == 0 and length is None:
                return bytes(obstore.get(self._client, inside(path)).bytes())
            end = self.size(path)
            stop = end if length is None else min(end, start + length)
            return self.read_range(path, start, stop) if stop > start else b""
        except FileNotFoundError as error:
            raise self._missing(path) from error
        except BaseError as error:
            raise self._failed("read", path, error) from error

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """The bytes [start, stop) of a file, in one request. The range must be inside the file."""
        try:
            return bytes(obstore.get_range(self._client, inside(path), start=start, end=stop))
        except FileNotFoundError as error:
            raise self._missing(path) from error
        except BaseError as error:
            raise self._failed("read", path, error) from error

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        """A random-access file that fetches ranges."""
        return pa.PythonFile(_RangeFile(self, path, self.size(path)), mode="r")

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A multipart upload: nothing is visible before the block ends without an error.

        The parts of a failed upload stay in the bucket, invisible, until the bucket's own lifecycle rule removes them.
        """
        try:
            upload = obstore.open_writer(self._client, inside(path))
        except (BaseError, FileNotFoundError) as error:
            raise self._failed("write", path, error) from error
        sink = _Uploading(upload)
        try:
            yield pa.PythonFile(sink, mode="w")  # an upload that is not closed never becomes visible
            upload.close()
        except (BaseError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and error is not sink.error:  # the caller raised it
                raise
            raise self._failed("write", path, error) from error

    def write(self, path: str, data: bytes) -> None:
        """Write or replace a whole file."""
        try:
            obstore.put(self._client, inside(path), data)
        except (BaseError, FileNotFoundError) as error:
            raise self._failed("write", path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """A conditional put. When the store answers `already exists`, we read the file back: it may have our own bytes
        from a retry, or not exist at all.

        NotWrittenError only when the store refused (no permission, no bucket) and the name is seen to be free.
        """
        try:
            obstore.put(self._client, inside(path), data, mode="create", use_multipart=False)
            return PutOutcome.CREATED
        except (BaseError, FileNotFoundError) as error:
            refusal = error
        try:
            stored = bytes(obstore.get(self._client, path).bytes())
        except FileNotFoundError:
            if isinstance(refusal, (*_REFUSALS, FileNotFoundError)):
                failure = self._failed("write", path, refusal)
                raise NotWrittenError(
                    failure.what, table=failure.table, file=path, why=failure.why, todo=failure.todo
                ) from refusal
            return PutOutcome.UNKNOWN
        except BaseError:
            return PutOutcome.UNKNOWN
        return PutOutcome.CREATED if stored == data else PutOutcome.EXISTS

    def delete(self, path: str) -> None:
        """Remove a file. A missing file is not an error."""
        try:
            obstore.delete(self._client, inside(path))
        except FileNotFoundError:
            return
        except BaseError as error:
            raise self._failed("delete", path, error) from error

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(f"there is no file {self._location}/{path}")

    def _failed(self, verb: str, path: str, error: BaseError | FileNotFoundError) -> StorageError:
        missing = isinstance(error, FileNotFoundError) or "404 Not Found" in str(error)
        final = missing or isinstance(error, _REFUSALS)
        todo = "Check that the bucket exists" if missing else "Check the credentials" if final else ""
        return failed(verb, self._location, path, error, StorageError if final else RetryableError, todo)


def _escaped(url: str) -> str:
    """The URL as the client reads it: it percent-encodes a space, `%` or `#` in a table's path."""
    scheme, _, rest = url.partition("://")
    bucket, slash, path = rest.partition("/")
    return f"{scheme}://{bucket}{slash}{quote(path, safe='/=:@+,')}"


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


class _RangeFile(io.RawIOBase):
    """A file that reads ranges of one object."""

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
        data = self._store.read_range(self._path, self._at, self._at + wanted) if wanted > 0 else b""
        self._at += len(data)
        return data

    def size(self) -> int:
        """The size of the object in bytes."""
        return self._size


class _Uploading:
    """The file that Arrow writes to. Closing it does not end the upload: the store's block does that."""

    closed = False
    error: Exception | None = None

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        try:
            return int(self._sink.write(bytes(data)))
        except Exception as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Do nothing: parts are sent as they fill up."""

    def close(self) -> None:
        self.closed = True
