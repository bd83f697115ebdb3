"""64-bit Roaring bitmaps as Java's `Roaring64Bitmap` serializes them: the column values of Paimon's `rbm64` aggregate.

Rule: RoaringBitmap 1.x, `HighLowContainer.serialize`. The upper 48 bits of the numbers are the keys of a radix tree
(ART), whose leaves point to containers of the lower 16 bits. All numbers are little-endian. A tree node has its kind,
its number of children, the bytes that all keys below it share, and the byte that selects each child. Only the set of
numbers has a meaning: containers are in the order in which the writer met them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from pyroaring import BitMap

Chunks = dict[bytes, BitMap]
"""The numbers of a bitmap: upper six bytes, big-endian, to a bitmap of the lower sixteen bits."""

_EMPTY, _FILLED = b"\x00", b"\x01"
_NODE_4, _NODE_16, _NODE_48, _NODE_256, _LEAF = range(5)
_BODY: Final[Mapping[int, int]] = {_NODE_4: 4, _NODE_16: 16, _NODE_48: 256, _NODE_256: 32, _LEAF: 14}
"""Bytes that follow the header of a node."""
_RUNS, _BITS, _ARRAY = range(3)
_HEADER = struct.Struct("<BhB")
_LEAF_BODY = struct.Struct("<6sq")
_CONTAINER = struct.Struct("<BBi")
_ARRAY_HEADER = struct.Struct("<Bi")
_FOOT = struct.Struct("<qii")
_BITS_BYTES, _MOST_IN_ARRAY = 8192, 4096
_NOT_TRIMMED = 0xFE
_KEY_BYTES = 6
_RUN_COOKIE, _COOKIE = 12347, 12346
_RUN_AT, _AT = 9, 16
"""Where the one container of a portable 32-bit bitmap begins."""


def chunks_from_bytes(data: bytes) -> Chunks:
    """The numbers of a serialized bitmap. Raises ValueError for bytes that are not such a bitmap."""
    try:
        return _chunks(data)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError("the bytes are not a 64-bit Roaring bitmap of Java") from error


def chunks_to_bytes(chunks: Chunks) -> bytes:
    """The serialized bitmap, with each chunk in its smallest form and containers in the order of their keys."""
    keys = sorted(chunks)
    if not keys:
        return _EMPTY
    parts = [_FILLED, struct.pack("<q", len(keys)), *_nodes(keys, range(len(keys)), 0)]
    parts += [struct.pack("<i", 1), _ARRAY_HEADER.pack(_NOT_TRIMMED, len(keys))]
    for key in keys:
        parts += _container(chunks[key])
    parts.append(_FOOT.pack(len(keys), 0, len(keys) - 1))
    return b"".join(parts)


# ---- reading ----


def _chunks(data: bytes) -> Chunks:
    if data[:1] == _EMPTY and len(data) == 1:
        return {}
    if data[:1] != _FILLED:
        raise ValueError("the bytes are not a 64-bit Roaring bitmap of Java")
    (count,) = struct.unpack_from("<q", data, 1)
    places, at = _leaves(data, 9, count)
    containers, at = _containers(data, at)
    if len(data) != at + _FOOT.size:
        raise ValueError("a 64-bit Roaring bitmap is cut short, or other bytes follow it")
    return {key: containers[place >> 32][place & 0xFFFF_FFFF] for key, place in places.items()}


def _leaves(data: bytes, at: int, count: int) -> tuple[dict[bytes, int], int]:
    """The position of each key's container, and where the tree ends.

    A node is followed by all nodes below it, so the nodes can be read in sequence until every key was read.
    """
    places: dict[bytes, int] = {}
    while len(places) < count:
        kind, _, shared = _HEADER.unpack_from(data, at)
        at += _HEADER.size + shared
        if kind == _LEAF:
            key, place = _LEAF_BODY.unpack_from(data, at)
            places[key] = place
        at += _BODY[kind]
    return places, at


def _containers(data: bytes, at: int) -> tuple[list[dict[int, BitMap]], int]:
    (arrays,) = struct.unpack_from("<i", data, at)
    at += 4
    arrays_of_containers: list[dict[int, BitMap]] = []
    for _ in range(arrays):
        _, length = _ARRAY_HEADER.unpack_from(data, at)
        at += _ARRAY_HEADER.size
        containers: dict[int, BitMap] = {}
        for place in range(length):
            if not data[at]:  # an unused slot
                at += 1
                continue
            _, kind, count = _CONTAINER.unpack_from(data, at)
            at += _CONTAINER.size
            size = _payload_size(kind, count, data, at)
            containers[place] = _bitmap(kind, count, data[at : at + size])
            at += size
        arrays_of_containers.append(containers)
    return arrays_of_containers, at


def _payload_size(kind: int, count: int, data: bytes, at: int) -> int:
    if kind == _RUNS:
        return 2 + 4 * int(struct.unpack_from("<H", data, at)[0])
    return {_BITS: _BITS_BYTES, _ARRAY: 2 * count}[kind]


def _bitmap(kind: int, count: int, payload: bytes) -> BitMap:
    """One container as a 32-bit bitmap, whose portable form has the same bytes after another header."""
    if kind == _RUNS:
        return BitMap.deserialize(struct.pack("<IBHH", _RUN_COOKIE, 1, 0, count - 1) + payload)
    if kind == _BITS and count <= _MOST_IN_ARRAY:  # which the portable form knows as an array only
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
        return BitMap(np.flatnonzero(bits).astype(np.uint32))
    return BitMap.deserialize(struct.pack("<IIHHI", _COOKIE, 1, 0, count - 1, _AT) + payload)


# ---- writing ----


def _container(chunk: BitMap) -> tuple[bytes, bytes]:
    small = chunk.copy()
    small.run_optimize()
    portable, count = small.serialize(), len(small)
    if struct.unpack_from("<H", portable)[0] == _RUN_COOKIE:
        return _CONTAINER.pack(1, _RUNS, count), portable[_RUN_AT:]
    return _CONTAINER.pack(1, _ARRAY if count <= _MOST_IN_ARRAY else _BITS, count), portable[_AT:]


def _nodes(keys: Sequence[bytes], places: range, depth: int) -> Iterator[bytes]:
    """The nodes of the tree over sorted keys that share their first `depth` bytes."""
    if len(keys) == 1:
        yield _HEADER.pack(_LEAF, 0, 0) + _LEAF_BODY.pack(keys[0], places[0])
        return
    end = depth
    while keys[0][end] == keys[-1][end]:
        end += 1
    steps = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), _KEY_BYTES)[:, end]
    starts = np.flatnonzero(np.append(True, steps[1:] != steps[:-1])).tolist()
    children = steps[starts]
    kind, body = _node_body(children.tobytes())
    yield _HEADER.pack(kind, len(children), end - depth) + keys[0][depth:end] + body
    for start, stop in zip(starts, [*starts[1:], len(keys)], strict=True):
        yield from _nodes(keys[start:stop], places[start:stop], end + 1)


def _node_body(steps: bytes) -> tuple[int, bytes]:
    """The kind of a node with these children, and the bytes that list them.

    Each group of bytes is one number in Java, written with its lowest byte first.
    """
    if len(steps) <= 4:
        return _NODE_4, steps.ljust(4, b"\x00")[::-1]
    if len(steps) <= 16:
        return _NODE_16, _reversed_words(steps.ljust(16, b"\x00"))
    if len(steps) <= 48:
        index = bytearray(b"\xff" * 256)
        for place, step in enumerate(steps):
            index[step] = place
        return _NODE_48, _reversed_words(bytes(index))
    bits = np.zeros(256, np.uint8)
    bits[np.frombuffer(steps, np.uint8)] = 1
    return _NODE_256, np.packbits(bits, bitorder="little").tobytes()


def _reversed_words(data: bytes) -> bytes:
    return np.frombuffer(data, "<u8").byteswap().tobytes()
