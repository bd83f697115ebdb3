"""What decoding may take, by the size of the input. The one table: docs/security.md shows it, the corpus is held to it.

Time is processor time on a slow machine with coverage on, so it only tells what grows beyond all bounds. Memory is what
Python and numpy allocate (`tracemalloc`) together with Arrow's pool, at its peak.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Bound:
    """At most `base + factor * bytes of input` bytes of memory, and `seconds` for the inputs of the fuzzer (64 KiB)."""

    base: int = 8 * _MIB
    factor: int = 200
    seconds: float = 3.0

    def memory(self, size: int) -> int:
        """The most bytes for an input of this size."""
        return self.base + self.factor * size


PLAIN = Bound()
"""Bytes that are not compressed: each byte of the input makes a bounded number of objects."""
COMPRESSED = Bound(base=600 * _MIB, seconds=20.0)
"""Where a block is inflated: up to 256 MiB of one block (kernel/inflate.py), held twice while it is decoded."""

BOUNDS: dict[str, Bound] = {
    "kernel-compression": Bound(base=8 * _MIB),  # the target's own bound is 1 MiB
}
"""Those of targets that differ from `PLAIN`."""


def bound_of(target: str) -> Bound:
    """The bound of a target."""
    return BOUNDS.get(target, PLAIN)
