"""Which existing file groups a write fills up with new rows, and how many rows each takes.

Rules: Hudi's `UpsertPartitioner` (copy-on-write: every base file under the limit), `SparkUpsertDeltaCommitPartitioner`
(merge-on-read: the few smallest base files without logs; where the index finds rows in logs, every file group under
the greatest size) and `AverageRecordSizeUtils` (the size of a row, from the newest commit that wrote enough).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.slices import FileSlice

COMMITS_LOOKED_AT = 32
"""How many commits are asked for the size of a row, newest first. Their number does not grow with the timeline."""


@dataclass(frozen=True, slots=True)
class FileSizes:
    """The sizes that the options ask for, in bytes: base files under `small` are filled up to `greatest`.

    `candidates` is how many small files of a partition a write of a merge-on-read table fills. `split` is the
    number of rows in a new file, 0 where its bytes decide.
    """

    small: int = 100 << 20
    greatest: int = 120 << 20
    candidates: int = 1
    split: int = 0
    threshold: float = 1.0

    @property
    def target(self) -> int:
        """The least bytes per file that justify another one, so that a file keeps below `greatest`."""
        return max(1, int(self.greatest / 1.4))


class Fill(NamedTuple):
    """New rows of a partition that go to an existing file group: so many of them."""

    file_slice: FileSlice
    rows: int


def small_files(slices: Sequence[FileSlice], sizes: FileSizes, *, merge_on_read: bool) -> list[tuple[FileSlice, int]]:
    """The file slices of one partition that take more rows, with their sizes in bytes of base files."""
    if sizes.small <= 0:
        return []
    if not merge_on_read:
        return [(s, s.base.size) for s in slices if s.base is not None and s.base.size < sizes.small]
    bare = [(s, s.base.size) for s in slices if s.base is not None and not s.logs and s.base.size < sizes.small]
    return sorted(bare, key=lambda candidate: candidate[1])[: sizes.candidates]


def fills(rows: int, small: Iterable[tuple[FileSlice, int]], greatest: int, row_bytes: float) -> list[Fill]:
    """How many of `rows` new rows each small file takes, in order, until none is left."""
    shares = []
    for file_slice, size in small:
        taken = min(int((greatest - size) / row_bytes), rows)
        if taken > 0:
            shares.append(Fill(file_slice, taken))
            rows -= taken
        if not rows:
            break
    return shares


def row_bytes(commits: Iterable[CommitMetadata], sizes: FileSizes) -> float:
    """The bytes of a row in base files, by the first of some commits (newest first) that wrote enough base files to
    tell; 0 where none did."""
    least = int(sizes.threshold * sizes.small)
    for commit in commits:
        stats = [stat for stat in commit.stats if not stat.is_log]
        written, rows = sum(stat.size for stat in stats), sum(stat.writes for stat in stats)
        if written > least and rows > 0:
            return written / rows
    return 0.0
