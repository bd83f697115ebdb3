"""Bounds: the least and the greatest value of columns, in the specification's single-value form.

Rules: the specification's "Binary single-value serialization", and BinaryUtil and UnicodeUtil of the reference engine:
text and bytes are truncated to a length, and upper bounds are rounded up.
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
    """The least and the greatest value so far per column, in single-value form, before truncation."""

    leaves: Sequence[Leaf]
    modes: Mapping[int, MetricsMode]
    _extremes: dict[int, tuple[bytes, bytes] | None] = field(default_factory=dict)

    def add(self, leaf: Leaf, low: bytes, high: bytes) -> None:
        """Add the least and the greatest value of more rows, in single-value form."""
        if not self.modes[leaf.id].length:
            return
        if leaf.id not in self._extremes:
            self._extremes[leaf.id] = low, high
            return
        extremes = self._extremes[leaf.id]
        if extremes is not None:
            order = _Order(leaf.type)
            self._extremes[leaf.id] = min(extremes[0], low, key=order), max(extremes[1], high, key=order)

    def drop(self, id: int) -> None:
        """Give a column no bounds, since some of its values are not known."""
        self._extremes[id] = None

    def cut(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """The lower and upper bounds by column id. Text and bytes are truncated as the column's mode says."""
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        for leaf in self.leaves:
            extremes = self._extremes.get(leaf.id)
            if extremes is not None:
                length = self.modes[leaf.id].length
                lower[leaf.id] = _lower(leaf.type, extremes[0], length)
                high = _upper(leaf.type, extremes[1], length)
                if high is not None:
                    upper[leaf.id] = high
        return lower, upper


@dataclass(frozen=True, slots=True)
class _Order:
    """The sort key of bounds of a type."""

    kind: PrimitiveType

    def __call__(self, bound: bytes) -> Any:
        return comparable(self.kind, bound)


def encoded(raw: Any, kind: PrimitiveType) -> bytes:
    """A value in the raw form of a Parquet footer, encoded in the specification's single-value form."""
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
    """A bound in a form that sorts like the values of the type."""
    if isinstance(kind, StringType | BinaryType | FixedType | UUIDType):
        return bytes(bound)  # UTF-8 sorts like its code points
    if len(bound) == 4 and isinstance(kind, LongType | DoubleType):  # written when the column was narrower
        kind = IntegerType() if isinstance(kind, LongType) else FloatType()
    value: Any = from_bytes(kind, bytes(bound))
    return (value, struct.pack(">d", value) < b"\x80") if value == 0 and isinstance(value, float) else (value, True)


def _lower(kind: PrimitiveType, bound: bytes, length: int) -> bytes:
    if isinstance(kind, StringType):
        return bound if len(bound) <= length else bound.decode()[:length].encode()
    return bound[:length] if isinstance(kind, BinaryType | FixedType) else bound


def _upper(kind: PrimitiveType, bound: bytes, length: int) -> bytes | None:
    """The least upper bound of at most `length` characters or bytes. None when there is none."""
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
