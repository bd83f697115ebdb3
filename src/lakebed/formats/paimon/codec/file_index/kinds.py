"""The kinds of file indexes: which types each takes, how it is read, and how it is built while rows are written.

Rules: Paimon's FileIndexer and its factories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.file_index.bit_slices import BitSliceIndex, write_bit_slices
from lakebed.formats.paimon.codec.file_index.bitmap import BLOCK_BYTES, BitmapIndex, write_bitmap_index
from lakebed.formats.paimon.codec.file_index.bloom import BloomFilter
from lakebed.formats.paimon.codec.file_index.keys import KeyKind, Keys
from lakebed.formats.paimon.codec.file_index.range_bitmap import RangeBitmap, write_range_bitmap
from lakebed.formats.paimon.codec.file_index.relations import ColumnIndex
from lakebed.formats.paimon.codec.types import DataType
from lakebed.kernel.arrays import Int64s, to_numpy
from lakebed.kernel.options import memory_size

BLOOM, BITMAP, BSI, RANGE = "bloom-filter", "bitmap", "bsi", "range-bitmap"
_ITEMS, _FPP = 1_000_000, 0.1
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
_FLOATS, _TEXTS, _BYTES = {"FLOAT", "DOUBLE"}, {"CHAR", "VARCHAR"}, {"BINARY", "VARBINARY"}
_TYPES = {
    BLOOM: _NUMBERS | _FLOATS | _TEXTS | _BYTES,
    BITMAP: _NUMBERS | _FLOATS | _TEXTS | {"BOOLEAN"},
    BSI: _NUMBERS | {"DECIMAL"},
    RANGE: _NUMBERS | _FLOATS | _TEXTS | {"BOOLEAN", "DECIMAL"},
}
KINDS = tuple(_TYPES)
OPTIONS = {
    BLOOM: ("items", "fpp"),
    BITMAP: ("version", "index-block-size"),
    BSI: (),
    RANGE: ("chunk-size",),
}
"""The options of each kind."""


def takes(index: str, kind: DataType) -> bool:
    """Whether an index of that kind takes columns of a type."""
    if kind.root not in _TYPES.get(index, ()) or KeyKind.of(kind) is None:
        return False
    return index != RANGE or not kind.root.startswith("TIMESTAMP") or kind.precision <= 6


def read_index(index: str, kind: DataType, data: bytes) -> ColumnIndex | None:
    """The index of a column; None for a kind, a version or a type that lakebed does not know.

    Damaged bytes raise whatever they lead to: call it inside `decoding`.
    """
    keys = KeyKind.of(kind)
    if keys is None or not takes(index, kind):
        return None
    try:
        match index:
            case "bloom-filter":
                return BloomFilter.read(keys, data)
            case "bitmap":
                return BitmapIndex(keys, data)
            case "bsi":
                return BitSliceIndex(data)
        return RangeBitmap(keys, data)
    except UnsupportedError:
        return None


@dataclass(frozen=True, slots=True)
class IndexRule:
    """An index that files get: its kind, and the options of the column."""

    index: str
    options: Mapping[str, str]

    def builder(self, kind: DataType) -> BloomBuilder | RowsBuilder:
        """What builds the index of one file. ValueError for an option's value that no index can have."""
        keys = KeyKind.of(kind)
        assert keys is not None
        if self.index == BLOOM:
            return BloomBuilder(keys, self.items(), self.fpp())
        return RowsBuilder(keys, self)

    def check(self) -> None:
        """Raise ValueError or KeyError for an option's value that no index can have."""
        if self.items() <= 0 or not 0 < self.fpp() < 1:
            raise ValueError("a Bloom filter needs items above 0 and a probability between 0 and 1")
        self.version(), self.block_bytes(), self.chunk_bytes()

    def items(self) -> int:
        """The different values that a Bloom filter is made for."""
        return int(self.options.get("items", _ITEMS))

    def fpp(self) -> float:
        """The part of absent values that a Bloom filter finds by mistake."""
        return float(self.options.get("fpp", _FPP))

    def block_bytes(self) -> int:
        """The bytes of a bitmap index's block."""
        return memory_size(self.options["index-block-size"]) if "index-block-size" in self.options else BLOCK_BYTES

    def chunk_bytes(self) -> int | None:
        """The bytes of a range bitmap's chunk, None for the type's own."""
        return memory_size(self.options["chunk-size"]) if "chunk-size" in self.options else None

    def version(self) -> int:
        """The version of a bitmap index. ValueError for one that there is not."""
        version = int(self.options.get("version", "2"))
        if version not in (1, 2):
            raise ValueError(f"a bitmap index has version 1 or 2, not {version}")
        return version


class BloomBuilder:
    """Builds a Bloom filter, whose size does not depend on the rows."""

    def __init__(self, kind: KeyKind, items: int, fpp: float) -> None:
        self._kind, self._filter = kind, BloomFilter.sized(kind, items, fpp)

    def add(self, column: pa.Array) -> None:
        """Take the next rows."""
        self._filter.add(self._kind.keys(column))

    def to_bytes(self) -> bytes:
        """The index of all rows taken."""
        return self._filter.to_bytes()


class RowsBuilder:
    """Builds an index that knows rows. It holds the column until the file ends: a bucket's file has a bounded size."""

    def __init__(self, kind: KeyKind, rule: IndexRule) -> None:
        self._kind, self._rule = kind, rule
        self._rows, self._keys, self._positions = 0, list[Keys](), list[Int64s]()

    def add(self, column: pa.Array) -> None:
        """Take the next rows."""
        valid = to_numpy(column.is_valid())
        self._keys.append(self._kind.keys(column))
        self._positions.append(np.flatnonzero(valid) + self._rows)
        self._rows += len(column)

    def to_bytes(self) -> bytes:
        """The index of all rows taken. ValueError for values that it cannot hold."""
        positions = np.concatenate([np.empty(0, np.int64), *self._positions])
        keys: Keys
        if self._kind.width:
            keys = np.concatenate([np.empty(0, np.int64), *self._keys])
        else:
            keys = pa.concat_arrays([pa.array([], pa.binary()), *self._keys])
        rule = self._rule
        match rule.index:
            case "bitmap":
                return write_bitmap_index(self._kind, keys, positions, self._rows, rule.version(), rule.block_bytes())
            case "bsi":
                return write_bit_slices(keys, positions, self._rows)
        return write_range_bitmap(self._kind, keys, positions, self._rows, rule.chunk_bytes())
