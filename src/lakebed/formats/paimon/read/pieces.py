"""A snapshot in pieces, where it has more files, bytes or rows than the keys of Paimon's Spark source let a batch take.

Rules: Paimon's StreamHelper and PaimonReadLimits, whose offsets count the splits of a snapshot. A piece has whole
splits, at least one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.read.split import ChangeSplit
from lakebed.kernel.options import Options


@dataclass(frozen=True, slots=True)
class PieceBounds:
    """The most that a batch takes of one snapshot. None is no bound."""

    files: int | None
    bytes: int | None
    rows: int | None

    @classmethod
    def of(cls, options: Options) -> PieceBounds | None:
        """The bounds that the options give, None where they give none."""
        bounds = cls(options[opt.MAX_FILES], options[opt.MAX_BYTES], options[opt.MAX_ROWS])
        return None if bounds == cls(None, None, None) else bounds

    def end(self, splits: Sequence[ChangeSplit], start: int) -> int:
        """The number of splits after the piece that begins with split number `start`."""
        files = size = rows = 0
        for number, split in enumerate(splits[start:]):
            data_files = _files(split)
            files, size = files + len(data_files), size + split.size
            rows += sum(file.row_count for file in data_files)
            counts = ((files, self.files), (size, self.bytes), (rows, self.rows))
            if number and any(most is not None and count > most for count, most in counts):
                return start + number
        return len(splits)


def _files(split: ChangeSplit) -> list[DataFileMeta]:
    sides = (side for step in split.steps for side in (step.removed, step.added) if side is not None)
    return [file for side in sides for file in side.files]
