"""Encode commit metadata in JSON as the Avro datum of a record type of the archive's schema.

Commit metadata can have hundreds of megabytes. msgspec cuts a large text into slices of its own bytes, and write stats
are decoded and encoded one at a time, so only the text and the Avro bytes are held in memory. A small text is decoded
at once, which takes half the time.

Encoders are made from the schema once. A general Avro writer looks for the branch of a union at each value and takes
several times as long. Here every field is a union of null and one other type, and most fields of most records are null.
So a record begins as the bytes of its nulls, and only the values that are present replace some of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from lakebed.formats.hudi.codec.archive_schema import record_types
from lakebed.kernel.avro.container import avro_long

Encode = Callable[[Any], bytes]

_STATS = "partitionToWriteStats"
_STAT = "HoodieWriteStat"
_SMALL_TEXT = 256 << 10
"""The largest text that is decoded at once, in bytes. As Python objects it takes several times as many."""
_LONGS = (-(1 << 63), (1 << 63) - 1)


def commit_datum(name: str, data: bytes) -> bytes:
    """The datum of commit metadata. `name` is the record type, `data` the JSON text.

    Keys without a field in the type are left out, and `version`, which is not in the JSON, is null. Raises
    msgspec.DecodeError for bytes that are no JSON object, and ValueError, KeyError, IndexError, TypeError or
    AttributeError for values that do not have their fields' types.
    """
    if len(data) <= _SMALL_TEXT:
        metadata = _object(data)
        metadata.pop("version", None)
        return encoder(name)(metadata)
    return _large_datum(name, data)


def _large_datum(name: str, data: bytes) -> bytes:
    parts = list(_nulls(name))
    places = _places(name)
    stats: list[bytes] = []
    for field, raw in _members(data).items():
        if field not in places or field == "version":
            continue
        place, _, encode = places[field]
        if field == _STATS:
            stats = _stats(raw)
        elif (value := msgspec.json.decode(raw)) is not None:
            parts[place] = encode(value)
    if stats:
        place = places[_STATS][0]
        parts[place : place + 1] = stats
    return b"".join(parts)


def check_json(data: bytes) -> None:
    """Raise msgspec.DecodeError unless the bytes are one JSON value. No objects are made."""
    _raw(data)


_raw = msgspec.json.Decoder(msgspec.Raw).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_partitions = msgspec.json.Decoder(dict[str, list[msgspec.Raw] | None] | None).decode


def _stats(raw: msgspec.Raw) -> list[bytes]:
    """The map from partition to an array of write stats, in parts; no parts for null. Each stat is decoded alone."""
    partitions = _partitions(raw)
    if partitions is None:
        return []
    encode, decode = encoder(_STAT), msgspec.json.decode
    parts = [b"\x02"]
    if partitions:
        parts.append(avro_long(len(partitions)))
    for partition, stats in partitions.items():
        parts.append(avro_text(partition))
        if stats:
            parts.append(avro_long(len(stats)))
            parts += [encode(decode(stat)) for stat in stats]
        parts.append(b"\x00")
    parts.append(b"\x00")
    return parts


# ---- encoders, made from the schema once -----------------------------------------------------------------------------


@cache
def encoder(record: str) -> Encode:
    """The encoder of a record type, from a mapping. A field that the value lacks is null."""
    return _record(_nulls(record), _places(record))


@cache
def _nulls(record: str) -> tuple[bytes, ...]:
    """The bytes of each field of a record when it is null, b"" for a field that may not be."""
    kinds = (field["type"] for field in record_types()[record]["fields"])
    return tuple(avro_long(kind.index("null")) if isinstance(kind, list) else b"" for kind in kinds)


Place = tuple[int, Sequence[bytes] | None, Encode]
"""The place of a field in its record; for a text the bytes before a value of each small length; and its encoder."""


@cache
def _places(record: str) -> Mapping[str, Place]:
    """The place of each field by its name, with the encoder of a value that is not null."""
    fields = record_types()[record]["fields"]
    return {
        field["name"]: (place, _text_heads(field["type"]), _encoder_of(field["type"]))
        for place, field in enumerate(fields)
    }


def _text_heads(kind: Any) -> Sequence[bytes] | None:
    """For a text, which may be null: its branch and each small length as bytes. None for other types."""
    if isinstance(kind, list):
        (other,) = (branch for branch in kind if branch != "null")
        return _lengths(avro_long(kind.index(other))) if _is_text(other) else None
    return _lengths(b"") if _is_text(kind) else None


def _is_text(kind: Any) -> bool:
    return bool((kind["type"] if isinstance(kind, dict) else kind) == "string")


def _record(nulls: tuple[bytes, ...], places: Mapping[str, Place]) -> Encode:
    required = [place for place, null in enumerate(nulls) if not null]
    place_of = places.get

    def record(value: Any) -> bytes:
        parts = list(nulls)
        for name, content in value.items():
            field = place_of(name)
            if field is None or content is None:
                continue
            place, heads, encode = field
            if heads is not None and type(content) is str:  # the most frequent case, without a call
                text = content.encode()
                size = len(text)
                parts[place] = heads[size] + text if size < _SMALL else encode(content)
            else:
                parts[place] = encode(content)
        if required and not all(parts[place] for place in required):
            raise KeyError("a field that may not be null is missing")
        return b"".join(parts)

    return record


def _encoder_of(kind: Any, head: bytes = b"") -> Encode:
    """The encoder of a type. `head` comes before the value: a union states its branch this way."""
    if isinstance(kind, list):
        (other,) = (branch for branch in kind if branch != "null")
        return _encoder_of(other, avro_long(kind.index(other)))
    if isinstance(kind, str):
        plain = _PLAIN.get(kind)
        return plain(head) if plain else _after(head, encoder(kind.rpartition(".")[2]))
    inner = kind["type"]
    if inner == "record":
        return _after(head, encoder(kind["name"]))
    if inner == "array":
        return _array(head, _item(kind["items"]))
    return _map(head, _item(kind["values"])) if inner == "map" else _encoder_of(inner, head)


def _item(kind: Any) -> Encode:
    """The encoder of a member of an array or map, which may be null where its type is a union."""
    encode = _encoder_of(kind)
    if not isinstance(kind, list):
        return encode
    null = avro_long(kind.index("null"))
    return lambda value: null if value is None else encode(value)


def _after(head: bytes, encode: Encode) -> Encode:
    return (lambda value: head + encode(value)) if head else encode


def _array(head: bytes, encode: Encode) -> Encode:
    def array(value: Any) -> bytes:
        if not value and (value is None or isinstance(value, list)):
            return head + b"\x00"
        if not isinstance(value, list):
            raise TypeError(f"{type(value).__name__} where an array should be")
        return b"".join([head, avro_long(len(value)), *map(encode, value), b"\x00"])

    return array


def _map(head: bytes, encode: Encode) -> Encode:
    def entries(value: Any) -> bytes:
        if not value and (value is None or isinstance(value, dict)):
            return head + b"\x00"
        return b"".join([head, avro_long(len(value)), *(avro_text(k) + encode(v) for k, v in value.items()), b"\x00"])

    return entries


@cache
def _lengths(head: bytes) -> Sequence[bytes]:
    """The Avro bytes of each small number, after a head."""
    return [head + number for number in _ZIGZAG]


def _string(head: bytes) -> Encode:
    heads = _lengths(head)

    def string(value: Any) -> bytes:
        data: bytes = value.encode()
        size = len(data)
        return (heads[size] if size < _SMALL else head + avro_long(size)) + data

    return string


def _long(head: bytes) -> Encode:
    small = _lengths(head)

    def long(value: int) -> bytes:
        if 0 <= value < _SMALL:
            return small[value]
        if not isinstance(value, int) or not _LONGS[0] <= value <= _LONGS[1]:
            raise TypeError(f"{value!r} is not a whole number of 64 bits")
        return head + avro_long(value)

    return long


def _boolean(head: bytes) -> Encode:
    return lambda value: head + (b"\x01" if value else b"\x00")


def _double(head: bytes) -> Encode:
    return lambda value: head + struct.pack("<d", value)


_SMALL = 1024
_ZIGZAG = tuple(avro_long(number) for number in range(_SMALL))
_PLAIN: Mapping[str, Callable[[bytes], Encode]] = {
    "string": _string,
    "int": _long,
    "long": _long,
    "boolean": _boolean,
    "double": _double,
}
avro_text = _string(b"")
"""The encoder of a text that cannot be null."""
