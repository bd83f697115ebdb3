"""Logical types that Arrow does not write (variant, geometry, geography), added to the footer of a file that it writes.

Rules: parquet.thrift (SchemaElement, LogicalType) and the format's VariantEncoding.md and Geospatial.md. Arrow's writer
gets a file that passes everything on but holds back the end, which has the footer. There the columns that the caller
names by field id get their types. Nothing is written twice, so a store that can only append is enough.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Protocol

from lakebed.errors import CorruptError
from lakebed.kernel.parquet.thrift import BINARY, BYTE, I32, STRUCT, Struct, decode, encode, of_binary

_SCHEMA = 2
_FIELD_ID, _LOGICAL_TYPE = 9, 10
_VARIANT, _GEOMETRY, _GEOGRAPHY = 16, 17, 18
_EDGES = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_END = struct.Struct("<I4s")


def variant() -> Struct:
    """The logical type of a group of `metadata` and `value`, in version 1 of the variant encoding."""
    return {_VARIANT: (STRUCT, {1: (BYTE, b"\x01")})}


def geometry(crs: str) -> Struct:
    """The logical type of well-known binary on a plane."""
    return {_GEOMETRY: (STRUCT, {1: (BINARY, of_binary(crs.encode()))})}


def geography(crs: str, edges: str) -> Struct:
    """The logical type of well-known binary on a globe. `edges` connects points (spherical, vincenty, ...)."""
    number = _EDGES.index(edges.lower())
    return {_GEOGRAPHY: (STRUCT, {1: (BINARY, of_binary(crs.encode())), 2: (I32, number)})}


class Sink(Protocol):
    """A file to which bytes are appended."""

    def write(self, data: bytes, /) -> object:
        """Append bytes."""
        ...

    def tell(self) -> int:
        """How many bytes were written."""
        ...


class AnnotatedFile:
    """A file for Arrow's Parquet writer. Call `hold` before you close the writer, and `finish` after.

    `types` are logical types by the field id of their column or group.
    """

    closed = False

    def __init__(self, out: Sink, types: Mapping[int, Struct]) -> None:
        self._out, self._types = out, types
        self._held: bytearray | None = None

    def write(self, data: bytes) -> int:
        """Pass bytes on, or hold them back."""
        if self._held is None:
            self._out.write(data)
        else:
            self._held += data
        return len(data)

    def tell(self) -> int:
        """How many bytes were passed on and held back."""
        return self._out.tell() + len(self._held or b"")

    def flush(self) -> None:
        """Do nothing: only the end waits here."""

    def close(self) -> None:
        """Do nothing: the owner closes the file."""

    def hold(self) -> None:
        """Hold back everything from now on: it is the end of the file, which `finish` writes."""
        self._held = bytearray()

    def finish(self) -> None:
        """Write the end of the file, with the logical types in its footer. CorruptError when there is no footer."""
        held, self._held = bytes(self._held or b""), None
        if len(held) < _END.size or held[-4:] != b"PAR1":
            raise CorruptError("a Parquet file was left without a footer", todo="Write it again")
        start = len(held) - _END.size - _END.unpack(held[-_END.size :])[0]
        footer, _ = decode(held, start, {_SCHEMA: {_FIELD_ID: None}})
        for element in footer[_SCHEMA][1]:
            logical_type = self._types.get(element.get(_FIELD_ID, (I32, -1))[1])
            if logical_type is not None:
                element[_LOGICAL_TYPE] = STRUCT, logical_type
        data = encode(footer)
        self._out.write(held[:start] + data + _END.pack(len(data), b"PAR1"))
