"""Which statistics a table asks for, and that none of them loses a row."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import OptionError

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int32()))])


@pytest.mark.parametrize(
    ("options", "covered"),
    [
        ({}, ("a", "b")),
        ({"metadata.stats-mode": "none"}, ()),
        ({"metadata.stats-keep-first-n-columns": "1"}, ("a",)),
        ({"fields.a.stats-mode": "none", "fields.b.stats-mode": "truncate(2)"}, ("b",)),
        ({"metadata.stats-dense-store": "false", "fields.a.stats-mode": "none"}, None),
    ],
)
def test_the_columns_asked_for(tmp_path: Path, options: dict[str, str], covered: tuple[str, ...] | None) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options=options)
    for start in (0, 10):
        rows = {"a": [*range(start, start + 3)], "b": [f"text {start}", None, "z"], "l": [[1], [], None]}
        table.write(pa.table(rows, schema=SCHEMA))
    files = [file for split in table.plan_read(where="a >= 0").splits for file in split.files]
    assert [file.value_stats_cols for file in files] == [covered, covered]
    for where, rows in (("a = 11", 1), ("a > 100", 0), ("b = 'text 10'", 1), ("b is null", 2), ("l is null", 2)):
        assert len(table.read(where=where).read_all()) == rows, where
    table.alter(lakebed.add_column("c", "int64"))
    assert sum(len(split.files) for split in table.plan_read(where="c = 1").splits) == 0
    assert len(table.read(where="c is null").read_all()) == 6
    table.alter(lakebed.rename_column("a", "d"))
    assert len(table.read(where="d = 11").read_all()) == 1


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="does not have"):
        lakebed.create(tmp_path / "t", "paimon", SCHEMA, options={"fields.no.stats-mode": "full"})
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options={"fields.a.stats-mode": "some"})
    with pytest.raises(OptionError, match=r"fields\.a\.stats-mode.*expected none, counts, full"):
        table.write(pa.table({"a": [1], "b": ["x"], "l": [[1]]}, schema=SCHEMA))
