"""The Avro schemas of timeline files: what Hudi 1.0 and 1.1 write into the headers of plans, results and commits.

Most of them are types of the archive's schema (`archive_schema.py`). The rest, which no archived record holds, are in
`plan_schemas.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import fastavro

from lakebed.formats.hudi.codec.archive_schema import record_types, written_out
from lakebed.kernel.avro.records import RecordSchema

NAMESPACE = "org.apache.hudi.avro.model"


@cache
def plan_schema(name: str) -> RecordSchema:
    """The schema of a record type by its short name, such as `HoodieRollbackPlan`, as it stands in a file's header."""
    kind = _others().get(name)
    if kind is None:
        own = record_types()[name]
        whole = written_out(own)
        kind = {"type": "record", "name": name, "namespace": NAMESPACE, **whole}
    text = json.dumps(kind, separators=(",", ":")).encode()
    return RecordSchema(fastavro.parse_schema(kind), text)


@cache
def _others() -> Mapping[str, Any]:
    schemas: Mapping[str, Any] = json.loads(files(__package__).joinpath("plan_schemas.json").read_text("utf-8"))
    return schemas
