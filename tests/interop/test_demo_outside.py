"""What the demo's pipeline made, read by engines that no one here wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.examples import example_path as example
from tests.interop.conftest import PaimonJvm, Pypaimon

pytestmark = pytest.mark.timeout(900)
COLUMNS = ["order_id", "customer", "amount", "status", "ts", "dt"]


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of one demo run."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "lakebed.cli", "demo", "--json", "--output", "shop"]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=800, check=True)
    return Path(json.loads(shown.stdout)["table"])


def orders(rows: pa.Table) -> pa.Table:
    """Rows in one order and one type a column."""
    source = lakebed.open(example("orders_hudi")).schema
    wanted = pa.schema([pa.field(name, source.field(name).type) for name in COLUMNS])
    plain = pa.table([rows[name].cast(wanted.field(name).type) for name in COLUMNS], schema=wanted)
    return plain.sort_by("order_id").combine_chunks()


@pytest.mark.parametrize("path", ["pure", "native"])
def test_pypaimon_reads_the_rows_of_the_hudi_snapshot(sink: Path, pypaimon: Pypaimon, path: str) -> None:
    found = pypaimon.read(sink, path)
    assert orders(found).equals(orders(lakebed.open(example("orders_hudi")).read().read_all()))
    assert set(found["_bucket"].to_pylist()) == {0, 1, 2, 3}


def test_the_jvm_reads_the_same_and_finds_each_row_in_its_bucket(sink: Path, paimon_jvm: PaimonJvm) -> None:
    rows, files = paimon_jvm.dump(sink)
    assert len(rows) == 2080
    assert all(line["bucket"] == line["expected"] for line in rows)
    there = {path.name for path in sink.glob("dt=*/bucket-*/data-*")}  # with those that compactions replaced
    assert {line["file"] for line in files} <= there and len(files) == len({line["file"] for line in files}) > 0
    assert sum(line["rows"] for line in files) >= len(rows)
