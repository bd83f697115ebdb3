"""Space-filling curves: sort keys that keep rows together which are near each other in several columns at once.

Each column becomes bytes that sort as its values do. A z-order interleaves their bits. A Hilbert curve turns and
mirrors each quadrant first (J. Skilling, "Programming the Hilbert curve", 2004), so that neighbours on the curve are
neighbours in every column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import AnyArray, UInt8s

_CHUNK_ROWS = 1 << 14
_COORDINATE_BYTES = 8


def ordered_bytes(column: pa.Array | pa.ChunkedArray, width: int) -> UInt8s:
    """Values as rows of bytes that sort as the values do. Null is zeros, so it sorts first."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _text_bytes(column.cast(pa.binary()), width)
    if pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        bits = values.view(np.uint64)
        bits = np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))
    elif pa.types.is_decimal(kind):
        rank = pc.rank(column, tiebreaker="dense", null_placement="at_start").to_numpy()
        bits = rank.astype(np.uint64) << np.uint64(24)
    else:
        if pa.types.is_temporal(kind):
            column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        bits = numbers.view(np.uint64) ^ np.uint64(1 << 63)
    bits = np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(0), bits)
    return bits.astype(">u8").view(np.uint8).reshape(-1, 8)


def _text_bytes(column: pa.Array, width: int) -> UInt8s:
    prefixes = np.zeros((len(column), width), np.uint8)
    if not len(column):
        return prefixes
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    for place in range(width):
        rows = np.flatnonzero(lengths > place)
        prefixes[rows, place] = raw[offsets[rows] + place]
    return prefixes


def interleaved(columns: Sequence[UInt8s]) -> pa.Array:
    """The bits of the columns in turn, highest first. Narrower columns are padded with zeros."""
    width = max(column.shape[1] for column in columns)
    rows = len(columns[0])
    out = np.empty((rows, width * len(columns)), np.uint8)
    for start in range(0, rows, _CHUNK_ROWS):
        bits = [
            np.unpackbits(np.pad(column[start : start + _CHUNK_ROWS], ((0, 0), (0, width - column.shape[1]))), axis=1)
            for column in columns
        ]
        out[start : start + _CHUNK_ROWS] = np.packbits(np.stack(bits, axis=2).reshape(len(bits[0]), -1), axis=1)
    kind = pa.binary(out.shape[1])
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(out)]).cast(pa.binary())


def hilbert(columns: Sequence[UInt8s]) -> pa.Array:
    """The place of each row on a Hilbert curve, as bytes that sort by it. Of each column eight bytes count."""
    rows = len(columns[0])
    coordinates = [_coordinate(column) for column in columns]
    parts = []
    for start in range(0, rows, _CHUNK_ROWS):
        chunk = [coordinate[start : start + _CHUNK_ROWS].copy() for coordinate in coordinates]
        _transpose(chunk)
        parts.append(np.stack(chunk, axis=1).astype(">u8").view(np.uint8))
    width = _COORDINATE_BYTES
    axes = np.concatenate(parts) if parts else np.zeros((0, width * len(columns)), np.uint8)
    return interleaved([axes[:, at * width : (at + 1) * width] for at in range(len(columns))])


def _coordinate(column: UInt8s) -> AnyArray:
    """The first eight bytes of each value as a number, shorter values padded at their end."""
    padding = max(0, _COORDINATE_BYTES - column.shape[1])
    whole = np.pad(column[:, :_COORDINATE_BYTES], ((0, 0), (0, padding)))
    return np.ascontiguousarray(whole).view(">u8").reshape(-1).astype(np.uint64)


def _transpose(axes: list[AnyArray]) -> None:
    """Coordinates to the transposed index of the curve, in place: the index is their bits interleaved."""
    last = len(axes) - 1
    for bit in range(8 * _COORDINATE_BYTES - 1, 0, -1):
        bit_mask, below = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for axis in axes:
            inverted = (axis & bit_mask) != 0
            if inverted.any():
                axes[0] ^= np.where(inverted, below, np.uint64(0))
            if axis is not axes[0] and not inverted.all():
                swapped = np.where(inverted, np.uint64(0), (axes[0] ^ axis) & below)
                axes[0] ^= swapped
                axis ^= swapped
    for at in range(1, last + 1):
        axes[at] ^= axes[at - 1]
    gray = np.zeros_like(axes[last])
    for bit in range(8 * _COORDINATE_BYTES - 1, 0, -1):
        gray ^= np.where(axes[last] & np.uint64(1 << bit), np.uint64((1 << bit) - 1), np.uint64(0))
    for axis in axes:
        axis ^= gray
