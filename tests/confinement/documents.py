"""Every text in a file of a table, and the file with another one in its place.

A place is a path of names, such as `partitionToWriteStats.*.*.path`: `*` stands for all items of a list or values of a
map, `#` for the keys of a map. What an Avro, Parquet, HFile or log file holds as bytes is looked into again.
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.formats.hudi.codec.hfile import open_hfile
from lakebed.formats.hudi.codec.hfile_write import write_hfile
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, LogBlock, parse_log
from lakebed.formats.hudi.codec.log_write import record_content, write_block
from lakebed.formats.iceberg.codec.puffin import read_footer, write_puffin
from lakebed.formats.paimon.codec.binary_row import decode_row, encode_row
from lakebed.formats.paimon.codec.types import type_from_json
from lakebed.kernel.avro.container import avro_long, header, take_apart

Change = Callable[[str, str], str]
"""The new text at a place, from the place and the old text."""
MAPS = frozenset({
    "partitionToWriteStats", "partitionToReplaceFileIds", "extraMetadata", "partitionMetadata", "properties", "refs",
    "filesToBeDeletedPerPartition", "filePathsToBeDeletedPerPartition", "logBlocksToBeDeleted", "rollbackLogFiles",
    "successDeleteFiles", "bootstrapPartitionMetadata", "hoodieRestoreMetadata", "strategyParams", "metrics",
    "cdcStats", "filesystemMetadata", "options", "summary", "indexDefinitions", "fullColStatsMetadata",
})  # fmt: skip
"""The names whose values are maps, which JSON does not tell from records."""
OPTIONAL = frozenset({
    "_EXTERNAL_PATH", "externalPath", "statistics", "changelogManifestList", "indexManifest", "referenced_data_file",
    "bootstrapFilePath", "bootstrapFile",
})  # fmt: skip
"""The names of texts that may be null: there the old text is ""."""
_TEXT = type_from_json("STRING")
LISTS = frozenset({"_EXTRA_FILES", "failedDeleteFiles"})
"""The names of lists of texts that may be empty: there the old text is "", too."""


def changed(data: bytes, change: Change) -> bytes:
    """The file with each of its texts changed. The bytes themselves where no text was."""
    if data.startswith(b"Obj\x01"):
        return _avro(data, change)
    if data.startswith(b"#HUDI#"):
        return b"".join(_block(block, change) for block in parse_log(data).blocks)
    if data.startswith(b"PAR1"):
        return _parquet(data, change)
    if data.startswith(b"PFA1"):
        return _puffin(data, change)
    if data.startswith(b"DATABLK*"):
        return _hfile(data, change)
    with suppress(ValueError):
        text = data.decode()
        if text[:1] in ("{", "["):
            return json.dumps(_tree(json.loads(text), "", change)).encode()
        if re.match(r"(#.*\n)*hoodie\.[\w.]+=", text):
            return _properties(text, change).encode()
        return change("text", text).encode()
    return data


def places(data: bytes) -> tuple[str, ...]:
    """The places of all texts in a file, sorted."""
    found: set[str] = set()

    def note(place: str, text: str) -> str:
        found.add(place)
        return text

    changed(data, note)
    return tuple(sorted(found))


def edited(data: bytes, place: str, value: Callable[[str], str]) -> bytes:
    """The file with another text at one place, from the text that was there."""
    return changed(data, lambda where, text: value(text) if where == place else text)


def with_option(data: bytes, name: str, value: str) -> bytes:
    """A schema of Paimon, metadata of Iceberg or properties of Hudi with an option."""
    if data[:1] != b"{":
        lines = [line for line in data.decode().splitlines() if not line.startswith(f"{name}=")]
        return "\n".join((*lines, f"{name}={value}", "")).encode()
    document = json.loads(data)
    place = "options" if "options" in document else "properties"
    more = {"write.object-storage.enabled": "true"} if name == "write.object-storage.path" else {}
    return json.dumps({**document, place: {**document.get(place, {}), **more, name: value}}).encode()


def _tree(value: Any, place: str, change: Change, in_map: bool = False) -> Any:
    match value:
        case str():
            return change(place, value)
        case bytes() if place.endswith("_PARTITION"):
            return _partition(value, place, change)
        case bytes():
            return changed(value, lambda inner, text: change(f"{place}/{inner}", text)) if _nested(value) else value
        case None if place.rpartition(".")[2] in OPTIONAL:
            return change(place, "") or None
        case [] if place.rpartition(".")[2] in LISTS:
            return [text for text in [change(f"{place}.*", "")] if text]
        case list():
            return [_tree(item, f"{place}.*", change) for item in value]
        case tuple():  # a branch of an Avro union, with its name
            return value[0], _tree(value[1], place, change)
        case dict():
            last = place.rpartition(".")[2]
            if in_map or last in MAPS:
                return {
                    change(f"{place}.#", key): _tree(item, f"{place}.*", change, last == "hoodieRestoreMetadata")
                    for key, item in value.items()
                }
            return {key: _tree(item, f"{place}.{key}".lstrip("."), change) for key, item in value.items()}
    return value


def _partition(value: bytes, place: str, change: Change) -> bytes:
    """A partition of Paimon: its row behind the number of its columns, where that is one text."""
    if int.from_bytes(value[:4], "big") != 1:
        return value
    (text,) = decode_row(value[4:], [_TEXT])
    return value[:4] + encode_row([change(place, text)], [_TEXT])


def _nested(value: bytes) -> bool:
    return value.startswith((b"Obj\x01", b"{"))


def _avro(data: bytes, change: Change) -> bytes:
    container = take_apart(data)
    parsed, out, count = fastavro.parse_schema(container.schema), io.BytesIO(), 0
    for records, content in container.contents():
        source = io.BytesIO(content)
        for _ in range(records):
            out.write(_datum(parsed, fastavro.schemaless_reader(source, parsed, None, return_record_name=True), change))
            count += 1
    body = out.getvalue()
    head = header({**container.metadata, "avro.codec": b"null"}, container.sync)
    return b"".join((head, avro_long(count), avro_long(len(body)), body, container.sync))


def _datum(schema: Any, record: Any, change: Change) -> bytes:
    """A record with its texts changed. An enum's text stays, since no other one could be written."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, _tree(record, "", _but_enums(schema, change)))
    return out.getvalue()


def _but_enums(schema: Any, change: Change) -> Change:
    names = set(_enums(schema))
    return lambda place, text: text if place.rpartition(".")[2] in names else change(place, text)


def _enums(schema: Any) -> Iterator[str]:
    for kind in schema if isinstance(schema, list) else [schema]:
        if isinstance(kind, dict):
            for field in kind.get("fields", ()):
                if '"enum"' in json.dumps(field["type"], default=str):
                    yield field["name"]


def _block(block: LogBlock, change: Change) -> bytes:
    headers = {
        key: text if key is HeaderKey.SCHEMA else change(f"header.{key.name}", text)
        for key, text in block.headers.items()
    }
    content = bytes(block.content)
    if block.kind is BlockKind.AVRO_DATA:
        schema = fastavro.parse_schema(json.loads(block.headers[HeaderKey.SCHEMA]))
        records, at = [], 8
        for _ in range(struct.unpack_from(">i", content, 4)[0]):
            (size,) = struct.unpack_from(">i", content, at)
            source = io.BytesIO(content[at + 4 : at + 4 + size])
            record = fastavro.schemaless_reader(source, schema, None, return_record_name=True)
            records.append(_datum(schema, record, lambda place, text: change(f"record.{place}", text)))
            at += 4 + size
        content = content[:4] + record_content(records)[4:]
    elif block.kind is BlockKind.HFILE_DATA:
        content = _hfile(content, change)
    return write_block(block.kind, headers, content)


def _hfile(data: bytes, change: Change) -> bytes:
    image = open_hfile(lambda start, length: data[start : start + length], len(data))
    table, schema = image.scan(), fastavro.parse_schema(json.loads(image.info["schema"]))
    rows = {}
    for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
        record = fastavro.schemaless_reader(io.BytesIO(value), schema, None, return_record_name=True)
        rows[change("key", key.decode()).encode()] = _datum(schema, record, change)
    keys = sorted(rows)
    values = pa.array([rows[key] for key in keys], pa.binary())
    return write_hfile(pa.array(keys, pa.binary()), values, {"schema": image.info["schema"].encode()})


def _parquet(data: bytes, change: Change) -> bytes:
    table = pq.read_table(io.BytesIO(data), partitioning=None)
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
            texts = [
                None if value is None else _tree(value, field.name, change) for value in table[field.name].to_pylist()
            ]
            table = table.set_column(number, field, pa.array(texts, field.type))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _puffin(data: bytes, change: Change) -> bytes:
    blobs, properties = read_footer(data, "")
    new = [
        (replace(blob, properties=_tree(dict(blob.properties), "properties", change)),
         data[blob.offset : blob.offset + blob.length])
        for blob in blobs
    ]  # fmt: skip
    return write_puffin(new, properties)[0]


def _properties(text: str, change: Change) -> str:
    lines = []
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        lines.append(line if line.startswith("#") or not equals else f"{key}={change(key, value)}")
    return "\n".join(lines) + "\n"
