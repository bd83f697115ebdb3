"""What a newcomer mistypes, in Python and in a terminal: the error says what, where, why and what to do next."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.cli.app import main
from lakebed.errors import LakebedError, NotInHistoryError, OptionError, PredicateError, SchemaError

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "dt": ["a", "b"]})
FORMATS = {
    "hudi": {"primary_key": ["id"]},
    "paimon": {"primary_key": ["id"], "options": {"bucket": 1}},
    "iceberg": {},
}


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakebed.Table:
    table = lakebed.create(tmp_path / "t", request.param, ROWS.schema, **FORMATS[request.param])
    table.write(ROWS)
    return table


def test_an_option_that_nothing_is_near_to(table: lakebed.Table) -> None:
    """A format has hundreds of options: the error names those with a word of the wrong one, and where the rest are."""
    with pytest.raises(OptionError, match=r"unknown option 'zzqqxx'.*known options are in the documentation") as caught:
        table.write(ROWS, options={"zzqqxx": 1})
    assert len(str(caught.value)) < 400
    known = [f"a.{number}" for number in range(40)] + ["write.commit.retries"]
    many = OptionError.unknown("commit", known)
    assert (
        many.todo
        == "Those with a word of it: write.commit.retries. The 41 known options are in the documentation's page Options"
    )
    assert OptionError.unknown("commit", known[:3]).todo == "Known options: a.0, a.1, a.2"


def test_a_part_of_where_that_is_not_served(table: lakebed.Table) -> None:
    with pytest.raises(PredicateError, match=r"year\(dt\) is not supported in where\. Use comparisons.*docs/where.md"):
        table.read(where="year(dt) = 2026")


def test_one_row_is_no_plural(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ROWS.schema, ["id"], options={"bucket": 1})
    for rows, said in (([None, 1], "1 row has no value"), ([None, None], "2 rows have no value")):
        with pytest.raises(SchemaError, match=said):
            table.write(pa.table({"id": pa.array(rows, pa.int64()), "dt": ["a", "b"]}))


def test_a_time_before_the_table(table: lakebed.Table) -> None:
    """The error has the time as people write it."""
    with pytest.raises(NotInHistoryError) as caught:
        table.read(as_of=datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC))
    assert str(caught.value.instant).startswith("2001-01-01T00:00:00")


def test_a_table_of_a_catalog_without_its_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LakebedError, match=r"A table in a catalog is CATALOG:DATABASE\.TABLE"):
        lakebed.open("shop:orders")


def test_a_column_that_a_query_does_not_find(table: lakebed.Table) -> None:
    with pytest.raises(LakebedError, match=r"No field named iid\. Did you mean 'id'\? Columns: .*id, dt$"):
        lakebed.sql(f"select iid from '{table.location}'")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["red", "t"], "No such command 'red'. Did you mean 'read'? See "),
        (["zzz"], "No such command 'zzz'. Commands: add-files, alter, archive, "),
        (["read", "t", "--limit", "x"], "Invalid value for '--limit': it is not a valid integer. See "),
        (["read", "t", "--format", "xml"], "Invalid value for '--format': 'xml' is not one of 'table', 'csv', "),
    ],
)
def test_what_a_terminal_says(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
