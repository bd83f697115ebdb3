"""How large rewritten files shall be, and how many.

Rules: Iceberg's SizeBasedFileRewritePlanner (numOutputFiles, inputSplitSize, writeMaxFileSize). All sizes are bytes on
disk, before and after: a target is never compared with what rows take in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakebed.kernel.arrays import Int64s

DEFAULT_TARGET = 512 << 20
_SPLIT_OVERHEAD = 5120


@dataclass(frozen=True, slots=True)
class FileSizes:
    """The target, and the bounds outside which a file is worth a rewrite: least < target < greatest."""

    target: int
    least: int
    greatest: int

    @classmethod
    def around(cls, target: int, least: int | None = None, greatest: int | None = None) -> FileSizes:
        """The bounds that hold when none are given: 75 % and 180 % of the target."""
        return cls(
            target,
            int(0.75 * target) if least is None else least,
            int(1.80 * target) if greatest is None else greatest,
        )

    @property
    def write_max(self) -> int:
        """Where a writer rolls: half way between target and greatest, so that files which compress a little worse than
        before leave no small file at the end."""
        return int(self.target + 0.5 * (self.greatest - self.target))

    def expected_files(self, sizes: Int64s) -> Int64s:
        """How many files so many bytes become, at least 1.

        A rest above `least` gets a file of its own; a smaller one is shared out among the others if none grows by a
        tenth.
        """
        down = sizes // self.target
        rest = sizes - down * self.target
        up = down + (rest > 0)
        shared = sizes / np.maximum(down, 1) < min(1.1 * self.target, self.write_max)
        found = np.where(rest > self.least, up, np.where(shared, down, up))
        return np.where(sizes < self.target, 1, found).astype(np.int64)

    def expected(self, size: int) -> int:
        """`expected_files` of one size."""
        return int(self.expected_files(np.array([size], np.int64))[0])

    def split(self, size: int) -> int:
        """The bytes of input that one output file takes."""
        even = size // self.expected(size) + _SPLIT_OVERHEAD
        return self.target if even < self.target else min(even, self.write_max)
