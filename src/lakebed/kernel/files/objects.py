"""The store of a prefix in an object store (S3, GCS, Azure), over one client in Rust, obstore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Client

from lakebed.errors import NotWrittenError, StorageError
from lakebed.kernel.files import conditional
from lakebed.kernel.files.answers import failure, is_missing, is_refusal, was_tried_again
from lakebed.kernel.files.cache import CACHE
from lakebed.kernel.files.client import Clients
from lakebed.kernel.files.credentials import Credentials
from lakebed.kernel.files.fetching import TAIL, WHOLE, Fetching
from lakebed.kernel.files.patience import again, hedged
from lakebed.kernel.files.remote_file import End, RemoteFile, RemoteInput
from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store, Version, name_in_bucket
from lakebed.kernel.files.upload import PART, Upload
from lakebed.kernel.files.waiting import budget, hedge_threads, one_of_many, request_threads, slots, waiting

T = TypeVar("T")
R = TypeVar("R")
_PARTS_AT_ONCE = 4
"""Parts of one upload that are under way at once."""
_FEW_THREADS = 8
"""Threads of a call of `together` by one of many tasks that are open at once."""
_LISTING_TRIES = 4
_DELETED_AT_ONCE = 1000
_NO_SUCH_RANGE = ("416 Range Not Satisfiable", "non-partial response")
_NO_SUFFIX_RANGES = ("abfss://", "az://")
"""Azure cannot be asked for the last bytes of a file of unknown size."""


class _NoSuchRange(Exception):
    """The file does not reach the range that was asked for."""


class RemoteStore(Store):
    """A prefix of a bucket. It pickles as its location and the name of its credential provider."""

    def __init__(self, location: str, credentials: Credentials) -> None:
        self._location, self._credentials = location, credentials
        bounds = credentials.bounds
        self._requests, self._cached_bytes = bounds.requests, bounds.cache
        self._bytes_in_flight = bounds.bytes_in_flight
        self._whose = credentials.identity
        self._can_read_ends = not location.startswith(_NO_SUFFIX_RANGES)
        submit = request_threads(self._requests).submit
        self._fetching = Fetching(self._end_of, submit, budget(self._bytes_in_flight))
        self._clients = Clients(location, credentials)

    def __reduce__(self) -> tuple[type[RemoteStore], tuple[str, Credentials]]:
        return RemoteStore, (self._location, self._credentials)

    @property
    def location(self) -> str:
        """The URL."""
        return self._location

    @property
    def _client(self) -> Client:
        return self._clients.usual()

    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder."""
        try:
            with self._request():
                client, prefix = self._client, name_in_bucket(folder) or None
                result = again(lambda: obstore.list_with_delimiter(client, prefix), self._credentials.bounds)
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
        for info in self._walked(folder):
            folders.add(info.path.rpartition("/")[0])
            if info.size:
                yield info
            else:
                empty.append(info)
        folders |= {above for path in folders for above in _above(path)}
        yield from (info for info in empty if info.path not in folders)

    def _walked(self, folder: str) -> Iterator[FileInfo]:
        """All objects below a folder. A listing that breaks off goes on after the last object that came."""
        last: str | None = None
        failures = 0
        while True:
            try:
                for chunk in obstore.list(self._client, name_in_bucket(folder) or None, offset=last):
                    for meta in chunk:
                        yield FileInfo(last := meta["path"], meta["size"])
                    failures = 0
            except (BaseError, FileNotFoundError) as error:
                failures += 1
                if is_refusal(error) or was_tried_again(error) or failures == _LISTING_TRIES:
                    raise self._failed("list", folder, error) from error
            else:
                return

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return int(self._head(path)["size"])

    def modified(self, path: str) -> float:
        """When a file was last written, by the store's clock."""
        return float(self._head(path)["last_modified"].timestamp())

    def _head(self, path: str) -> Mapping[str, Any]:
        try:
            with self._request():
                return obstore.head(self._client, name_in_bucket(path))
        except FileNotFoundError as error:
            raise (self._missing(path) if is_missing(error) else self._failed("look at", path, error)) from error
        except BaseError as error:
            raise self._failed("look at", path, error) from error

    @property
    def at_once(self) -> int:
        """How many requests are worth making at once."""
        return self._requests

    @property
    def in_flight(self) -> int:
        """How many bytes of files may be open at once while their readers wait for requests."""
        return self._bytes_in_flight

    @property
    def patience(self) -> float:
        """The seconds that a request may take, tries included."""
        return self._credentials.bounds.timeout

    def together(self, act: Callable[[T], R], items: Iterable[T]) -> Sequence[R]:
        """The results of `act` for each item, in order, with many requests at once."""
        items = [*items]
        if len(items) < 2:
            return [act(item) for item in items]
        threads = min(_FEW_THREADS if one_of_many() else self.at_once, self.at_once, len(items))
        with waiting(), ThreadPoolExecutor(threads, "lakebed-together") as pool:
            futures = [pool.submit(act, item) for item in items]
        return [future.result() for future in futures]

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it, in one request. A large file that `fetching` fetches comes in
        parts."""
        if start or length is not None:
            return self._read_part(path, start, length)
        end = self._fetching.take(path)
        if end is None:
            return bytes(self._get(path, None)[0])
        before = [(at, min(at + PART, end.start)) for at in range(0, end.start, PART)]
        return b"".join([*self.together(lambda part: self.read_range(path, *part), before), end.data])

    def _read_part(self, path: str, start: int, length: int | None) -> bytes:
        if length is not None and length <= 0:
            return b""
        try:
            return bytes(self._get(path, {"offset": start} if length is None else (start, start + length))[0])
        except _NoSuchRange:
            return b""

    def read_range(self, path: str, start: int, stop: int) -> memoryview:
        """The bytes [start, stop) of a file, in one request; fewer where the file ends before."""
        return self._get(path, (start, stop))[0]

    def read_immutable(self, files: Sequence[FileInfo]) -> Sequence[bytes]:
        """The bytes of whole files that never change under their name, from the process's cache where it has them."""
        if not self._cached_bytes:
            return self.read_many([file.path for file in files])
        whose = self._location, self._whose
        kept = {file: CACHE.get((whose, file)) for file in files}
        missing = [file for file, data in kept.items() if data is None]
        for file, read in zip(missing, self.read_many([file.path for file in missing]), strict=True):
            kept[file] = read
            if len(read) == file.size:
                CACHE.put((whose, file), read, self._cached_bytes)
        return [data for file in files if (data := kept[file]) is not None]

    def write_immutable(self, files: Mapping[str, bytes]) -> None:
        """Write whole files that never change under their name, and keep their bytes in the process's cache."""
        self.write_many(files)
        if self._cached_bytes:
            for path, data in files.items():
                CACHE.put(((self._location, self._whose), FileInfo(path, len(data))), data, self._cached_bytes)

    @contextmanager
    def fetching(self, files: Iterable[FileInfo]) -> Iterator[None]:
        """A block that is going to read these files, in about this order."""
        block = self._fetching.begin([FileInfo(name_in_bucket(path), size) for path, size in files])
        try:
            yield
        finally:
            self._fetching.end(block)

    def open_input(self, path: str, size: int | None = None, mapped: bool = True) -> pa.NativeFile:
        """A random-access file. One request has brought its end, or the whole of it when that is small."""
        end = self._fetching.take(path) or self._end_of(path, size)
        if end.is_whole:
            return pa.BufferReader(pa.py_buffer(end.data))
        fetch = partial(self.read_range, path)
        return RemoteInput(
            RemoteFile(end, fetch, request_threads(self._requests).submit, budget(self._bytes_in_flight))
        )

    def _end_of(self, path: str, size: int | None) -> End:
        """The end of a file, from one request: all of it when it is small. `size` is what the metadata says."""
        if size is not None and size <= WHOLE:
            data, _ = self._get(path, None)
            return End(data, 0, len(data))
        if size is None and not self._can_read_ends:
            size = self.size(path)
        try:
            data, true_size = self._get(path, {"suffix": TAIL} if size is None else (max(size - TAIL, 0), size))
        except _NoSuchRange:  # an empty file, or one much smaller than the metadata says
            data, true_size = self._get(path, None)
        if true_size > (size or true_size):  # the file is larger than the metadata says, so this was not its end
            data, _ = self._get(path, (max(true_size - TAIL, 0), true_size))
        return End(data, true_size - len(data), true_size)

    def _get(self, path: str, part: tuple[int, int] | Mapping[str, int] | None) -> tuple[memoryview, int]:
        """The bytes of a file or of a part of it, and the size of the file, from one request.

        _NoSuchRange for a part of an empty file, and for one that begins after the file's end.
        """
        options: Any = {} if part is None else {"range": part}
        try:
            client, bounds = self._client, self._credentials.bounds
            name_in_bucket(path)

            def get() -> tuple[memoryview, int]:
                with slots(self._requests):
                    result = obstore.get(client, path, options=options)
                    return memoryview(result.bytes()), result.meta["size"]

            with waiting():
                return again(lambda: hedged(get, bounds, hedge_threads(self._requests)), bounds)
        except FileNotFoundError as error:
            raise (self._missing(path) if is_missing(error) else self._failed("read", path, error)) from error
        except BaseError as error:
            if part is not None and any(sign in str(error) for sign in _NO_SUCH_RANGE):
                raise _NoSuchRange from error
            raise self._failed("read", path, error) from error

    @contextmanager
    def _request(self) -> Iterator[None]:
        """A block that makes one request: not more at once than the bound, and no processor is held meanwhile."""
        with waiting(), slots(self._requests):
            yield

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A new data file: one request where it is small, else parts. Nothing is visible before the block ends without
        an error. After an error, the parts that were sent are removed."""
        name_in_bucket(path)
        upload = Upload(lambda data: self.write(path, data), lambda parts: self._put_parts(path, parts))
        try:
            yield pa.PythonFile(upload, mode="w")
        except BaseException:
            upload.give_up()
            raise
        upload.finish()

    def _put_parts(self, path: str, parts: Iterator[bytes]) -> None:
        try:
            obstore.put(self._clients.for_body(PART), path, parts, chunk_size=PART, max_concurrency=_PARTS_AT_ONCE)
        except (BaseError, FileNotFoundError) as error:
            raise self._failed("write", path, error) from error

    def write(self, path: str, data: bytes) -> None:
        """Write or replace a whole file."""
        try:
            with self._request():
                obstore.put(self._clients.for_body(len(data)), name_in_bucket(path), data)
        except (BaseError, FileNotFoundError) as error:
            raise self._failed("write", path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """A conditional put (`conditional.py`).

        NotWrittenError only when the store refused (no permission, no bucket) and the name is seen to be free.
        """
        return self._put(path, data, None)

    def read_version(self, path: str) -> tuple[bytes, Version]:
        """The bytes of a small file and their version."""
        try:
            return again(
                lambda: conditional.read(self._client, name_in_bucket(path), self._request), self._credentials.bounds
            )
        except FileNotFoundError as error:
            raise (self._missing(path) if is_missing(error) else self._failed("read", path, error)) from error
        except BaseError as error:
            raise self._failed("read", path, error) from error

    def replace(self, path: str, data: bytes, version: Version) -> PutOutcome:
        """A conditional put in place of one version (`conditional.py`)."""
        return self._put(path, data, version)

    def _put(self, path: str, data: bytes, version: Version | None) -> PutOutcome:
        writer, reader = self._clients.for_body(len(data)), self._clients.brief()
        outcome, refusal = conditional.put(writer, reader, name_in_bucket(path), data, self._request, version)
        if refusal is not None:
            raise self._not_written(path, refusal) from refusal
        return outcome

    def delete(self, path: str) -> None:
        """Remove a file. A missing file is not an error."""
        client, name = self._client, name_in_bucket(path)
        try:
            with self._request():
                again(lambda: obstore.delete(client, name), self._credentials.bounds)
        except FileNotFoundError:
            return
        except BaseError as error:
            raise self._failed("delete", path, error) from error

    def undeleted(self, paths: Iterable[str]) -> Mapping[str, StorageError]:
        """Remove files, 1,000 by a request and several requests at once. Those that stand, each with the error."""
        wanted = [*dict.fromkeys(paths)]
        batches = [wanted[at : at + _DELETED_AT_ONCE] for at in range(0, len(wanted), _DELETED_AT_ONCE)]
        return {path: error for failed in self.together(self._delete_batch, batches) for path, error in failed.items()}

    def _delete_batch(self, paths: Sequence[str]) -> Mapping[str, StorageError]:
        if len(paths) > 1:
            client, names = self._client, [name_in_bucket(path) for path in paths]
            with suppress(BaseError, FileNotFoundError), self._request():
                again(lambda: obstore.delete(client, names), self._credentials.bounds)
                return {}
        return super().undeleted(paths)  # one by one: some stores have no bulk deletes, and others stop at an error

    def _not_written(self, path: str, refusal: Exception) -> NotWrittenError:
        error = self._failed("write", path, refusal)
        return NotWrittenError(error.what, table=error.table, file=path, why=error.why, todo=error.todo)

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(f"there is no file {self._location}/{path}")

    def _failed(self, verb: str, path: str, error: Exception) -> StorageError:
        return failure(verb, self._location, path, error)


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
