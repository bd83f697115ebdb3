"""`lakebed metadata`: the names, a table as JSON, to a file and for people, and wrong names."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from tests.unit.cli.test_alter import lake


def test_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", pa.schema([("id", pa.int64())]))
    table.write(pa.table({"id": [1, 2]}))
    assert lake("metadata", table.location) == 0 and "all_manifests" in capsys.readouterr().out
    assert lake("metadata", table.location, "--json") == 0
    assert json.loads(capsys.readouterr().out)["names"] == list(table.metadata_names)
    assert lake("metadata", table.location, "files", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["record_count"] == 2 and row["readable_metrics"]["id"]["upper_bound"] == 2
    assert lake("metadata", table.location, "snapshots", "--output", str(tmp_path / "s.parquet")) == 0
    assert pq.read_table(tmp_path / "s.parquet")["operation"].to_pylist() == ["append"]
    assert lake("metadata", table.location, "snapshots") == 0 and "append" in capsys.readouterr().out
    assert lake("metadata", table.location, "file") == 2 and "Did you mean 'files'" in capsys.readouterr().err
