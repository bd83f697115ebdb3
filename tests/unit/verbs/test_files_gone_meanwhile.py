"""Another process archives, merges, expires or overwrites at any call of a reader: no plan fails, no error is bare."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import DataCleanedError, NotInHistoryError
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.files import open_store
from tests.tables.hudi.timelines import times
from tests.unit.hudi.archive.test_clocks import Meanwhile, filled

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


def at_each_call(
    make: Callable[[Path], Callable[[], Any]], act: Callable[[lakebed.Table], Any], folder: Path, step: int = 1
) -> list[Any]:
    """What `act` gives when somebody else's work, which `make` gives for a fresh table in a folder, is done at one of
    its calls of the store: at its first one, then `step` calls later, and so on."""
    found: list[Any] = []
    number = 1 - step
    while True:
        number += step
        here = folder / str(number)
        other = make(here)
        calls = 0

        def due(verb: str, path: str) -> bool:
            nonlocal calls
            calls += 1
            return calls == number  # noqa: B023 - asked before the next round

        store = Meanwhile(open_store(here), due, other)
        table = lakebed.open(store)  # type: ignore[arg-type]
        calls = 0
        result = act(table)
        shutil.rmtree(here)
        if not store.done:
            return found
        found.append(result)


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 8])
def test_history_beside_an_archiver(tmp_path: Path, version: int) -> None:
    def make(folder: Path) -> Callable[[], Any]:
        lake = filled(folder, version)
        more = {"hoodie__archive__merge__enable": True, "hoodie__archive__merge__files__batch__size": 3,
                "hoodie__timeline__compaction__batch__size": 2}  # fmt: skip

        def other() -> None:
            for _ in range(3):
                lake.archive(2, 3, **more)
                lake.commit(*range(30, 34))

        return other

    seen = at_each_call(make, lambda table: table.history(archived=True), tmp_path)
    assert len(seen) > 4
    for instants in seen:
        assert [i.time for i in instants][:18] == times(range(1, 19))
        assert len({i.time for i in instants}) == len(instants)


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 8])
def test_plans_and_reports_beside_an_archiver(tmp_path: Path, version: int) -> None:
    def make(folder: Path) -> Callable[[], Any]:
        lake = filled(folder, version)
        return lambda: lake.archive(2, 3, hoodie__archive__merge__enable=True)

    def act(table: lakebed.Table) -> Any:
        assert isinstance(table, HudiTable)
        table.plan_read()
        table.plan_changes(after=None)
        return table.inspect()

    assert len(at_each_call(make, act, tmp_path, step=3)) > 5


def overwritten(format: str, options: dict[str, str], expiry: dict[str, str]) -> Callable[[Path], Callable[[], Any]]:
    """Somebody overwrites the table and expires all but the newest snapshot."""

    def make(folder: Path) -> Callable[[], Any]:
        made = lakebed.create(folder, format, SCHEMA, options=options)
        for number in range(2):
            made.write(pa.table({"id": [number], "v": ["old"]}, schema=SCHEMA))

        def other() -> None:
            made.write(pa.table({"id": [7], "v": ["new"]}, schema=SCHEMA), "overwrite")
            made.expire(options=expiry)

        return other

    return make


FORMATS = {
    "paimon": overwritten(
        "paimon", {"bucket": "-1", "write-only": "true"},
        {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"},
    ),
    "iceberg": overwritten("iceberg", {}, {"older-than": "2100-01-01"}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_plans_and_reports_beside_an_expiry(tmp_path: Path, format: str) -> None:
    def act(table: lakebed.Table) -> Any:
        table.history()
        table.plan_read()
        return table.inspect()

    seen = at_each_call(FORMATS[format], act, tmp_path)
    assert len(seen) > 5
    assert not [f for report in seen for f in report.findings if "cannot be read" in f.what]


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_rows_beside_an_expiry_are_those_of_one_snapshot_or_an_error_by_name(tmp_path: Path, format: str) -> None:
    def act(table: lakebed.Table) -> Any:
        try:
            return sorted(table.read().read_all()["v"].to_pylist())
        except DataCleanedError as error:
            return error.todo

    seen = at_each_call(FORMATS[format], act, tmp_path)
    assert {str(rows) for rows in seen} <= {"['old', 'old']", "['new']", "Read a newer snapshot"}
    assert ["new"] in seen


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_writes_and_expiries_beside_an_expiry(tmp_path: Path, format: str) -> None:
    """A commit whose base expires is tried again; two expiries at once do not fail each other."""

    def act(table: lakebed.Table) -> Any:
        table.expire(options={"older-than": "2100-01-01"} if format == "iceberg" else {"snapshot.expire.limit": "1"})
        table.write(pa.table({"id": [9], "v": ["mine"]}, schema=SCHEMA))
        return sorted(lakebed.open(table.location).read().read_all()["v"].to_pylist())

    seen = at_each_call(FORMATS[format], act, tmp_path, step=4)
    assert all(rows in (["mine", "new"], ["new"], ["mine", "old", "old"]) for rows in seen), seen


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_a_snapshot_that_expires_under_its_reader_is_told_by_name(tmp_path: Path, format: str) -> None:
    def act(table: lakebed.Table) -> Any:
        found = table.history()
        first = found[0].time
        if len(found) == 1:
            return "expired before"
        try:
            return len(table.plan_read(as_of=first).splits)
        except NotInHistoryError as error:
            return type(error).__name__

    seen = set(at_each_call(FORMATS[format], act, tmp_path, step=2))
    assert seen <= {1, "expired before", "NotInHistoryError", "DataCleanedError"}


def test_a_base_file_that_a_clean_took_is_told_by_name(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[3] / "examples/orders_hudi", tmp_path / "t")
    table = lakebed.open(tmp_path / "t")
    plan = table.plan_read()
    for path in (tmp_path / "t").rglob("*.parquet"):
        if ".hoodie" not in path.parts:
            path.unlink()
    with pytest.raises(DataCleanedError, match="base or log file is gone"):
        for split in plan.splits:
            list(plan.read(split))
