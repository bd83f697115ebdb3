"""The sorted runs of a bucket: each file of level 0 is one, and each higher level is one.

Rules: Paimon's Levels and CoreOptions.numLevels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.formats.paimon import compaction_options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.kernel.options import Options


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files of one level whose keys do not overlap."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.file_size for file in self.files)


def sorted_runs(files: Iterable[DataFileMeta]) -> list[SortedRun]:
    """The runs of a bucket: those of level 0, the newest first, then the higher levels upwards."""
    levels: dict[int, list[DataFileMeta]] = {}
    for file in files:
        levels.setdefault(file.level, []).append(file)
    newest_first = sorted(levels.pop(0, ()), key=_age)
    return [
        *(SortedRun(0, (file,)) for file in newest_first),
        *(SortedRun(level, tuple(levels[level])) for level in sorted(levels)),
    ]


def number_of_levels(options: Options, files: Iterable[DataFileMeta] = ()) -> int:
    """How many levels a bucket has, level 0 included: those of the table's options, and more where its files lie
    higher."""
    return max(opt.top_level(options) + 1, max((file.level for file in files), default=-1) + 1, 2)


def _age(file: DataFileMeta) -> tuple[int, int, int, str]:
    """Sorts files of level 0, the newest first."""
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time or 0, file.file_name
