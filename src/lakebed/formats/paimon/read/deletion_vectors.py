"""The deletion vectors of the files of one split, read ahead of the files, in as few requests as possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.deletion_vectors import decode_vector
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.read.split import DeletionFile
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.files import Store

_AHEAD = 8 << 20
"""About how many bytes of vectors are read at a time."""
_GAP = 64 << 10
"""Blocks that are at most so many bytes apart come with one request."""


@dataclass(frozen=True, slots=True)
class _Range:
    """The bytes [start, stop) of an index file, with the blocks of some data files."""

    path: str
    start: int
    stop: int
    blocks: tuple[tuple[str, DeletionFile], ...]


class DeletionVectors:
    """Gives the deleted rows of data files. Ask in the order of `files`: a few megabytes are read at a time."""

    def __init__(self, store: Store, files: Sequence[DataFileMeta], deletions: Mapping[str, DeletionFile]) -> None:
        self._store, self._deletions = store, deletions
        self._waiting = _runs(
            [(file.file_name, deletions[file.file_name]) for file in files if file.file_name in deletions]
        )
        self._blocks: dict[str, memoryview] = {}

    def of(self, file: DataFileMeta) -> Int64s | None:
        """The positions of a file's deleted rows, ascending; None for a file without a vector. Ask once per file.

        Raises CorruptError for a vector that cannot be read, DataCleanedError when its index file is gone.
        """
        deletion = self._deletions.get(file.file_name)
        if deletion is None:
            return None
        while file.file_name not in self._blocks:
            self._read(next(self._waiting))
        block = self._blocks.pop(file.file_name)
        return decode_vector(bytes(block), deletion.path, file.row_count, deletion.cardinality)

    def _read(self, blocks: Sequence[tuple[str, DeletionFile]]) -> None:
        joined = [*_joined(blocks)]
        for part, data in zip(joined, self._store.together(self._bytes_of, joined), strict=True):
            for name, block in part.blocks:
                start = block.offset - part.start
                self._blocks[name] = data[start : start + block.length]

    def _bytes_of(self, part: _Range) -> memoryview:
        try:
            return memoryview(self._store.read(part.path, part.start, part.stop - part.start))
        except FileNotFoundError as error:
            raise DataCleanedError(
                "an index file is gone",
                table=self._store.location,
                file=part.path,
                why="the snapshot that holds it has expired",
                todo="Read a newer snapshot",
            ) from error


def _runs(blocks: Sequence[tuple[str, DeletionFile]]) -> Iterator[list[tuple[str, DeletionFile]]]:
    """The blocks in order, in runs of about `_AHEAD` bytes."""
    run: list[tuple[str, DeletionFile]] = []
    size = 0
    for name, block in blocks:
        if run and size + block.length > _AHEAD:
            yield run
            run, size = [], 0
        run.append((name, block))
        size += block.length
    if run:
        yield run


def _joined(blocks: Sequence[tuple[str, DeletionFile]]) -> Iterator[_Range]:
    """The ranges to read for some blocks, with near ones of a file joined."""
    part: _Range | None = None
    for name, block in sorted(blocks, key=lambda item: (item[1].path, item[1].offset)):
        stop = block.offset + block.length
        if part is not None and part.path == block.path and block.offset - part.stop <= _GAP:
            part = _Range(part.path, part.start, max(part.stop, stop), (*part.blocks, (name, block)))
            continue
        if part is not None:
            yield part
        part = _Range(block.path, block.offset, stop, ((name, block),))
    if part is not None:
        yield part
