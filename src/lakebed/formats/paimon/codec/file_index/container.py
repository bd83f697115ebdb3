"""The container of a data file's indexes: one blob per column and kind of index.

Rule: Paimon's FileIndexFormat, version 1. All numbers are big-endian. The header lists for each column the kinds of its
indexes, each with its place in bytes; place -1 means that no row of the file was given to the index. An index of one
key of a map column is listed under the name `column[key]`. Names are in Java's modified UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from lakebed.errors import CorruptError, UnsupportedError

_MAGIC = 1493475289347502
_VERSION = 1
_FIXED = struct.Struct(">qii")
_INT = struct.Struct(">i")
_PLACE = struct.Struct(">ii")
_EMPTY = -1

Blobs = Mapping[str, Mapping[str, bytes | None]]
"""The bytes of each index by column, then by kind. None: no row was given to it."""


def read_container(data: bytes) -> Blobs:
    """The indexes of a data file. UnsupportedError for another version, CorruptError for bytes that are no container.

    Other damage raises whatever it leads to: call it inside `decoding`.
    """
    magic, version, head = _FIXED.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptError("not a file index", why="it does not begin as one")
    if version != _VERSION:
        raise UnsupportedError(f"file index of version {version}", why=f"lakebed reads version {_VERSION}")
    if not _FIXED.size <= head <= len(data):
        raise CorruptError("a file index is damaged", why=f"its header of {head} bytes is longer than the file")
    blobs: dict[str, dict[str, bytes | None]] = {}
    left = len(data)
    (columns,), at = _INT.unpack_from(data, _FIXED.size), _FIXED.size + _INT.size
    for _ in range(columns):
        name, at = _name(data, at, head)
        (count,), at = _INT.unpack_from(data, at), at + _INT.size
        for _ in range(count):
            kind, at = _name(data, at, head)
            start, length = _PLACE.unpack_from(data, at)
            at += _PLACE.size
            if start != _EMPTY and not (head <= start and 0 <= length <= len(data) - start):
                raise CorruptError("a file index is damaged", why=f"the {kind} index of {name!r} lies outside of it")
            left -= length if start != _EMPTY else 0
            if left < 0:
                raise CorruptError("a file index is damaged", why="its indexes are longer than the file")
            blobs.setdefault(name, {})[kind] = None if start == _EMPTY else data[start : start + length]
    return blobs


def write_container(blobs: Blobs) -> bytes:
    """The bytes of a container."""
    names = {text: _modified(text) for column, kinds in blobs.items() for text in (column, *kinds)}
    size = _FIXED.size + 2 * _INT.size
    for column, kinds in blobs.items():
        size += 2 + len(names[column]) + _INT.size
        size += sum(2 + len(names[kind]) + _PLACE.size for kind in kinds)
    parts, body = [_FIXED.pack(_MAGIC, _VERSION, size), _INT.pack(len(blobs))], list[bytes]()
    start = size
    for column, kinds in blobs.items():
        parts += [_named(names[column]), _INT.pack(len(kinds))]
        for kind, blob in kinds.items():
            parts += [_named(names[kind]), _PLACE.pack(_EMPTY if blob is None else start, len(blob or b""))]
            body.append(blob or b"")
            start += len(blob or b"")
    return b"".join([*parts, _INT.pack(0), *body])


def _name(data: bytes, at: int, end: int) -> tuple[str, int]:
    """A name, and the place after it."""
    (length,) = struct.unpack_from(">H", data, at)
    stop = at + 2 + length
    if stop > end:
        raise CorruptError("a file index is damaged", why="a name is longer than its header")
    text = data[at + 2 : stop].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16"), stop


def _named(name: bytes) -> bytes:
    return struct.pack(">H", len(name)) + name


def _modified(text: str) -> bytes:
    """Java's modified UTF-8: characters above U+FFFF as two halves of three bytes, and two bytes for U+0000."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(unit) for (unit,) in struct.iter_unpack(">H", units))
    return halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
