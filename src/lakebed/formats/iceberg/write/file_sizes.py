"""File sizes: the target, the bounds around it, and how many files a number of bytes becomes.

Rules: the reference engine's SizeBasedFileRewritePlanner (numOutputFiles, inputSplitSize, writeMaxFileSize). All sizes
are bytes on disk, of input and output files: a target is never compared with what rows take in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakebed.kernel.arrays import Int64s

DEFAULT_TARGET = 512 << 20
_SPLIT_OVERHEAD = 5120


@dataclass(frozen=True, slots=True)
class FileSizes:
    """The target size, and the bounds outside of which a file is worth a rewrite: least < target < greatest."""

    target: int
    least: int
    greatest: int

    @classmethod
    def around(cls, target: int, least: int | None = None, greatest: int | None = None) -> FileSizes:
        """The sizes for a target. A bound that is not given is 75 % or 180 % of the target."""
        return cls(
            target,
            int(0.75 * target) if least is None else least,
            int(1.80 * target) if greatest is None else greatest,
        )

    @property
    def write_max(self) -> int:
        """The size at which a writer rolls, half way between `target` and `greatest`.

        So rows that compress a little worse than before do not leave a small file at the end.
        """
        return int(self.target + 0.5 * (self.greatest - self.target))

    def expected_files(self, sizes: Int64s) -> Int64s:
        """How many files each number of bytes becomes, at least 1.

        A remainder above `least` gets its own file. A smaller one is spread over the other files, if none of them
        exceeds the target by a tenth.
        """
        down = sizes // self.target
        rest = sizes - down * self.target
        up = down + (rest > 0)
        shared = sizes / np.maximum(down, 1) < min(1.1 * self.target, self.write_max)
        counts = np.where(rest > self.least, up, np.where(shared, down, up))
        return np.where(sizes < self.target, 1, counts).astype(np.int64)

    def expected(self, size: int) -> int:
        """The number of files for one number of bytes, as `expected_files` computes it."""
        return int(self.expected_files(np.array([size], np.int64))[0])

    def split(self, size: int) -> int:
        """The bytes of input per output file."""
        even = size // self.expected(size) + _SPLIT_OVERHEAD
        return self.target if even < self.target else min(even, self.write_max)
