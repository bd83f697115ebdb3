"""A record that is put behind the others of a run, to see that they end where their bytes do.

A decoder that is told a wrong count, or meets damaged lengths, arrives somewhere else than at this record, and what it
takes for it has not the value that was drawn for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.kernel.avro.container import avro_bytes, avro_long

_LEAST = {
    "null": b"", "boolean": b"\0", "int": b"\0", "long": b"\0", "float": bytes(4), "double": bytes(8), "bytes": b"\0",
    "string": b"\0",
}  # fmt: skip
"""The encoding of null, false, zero and the empty text."""
_NO_UUID = avro_bytes(b"00000000-0000-0000-0000-000000000000")


@dataclass(frozen=True, slots=True)
class Mark:
    """The bytes of the record, and the `value` in its field at `place`."""

    data: bytes
    place: int
    value: int | str | bytes


def mark_for(fields: Sequence[Any], preferred: Sequence[int]) -> Mark | None:
    """A record of these types, as `avro_schema.plain_fields` gives them; None where no field can hold a value that
    nothing else holds. A field of `preferred` bears it if one can."""
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
    encoded = [_least(one, named) for one in fields]
    encoded[place] = prefix + data
    return Mark(b"".join(encoded), place, value)


def _bearing(kind: Any) -> tuple[bytes, str] | None:
    """The branch of a union and the plain type of a field that can bear the value."""
    if isinstance(kind, list):
        found = [(_branch(n), one) for n, one in enumerate(kind) if one in ("long", "string", "bytes")]
        return found[0] if len(found) == 1 and len(kind) == 2 and "null" in kind else None
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
