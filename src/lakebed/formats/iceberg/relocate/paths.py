"""Rewrites the paths in Avro files of Iceberg's metadata.

Manifests and manifest lists are rewritten record by record, with their own schema and header. Only the fields that a
caller changes are touched, whatever engine and format version wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakebed.formats.iceberg.codec.json_array import document_to_json
from lakebed.kernel.avro.container import Framing, take_apart
from lakebed.kernel.avro.records import RecordSchema, numbers_schema, read_records, write_records
from lakebed.kernel.decoding import decoding

_LEVEL = 6
Names = Mapping[int, str]
"""The names of a record's fields by field id."""


def rewritten(data: bytes, change: Callable[[dict[str, Any], Names], None], file: str) -> bytes:
    """An Avro file with records changed by `change`, which modifies a record in place.

    It also gets the names of the record's fields, including those of inner records.

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
    """Call `look` for each record of an Avro file, with the names of its fields as in `rewritten`."""
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


def as_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a metadata document that may be changed."""
    copy: dict[str, Any] = json.loads(document_to_json(document))
    return copy
