"""What is fuzzed: a codec's entry, its seeds, and the mutator that knows its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.fuzz.mutators import Mutate
from tests.golden import unpack

MOST_SEED_BYTES = 24_000
SEEDS = 24
"""The most seeds of one target, spread over what its patterns find."""


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of a codec.

    `decode` is fed with bytes: it returns, or raises a LakebedError. What it returns is not looked at; where a count or
    a second decoder exists, `decode` itself asserts that they agree. `seeds` gives whole inputs that decode.
    """

    name: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], Iterator[bytes]]
    mutate: Mutate

    @property
    def codec(self) -> str:
        """The codec that it belongs to: the first two words of its name, such as `hudi-log`."""
        return "-".join(self.name.split("-")[:2])


def files(*patterns: str) -> Callable[[], Iterator[bytes]]:
    """The contents of golden tables' files. A pattern is `FORMAT/TABLE/GLOB`, with the glob inside the table."""

    def seeds() -> Iterator[bytes]:
        each = max(1, SEEDS // len(patterns))
        for pattern in patterns:
            form, name, glob = pattern.split("/", 2)
            found = sorted(path for path in unpack(form, name).rglob(glob) if path.is_file())
            fitting = [path for path in found if 0 < path.stat().st_size <= MOST_SEED_BYTES and path.suffix != ".crc"]
            assert fitting, f"{pattern} finds nothing"
            for path in fitting[:: max(1, len(fitting) // each)][:each]:
                yield path.read_bytes()

    return seeds


def values(*given: bytes) -> Callable[[], Iterator[bytes]]:
    """Seeds that are written out."""
    return lambda: iter(given)


def numbered(*parts: Callable[[], Iterator[bytes]]) -> Callable[[], Iterator[bytes]]:
    """Seeds behind one byte, the number of the part that they come from."""
    return lambda: (bytes([number]) + seed for number, part in enumerate(parts) for seed in part())
