"""Moments of a table, as users write them down, at the face of every format."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import TableExistsError, UsageError
from lakebed.verbs.arguments import checked_position

EAST = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (None, None), (5, 5), (np.int64(5), 5), ("tag:a", "tag:a"), (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, tzinfo=EAST), "2026-01-02T03:00:00+02:00"),
    ],
)  # fmt: skip
def test_what_names_a_moment(given: Any, taken: Any) -> None:
    assert checked_position(given) == taken


@pytest.mark.parametrize("format", ["paimon", "iceberg"])
def test_a_table_is_read_as_of_a_datetime(format: str, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", format, pa.schema([("id", pa.int64())]))
    table.write(pa.table({"id": [1]}))
    written = datetime.datetime.now(datetime.UTC)
    assert table.read(as_of=written + datetime.timedelta(days=1)).read_all()["id"].to_pylist() == [1]
    naive = (written + datetime.timedelta(days=1)).replace(tzinfo=None)
    assert table.read(as_of=naive).read_all()["id"].to_pylist() == [1]
    with pytest.raises(UsageError, match="names no moment of a table"):
        table.read(as_of=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="names no moment of a table"):
        table.changes(after=True)
    with pytest.raises(TableExistsError, match=f"there is already an? {format} table"):
        lakebed.create(tmp_path / "t", format, table.schema)
