"""Logical types that Arrow does not write: variant, geometry, geography, put into the footer of a file that it wrote.

Rules: parquet.thrift (SchemaElement, LogicalType) and the format's VariantEncoding.md and Geospatial.md. Arrow's writer
is handed a file that passes everything on but holds back the end, where the footer is; there the columns that the
caller names by field id get their types. Nothing is written twice, so a store that only appends will do.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Protocol

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.parquet.thrift import BINARY, BYTE, I32, STRUCT, Struct, decode, encode, of_binary

_SCHEMA = 2
_FIELD_ID, _LOGICAL_TYPE = 9, 10
_VARIANT, _GEOMETRY, _GEOGRAPHY = 16, 17, 18
_EDGES = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_END = struct.Struct("<I4s")


def variant() -> Struct:
    """A group of `metadata` and `value`, in version 1 of the variant encoding."""
    return {_VARIANT: (STRUCT, {1: (BYTE, b"\x01")})}


def geometry(crs: str) -> Struct:
    """Well-known binary on a plane."""
    return {_GEOMETRY: (STRUCT, {1: (BINARY, of_binary(crs.encode()))})}


def geography(crs: str, edges: str) -> Struct:
    """Well-known binary on a globe; `edges` says how points are joined (spherical, vincenty, ...)."""
    number = _EDGES.index(edges.lower())
    return {_GEOGRAPHY: (STRUCT, {1: (BINARY, of_binary(crs.encode())), 2: (I32, number)})}


class Sink(Protocol):
    """What bytes are appended to."""

    def write(self, data: bytes, /) -> object:
        """Append."""
        ...

    def tell(self) -> int:
        """How many bytes there are."""
        ...


class AnnotatedFile:
    """A file to hand to Arrow's Parquet writer. Call `hold` before the writer is closed and `finish` after.

    `types` are logical types by the field id of their column or group.
    """

    closed = False

    def __init__(self, out: Sink, types: Mapping[int, Struct]) -> None:
        self._out, self._types = out, types
        self._held: bytearray | None = None

    def write(self, data: bytes) -> int:
        """Pass on, or hold."""
        if self._held is None:
            self._out.write(data)
        else:
            self._held += data
        return len(data)

    def tell(self) -> int:
        """The bytes written and held."""
        return self._out.tell() + len(self._held or b"")

    def flush(self) -> None:
        """Nothing waits here but the end."""

    def close(self) -> None:
        """The file is its owner's to close."""

    def hold(self) -> None:
        """From here on everything is the file's end, which only `finish` writes."""
        self._held = bytearray()

    def finish(self) -> None:
        """Write the end, its footer with the types."""
        held, self._held = bytes(self._held or b""), None
        if len(held) < _END.size or held[-4:] != b"PAR1":
            raise CorruptError("a Parquet file was left without a footer", todo="Write it again")
        start = len(held) - _END.size - _END.unpack(held[-_END.size :])[0]
        footer, _ = decode(held, start, {_SCHEMA: {_FIELD_ID: None}})
        for element in footer[_SCHEMA][1]:
            found = self._types.get(element.get(_FIELD_ID, (I32, -1))[1])
            if found is not None:
                element[_LOGICAL_TYPE] = STRUCT, found
        data = encode(footer)
        self._out.write(held[:start] + data + _END.pack(len(data), b"PAR1"))
