"""Iceberg tables of every kind, held to what each verb promises."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.model.instant import Instant
from lakebed.testing.conformance import (
    WRITE_SCHEMA,
    ChangesConformance,
    LacksConformance,
    ReadConformance,
    RollbackConformance,
    StreamConformance,
    WriteConformance,
    write_rows,
)
from tests.golden import opening, unpack

READ = (
    "added_files", "dv_v3", "eq_deletes_part", "mixed_formats", "schema_evolution", "transforms", "types_nested",
)  # fmt: skip
KEYED = {
    "dv_v3": "id", "dv_v3_rewritten": "id", "eq_deletes": "id", "pos_deletes": "id", "years_and_void_v1": "id",
}  # fmt: skip


def main_only(table: Table) -> list[Instant]:
    """The snapshots that are on the way to the head of main."""
    history = table.history()
    by_id = {instant.time: instant for instant in history}
    line, here = [], next(i for i in history if "branch:main" in i.summary.get("refs", ""))
    while here is not None:
        line.append(here)
        here = by_id.get(here.summary.get("parent-id", ""))
    return line[::-1]


class TestRead(ReadConformance):
    @pytest.fixture(params=READ)
    def table(self, request: pytest.FixtureRequest) -> Table:
        folder = unpack("iceberg", request.param)
        return lakebed.open(folder, opening(folder))

    @pytest.fixture
    def order(self) -> Callable[[Instant], Any]:
        return lambda instant: instant.completed


class TestChanges(ChangesConformance):
    @pytest.fixture(params=KEYED)
    def name(self, request: pytest.FixtureRequest) -> str:
        found: str = request.param
        return found

    @pytest.fixture
    def table(self, name: str) -> Table:
        return lakebed.open(unpack("iceberg", name))

    @pytest.fixture
    def key(self, name: str) -> tuple[str, ...]:
        return (KEYED[name],)

    @pytest.fixture
    def moments(self, table: Table) -> list[Instant]:
        return main_only(table)[-4:]


class TestStream(StreamConformance):
    @pytest.fixture(params=KEYED)
    def name(self, request: pytest.FixtureRequest) -> str:
        found: str = request.param
        return found

    @pytest.fixture
    def table(self, name: str) -> Table:
        first = main_only(lakebed.open(unpack("iceberg", name)))[0]
        return lakebed.open(unpack("iceberg", name), {"read.start-commit": first.time})

    @pytest.fixture
    def key(self, name: str) -> tuple[str, ...]:
        return (KEYED[name],)


class TestLacks(LacksConformance):
    @pytest.fixture
    def table(self) -> Table:
        return lakebed.open(unpack("iceberg", "dv_v3"))

    @pytest.fixture
    def lacking(self) -> Sequence[Callable[[Table], Any]]:
        return [lambda t: t.archive()]


@pytest.fixture(scope="module", params=["2", "3"])
def ours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that is written once, for tests that only read."""
    folder = tmp_path_factory.mktemp("ours") / "table"
    table = _created(folder, request.param)
    table.write(write_rows(list(range(50))))
    table.write(write_rows([3, 7, 99], text="new"), mode="upsert")
    table.write(write_rows([4]), mode="delete")
    return folder


class TestReadOurs(ReadConformance):
    @pytest.fixture
    def table(self, ours: Path) -> Table:
        return lakebed.open(ours)

    @pytest.fixture
    def order(self) -> Callable[[Instant], Any]:
        return lambda instant: instant.completed


class TestWrite(WriteConformance):
    append_replaces = False

    @pytest.fixture(params=["2", "3"])
    def make(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Table]:
        _created(tmp_path / "table", request.param)
        return lambda: lakebed.open(tmp_path / "table")


class TestRollback(RollbackConformance):
    @pytest.fixture(params=["1", "2", "3"])
    def make(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Table]:
        _created(tmp_path / "table", request.param)
        return lambda: lakebed.open(tmp_path / "table")


class TestWriteUnpartitioned(WriteConformance):
    append_replaces = False

    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Table]:
        lakebed.create(tmp_path / "table", "iceberg", WRITE_SCHEMA, ["dt", "id"])
        return lambda: lakebed.open(tmp_path / "table")


def _created(folder: Path, version: str) -> Table:
    options = {"format-version": version}
    return lakebed.create(folder, "iceberg", WRITE_SCHEMA, ["dt", "id"], ["dt"], options)
