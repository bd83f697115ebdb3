"""Rows counted by manifests: what they say exactly is not read, and the rest is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.read import splits
from lakebed.formats.paimon.read.task import BucketReader
from tests.golden import unpack

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


@pytest.fixture(params=[True, False], ids=["columns", "values"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The splits that are read, where plans keep columns and where they keep values."""
    if request.param:
        monkeypatch.setattr(splits, "MANY", 0)
    seen: list[Any] = []
    read = BucketReader.__call__

    def noted(self: BucketReader, split: Any) -> Any:
        seen.append(split)
        return read(self, split)

    monkeypatch.setattr(BucketReader, "__call__", noted)
    return seen


def test_append_tables_are_counted_without_their_files(tmp_path: Path, opened: list[Any]) -> None:
    options = {"deletion-vectors.enabled": "true", "bucket": "-1"}
    table = lakebed.create(tmp_path / "t", "paimon", ROWS.schema, options=options)
    assert table.count() == 0
    for _ in range(3):
        table.write(ROWS)
    assert table.count() == 300 and not opened
    assert table.count("id < 10") == 30 and opened


def test_rows_that_vectors_delete_are_taken_off(opened: list[Any]) -> None:
    table = lakebed.open(unpack("paimon", "append_dv"))
    assert any(split.deletions for split in table.plan_read().splits)
    count = table.count()
    assert not opened and count == table.read().read_all().num_rows


def test_keyed_tables_are_read(tmp_path: Path, opened: list[Any]) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ROWS.schema, ["id"], options={"bucket": "1", "write-only": "true"})
    for _ in range(2):
        table.write(ROWS)
    assert table.count() == 100 and opened
