"""Paimon tables, of the JVM's making and of ours, held to what each verb promises."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.testing.conformance import (
    WRITE_SCHEMA,
    LacksConformance,
    ReadConformance,
    RollbackConformance,
    WriteConformance,
    write_rows,
)
from tests.golden import unpack

TABLES = ("pk_fixed", "pk_dv", "append_unaware", "types_parquet", "types_pk_avro", "evolve", "me_first_row")


class TestRead(ReadConformance):
    @pytest.fixture(params=TABLES)
    def table(self, request: pytest.FixtureRequest) -> Table:
        return lakebed.open(unpack("paimon", request.param))


class TestReadOurs(ReadConformance):
    @pytest.fixture
    def table(self, tmp_path: Path) -> Table:
        table = _created(tmp_path / "table")
        table.write(write_rows(list(range(50))))
        table.write(write_rows([3, 7, 99], text="new"), mode="upsert")
        table.write(write_rows([4]), mode="delete")
        return lakebed.open(tmp_path / "table")


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


class TestLacks(LacksConformance):
    @pytest.fixture
    def table(self) -> Table:
        return lakebed.open(unpack("paimon", "append_unaware"))

    @pytest.fixture
    def lacking(self) -> Sequence[Callable[[Table], Any]]:
        return [
            lambda t: t.changes(), lambda t: t.stream(), lambda t: t.rewrite(), lambda t: t.archive(),
        ]  # fmt: skip


def _created(folder: Path) -> Table:
    return lakebed.create(folder, "paimon", WRITE_SCHEMA, ["dt", "id"], ["dt"], {"bucket": 2})
