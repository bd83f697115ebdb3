"""Least and greatest values of columns, in the specification's single-value form.

Rules: the specification's "Binary single-value serialization", and BinaryUtil and UnicodeUtil of the reference engine:
text and bytes are cut to a length, upper bounds rounded up.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    UUIDType,
)

from lakebed.formats.iceberg.write.statistics.leaves import Leaf
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode


@dataclass(slots=True)
class Bounds:
    """Least and greatest values so far, by column, in single-value form, not cut yet."""

    leaves: Sequence[Leaf]
    modes: Mapping[int, MetricsMode]
    _found: dict[int, tuple[bytes, bytes] | None] = field(default_factory=dict)

    def add(self, leaf: Leaf, low: bytes, high: bytes) -> None:
        """Count the least and greatest value of some rows in, in single-value form."""
        if not self.modes[leaf.id].length:
            return
        known = self._found.get(leaf.id, (low, high))
        if known is not None:
            pick = _Pick(leaf.type)
            self._found[leaf.id] = min(known[0], low, key=pick), max(known[1], high, key=pick)

    def drop(self, id: int) -> None:
        """A column of which some values are not known has no bounds."""
        self._found[id] = None

    def cut(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Lower and upper bounds by column id, text and bytes cut to what the column's mode says."""
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        for leaf in self.leaves:
            found = self._found.get(leaf.id)
            if found is not None:
                length = self.modes[leaf.id].length
                lower[leaf.id] = _lower(leaf.type, found[0], length)
                high = _upper(leaf.type, found[1], length)
                if high is not None:
                    upper[leaf.id] = high
        return lower, upper


@dataclass(frozen=True, slots=True)
class _Pick:
    kind: PrimitiveType

    def __call__(self, bound: bytes) -> Any:
        return comparable(self.kind, bound)


def encoded(raw: Any, kind: PrimitiveType) -> bytes:
    """A value as a Parquet footer gives it, in the specification's single-value form."""
    if isinstance(kind, DecimalType):
        value = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return int(value).to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
    if isinstance(raw, bool):
        return b"\x01" if raw else b"\x00"
    if isinstance(raw, float):
        return struct.pack("<f" if isinstance(kind, FloatType) else "<d", raw)
    if isinstance(raw, int):
        return struct.pack("<i" if str(kind) in ("int", "date") else "<q", raw)
    return bytes(raw)


def comparable(kind: PrimitiveType, bound: bytes) -> Any:
    """A bound in a form that sorts as its values do."""
    if isinstance(kind, StringType | BinaryType | FixedType | UUIDType):
        return bytes(bound)  # UTF-8 sorts as its code points do
    if len(bound) == 4 and isinstance(kind, LongType | DoubleType):  # written when the column was narrower
        kind = IntegerType() if isinstance(kind, LongType) else FloatType()
    value: Any = from_bytes(kind, bytes(bound))
    return (value, struct.pack(">d", value) < b"\x80") if value == 0 and isinstance(value, float) else (value, True)


def _lower(kind: PrimitiveType, bound: bytes, length: int) -> bytes:
    if isinstance(kind, StringType):
        return bound if len(bound) <= length else bound.decode()[:length].encode()
    return bound[:length] if isinstance(kind, BinaryType | FixedType) else bound


def _upper(kind: PrimitiveType, bound: bytes, length: int) -> bytes | None:
    """The shortest upper bound of that length; None when there is none."""
    if isinstance(kind, StringType):
        text = bound.decode()
        return bound if len(text) <= length else _next_text(text[:length])
    if isinstance(kind, BinaryType | FixedType) and len(bound) > length:
        head = bound[:length].rstrip(b"\xff")
        return head[:-1] + bytes([head[-1] + 1]) if head else None
    return bound


def _next_text(text: str) -> bytes | None:
    for end in range(len(text) - 1, -1, -1):
        following = ord(text[end]) + 1
        if 0xD800 <= following < 0xE000:
            following = 0xE000
        if following <= 0x10FFFF:
            return (text[:end] + chr(following)).encode()
    return None
