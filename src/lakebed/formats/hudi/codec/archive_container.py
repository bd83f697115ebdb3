"""State files that are Avro container files of one record, and that record as the archive holds it.

Hudi writes plans, cleans and rollbacks this way, and from table version 8 on commits too. The record's bytes are taken
over as they are where the file's schema is the archive's. A table's files of one kind have one schema, so schemas are
compared once.
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
    """Check that a container file is whole and holds a record. Raises ValueError or IndexError if not, and for damaged
    compressed blocks what inflating them raises."""
    container = _taken_apart(data)
    for _ in container.contents():
        pass
    if not container.rows:
        raise ValueError("it holds no record")


def container_datum(name: str, data: bytes) -> bytes:
    """The one record of a container file as a datum of the record type `name` of the archive's schema: its own bytes
    where the schemas are the same. Raises what `check_container` does."""
    container = _taken_apart(data)
    if container.codec == "null" and container.rows == 1 and _is_same(name, container.metadata["avro.schema"]):
        ((_, start, end),) = container.blocks
        return bytes(container.body[start:end])
    record = next(read_records(data))
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, parsed_type(name), record)
    return sink.getvalue()


def _taken_apart(data: bytes) -> Container:
    """A whole file with a schema; the records are not looked at."""
    container = take_apart(data)
    if "avro.schema" not in container.metadata:
        raise ValueError("it has no schema")
    return container


@lru_cache(maxsize=64)
def _is_same(name: str, schema: bytes) -> bool:
    theirs = to_parsing_canonical_form(fastavro.parse_schema(json.loads(schema)))
    ours = to_parsing_canonical_form(parsed_type(name))
    return _excluding_namespaces(theirs) == _excluding_namespaces(ours)


def _excluding_namespaces(canonical: str) -> str:
    return canonical.replace("org.apache.hudi.avro.model.", "")
