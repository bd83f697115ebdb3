"""Tables without meta columns: deletes find their rows by the key columns."""

from pathlib import Path

import pytest

import lakebed
from lakebed.errors import UnsupportedError
from tests.golden import expected, unpack
from tests.golden.compare import diff, load
from tests.tables.hudi.writing import HudiFolder, rows, t

VIRTUAL = {"populate__meta__fields": "false", "table__keygenerator__type": "SIMPLE"}


def _table(folder: Path, **properties: str) -> HudiFolder:
    table = HudiFolder(folder, **{**VIRTUAL, **properties})
    before = [{"id": key, "ts": 1, "x": f"{key}1"} for key in "abc"]
    table.done(1, [table.base("g", 1, before, meta=False)])
    block = table.data(2, [{"id": "b", "ts": 2, "x": "b2"}])
    name = "id:a" if properties.get("table__keygenerator__type") == "COMPLEX" else "a"
    table.done(2, [table.log("g", 1, block + table.deletes(2, {name: None}))])
    return table


@pytest.mark.parametrize("generator", ["SIMPLE", "COMPLEX", "NON_PARTITION", "CUSTOM"])
def test_deleted_rows_stay_away(tmp_path: Path, generator: str) -> None:
    table = _table(tmp_path, table__keygenerator__type=generator)
    assert rows(table.open(), "x") == {"b": "b2", "c": "c1"}


@pytest.mark.parametrize(
    ("name", "values"), [("virtual_complex_v9", ["u", "v", "v"]), ("virtual_timestamp_h015", ["u", "v", "v"])]
)
def test_deleted_rows_of_the_real_engine_stay_away(name: str, values: list[str]) -> None:
    folder = unpack("hudi", name)
    actual = lakebed.open(folder).read().read_all()
    assert sorted(actual["v"].to_pylist()) == values
    answers = expected(folder) / "snapshot.jsonl"
    if answers.exists():
        assert diff("hudi", actual, load(answers), key=["id"]) is None


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (
            {"table__keygenerator__class": "com.acme.Lower", "table__keygenerator__type": "USER_PROVIDED"},
            "com.acme.Lower",
        ),
        ({"table__recordkey__fields": "a.b"}, "a.b is not a column"),
        ({"table__recordkey__fields": ""}, "no record key fields"),
    ],
)
def test_keys_that_are_not_certain_are_refused(tmp_path: Path, properties: dict[str, str], why: str) -> None:
    table = _table(tmp_path, **properties)
    with pytest.raises(UnsupportedError, match=why):
        table.open().read()
    base = table.open(hoodie__datasource__query__type="read_optimized")
    assert sorted(base.read(["x"]).read_all()["x"].to_pylist()) == ["a1", "b1", "c1"]


@pytest.mark.parametrize(
    ("generator", "key", "value"),
    [("SIMPLE", "id:x", "id:x"), ("COMPLEX", "id:x", "x"), ("SIMPLE", "x", "x"), ("USER_PROVIDED", "x", None)],
)
def test_key_columns_of_deletes_in_changes(tmp_path: Path, generator: str, key: str, value: str | None) -> None:
    table = HudiFolder(tmp_path, table__keygenerator__type=generator)
    row = {"id": value or "X", "_hoodie_record_key": key, "ts": 1}
    table.done(1, [table.base("g", 1, [row])])
    table.done(2, [table.log("g", 1, table.deletes(2, {key: None}))], deletes=1)
    actual = table.open().changes(["id", "_hoodie_record_key"], after=t(1)).read_all().to_pylist()
    assert actual == [{"id": value, "_hoodie_record_key": key, "_row_kind": "-D"}]


def test_key_columns_of_deletes_have_their_types(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path, columns={"id": "double", "ts": "long"}, table__keygenerator__type="COMPLEX")
    table.done(1, [table.base("g", 1, [{"id": 1e10, "_hoodie_record_key": "id:1.0E10", "ts": 1}])])
    table.done(2, [table.log("g", 1, table.deletes(2, {"id:1.0E10": None}))], deletes=1)
    assert table.open().changes(["id"], after=t(1)).read_all()["id"].to_pylist() == [1e10]
