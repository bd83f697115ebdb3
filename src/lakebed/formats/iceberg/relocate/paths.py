"""Avro files of Iceberg's metadata with other paths in them.

Manifests and manifest lists are written anew record by record, with their own schema and header: nothing but the fields
that a caller changes is touched, whatever engine and format version wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakebed.kernel.avro.container import Framing, take_apart
from lakebed.kernel.avro.records import RecordSchema, numbers_schema, read_records, write_records
from lakebed.kernel.decoding import decoding

_LEVEL = 6
Names = Mapping[int, str]
"""The names of a record's fields by field id."""


def rewritten(data: bytes, change: Callable[[dict[str, Any], Names], None], file: str) -> bytes:
    """An Avro file whose records went through `change`, which alters them in place. It is told the names of the fields,
    those of records inside the record among them.

    Raises CorruptError and UnsupportedError as every reader of such files does; `file` names it.
    """
    with decoding("an Avro file cannot be read", file=file):
        container = take_apart(data)
        names = dict(_names(container.schema))
        text = container.metadata["avro.schema"]

        def changed() -> Iterator[dict[str, Any]]:
            for record in read_records(data, numbers=True):
                change(record, names)
                yield record

        schema = RecordSchema(numbers_schema(text), text)
        return write_records(schema, changed(), Framing.new("deflate", _LEVEL), container.metadata)


def visit(data: bytes, look: Callable[[dict[str, Any], Names], None], file: str) -> None:
    """Shows the records of an Avro file to `look`, as `rewritten` does, and writes nothing."""
    with decoding("an Avro file cannot be read", file=file):
        names = dict(_names(take_apart(data).schema))
        for record in read_records(data, numbers=True):
            look(record, names)


def _names(record: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for field in record["fields"]:
        yield int(field["field-id"]), str(field["name"])
        kind = field["type"]
        if isinstance(kind, dict) and kind.get("type") == "record" and field["name"] != "partition":
            yield from _names(kind)


def as_json(document: Any) -> Any:
    """A copy of a metadata document that may be altered."""
    return json.loads(json.dumps(document))
