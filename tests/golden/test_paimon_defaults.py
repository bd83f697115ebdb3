"""Default values of columns, compared with Paimon's Java engine (default_vectors.jsonl, and nested ones in
nested_default_vectors.jsonl)."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.formats.paimon.codec.binary_row import plain
from lakebed.formats.paimon.codec.types import DataField, DataType, arrow_type, type_from_json
from lakebed.formats.paimon.partition_text import spellings
from lakebed.formats.paimon.write.defaults import default_of
from tests.golden import HERE

LINES = (HERE / "paimon" / "default_vectors.jsonl").read_text(encoding="utf-8").splitlines()
VECTORS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
NESTED = (HERE / "paimon" / "nested_default_vectors.jsonl").read_text(encoding="utf-8").splitlines()


def text_of(value: pa.Scalar, kind: DataType) -> str | None:
    """A value as the engine's Java objects print it."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return str(value.value * {"ms": 10**6, "us": 10**3, "ns": 1}[value.type.unit])
    if pa.types.is_binary(value.type):
        return str(value.as_py().hex())
    return spellings(plain(value), kind)[0]


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{v['type']} {v['text']}" for v in VECTORS])
def test_texts_of_defaults(vector: dict[str, Any]) -> None:
    kind = type_from_json(vector["type"])
    field = DataField(0, "c", kind, default=vector["text"])
    if "value" in vector:
        assert text_of(default_of(field, "t"), kind) == vector["value"]
    else:
        with pytest.raises(SchemaError, match="default value"):
            default_of(field, "t")


def plain_value(value: Any, kind: DataType) -> Any:
    """A nested value as the vectors have it: entries of maps sorted, dates as days."""
    if value is None:
        return None
    if kind.root == "ARRAY":
        return [plain_value(item, kind.element or kind) for item in value]
    if kind.root == "MAP":
        return sorted([key, plain_value(item, kind.element or kind)] for key, item in value)
    if kind.root == "ROW":
        return [plain_value(value[field.name], field.type) for field in kind.fields]
    return str((value - datetime.date(1970, 1, 1)).days) if kind.root == "DATE" else value


@pytest.mark.parametrize("line", NESTED)
def test_texts_of_nested_defaults(line: str) -> None:
    vector = json.loads(line, parse_float=Decimal)
    kind = type_from_json(vector["type"])
    field = DataField(0, "c", kind, default=vector["text"])
    if kind.root == "MAP" and set(vector["text"]) & {'"', "\\"}:
        with pytest.raises(UnsupportedError, match="quotes or backslashes"):
            default_of(field, "t")
    elif "value" in vector:
        found = default_of(field, "t")
        assert plain_value(found.as_py(), kind) == vector["value"]
        assert found.type == arrow_type(kind)
    else:
        with pytest.raises((SchemaError, UnsupportedError)):
            default_of(field, "t")
