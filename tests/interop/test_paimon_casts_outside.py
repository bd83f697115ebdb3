"""Types beside Paimon's engine: it prints the vectors that the normal tests hold lakebed's casts against, and reads
keys that are NaN, and texts of a length, as lakebed wrote them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from tests.golden.test_paimon_casts import VECTORS
from tests.interop.conftest import PaimonJvm, java, named
from tests.unit.paimon.read.test_conform import NESTED, change_schema, nested_row


def test_the_vectors_are_what_the_engine_prints() -> None:
    command = java("-Xmx1g", "-cp", named("LAKEBED_PAIMON_CLASSPATH"), "CastVectors")
    printed = subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode().splitlines()
    kept = VECTORS.read_text(encoding="utf-8").splitlines()
    assert [(one, other) for one, other in zip(printed, kept, strict=True) if one != other] == []


def test_the_engine_merges_nan_as_lakebed_wrote_it(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    place = tmp_path / "d.db" / "t"
    schema = pa.schema([pa.field("k", pa.float64(), False), ("v", pa.string())])
    table = lakebed.create(str(place), "paimon", schema, primary_key=["k"], options={"bucket": "4"})
    for value, sign in (("a", 1), ("b", -1)):  # a NaN with its sign bit set is what processors give
        table.write(pa.table([np.copysign([np.nan], sign), [value]], schema=schema))
    rows, _ = paimon_jvm.dump(place)
    assert [(row["row"], row["bucket"] == row["expected"]) for row in rows] == [({"k": "NaN", "v": "b"}, True)]
    paimon_jvm.write(place, [["+I", "NaN", "c"]], 1)
    assert table.read().read_all().column("v").to_pylist() == ["c"]


def test_the_engine_reads_padded_keys(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    place = tmp_path / "d.db" / "t"
    schema = pa.schema([pa.field("k", pa.string(), False), ("v", pa.string())])
    lakebed.create(str(place), "paimon", schema, primary_key=["k"], options={"bucket": "4"})
    path = place / "schema" / "schema-0"
    fields = json.loads(path.read_text())
    fields["fields"][0]["type"] = "CHAR(4) NOT NULL"
    path.write_text(json.dumps(fields))
    table = lakebed.open(str(place))
    table.write(pa.table([["a", "bb"], ["1", "2"]], schema=schema))
    paimon_jvm.write(place, [["+I", "a   ", "3"]], 1)
    rows, _ = paimon_jvm.dump(place)
    assert sorted((row["row"]["k"], row["row"]["v"]) for row in rows) == [("a   ", "3"), ("bb  ", "2")]
    assert all(row["bucket"] == row["expected"] for row in rows)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_nested_fields_change_as_they_do_for_the_engine(
    tmp_path: Path, paimon_jvm: PaimonJvm, file_format: str
) -> None:
    place = tmp_path / "d.db" / "t"
    table = lakebed.create(str(place), "paimon", NESTED, options={"file.format": file_format})
    table.write(pa.Table.from_pylist([nested_row({"x": 7, "y": "old"})], NESTED))

    def change(row: dict[str, Any], next_id: Callable[[], int]) -> None:
        for field in row["fields"]:
            if field["name"] == "x":
                field["name"], field["type"] = "x2", "STRING"
            if field["name"] == "y":
                field["id"] = next_id()

    change_schema(place, change)
    rows, _ = paimon_jvm.dump(place)
    ours = lakebed.open(str(place)).read().read_all().to_pylist()
    assert [row["row"] for row in rows] == json.loads(json.dumps(ours))
