"""What tables give to other libraries, and what they take of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UsageError
from lakebed.formats.paimon.read.task import BucketReader

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> lakebed.Table:
    table = lakebed.create(tmp_path / "t", "paimon", ROWS.schema, options={"source.split.target-size": "1 b"})
    for start in range(3):
        table.write(ROWS.slice(start))
    return table


def test_polars_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch, table: lakebed.Table) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match=r"to_polars needs Polars, which is not installed\. pip install polars"):
        table.to_polars()
    polars = ModuleType("polars")
    polars.from_arrow = lambda rows: rows  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", polars)
    assert sorted(table.to_polars(["id"], "id > 8")["id"].to_pylist()) == [9, 9, 9]


def test_the_head_opens_no_more_than_it_needs(monkeypatch: pytest.MonkeyPatch, table: lakebed.Table) -> None:
    opened, read = [], BucketReader.__call__
    monkeypatch.setattr(BucketReader, "__call__", lambda self, split: (opened.append(split), read(self, split))[1])
    assert len(table.plan_read().splits) == 3
    assert (table.head(0).num_rows, len(opened)) == (0, 0)
    assert (table.head(9).num_rows, len(opened)) == (9, 1)


def test_a_table_is_written_to_another(tmp_path: Path, table: lakebed.Table) -> None:
    copy = lakebed.create(tmp_path / "copy", "iceberg", table)  # type: ignore[arg-type]
    result = copy.write(table)
    assert (result.rows, copy.count()) == (27, 27)
    assert copy.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")
