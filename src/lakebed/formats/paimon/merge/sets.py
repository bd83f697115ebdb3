"""Aggregate functions of columns whose values are sets: Roaring bitmaps and the sketches of Apache DataSketches.

Rules: Paimon's FieldRoaringBitmap32Agg, FieldRoaringBitmap64Agg, FieldThetaSketchAgg and FieldHllSketchAgg (release
1.3.1). Each value is a serialized set, and the result is the union. A key with one value keeps its bytes. As in Paimon,
sketches are united two at a time, and each union has the precision of its two sketches. Sketches need the package
`datasketches`, which writes the same bytes as its Java counterpart but for three fields of a theta sketch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyroaring import BitMap

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.paimon.codec.roaring64 import Chunks, chunks_from_bytes, chunks_to_bytes
from lakebed.formats.paimon.merge.ordering import Runs, nth_rows
from lakebed.kernel.arrays import from_numpy

try:
    import datasketches
except ImportError:  # the extra `sketches`; `SetFunction.check` names it where a table needs it
    datasketches = None

T = TypeVar("T")

_THETA_LOG_SIZE = 12
"""The reference's size of a union of theta sketches: at most 2^12 = 4096 hashes."""
_FLAGS, _IS_EMPTY, _IS_SINGLE = 5, 0x04, 0x20
_EMPTY_THETA = bytes.fromhex("01030300001e0000")
_ALL_SAMPLED = struct.pack("<f", 1.0)
_UPDATE_FAMILY = 2


@dataclass(frozen=True, slots=True)
class SetFunction(Generic[T]):
    """How sets are read, united and written.

    `read` and `unite` raise ValueError, RuntimeError or IndexError for bytes that are not such a set.
    """

    kind: str
    read: Callable[[bytes], T]
    unite: Callable[[T, T], T]
    write: Callable[[T], bytes]
    sketches: bool = False

    def check(self, column: str) -> None:
        """Raise UnsupportedError when the package that the function needs is not installed."""
        if self.sketches and datasketches is None:
            raise UnsupportedError(
                f"column {column!r} holds sketches, and the package datasketches is not installed",
                todo="Install it where lakebed runs, on Spark's workers too: pip install 'lakebed[sketches]'",
            )


def unions(values: pa.Array, runs: Runs, function: SetFunction[Any], column: str) -> pa.Array:
    """The union of the sets of each run, null for a run of nulls. The loop is over sets, not over their members.

    Raises UsageError for a value that is not such a set.
    """
    results: list[bytes | None] = [None] * len(runs)
    united: dict[int, Any] = {}
    try:
        for owner, rows in nth_rows(values, runs):
            for run, data in zip(owner.tolist(), values.take(from_numpy(rows)).to_pylist(), strict=True):
                first = results[run]
                if first is None:
                    results[run] = data
                    continue
                union = united[run] if run in united else function.read(first)
                united[run] = function.unite(union, function.read(data))
        for run, union in united.items():
            results[run] = function.write(union)
    except (ValueError, RuntimeError, IndexError) as error:
        raise UsageError(
            f"a value of column {column!r} is not a {function.kind}",
            why=str(error) or type(error).__name__,
            todo="Write values that Paimon's own functions made",
        ) from error
    return pa.array(results, values.type)


def _write_32(bitmap: BitMap) -> bytes:
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data


def _unite_64(union: Chunks, other: Chunks) -> Chunks:
    for key, chunk in other.items():
        union[key] = union[key] | chunk if key in union else chunk
    return union


def _theta(data: bytes) -> bytes:
    if len(data) > 2 and data[2] == _UPDATE_FAMILY:
        raise ValueError("it is an update sketch, and lakebed reads only compact sketches")
    return data


def _unite_theta(older: bytes, newer: bytes) -> bytes:
    union = datasketches.theta_union(_THETA_LOG_SIZE)
    for data in (older, newer):
        union.update(datasketches.compact_theta_sketch.deserialize(data))
    return _as_java(union.get_result().serialize())


def _as_java(data: bytes) -> bytes:
    """A compact theta sketch in Java's bytes.

    Java also flags a sketch of a single hash, and states that sampling left out no hash.
    """
    if data[_FLAGS] & _IS_EMPTY:
        return _EMPTY_THETA
    if data[0] == 1:
        return data[:_FLAGS] + bytes([data[_FLAGS] | _IS_SINGLE]) + data[_FLAGS + 1 :]
    return data[:12] + _ALL_SAMPLED + data[16:]


def _unite_hll(older: bytes, newer: bytes) -> bytes:
    """The union has the precision of the newer sketch."""
    newest = datasketches.hll_sketch.deserialize(newer)
    union = datasketches.hll_union(newest.lg_config_k)
    union.update(newest)
    union.update(datasketches.hll_sketch.deserialize(older))
    data: bytes = union.get_result(datasketches.HLL_4).serialize_compact()
    return data


SET_FUNCTIONS: dict[str, SetFunction[Any]] = {
    "rbm32": SetFunction("32-bit Roaring bitmap", BitMap.deserialize, BitMap.__ior__, _write_32),
    "rbm64": SetFunction("64-bit Roaring bitmap", chunks_from_bytes, _unite_64, chunks_to_bytes),
    "theta_sketch": SetFunction("compact theta sketch", _theta, _unite_theta, bytes, sketches=True),
    "hll_sketch": SetFunction("HLL sketch", bytes, _unite_hll, bytes, sketches=True),
}
