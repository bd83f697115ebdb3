"""From a state file of table version 6 and older to its archived record, `HoodieArchivedMetaEntry` in Avro.

Rules: Hudi's `MetadataConversionUtils.createMetaWrapper` of 1.0: which payload each action and state has. The schema
is that which Hudi 1.0.2 writes into every archive block, character by character (`archived_meta_entry.avsc`); older
and newer releases resolve it by the names of its fields.

Commit metadata is JSON and can be hundreds of megabytes: its write stats are turned to Avro one at a time, so that the
text and the Avro bytes are all that is held.
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from json.decoder import scanstring  # type: ignore[attr-defined]  # the module's own scanner, which has no stub
from typing import Any

import fastavro
from fastavro.schema import to_parsing_canonical_form

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.container import avro_long

_AVRO_MAGIC = b"Obj\x01"
_COMMITS = ("commit", "deltacommit")
_COMPACTIONS = ("compaction", "logcompaction")
_STATS = "partitionToWriteStats"


@cache
def entry_schema() -> str:
    """The schema of archived records, as it stands in the header of an archive block."""
    return files(__package__).joinpath("archived_meta_entry.avsc").read_text("utf-8").strip()


def archived_entry(time: str, action: str, state: str, data: bytes) -> bytes:
    """The Avro datum of one state file.

    `action` is the word in the file's name, `state` requested, inflight or completed, `data` the file's bytes. The time
    of the state's transition, which Hudi takes from the file's modification time, is the instant's own: a copy of a
    table changes file times. Raises CorruptError for bytes that are no such metadata.
    """
    field, payload = _payload(action, state, data)
    if field == "" and state == "completed":
        raise CorruptError(f"no archived form of a completed {action} is known", instant=time)
    parts = []
    transition = time.ljust(17, "0")[:17]
    plain = {"commitTime": time, "actionType": action, "actionState": state.upper(), "stateTransitionTime": transition}
    for name, null in _entry_fields():
        if name == field:
            parts.append(b"\x02" + payload)
        elif name in plain:
            text = plain[name].encode()
            parts.append(b"\x02" + avro_long(len(text)) + text)
        else:
            parts.append(null)
    return b"".join(parts)


def check_readable(data: bytes) -> None:
    """Raises CorruptError unless a completed state file is whole: JSON, or an Avro container with all its blocks."""
    try:
        if not data.startswith(_AVRO_MAGIC):
            json.loads(data)
        elif not sum(block.num_records for block in fastavro.block_reader(io.BytesIO(data))):
            raise ValueError("it holds no record")
    # fastavro lets whatever its C code meets through: EOFError, IndexError, UnicodeDecodeError, ...
    except Exception as error:
        raise CorruptError("the file holds no metadata", why=f"{type(error).__name__}: {error}") from error


def _payload(action: str, state: str, data: bytes) -> tuple[str, bytes]:
    """(field, its datum), ("", b"") for a state without one."""
    done = state == "completed"
    if not data and not done:
        return "", b""
    if action in _COMMITS:
        return ("", b"") if state == "requested" else ("hoodieCommitMetadata", _commit("HoodieCommitMetadata", data))
    if action == "replacecommit":
        if done:
            return "hoodieReplaceCommitMetadata", _commit("HoodieReplaceCommitMetadata", data)
        if state == "inflight":
            return "HoodieInflightReplaceMetadata", _commit("HoodieCommitMetadata", data)
        return "hoodieRequestedReplaceMetadata", _container("HoodieRequestedReplaceMetadata", data)
    if action in _COMPACTIONS:
        has = state == "requested"
        return ("hoodieCompactionPlan", _container("HoodieCompactionPlan", data)) if has else ("", b"")
    if action == "clean":
        return (
            ("hoodieCleanMetadata", _container("HoodieCleanMetadata", data))
            if done
            else ("hoodieCleanerPlan", _container("HoodieCleanerPlan", data))
        )
    if action == "rollback" and done:
        return "hoodieRollbackMetadata", _container("HoodieRollbackMetadata", data)
    return "", b""


# ---- the schema ------------------------------------------------------------------------------------------------------


@cache
def _named() -> dict[str, Any]:
    """The record types of the schema by their short names."""
    found: dict[str, Any] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, list):
            for branch in kind:
                visit(branch)
        elif isinstance(kind, dict):
            if kind.get("type") == "record":
                found[kind["name"]] = kind
                for field in kind["fields"]:
                    visit(field["type"])
            else:
                for inner in (kind.get("items"), kind.get("values"), kind.get("type")):
                    if isinstance(inner, dict | list):
                        visit(inner)

    visit(json.loads(entry_schema()))
    return found


@cache
def _entry_fields() -> tuple[tuple[str, bytes], ...]:
    """Each field of the entry with the Avro bytes of its null."""
    fields = _named()["HoodieArchivedMetaEntry"]["fields"]
    return tuple((field["name"], avro_long(field["type"].index("null"))) for field in fields)


@cache
def _writer(name: str) -> Any:
    """The parsed schema of a record type by itself: types that it only refers to are written out in it."""
    return fastavro.parse_schema(_expanded(_named()[name], set()))


def _expanded(kind: Any, seen: set[str]) -> Any:
    """The type with each named type defined where it first stands."""
    if isinstance(kind, list):
        return [_expanded(branch, seen) for branch in kind]
    if isinstance(kind, str):
        short = kind.rpartition(".")[2]
        if short not in _named() or short in seen:
            return kind
        return _expanded(_named()[short], seen)
    if not isinstance(kind, dict):
        return kind
    if kind.get("type") == "record":
        if kind["name"] in seen:
            return kind["name"]
        seen.add(kind["name"])
        return {**kind, "fields": [{**f, "type": _expanded(f["type"], seen)} for f in kind["fields"]]}
    return {key: _expanded(value, seen) if key in ("type", "items", "values") else value for key, value in kind.items()}


# ---- Avro container files --------------------------------------------------------------------------------------------


def _container(name: str, data: bytes) -> bytes:
    """The one record of a container file as a datum of our schema: its own bytes where the schemas are the same."""
    stream = io.BytesIO(data)
    try:
        if not data.startswith(_AVRO_MAGIC):
            raise ValueError("it is no Avro container file")
        blocks = fastavro.block_reader(stream)
        block = next(blocks)
        same = blocks.codec == "null" and block.num_records == 1 and _is_same(name, json.dumps(blocks.writer_schema))
        if same:
            return bytes(block.bytes_.getvalue())  # type: ignore[attr-defined]  # the stub leaves it out
        record = next(iter(block))
        return _datum(_writer(name), record)
    # fastavro lets whatever its C code meets through: EOFError, IndexError, UnicodeDecodeError, ...
    except Exception as error:
        raise CorruptError(f"the file holds no {name}", why=f"{type(error).__name__}: {error}") from error


@cache
def _is_same(name: str, schema: str) -> bool:
    theirs = to_parsing_canonical_form(fastavro.parse_schema(json.loads(schema)))
    ours = to_parsing_canonical_form(_writer(name))
    return _without_namespaces(theirs) == _without_namespaces(ours)


def _without_namespaces(canonical: str) -> str:
    return canonical.replace("org.apache.hudi.avro.model.", "")


def _datum(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, schema, value)
    return sink.getvalue()


# ---- commit metadata -------------------------------------------------------------------------------------------------


def _commit(name: str, data: bytes) -> bytes:
    """The datum of a commit's metadata: JSON, or in an upgraded table an Avro container."""
    if data.startswith(_AVRO_MAGIC):
        return _container(name, data)
    try:
        if len(data) <= _SMALL:
            record = json.loads(data)
            record["version"] = None
            return _encoder(name)(record)
        stats, rest = _scan(str(data, "utf-8"))
        parts = []
        for field, encode in _field_encoders(name):
            parts.append(stats if field == _STATS else encode(None if field == "version" else rest.get(field)))
        return b"".join(parts)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise CorruptError("the file holds no commit metadata", why=f"{type(error).__name__}: {error}") from error


_SMALL = 1 << 20
"""Up to so many bytes the JSON is decoded at once."""
_BLANK = re.compile(r"\s*")
_DECODE = json.JSONDecoder().raw_decode


def _scan(text: str) -> tuple[bytes, Mapping[str, Any]]:
    """The write stats as the datum of their union, and the other values of the JSON object."""
    stats = b"\x00"
    rest: dict[str, Any] = {}
    for key, at in (members := _Members(text, _skip(text, 0))):
        if key == _STATS and text[at] == "{":
            stats, members.at = _stats(text, at)
        else:
            rest[key], members.at = _DECODE(text, at)
    if _skip(text, members.at) != len(text):
        raise ValueError(f"more text after the object, at {members.at}")
    return stats, rest


def _stats(text: str, at: int) -> tuple[bytes, int]:
    """A map from partition to an array of write stats: each partition is one Avro block of the map and each stat one
    block of the array, so that no count must be known before."""
    out = io.BytesIO()
    out.write(b"\x02")
    for partition, start in (members := _Members(text, at)):
        out.write(b"\x02" + _string(partition))
        members.at = _stat_list(text, start, out)
    out.write(b"\x00")
    return out.getvalue(), members.at


def _stat_list(text: str, start: int, out: io.BytesIO) -> int:
    """Writes the list of write stats that begins at `start`; the place behind it."""
    if text[start] != "[":
        raise ValueError(f"no list of write stats at {start}")
    encode = _encoder("HoodieWriteStat")
    place = _skip(text, start + 1)
    while text[place] != "]":
        stat, place = _DECODE(text, place)
        out.write(b"\x02" + encode(stat))
        place = _skip(text, place)
        if text[place] == ",":
            place = _skip(text, place + 1)
    out.write(b"\x00")
    return place + 1


class _Members:
    """The members of a JSON object, as (key, where its value begins); whoever iterates sets `at` behind the value."""

    def __init__(self, text: str, at: int) -> None:
        if text[at : at + 1] != "{":
            raise ValueError(f"no object at {at}")
        self._text, self.at = text, at + 1

    def __iter__(self) -> Iterator[tuple[str, int]]:
        text = self._text
        self.at = _skip(text, self.at)
        while text[self.at] != "}":
            if text[self.at] != '"':
                raise ValueError(f"no key at {self.at}")
            key, at = scanstring(text, self.at + 1, True)
            at = _skip(text, at)
            if text[at] != ":":
                raise ValueError(f"no value at {at}")
            yield key, _skip(text, at + 1)
            self.at = _skip(text, self.at)
            if text[self.at] == ",":
                self.at = _skip(text, self.at + 1)
            elif text[self.at] != "}":
                raise ValueError(f"neither comma nor end at {self.at}")
        self.at += 1


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


# ---- encoders, made from the schema once -----------------------------------------------------------------------------
# An Avro writer that asks of each value which branch of a union it is takes three times as long; here a union is null
# and one other type.

Encode = Callable[[Any], bytes]


@cache
def _encoder(record: str) -> Encode:
    """The encoder of a record type; a field that the value lacks is null."""
    return _record(_field_encoders(record))


@cache
def _field_encoders(record: str) -> tuple[tuple[str, Encode], ...]:
    return tuple((field["name"], _made(field["type"])) for field in _named()[record]["fields"])


def _made(kind: Any) -> Encode:
    if isinstance(kind, list):
        (other,) = (branch for branch in kind if branch != "null")
        return _nullable(avro_long(kind.index("null")), avro_long(kind.index(other)), _made(other))
    if isinstance(kind, str):
        return _PLAIN[kind] if kind in _PLAIN else _encoder(kind.rpartition(".")[2])
    inner = kind["type"]
    if inner == "record":
        return _encoder(kind["name"])
    if inner == "array":
        return _array(_made(kind["items"]))
    return _map(_made(kind["values"])) if inner == "map" else _made(inner)


# Every field of these records may be null.
def _nullable(null: bytes, some: bytes, encode: Encode) -> Encode:
    return lambda value: null if value is None else some + encode(value)


def _record(fields: tuple[tuple[str, Encode], ...]) -> Encode:
    # What a null is in bytes is asked once: most fields of most records are.
    known = [(name, encode(None), encode) for name, encode in fields]

    def record(value: Any) -> bytes:
        get = value.get
        return b"".join([null if (v := get(name)) is None else encode(v) for name, null, encode in known])

    return record


def _array(encode: Encode) -> Encode:
    def array(value: Any) -> bytes:
        return b"".join([avro_long(len(value)), *map(encode, value), b"\x00"]) if value else b"\x00"

    return array


def _map(encode: Encode) -> Encode:
    def entries(value: Any) -> bytes:
        if not value:
            return b"\x00"
        return b"".join([avro_long(len(value)), *(_string(k) + encode(v) for k, v in value.items()), b"\x00"])

    return entries


def _string(value: Any) -> bytes:
    data: bytes = value.encode()
    return _long(len(data)) + data


def _long(value: Any) -> bytes:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return _ZIGZAG[value] if 0 <= value < len(_ZIGZAG) else avro_long(value)


def _boolean(value: Any) -> bytes:
    return b"\x01" if value else b"\x00"


def _double(value: Any) -> bytes:
    return struct.pack("<d", value)


_ZIGZAG = tuple(avro_long(number) for number in range(1024))
_PLAIN: dict[str, Encode] = {
    "string": _string, "int": _long, "long": _long, "boolean": _boolean, "double": _double,
}  # fmt: skip
