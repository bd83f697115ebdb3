"""What Paimon writes and commits ask of an object store: few requests in a row, however long the table's history is."""

from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

import lakebed
from lakebed.verbs.table import Table
from tests.objectstore.server import Counted, StoreServer

PARTITIONS = 4
ROWS = pa.table(
    {"id": range(160), "part": [f"p{n % PARTITIONS}" for n in range(160)], "name": [f"name {n}" for n in range(160)]}
)
APPEND_STEPS, UPSERT_STEPS = 7, 10


@pytest.fixture
def new_table(store_server: StoreServer) -> Callable[..., str]:
    """Makes a table with so many commits, past the proxy, and returns its URL."""

    def new(commits: int, keyed: bool = False, **options: str) -> str:
        url = store_server.url()
        nullable = not keyed
        schema = pa.schema(
            [pa.field("id", pa.int64(), nullable), pa.field("part", pa.string(), nullable), ("name", pa.string())]
        )
        table = lakebed.create(
            url,
            schema=schema,
            format="paimon",
            primary_key=["part", "id"] if keyed else [],
            partition_by=["part"],
            options={**store_server.direct, **options},
        )
        for _ in range(commits):
            table.write(ROWS)
        return url

    return new


@pytest.fixture
def measured(store_server: StoreServer, new_table: Callable[..., str]) -> Callable[..., Counted]:
    """What a call asks for on a table of its own that was just opened."""

    def measure(
        call: Callable[[Table], object], commits: int, enough: int, options: Mapping[str, str] = {}, keyed: bool = False
    ) -> Counted:
        def opened() -> Table:
            return lakebed.open(new_table(commits, keyed, **options), store_server.options)

        return store_server.measure(call, opened, enough=enough)

    return measure


def append(table: Table) -> None:
    table.write(ROWS)


def upsert(table: Table) -> None:
    table.write(ROWS, mode="upsert")


@pytest.mark.parametrize("commits", [0, 1, 12])
def test_an_append_is_a_few_steps_whatever_came_before(measured: Callable[..., Counted], commits: int) -> None:
    counted = measured(append, commits, APPEND_STEPS)
    assert counted.steps <= APPEND_STEPS
    assert counted.kinds["PUT"] <= PARTITIONS + 3 + 3  # data files; manifest and its lists; snapshot and hints
    assert counted.requests <= PARTITIONS + 16


@pytest.mark.parametrize("buckets", [1, 4])
def test_an_upsert_writes_its_buckets_together(measured: Callable[..., Counted], buckets: int) -> None:
    counted = measured(upsert, 2, UPSERT_STEPS, {"bucket": str(buckets)}, keyed=True)
    assert counted.steps <= UPSERT_STEPS
    assert counted.kinds["PUT"] == PARTITIONS * buckets + 3 + 2


def test_an_upsert_into_dynamic_buckets(measured: Callable[..., Counted]) -> None:
    counted = measured(upsert, 2, UPSERT_STEPS + 4, keyed=True)
    assert counted.steps <= UPSERT_STEPS + 4


def test_postponed_rows_need_nothing_of_the_table(measured: Callable[..., Counted]) -> None:
    counted = measured(upsert, 2, APPEND_STEPS, {"bucket": "-2"}, keyed=True)
    assert counted.steps <= APPEND_STEPS


def test_a_new_user_reads_the_history_in_waves(measured: Callable[..., Counted]) -> None:
    def commit(table: Table) -> None:
        with table.writer(commit_user="somebody new") as writer:
            writer.write(ROWS)
            messages = writer.prepare_commit()
        writer.commit(1, messages)

    counted = measured(commit, 24, APPEND_STEPS + 3)
    assert counted.steps <= APPEND_STEPS + 3  # of 4, 16 and 4 snapshots


def test_a_user_who_has_just_committed_reads_no_history(measured: Callable[..., Counted]) -> None:
    def commits(table: Table) -> None:
        with table.writer(commit_user="somebody") as writer:
            for identifier in range(4):
                writer.write(ROWS)
                writer.commit(identifier, writer.prepare_commit())

    counted = measured(commits, 0, 1 + 4 * (APPEND_STEPS - 1))
    assert counted.steps <= 1 + 4 * (APPEND_STEPS - 1)


def test_a_lost_race_looks_again_only_at_what_changed(store_server: StoreServer, new_table: Callable[..., str]) -> None:
    def two_prepared() -> tuple[Table, Table]:
        url = new_table(2)
        return lakebed.open(url, store_server.options), lakebed.open(url, store_server.direct)

    def race(tables: tuple[Table, Table]) -> None:
        slow, fast = tables
        with slow.writer() as writer:
            writer.write(ROWS)
            messages = writer.prepare_commit()
            fast.write(ROWS)
        writer.commit(1, messages)

    counted = store_server.measure(race, two_prepared, enough=APPEND_STEPS + 2)
    assert counted.steps <= APPEND_STEPS + 2  # the hint is newer: one more look


def test_postponed_rows_are_moved_in_few_steps(store_server: StoreServer, new_table: Callable[..., str]) -> None:
    def opened() -> Table:
        return lakebed.open(new_table(3, True, bucket="-2"), store_server.options)

    counted = store_server.measure(lambda table: table.rewrite(), opened, enough=10)
    assert counted.steps <= 12
    assert counted.kinds["GET"] <= 3 * PARTITIONS + 18  # each file once


def test_a_tag(measured: Callable[..., Counted]) -> None:
    counted = measured(lambda table: table.tag("monday"), 2, 3)
    assert counted.steps <= 3
