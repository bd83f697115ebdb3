"""Hudi tables of every kind, held to what each verb promises."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

import lakebed
from lakebed import Table
from lakebed.formats.hudi.layout import META_COLUMNS
from lakebed.model.instant import Instant
from lakebed.testing.conformance import (
    ChangesConformance,
    ReadConformance,
    RollbackConformance,
    StreamConformance,
    WriteConformance,
)
from lakebed.testing.conformance.write import WRITE_SCHEMA
from tests.golden import unpack
from tests.tables.hudi.fresh import KINDS

TABLES = ("mor_v6", "mor_v8", "mor_v9", "cow_v6", "evo_v8", "mor_bucket_v6", "merge_event_v9", "cow_nonpart_v8")
KEY = ("_hoodie_partition_path", "_hoodie_record_key")
WRITES = ("commit", "deltacommit", "replacecommit")


@pytest.fixture(params=TABLES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


class TestRead(ReadConformance):
    @pytest.fixture
    def table(self, name: str) -> Table:
        return lakebed.open(unpack("hudi", name))


@functools.cache
def readable_moments(location: str) -> list[Instant]:
    """Completed writes as of which the cleaner left a golden table readable, in the order of ranges, the newest few."""
    table = lakebed.open(location)

    def readable(instant: Instant) -> bool:
        try:
            table.read(as_of=instant).read_all()
        except lakebed.errors.DataCleanedError:
            return False
        return True

    writes = [i for i in table.history() if i.action in WRITES and i.state == "completed" and readable(i)]
    return sorted(writes, key=lambda instant: instant.completed or instant.time)[-4:]


# The engine that wrote some of these tables cleaned files that a delete needs, and a read says so.
@pytest.mark.filterwarnings("ignore:deletes of:lakebed.errors.ReadWarning")
class TestChanges(ChangesConformance):
    @pytest.fixture(params=("mor_v6", "mor_v8", "mor_v9", "mor_bucket_v8", "merge_event_v9"))
    def table(self, request: pytest.FixtureRequest) -> Table:
        return lakebed.open(unpack("hudi", request.param))

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return KEY

    @pytest.fixture
    def moments(self, table: Table) -> list[Instant]:
        return readable_moments(table.location)


class TestFullChanges(ChangesConformance):
    """With the row before and after each commit; `_hoodie_commit_time` is that of the change."""

    @pytest.fixture(params=("cdc_cow_v6", "cdc_mor_v9", "mor_bucket_v8", "merge_event_v9"))
    def table(self, request: pytest.FixtureRequest) -> Table:
        return lakebed.open(unpack("hudi", request.param), {"cdc.enabled": True})

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return KEY

    @pytest.fixture
    def bookkeeping(self) -> tuple[str, ...]:
        return ("_hoodie_commit_seqno", "_hoodie_file_name")

    @pytest.fixture
    def moments(self, table: Table) -> list[Instant]:
        return readable_moments(table.location)


class TestFullStream(StreamConformance):
    @pytest.fixture(params=("cdc_cow_v8", "cdc_mor_v9", "mor_rollback_v6"))
    def table(self, request: pytest.FixtureRequest) -> Table:
        folder = unpack("hudi", request.param)
        first = next(i for i in lakebed.open(folder).history() if i.action in WRITES and i.state == "completed")
        return lakebed.open(folder, {"read.start-commit": first.time, "cdc.enabled": True})

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return KEY

    @pytest.fixture
    def bookkeeping(self) -> tuple[str, ...]:
        return ("_hoodie_commit_seqno", "_hoodie_file_name")


class TestStream(StreamConformance):
    @pytest.fixture(params=("mor_bucket_v6", "mor_logonly_v8", "mor_rollback_v6", "mor_rollback_v8", "evo_v8"))
    def table(self, request: pytest.FixtureRequest) -> Table:
        folder = unpack("hudi", request.param)
        first = next(i for i in lakebed.open(folder).history() if i.action in WRITES and i.state == "completed")
        return lakebed.open(folder, {"read.start-commit": first.time})

    @pytest.fixture
    def key(self) -> tuple[str, ...]:
        return KEY


class TestRollback(RollbackConformance):
    @pytest.fixture(params=KINDS, ids=[f"v{version}-{kind.lower()}" for version, kind in KINDS])
    def make(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Table]:
        return created(tmp_path / "t", *request.param)


class TestWrite(WriteConformance):
    append_replaces = False
    bookkeeping = META_COLUMNS

    @pytest.fixture(params=KINDS, ids=[f"v{version}-{kind.lower()}" for version, kind in KINDS])
    def make(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Table]:
        return created(tmp_path / "t", *request.param)


def created(folder: Path, version: int, kind: str) -> Callable[[], Table]:
    """Opens a table, which the first call creates."""

    def opened() -> Table:
        if not folder.exists():
            options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
            return lakebed.create(folder, "hudi", WRITE_SCHEMA, ["id"], ["dt"], options)
        return lakebed.open(folder)

    return opened
