"""An Avro schema whose unions have null first, as `kernel/avro/encode.py` writes them.

Spark writes a nullable column as `["null", T]`, Hudi's SQL keeps `["T", "null"]` in a table's creation schema. Readers
resolve one to the other, so log blocks may have the first form whatever the table's schema says.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from lakebed.kernel.decoding import decoding, parsed_json


@lru_cache(64)
@decoding("a schema cannot be read")
def null_first(text: str) -> str:
    """The schema (JSON text) with null first in each union that has it. CorruptError for a text that is none."""
    return json.dumps(_ordered(parsed_json(text)), ensure_ascii=False, separators=(",", ":"))


def _ordered(kind: Any) -> Any:
    if isinstance(kind, list):
        branches = [_ordered(branch) for branch in kind]
        return ["null", *(branch for branch in branches if branch != "null")] if "null" in branches else branches
    if not isinstance(kind, dict):
        return kind
    changed = {key: _ordered(value) if key in ("type", "items", "values") else value for key, value in kind.items()}
    if "fields" in kind:
        changed["fields"] = [_field(field) for field in kind["fields"]]
    return changed


def _field(field: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = {**field, "type": _ordered(field["type"])}
    if isinstance(field["type"], list) and "null" in field["type"][1:]:
        changed["default"] = None
    return changed
