"""Full changes of real tables: equal to what Hudi's own reader gives, and a chain of states that never breaks."""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import DataCleanedError, LakebedError
from lakebed.formats.hudi.read.spark_options import plan_spark_read, spark_stream
from lakebed.formats.hudi.table import HudiTable
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.golden import expected, names, unpack
from tests.golden.test_hudi_read import READ

Row = dict[str, Any]
CHANGE_LOGS = ("cdc_cow_v6", "cdc_cow_v8", "cdc_cow_v9", "cdc_mor_v9")
SPARK = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
    "hoodie.datasource.read.begin.instanttime": "000",
}
WHOLE = [
    name
    for name in names("hudi")
    if not name.startswith(
        ("archived", "virtual", "bootstrap", "cow_h", "mor_h", "cow_v", "cow_nonpart", "mor_v", "mor_mdt")
    )
]
"""Tables of which the cleaner left every commit readable."""


def _user(row: Row | None) -> Row | None:
    """Hudi's texts leave nulls out or not, and meta columns."""
    return row and {name: value for name, value in row.items() if name[0] != "_" and value is not None}


def _reported(rows: Iterable[Row]) -> list[str]:
    """Changes with their row kinds as Hudi gives them: operation, instant, row before, row after."""
    actual, rows = [], iter(rows)
    for row in rows:
        kind, before, after = row["_row_kind"], None, None
        if kind == "-U":
            before, after = row, next(rows)
            assert after["_row_kind"] == "+U" and before["_hoodie_record_key"] == after["_hoodie_record_key"]
        elif kind == "-D":
            before = row
        else:
            after = row
        actual.append(_change({"+I": "i", "-U": "u", "-D": "d"}[kind], row["_hoodie_commit_time"], before, after))
    return sorted(actual)


def _change(op: str, instant: str, before: Row | None, after: Row | None) -> str:
    return json.dumps([op, instant, _user(before), _user(after)], sort_keys=True, ensure_ascii=False)


def _texts(rows: Iterable[Row]) -> list[str]:
    def parsed(text: str | None) -> Row | None:
        actual: Row | None = json.loads(text or "null")
        return actual

    return sorted(_change(row["op"], row["ts_ms"], parsed(row["before"]), parsed(row["after"])) for row in rows)


def _hudis(name: str) -> list[str]:
    lines = (expected(unpack("hudi", name)) / "cdc_000_latest.jsonl").read_text().splitlines()
    return _texts(json.loads(line) for line in lines)


def _full(folder: Path, **given: str) -> list[Row]:
    rows: list[Row] = lakebed.open(folder, {"cdc.enabled": "true", **given}).changes().read_all().to_pylist()
    return rows


@pytest.mark.parametrize("name", CHANGE_LOGS)
def test_full_changes_are_those_of_hudi(name: str) -> None:
    assert _reported(_full(unpack("hudi", name))) == _hudis(name)


@pytest.mark.parametrize("name", CHANGE_LOGS)
def test_cdc_rows_are_those_of_hudis_spark_source(name: str) -> None:
    table = lakebed.open(unpack("hudi", name))
    assert isinstance(table, HudiTable)
    plan = plan_spark_read(table.state(), SPARK)
    assert plan.schema.names == ["op", "ts_ms", "before", "after"]
    assert _texts(run(plan, 2).read_all().to_pylist()) == _hudis(name)
    deletes = plan_spark_read(table.state(), SPARK, ["ts_ms"], "op = 'd'")
    assert run(deletes, 2).read_all().num_rows == 2


@pytest.mark.parametrize("name", CHANGE_LOGS)
def test_without_the_change_logs_the_slices_give_the_same(name: str, tmp_path: Path) -> None:
    folder = unpack("hudi", name, into=tmp_path)
    logs = list(folder.rglob("*.cdc"))
    assert logs
    for path in logs:
        path.unlink()
    assert _reported(_full(folder)) == _hudis(name)


@pytest.mark.parametrize("name", CHANGE_LOGS)
def test_the_change_logs_are_enough_where_files_were_cleaned(name: str, tmp_path: Path) -> None:
    """The base files that a change log's commit started from are gone; only inserts need a data file."""
    folder = unpack("hudi", name, into=tmp_path)
    table = lakebed.open(folder, {"cdc.enabled": "true"})
    wanted = [c for c in _hudis(name) if not c.startswith('["i"') or "k0020" in c]
    first = table.history()[0]
    logged = {path.parent.name for path in folder.rglob("*.cdc")}
    for path in folder.rglob(f"*_{first.time}.parquet"):
        if path.parent.name in logged and name != "cdc_mor_v9":
            path.unlink()
    assert _reported(table.changes(after=first).read_all().to_pylist()) == wanted
    if name != "cdc_mor_v9":
        with pytest.raises(DataCleanedError):
            table.changes().read_all()


@pytest.mark.parametrize("name", CHANGE_LOGS)
def test_a_stream_takes_commit_after_commit(name: str) -> None:
    folder = unpack("hudi", name)
    first = lakebed.open(folder).history()[0]
    table = lakebed.open(folder, {"cdc.enabled": "true", "read.start-commit": first.time})
    batches = [run(plan, 2).read_all() for _, plan in drain(table.stream(), limits=Limits(commits=1))]
    assert [len(set(batch["_hoodie_commit_time"].to_pylist())) for batch in batches] == [1, 1, 1]
    assert _reported(row for batch in batches for row in batch.to_pylist()) == _hudis(name)
    earliest = lakebed.open(folder, {"cdc.enabled": "true", "read.start-commit": "earliest"}).stream()
    ((_, plan),) = drain(earliest)
    assert _keys(run(plan, 2).read_all().to_pylist()) == _keys(lakebed.open(folder).read().read_all().to_pylist())


def test_sparks_stream_has_the_same_columns() -> None:
    table = lakebed.open(unpack("hudi", "cdc_cow_v8"))
    assert isinstance(table, HudiTable)
    given = {"hoodie.datasource.query.incremental.format": "cdc", "hoodie.datasource.streaming.startoffset": "earliest"}
    stream = spark_stream(table.state, given)
    rows = [row for _, plan in drain(stream) for row in run(plan, 1).read_all().to_pylist()]
    assert stream.schema.names == ["op", "ts_ms", "before", "after"]
    assert {row["op"] for row in rows} == {"i"} and len(rows) == 11


def _text(row: Row) -> str:
    """A row as text: NaN is equal to NaN there.

    Without `arr` and `dec`: where Hudi rewrote base files of its bulk inserts it nulled the one in rows that no commit
    changed, and 0.15.0 lost the scale of the other.
    """
    return repr(_user({name: value for name, value in row.items() if name not in ("arr", "dec")}))


def _keys(rows: list[Row]) -> dict[str, str]:
    return {row["_hoodie_record_key"]: _text(row) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_every_change_starts_from_the_row_that_was_there(name: str, tmp_path: Path) -> None:
    """Any table, change log or not: each row before is the row of its key then, and the last ones are the snapshot."""
    state: dict[tuple[str, str], str] = {}
    for row in _full(unpack("hudi", name)):
        kind, key = row["_row_kind"], (row["_hoodie_partition_path"], row["_hoodie_record_key"])
        if kind in ("-U", "-D"):
            assert state.pop(key) == _text(row)
        else:
            assert key not in state
            state[key] = _text(row)
    snapshot = lakebed.open(unpack("hudi", name)).read().read_all().to_pylist()
    assert state == {(row["_hoodie_partition_path"], row["_hoodie_record_key"]): _text(row) for row in snapshot}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in READ if name not in WHOLE])
def test_each_range_leads_to_its_end_or_says_what_was_cleaned(name: str) -> None:
    folder, table = unpack("hudi", name), lakebed.open(unpack("hudi", name), {"cdc.enabled": "true"})
    writes = [
        i for i in table.history() if i.action in ("commit", "deltacommit", "replacecommit") and i.state == "completed"
    ]
    read = 0
    for low, high in itertools.pairwise(writes):
        try:
            state = _keys(lakebed.open(folder).read(as_of=low).read_all().to_pylist())
            wanted = _keys(lakebed.open(folder).read(as_of=high).read_all().to_pylist())
            rows = table.changes(after=low, until=high).read_all().to_pylist()
        except LakebedError as error:
            assert isinstance(error, DataCleanedError)
            continue
        read += 1
        for row in rows:
            key = row["_hoodie_record_key"]
            if row["_row_kind"] in ("-U", "-D"):
                assert state.pop(key) == _text(row)
            else:
                assert key not in state
                state[key] = _text(row)
        assert state == wanted
    assert read
