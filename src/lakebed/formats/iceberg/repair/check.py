"""The check of files that manifests name: are they there, as long as stated, readable, with the rows that are stated.

Rules: the specification's "Manifests" (`file_size_in_bytes`, `record_count`, `content_offset`), the Puffin
specification for deletion vectors, whose blobs have a CRC-32, and parquet.thrift for the CRC-32 of pages.

Only what is certain counts as lost: a store that refuses or does not answer ends the check with its own error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakebed.errors import CorruptError, DataCleanedError, UnsupportedError
from lakebed.formats.iceberg.codec.name_mapping import NameMapping
from lakebed.formats.iceberg.codec.puffin import DELETION_VECTOR, decode_vector, read_footer
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.formats import opened
from lakebed.formats.iceberg.repair.options import DATA, DEPTHS, EXISTENCE, LENGTH
from lakebed.kernel.decoding import Stated, decoding
from lakebed.kernel.engine import Engine

PUFFIN = "PUFFIN"
NAMED_COLUMNS = (
    "file_path", "file_format", "file_size_in_bytes", "record_count", "content_offset", "content_size_in_bytes",
    "referenced_data_file",
)  # fmt: skip
"""The columns of entries that a check needs, in the order of the fields of `NamedFile`."""
MISSING = "the file is missing"
_PER_TASK = 32
_PUFFIN_END = 64 << 10
_UNMAPPED = NameMapping()
"""A check asks for no field ids: a file without them is whole."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file as its manifest entry states it. Sizes are in bytes, negative where nothing is stated. `offset`, `length`
    and `referenced` are those of a deletion vector."""

    path: str
    format: str
    size: int
    rows: int
    offset: int | None = None
    length: int | None = None
    referenced: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a file is lost, or, with `is_lost` False, why it could not be checked."""

    reason: str
    is_lost: bool = True


@dataclass(frozen=True, slots=True)
class Checker:
    """The function that checks the files of one task. Picklable. `at_once` is how many it checks at once."""

    files: Files
    depth: str
    at_once: int = 1

    def __call__(self, named: Sequence[NamedFile]) -> list[tuple[int, Verdict]]:
        """The verdicts about files that are not whole, by their place in `named`.

        Raises StorageError when the store fails: nothing is known then.
        """
        sizes: dict[str, int] = {}
        check = partial(self._verdict, sizes)
        if self.at_once > 1 and len(named) > 1:
            with ThreadPoolExecutor(min(self.at_once, len(named))) as pool:
                verdicts = [*pool.map(check, named)]
        else:
            verdicts = [check(file) for file in named]
        return [(place, verdict) for place, verdict in enumerate(verdicts) if verdict is not None]

    def _verdict(self, sizes: dict[str, int], file: NamedFile) -> Verdict | None:
        try:
            if DEPTHS.index(self.depth) <= DEPTHS.index(LENGTH):
                self._length(sizes, file)
            elif file.format == PUFFIN:
                self._vector(sizes, file)
            else:
                self._rows(file)
        except (FileNotFoundError, DataCleanedError):
            return Verdict(MISSING)
        except CorruptError as error:
            return Verdict(error.why or error.what)
        except UnsupportedError as error:
            return Verdict(": ".join(part for part in (error.what, error.why) if part), is_lost=False)
        return None

    def _length(self, sizes: dict[str, int], file: NamedFile) -> None:
        if file.path not in sizes:  # a Puffin file has the vectors of many data files
            sizes[file.path] = self.files.size(file.path)
        if self.depth != EXISTENCE:
            Stated(file.size or -1).check_size(sizes[file.path])

    def _rows(self, file: NamedFile) -> None:
        stated = Stated(file.size or -1, file.rows)
        with opened(self.files, file.path, file.format, _UNMAPPED, stated=stated) as data:
            if self.depth == DATA:
                rows = sum(piece.rows for piece in data.pieces(range(len(data.fields))))
                stated.check_rows(rows)

    def _vector(self, sizes: dict[str, int], file: NamedFile) -> None:
        self._length(sizes, file)
        size = sizes[file.path]
        end = self.files.read(file.path, max(0, size - _PUFFIN_END))
        with decoding("a Puffin file cannot be read", file=file.path):
            footer = int.from_bytes(end[-12:-8], "little") + 16
            blobs, _ = read_footer(end if footer <= len(end) else self.files.read(file.path), file.path)
            places = {(blob.offset, blob.length) for blob in blobs if blob.type == DELETION_VECTOR}
            if (file.offset, file.length) not in places:
                raise CorruptError("a Puffin file lacks a blob", why="no deletion vector is at the place that is named")
        if self.depth == DATA and file.offset is not None and file.length is not None:
            blob = self.files.read(file.path, file.offset, file.length)
            decode_vector(blob, file.path, None, file.rows if file.rows >= 0 else None)


def check_all(
    checker: Checker, pieces: Iterable[pa.Table], engine: Engine, checked: Callable[[int], None]
) -> Iterator[tuple[pa.Table, list[Verdict]]]:
    """Check the files of entries, which come in pieces. Gives the entries that are not whole, each with its verdict.

    Only the pieces that are being checked are in memory. `checked` is told how many files each task has checked.
    """
    waiting: deque[pa.Table] = deque()

    def tasks() -> Iterator[list[NamedFile]]:
        for piece in pieces:
            for start in range(0, len(piece), _PER_TASK):
                part = piece.slice(start, _PER_TASK)
                waiting.append(part)
                yield named_files(part)

    for verdicts in engine.map(checker, tasks()):
        part = waiting.popleft()
        checked(len(part))
        if verdicts:
            yield part.take(pa.array([place for place, _ in verdicts])), [verdict for _, verdict in verdicts]


def named_files(entries: pa.Table) -> list[NamedFile]:
    """The files of entries, as a check needs them."""
    columns = [entries[name].to_pylist() for name in NAMED_COLUMNS]
    return [NamedFile(*values) for values in zip(*columns, strict=True)]
