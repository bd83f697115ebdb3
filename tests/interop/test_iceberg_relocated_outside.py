"""Iceberg's own engine on copied tables that lakebed relocated: each state, without the original, and it goes on."""

import shutil
from pathlib import Path

import pytest

import lakebed
from tests.interop.iceberg_ask import spark_sql
from tests.unit.iceberg.relocate.test_run import lived, rows, states

pytestmark = pytest.mark.timeout(1800)


def test_spark_reads_every_state_and_goes_on(tmp_path: Path) -> None:
    requests, wanted = {}, {}
    for version in (1, 2, 3):
        lived(tmp_path / f"old{version}", version)
        shutil.move(tmp_path / f"old{version}", tmp_path / f"db/t{version}")
        table = lakebed.open(tmp_path / f"db/t{version}")
        table.relocate()
        wanted[version] = states(table)
        snapshots = [instant.time for instant in table.history()]
        name = f"had.db.t{version}"
        requests[f"t{version}"] = [
            *(f"SELECT id, part, x FROM {name} VERSION AS OF {id} ORDER BY id, x" for id in snapshots),
            f"INSERT INTO {name} SELECT id + 1000, part, x FROM {name} WHERE id < 3",
            f"DELETE FROM {name} WHERE id = 1001",
            f"SELECT count(*) FROM {name}",
        ]
    answers = spark_sql(tmp_path, requests)
    for version, expected in wanted.items():
        found = answers[f"t{version}"]
        assert [[tuple(row) for row in state] for state in found[: len(expected)]] == [
            [tuple(row.values()) for row in state] for state in expected
        ]
        table = lakebed.open(tmp_path / f"db/t{version}")
        assert table.read().read_all().num_rows == found[-1][0][0]
        table.write(rows(5000))
