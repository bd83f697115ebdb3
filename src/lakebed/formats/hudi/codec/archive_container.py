"""Avro object container files of the timeline, one record each, taken apart without decoding the record.

Hudi keeps plans, cleans and rollbacks so, and from table version 8 on commits too. The frame is that of the Avro
specification ("Object Container Files"). A table's files of one kind have one schema, so that it is compared once.
"""

from __future__ import annotations

import io
import json
from functools import lru_cache

import fastavro
from fastavro.schema import to_parsing_canonical_form

from lakebed.formats.hudi.codec.archive_schema import parsed_type
from lakebed.kernel.avro.container import Container, take_apart
from lakebed.kernel.avro.records import read_records


def check_container(data: bytes) -> None:
    """Raises ValueError or IndexError unless it is whole and holds a record; of compressed blocks what inflating them
    does."""
    found = _taken_apart(data)
    for _ in found.contents():
        pass
    if not found.rows:
        raise ValueError("it holds no record")


def container_datum(name: str, data: bytes) -> bytes:
    """The one record of a container file as a datum of a record type of the archive's schema: its own bytes where the
    schemas are the same. Raises what `check_container` does."""
    found = _taken_apart(data)
    if found.codec == "null" and found.rows == 1 and _is_same(name, found.metadata["avro.schema"]):
        ((_, start, end),) = found.blocks
        return bytes(found.body[start:end])
    record = next(read_records(data))
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, parsed_type(name), record)
    return sink.getvalue()


def _taken_apart(data: bytes) -> Container:
    """A whole file that has a schema; whether the records are what that says is not looked at."""
    found = take_apart(data)
    if "avro.schema" not in found.metadata:
        raise ValueError("it has no schema")
    return found


@lru_cache(maxsize=64)
def _is_same(name: str, schema: bytes) -> bool:
    theirs = to_parsing_canonical_form(fastavro.parse_schema(json.loads(schema)))
    ours = to_parsing_canonical_form(parsed_type(name))
    return _without_namespaces(theirs) == _without_namespaces(ours)


def _without_namespaces(canonical: str) -> str:
    return canonical.replace("org.apache.hudi.avro.model.", "")
