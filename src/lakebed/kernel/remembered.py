"""Keep the values that small files were decoded to: metadata files seldom change, and each commit, read and expiry of
a table meets the same ones again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
V = TypeVar("V")

COUNT, EACH_BYTES = 128, 8 << 10
"""How many values of a decoder are kept, and the most bytes of a file whose value is. The one that was used longest ago
is dropped first."""


def remembered(decode: Callable[Concatenate[bytes, P], V]) -> Callable[Concatenate[bytes, P], V]:
    """A decoder of bytes that keeps its last values. They are shared, so nobody may change them. Its other arguments
    are part of what a value is known by; what it raises is raised each time."""
    kept = lru_cache(COUNT)(decode)

    @wraps(decode)
    def decoded(data: bytes, /, *rest: P.args, **named: P.kwargs) -> V:
        return kept(bytes(data), *rest, **named) if len(data) <= EACH_BYTES else decode(data, *rest, **named)  # type: ignore[arg-type]

    return decoded
