"""Default values of columns, compared with Paimon's Java engine (default_vectors.jsonl)."""

import json
from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.formats.paimon.codec.binary_row import plain
from lakebed.formats.paimon.codec.types import DataField, DataType, type_from_json
from lakebed.formats.paimon.partition_text import spellings
from lakebed.formats.paimon.write.defaults import default_of
from tests.golden import HERE

LINES = (HERE / "paimon" / "default_vectors.jsonl").read_text(encoding="utf-8").splitlines()
VECTORS: list[dict[str, Any]] = [json.loads(line) for line in LINES]


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
