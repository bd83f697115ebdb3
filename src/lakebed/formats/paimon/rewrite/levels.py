"""The sorted runs of a bucket: each file of level 0 is one, and each higher level is one.

Rules: Paimon's Levels and CoreOptions.numLevels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.formats.paimon import compaction_options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.merge.sorted_runs import level_0_runs
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
    return [
        *(SortedRun(0, (file,)) for file in level_0_runs(levels.pop(0, ()))),
        *(SortedRun(level, tuple(levels[level])) for level in sorted(levels)),
    ]


def number_of_levels(options: Options, files: Iterable[DataFileMeta] = ()) -> int:
    """How many levels a bucket has, level 0 included: those of the table's options, and more where its files lie
    higher."""
    return max(opt.top_level(options) + 1, max((file.level for file in files), default=-1) + 1, 2)
