"""Decode Avro datums of any schema as whole columns: one cursor per datum, and all cursors move together.

Rules: the Avro specification, "Binary encoding". Each step reads one field of all datums at once, so the work is that
of numpy, whatever the number of datums. Where a union has a record in it, only the datums of that branch go on into it.
Arrays and maps are passed over: their values are not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.arrays import Int64s, UInt8s, from_numpy
from lakebed.kernel.decoding import decoding

_LONGEST = 10
"""Bytes of the longest number."""
_DEPTH = 32
_STEPS = 1 << 16
"""How many fields may be read that no byte pays for: of branches that no datum takes, and values without bytes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The values of a union: `branches[i]` is the number of the branch of datum i, `rows[b]` are the datums of branch b
    and `values[b]` their values, None for the branch null."""

    branches: Int64s
    rows: tuple[Int64s, ...]
    values: tuple[Any, ...]

    def filled(self, default: int) -> Int64s:
        """The numbers of a union of null and one kind of number."""
        numbers = np.full(len(self.branches), default, np.int64)
        for rows, values in zip(self.rows, self.values, strict=True):
            if values is not None:
                numbers[rows] = values
        return numbers

    def texts(self) -> pa.Array:
        """The texts of a union of null and string, null where there is none."""
        (values,) = (each for each in self.values if each is not None)
        place = np.full(len(self.branches), -1, np.int64)
        for rows, each in zip(self.rows, self.values, strict=True):
            if each is not None:
                place[rows] = np.arange(len(rows))
        return values.take(pa.array(place, mask=place < 0))


@decoding("Avro datums cannot be read")
def decode_datums(datums: pa.Array, schema: Any) -> Mapping[str, Any]:
    """The fields of a record in each datum of a binary array without nulls: numbers and booleans as numpy arrays,
    strings and bytes as Arrow arrays of `large_string` and `large_binary`, records as mappings, unions as `Choice`,
    arrays and maps as None.

    `schema` is plain JSON or parsed by fastavro. CorruptError where a datum does not fit it.
    """
    offsets = np.frombuffer(datums.buffers()[1], np.int64 if pa.types.is_large_binary(datums.type) else np.int32)
    bounds = offsets[datums.offset : datums.offset + len(datums) + 1].astype(np.int64)
    data = datums.buffers()[2]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    cursor = _Cursor(raw, bounds[:-1].copy(), {})
    fields: Mapping[str, Any] = cursor.value(schema, np.arange(len(datums)), "", 0)
    if (cursor.at != bounds[1:]).any():
        raise CorruptError("Avro datums do not fit their schema", why="a datum is longer or shorter than its fields")
    return fields


@dataclass(slots=True)
class _Cursor:
    """`at` is where each datum is being read."""

    raw: UInt8s
    at: Int64s
    named: dict[str, Any]
    steps: int = 0

    def value(self, kind: Any, rows: Int64s, space: str, depth: int) -> Any:
        """The values of some datums, whose cursors move past them."""
        if depth > _DEPTH:
            raise UnsupportedError("an Avro schema is nested too deeply")
        self.steps += 1
        if self.steps > _STEPS + len(self.raw):
            raise UnsupportedError("an Avro schema has too many fields")
        if isinstance(kind, list):
            return self._choice(kind, rows, space, depth)
        name = kind["type"] if isinstance(kind, dict) else kind
        match name:
            case "null":
                return None
            case "boolean":
                return self._bytes(rows, 1)[:, 0] != 0
            case "int" | "long":
                return self._number(rows)
            case "float":
                return self._bytes(rows, 4).view("<f4")[:, 0]
            case "double":
                return self._bytes(rows, 8).view("<f8")[:, 0]
            case "string" | "bytes":
                return self._text(rows, name == "string")
            case "record":
                return self._record(kind, rows, space, depth)
            case "array" | "map":
                return self._pass_over(kind, rows, space, depth)
            case "enum" | "fixed" | "error":
                raise UnsupportedError(f"an Avro {name} is not read here")
        if isinstance(name, (dict, list)):
            return self.value(name, rows, space, depth + 1)
        full = name if "." in name else f"{space}.{name}".lstrip(".")
        if full not in self.named and name not in self.named:
            raise CorruptError(f"an Avro schema names {name!r}, which it does not define")
        return self.value(self.named.get(full) or self.named[name], rows, space, depth + 1)

    def _record(self, kind: Mapping[str, Any], rows: Int64s, space: str, depth: int) -> dict[str, Any]:
        before, _, short = str(kind["name"]).rpartition(".")
        inner = str(kind.get("namespace") or before or space)
        self.named[f"{inner}.{short}".lstrip(".")] = kind
        return {field["name"]: self.value(field["type"], rows, inner, depth + 1) for field in kind["fields"]}

    def _choice(self, kinds: Sequence[Any], rows: Int64s, space: str, depth: int) -> Choice:
        branches = self._number(rows)
        if len(rows) and not (branches.min() >= 0 and branches.max() < len(kinds)):
            raise CorruptError("Avro datums do not fit their schema", why="a union has no such branch")
        places = [np.flatnonzero(branches == branch) for branch in range(len(kinds))]
        values = [self.value(kind, rows[place], space, depth + 1) for kind, place in zip(kinds, places, strict=True)]
        return Choice(branches, tuple(places), tuple(values))

    def _number(self, rows: Int64s) -> Int64s:
        at = self.at[rows]
        result = np.zeros(len(rows), np.uint64)
        going = np.arange(len(rows))
        for step in range(_LONGEST):
            byte = self.raw[at[going]]
            result[going] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * step)
            at[going] += 1
            going = going[byte > 0x7F]
            if not len(going):
                break
        else:
            raise CorruptError("Avro datums do not fit their schema", why="a number has no end")
        self.at[rows] = at
        return (result >> np.uint64(1)).view(np.int64) ^ -(result & np.uint64(1)).view(np.int64)

    def _bytes(self, rows: Int64s, width: int) -> UInt8s:
        at = self.at[rows]
        self.at[rows] = at + width
        return np.ascontiguousarray(self.raw[at[:, None] + np.arange(width)])

    def _text(self, rows: Int64s, is_text: bool) -> pa.Array:
        lengths = self._number(rows)
        starts = self.at[rows]
        ends = starts + lengths
        if len(rows) and (lengths.min() < 0 or ends.max() > len(self.raw)):
            raise CorruptError("Avro datums do not fit their schema", why="a text reaches past the end")
        self.at[rows] = ends
        bounds = np.append(np.column_stack([starts, ends]).reshape(-1), len(self.raw))
        kind = pa.large_binary()
        pieces = pa.Array.from_buffers(kind, 2 * len(rows), [None, pa.py_buffer(bounds), pa.py_buffer(self.raw)])
        values = pieces.take(from_numpy(np.arange(0, 2 * len(rows), 2)))
        return values.cast(pa.large_string()) if is_text else values

    def _pass_over(self, kind: Mapping[str, Any], rows: Int64s, space: str, depth: int) -> None:
        """Move past arrays or maps, item by item, in all datums that have as many."""
        items = kind["items"] if kind["type"] == "array" else kind["values"]
        left = rows
        for _ in range(len(self.raw) + 1):
            counts = self._number(left)
            sized = left[counts < 0]
            if len(sized):
                self._number(sized)
            if len(counts) and counts.min() < -len(self.raw):
                raise CorruptError("Avro datums do not fit their schema", why="an array has more items than bytes")
            counts = np.abs(counts)
            left, counts = left[counts > 0], counts[counts > 0]
            if not len(left):
                return
            if counts.max() > len(self.raw):
                raise CorruptError("Avro datums do not fit their schema", why="an array has more items than bytes")
            for item in range(int(counts.max())):
                having = left[counts > item]
                if kind["type"] == "map":
                    self._text(having, False)
                self.value(items, having, space, depth + 1)
