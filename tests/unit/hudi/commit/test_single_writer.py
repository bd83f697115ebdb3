"""Options that ask for several writers are refused by name, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError

ROWS = pa.table({"id": [1], "v": ["a"]})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.write.concurrency.mode", "optimistic_concurrency_control"),
        ("hoodie.cleaner.policy.failed.writes", "LAZY"),
        ("hoodie.write.lock.provider", "a.b.ZookeeperBasedLockProvider"),
    ],
)
def test_several_writers_are_refused(key: str, value: str, tmp_path: Path) -> None:
    table = lakebed.create(str(tmp_path / "t"), "hudi", ROWS.schema, primary_key=["id"])
    with pytest.raises(UnsupportedError, match="only writer"):
        table.write(ROWS, options={key: value})
    assert table.history() == []


def test_the_single_writer_is_served(tmp_path: Path) -> None:
    table = lakebed.create(str(tmp_path / "t"), "hudi", ROWS.schema, primary_key=["id"])
    options = {"hoodie.write.concurrency.mode": "single_writer", "hoodie.cleaner.policy.failed.writes": "EAGER"}
    table.write(ROWS, options=options)
    assert table.read(["id"]).read_all().num_rows == 1
