"""Folder names of partitions, compared with Paimon's Java engine on Java 17 and 25 (partition_vectors.jsonl)."""

import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.types import DataField, DataType, timestamp_unit, type_from_json
from lakebed.formats.paimon.partition_text import spellings
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.kernel.files import open_store
from lakebed.kernel.java_floats import early_java_text, java_texts
from tests.golden import HERE

LINES = (HERE / "paimon" / "partition_vectors.jsonl").read_text(encoding="utf-8").splitlines()
VECTORS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
NUMBERS = [vector for vector in VECTORS if "java" in vector]
OTHERS = [vector for vector in VECTORS if "java" not in vector]


def value_of(vector: dict[str, Any], kind: DataType) -> Any:
    value = vector["value"]
    match kind.root:
        case "FLOAT" | "DOUBLE":
            code, size = (">f", 4) if kind.root == "FLOAT" else (">d", 8)
            return struct.unpack(code, int(value, 16).to_bytes(size, "big"))[0]
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            millis, nanos = value
            per_milli = {"ms": 1, "us": 10**3, "ns": 10**6}[timestamp_unit(kind)]
            return millis * per_milli + nanos * per_milli // 10**6
        case "DECIMAL":
            return Decimal(value)
        case "BINARY" | "VARBINARY":
            return bytes.fromhex(value)
    return value


@pytest.mark.parametrize("legacy", [True, False])
def test_folders_of_all_types_but_floating_point(tmp_path: Path, legacy: bool) -> None:
    store = open_store(str(tmp_path))
    for vector in OTHERS:
        kind = type_from_json(vector["type"])
        folders = PartitionFolders(store, (DataField(0, "p", kind),), "__DEFAULT_PARTITION__", legacy)
        value, wanted = value_of(vector, kind), vector.get("legacy" if legacy else "cast")
        if wanted is None:
            with pytest.raises(UnsupportedError, match=r"partition\.legacy-name=false"):
                folders.of_values([value])
        else:
            assert folders.of_values([value]) == wanted, vector


@pytest.mark.parametrize("root", ["FLOAT", "DOUBLE"])
def test_texts_of_floating_point_numbers_before_and_after_java_19(root: str) -> None:
    kind, arrow = DataType(root), pa.float32() if root == "FLOAT" else pa.float64()
    vectors = [vector for vector in NUMBERS if vector["type"] == root]
    values = {java: [value_of(v, kind) for v in vectors if v["java"] == java] for java in (17, 25)}
    texts = {java: [v["legacy"].removeprefix("p=")[:-1] for v in vectors if v["java"] == java] for java in (17, 25)}
    assert [early_java_text(value, root == "FLOAT") for value in values[17]] == texts[17]
    assert java_texts(pa.array([*values[25], None], arrow)).to_pylist() == [*texts[25], None]
    assert [spellings(value, kind) for value in values[17]] == [
        tuple(dict.fromkeys(pair)) for pair in zip(texts[25], texts[17], strict=True)
    ]
