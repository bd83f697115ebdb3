"""Aggregate functions of values that are whole sets: Roaring bitmaps and the sketches of Apache DataSketches.

Rules: Paimon's FieldRoaringBitmap32Agg, FieldRoaringBitmap64Agg, FieldThetaSketchAgg and FieldHllSketchAgg (release
1.3.1). A value of a row is a set in serialized form, the result their union; a key with one value keeps its bytes.
Sketches are united two at a time, as there: each union has the precision of its two. They need the package
`datasketches`, which makes the bytes of its Java sister but for three fields of a theta sketch.
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
from lakebed.formats.paimon.merge.ordering import Runs, by_rank

try:
    import datasketches
except ImportError:  # the extra `sketches`; asked for by name where a table needs it
    datasketches = None

T = TypeVar("T")

_THETA_LOG_SIZE = 12
"""Of the reference's unions of theta sketches: 4096 hashes at most."""
_FLAGS, _IS_EMPTY, _IS_SINGLE = 5, 0x04, 0x20
_EMPTY_THETA = bytes.fromhex("01030300001e0000")
_ALL_SAMPLED = struct.pack("<f", 1.0)
_UPDATE_FAMILY = 2


@dataclass(frozen=True, slots=True)
class SetFunction(Generic[T]):
    """How values are read, united and written. ValueError, RuntimeError or IndexError for bytes that
    are none."""

    kind: str
    read: Callable[[bytes], T]
    unite: Callable[[T, T], T]
    write: Callable[[T], bytes]
    sketches: bool = False

    def check(self, column: str) -> None:
        """Raise UnsupportedError when the package is missing that the function needs."""
        if self.sketches and datasketches is None:
            raise UnsupportedError(
                f"column {column!r} holds sketches, for which the package datasketches is missing",
                todo="Install it where lakebed runs, on Spark's workers too: pip install 'lakebed[sketches]'",
            )


def unions(values: pa.Array, runs: Runs, function: SetFunction[Any], column: str) -> pa.Array:
    """The union of each run's sets, null where there is none. The loop is over sets, not over their members.

    Raises UsageError for a value that is no such set.
    """
    found: list[bytes | None] = [None] * len(runs)
    united: dict[int, Any] = {}
    try:
        for owner, rows in by_rank(values, runs):
            for run, data in zip(owner.tolist(), values.take(pa.array(rows)).to_pylist(), strict=True):
                known = found[run]
                if known is None:
                    found[run] = data
                    continue
                have = united[run] if run in united else function.read(known)
                united[run] = function.unite(have, function.read(data))
        for run, whole in united.items():
            found[run] = function.write(whole)
    except (ValueError, RuntimeError, IndexError) as error:
        raise UsageError(
            f"a value of column {column!r} is no {function.kind}", why=str(error) or type(error).__name__,
            todo="Write values as Paimon's own functions make them",
        ) from error  # fmt: skip
    return pa.array(found, values.type)


def _write_32(bitmap: BitMap) -> bytes:
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data


def _unite_64(one: Chunks, other: Chunks) -> Chunks:
    for key, chunk in other.items():
        one[key] = one[key] | chunk if key in one else chunk
    return one


def _theta(data: bytes) -> bytes:
    if len(data) > 2 and data[2] == _UPDATE_FAMILY:
        raise ValueError("it is a sketch that still takes updates, of which lakebed reads only the compact form")
    return data


def _unite_theta(one: bytes, other: bytes) -> bytes:
    union = datasketches.theta_union(_THETA_LOG_SIZE)
    for data in (one, other):
        union.update(datasketches.compact_theta_sketch.deserialize(data))
    return _as_java(union.get_result().serialize())


def _as_java(data: bytes) -> bytes:
    """A compact theta sketch with what Java says besides: that a sketch of one hash is one, and that no hash was left
    out by sampling."""
    if data[_FLAGS] & _IS_EMPTY:
        return _EMPTY_THETA
    if data[0] == 1:
        return data[:_FLAGS] + bytes([data[_FLAGS] | _IS_SINGLE]) + data[_FLAGS + 1 :]
    return data[:12] + _ALL_SAMPLED + data[16:]


def _unite_hll(one: bytes, other: bytes) -> bytes:
    """The newer value gives the union's precision."""
    newer = datasketches.hll_sketch.deserialize(other)
    union = datasketches.hll_union(newer.lg_config_k)
    union.update(newer)
    union.update(datasketches.hll_sketch.deserialize(one))
    data: bytes = union.get_result(datasketches.HLL_4).serialize_compact()
    return data


SET_FUNCTIONS: dict[str, SetFunction[Any]] = {
    "rbm32": SetFunction("32-bit Roaring bitmap", BitMap.deserialize, BitMap.__ior__, _write_32),
    "rbm64": SetFunction("64-bit Roaring bitmap", chunks_from_bytes, _unite_64, chunks_to_bytes),
    "theta_sketch": SetFunction("compact theta sketch", _theta, _unite_theta, bytes, sketches=True),
    "hll_sketch": SetFunction("HLL sketch", bytes, _unite_hll, bytes, sketches=True),
}
