"""A record after the others of a run, which shows that they end where their bytes do.

A decoder that gets a wrong count, or meets damaged lengths, does not arrive at this record. What it decodes instead
does not have the random value that was drawn for the record.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.kernel.avro.container import avro_bytes, avro_long

_LEAST = {
    "null": b"",
    "boolean": b"\0",
    "int": b"\0",
    "long": b"\0",
    "float": bytes(4),
    "double": bytes(8),
    "bytes": b"\0",
    "string": b"\0",
}
"""The encoding of null, false, zero and the empty text, by type."""
_NO_UUID = avro_bytes(b"00000000-0000-0000-0000-000000000000")


@dataclass(frozen=True, slots=True)
class Mark:
    """The bytes of the record, and the random `value` of its field at `place`."""

    data: bytes
    place: int
    value: int | str | bytes


def mark_for(fields: Sequence[Any], preferred: Sequence[int]) -> Mark | None:
    """A record of these field types, which `schema.plain_fields` gives. None where no field can hold a random value.

    A field at one of the places in `preferred` holds it if possible.
    """
    places = [place for place in (*preferred, *range(len(fields))) if _bearing(fields[place]) is not None]
    if not places:
        return None
    place = places[0]
    prefix, kind = _bearing(fields[place]) or (b"", "")
    value: int | str | bytes
    if kind == "long":
        value = secrets.randbits(62)
        data = avro_long(value)
    else:
        value = secrets.token_hex(16) if kind == "string" else secrets.token_bytes(16)
        data = avro_bytes(value.encode() if isinstance(value, str) else value)
    named: dict[str, Any] = {}
    encoded = [_least(field, named) for field in fields]
    encoded[place] = prefix + data
    return Mark(b"".join(encoded), place, value)


def _bearing(kind: Any) -> tuple[bytes, str] | None:
    """The branch of the union, and the type, of a field that can hold the value; None for a field that cannot."""
    if isinstance(kind, list):
        branches = [(_branch(n), branch) for n, branch in enumerate(kind) if branch in ("long", "string", "bytes")]
        return branches[0] if len(branches) == 1 and len(kind) == 2 and "null" in kind else None
    return (b"", kind) if kind in ("long", "string", "bytes") else None


_FIRST_BRANCHES = tuple(avro_long(number) for number in range(8))


def _branch(number: int) -> bytes:
    """The number of a union's branch; nearly every union has few."""
    return _FIRST_BRANCHES[number] if number < len(_FIRST_BRANCHES) else avro_long(number)


def _least(kind: Any, named: dict[str, Any]) -> bytes:
    """The shortest value of a type."""
    if isinstance(kind, list):
        branch = kind.index("null") if "null" in kind else 0
        return _branch(branch) + _least(kind[branch], named)
    if isinstance(kind, str):
        return _LEAST[kind] if kind in _LEAST else _least(named[kind], named)
    return _least_complex(kind, named)


def _least_complex(kind: Mapping[str, Any], named: dict[str, Any]) -> bytes:
    if "name" in kind:
        named[kind["name"]] = kind
    inner, logical = kind["type"], kind.get("logicalType")
    if inner == "record":
        return b"".join([_least(field["type"], named) for field in kind["fields"]])
    if inner in ("array", "map", "enum"):
        return b"\0"
    if inner == "fixed":
        return bytes(int(kind["size"]))
    if logical == "uuid":
        return _NO_UUID
    return avro_bytes(b"\0") if logical == "decimal" else _least(inner, named)
