"""Paimon tables, of the JVM's making and of ours, held to what each verb promises."""

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
from tests.golden import unpack

TABLES = ("pk_fixed", "pk_dv", "append_unaware", "types_parquet", "types_pk_avro", "evolve", "me_first_row")


class TestRead(ReadConformance):
    @pytest.fixture(params=TABLES)
    def table(self, request: pytest.FixtureRequest) -> Table:
        return lakebed.open(unpack("paimon", request.param))


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with several commits, for tests that only read."""
    folder = tmp_path_factory.mktemp("changed") / "table"
    _changed(_created(folder))
    return folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that is written once, for tests that only read."""
    folder = tmp_path_factory.mktemp("ours") / "table"
    table = _created(folder)
    table.write(write_rows(list(range(50))))
    table.write(write_rows([3, 7, 99], text="new"), mode="upsert")
    table.write(write_rows([4]), mode="delete")
    return folder


class TestReadOurs(ReadConformance):
    @pytest.fixture
    def table(self, ours: Path) -> Table:
        return lakebed.open(ours)


class TestWrite(WriteConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Table]:
        _created(tmp_path / "table")
        return lambda: lakebed.open(tmp_path / "table")


class TestWriteUnpartitioned(WriteConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Table]:
        lakebed.create(tmp_path / "table", "paimon", WRITE_SCHEMA, ["dt", "id"], options={"bucket": 3})
        return lambda: lakebed.open(tmp_path / "table")


class TestRollback(RollbackConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Table]:
        _created(tmp_path / "table")
        return lambda: lakebed.open(tmp_path / "table")


class TestChangesOurs(ChangesConformance):
    """Changes as the commits wrote them, and as snapshots differ."""

    @pytest.fixture(params=["auto", "diff"])
    def table(self, request: pytest.FixtureRequest, changed: Path) -> Table:
        return lakebed.open(changed, {"incremental-between-scan-mode": request.param})

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return ("dt", "id")


class TestChangesAppend(ChangesConformance):
    @pytest.fixture
    def table(self) -> Table:
        return lakebed.open(unpack("paimon", "append_fixed"))

    @pytest.fixture
    def key(self, table: Table) -> tuple[str, ...]:
        return tuple(table.schema.names)


class TestChangesLogged(ChangesConformance):
    """Changelog files, which a compaction writes: they lead from one compaction to the next."""

    @pytest.fixture(params=["cl_lookup", "cl_full_compaction"])
    def table(self, request: pytest.FixtureRequest) -> Table:
        return lakebed.open(unpack("paimon", request.param))

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return ("k",)

    @pytest.fixture
    def moments(self, table: Table) -> list[Instant]:
        return [instant for instant in table.history() if instant.action == "compact"]


class TestStreamOurs(StreamConformance):
    @pytest.fixture
    def table(self, changed: Path) -> Table:
        return lakebed.open(changed, {"read.start-commit": "earliest"})

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return ("dt", "id")


class TestStreamLogged(StreamConformance):
    @pytest.fixture(params=["cl_input", "cl_lookup", "cl_full_compaction"])
    def table(self, request: pytest.FixtureRequest) -> Table:
        return lakebed.open(unpack("paimon", request.param), {"read.start-commit": "earliest"})

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return ("k",)


class TestLacks(LacksConformance):
    @pytest.fixture
    def table(self) -> Table:
        return lakebed.open(unpack("paimon", "append_unaware"))

    @pytest.fixture
    def lacking(self) -> Sequence[Callable[[Table], Any]]:
        return [lambda t: t.archive()]


def _created(folder: Path) -> Table:
    return lakebed.create(folder, "paimon", WRITE_SCHEMA, ["dt", "id"], ["dt"], {"bucket": 2})


def _changed(table: Table) -> None:
    table.write(write_rows(list(range(50))))
    table.write(write_rows([3, 7, 99], text="new"), mode="upsert")
    table.write(write_rows([4]), mode="delete")
