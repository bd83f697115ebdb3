"""Dynamic and postponed buckets: no key in two buckets, whatever the tasks, and rows that move between partitions."""

import datetime
import itertools
import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.read.plan import ReadRequest, plan_snapshot
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.table import PaimonTable
from lakebed.formats.paimon.write.hash_dynamic import DynamicSettings, PartitionIndex
from lakebed.formats.paimon.write.key_dynamic import KeyAssigner
from lakebed.verbs.write import Mode
from tests.tables.paimon.small import Make, contents, rows

SMALL = {"bucket": "-1", "dynamic__bucket_target__row__num": "30"}


def buckets(table: lakebed.Table) -> dict[Any, int]:
    """The bucket of each live key, level 0 included; a key in two buckets fails."""
    schema = table.table_schema  # type: ignore[attr-defined]
    history = History(table.store)
    request = ReadRequest(history, schema, table._options(schema), schema.names)  # type: ignore[attr-defined]
    plan = plan_snapshot(request, history.latest(), level_0=True)
    found: dict[Any, int] = {}
    for split in plan.splits:
        for batch in plan.read(split):
            for row in batch.select(list(schema.primary_keys)).to_pylist():
                key = tuple(row.values())
                assert key not in found
                found[key] = split.bucket
    return found


hashes = st.integers(-4, 4) | st.integers(-(2**31), 2**31 - 1)


@pytest.mark.slow
@given(st.lists(st.lists(hashes, max_size=40), max_size=6), st.lists(hashes, unique=True, max_size=300))
def test_hashes_one_by_one_and_all_at_once_get_the_same_buckets(batches: list[list[int]], had: list[int]) -> None:
    """Whether the index is sorted whole or only what is near the asked ones."""
    target = 7
    model = {key: place // target for place, key in enumerate(had)}
    counts = {bucket: sum(b == bucket for b in model.values()) for bucket in set(model.values())}
    index = PartitionIndex(np.array(had, np.int32), np.array([*model.values()], np.int32), dict(counts))
    for batch in batches:
        fresh = []
        for key in batch:
            if key not in model:
                bucket = next(b for b in itertools.count() if counts.get(b, 0) < target)
                model[key], counts[bucket] = bucket, counts.get(bucket, 0) + 1
                fresh.append(key)
        found, new, places = index.assign(np.array(batch, np.int32), 0, DynamicSettings(target, -1, 1, 1))
        assert found.tolist() == [model[key] for key in batch]
        assert new.tolist() == fresh
        assert places.tolist() == [model[key] for key in fresh]


@pytest.mark.slow
def test_keys_keep_their_bucket(make: Make) -> None:
    table = make(**SMALL)
    table.write(rows(*(("a", i, "v", 1) for i in range(300))))
    before = buckets(table)
    assert set(before.values()) == set(range(10))
    table.write(rows(*(("a", i, "w", 2) for i in range(300))))
    assert buckets(table) == before
    assert {row[2] for row in contents(table)} == {"w"}
    table.write(rows(*(("a", i, "", 0) for i in range(0, 300, 30)), kinds=["-D"] * 10))
    assert len(contents(table)) == 290


@pytest.mark.slow
@pytest.mark.parametrize("key", [("dt", "id"), ("id",)], ids=["HASH_DYNAMIC", "KEY_DYNAMIC"])
def test_many_tasks_put_no_key_twice(make: Make, key: tuple[str, ...]) -> None:
    table = make(primary_key=key, **SMALL)
    for turn, tasks in enumerate((3, 4, 2)):
        sink = table.sink(Mode.UPSERT)
        (batch,) = rows(
            *((f"p{random.randrange(2)}", random.randrange(400), "v", turn) for _ in range(300))
        ).to_batches()
        plan = sink.plan(tasks)
        assert plan.routing is not None
        channels = plan.routing.channels(batch).to_pylist()
        copy = pickle.dumps(plan)
        messages = []
        for channel in range(tasks):
            writer = pickle.loads(copy).task_writer()
            writer.write(batch.filter(pa.array([c == channel for c in channels])))
            messages += writer.finish()
        sink.commit(turn, messages)
        last = {}
        for row in batch.to_pylist():
            last[tuple(row[name] for name in key)] = row
        now = {tuple(row[name] for name in key): row for row in table.read().read_all().to_pylist()}
        assert len(now) == table.read().read_all().num_rows
        assert {k: now[k] for k in last} == last
        buckets(table)


@pytest.mark.parametrize("key", [("dt", "id"), ("id",)], ids=["HASH_DYNAMIC", "KEY_DYNAMIC"])
def test_a_second_job_is_refused(make: Make, key: tuple[str, ...]) -> None:
    table = make(primary_key=key, **SMALL)
    table.write(rows(("a", 1, "v", 1)))
    slow = table.writer("slow")
    slow.write(rows(("a", 2, "slow", 1)))
    messages = slow.prepare_commit()
    table.write(rows(("a", 2, "fast", 1)))
    with pytest.raises(CommitConflictError, match="dynamic buckets"):
        slow.commit(1, messages)
    assert contents(table) == [("a", 1, "v", 1), ("a", 2, "fast", 1)]


@pytest.mark.parametrize("key", [("dt", "id"), ("id",)], ids=["HASH_DYNAMIC", "KEY_DYNAMIC"])
def test_a_second_writer_of_the_same_user_is_refused_too(make: Make, key: tuple[str, ...]) -> None:
    """It does not know the keys that the first one has prepared."""
    table = make(primary_key=key, **{**SMALL, "dynamic__bucket_target__row__num": "1"})
    first, second = table.writer("job"), table.writer("job")
    first.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1)))
    second.write(rows(("b", 1, "w", 2), ("a", 2, "w", 2)))
    commits = {1: first.prepare_commit(), 2: second.prepare_commit()}
    with pytest.raises(CommitConflictError, match="another writer of this user wrote to the same dynamic buckets"):
        table.writer("job").filter_and_commit(commits)
    assert contents(table) == [("a", 1, "v", 1), ("a", 2, "v", 1)]
    third = table.writer("job")
    third.write(rows(("a", 2, "x", 3)))
    third.commit(2, third.prepare_commit())
    assert len(buckets(table)) == 2


@pytest.mark.parametrize("key", [("dt", "id"), ("id",)], ids=["HASH_DYNAMIC", "KEY_DYNAMIC"])
def test_a_writer_goes_on_after_snapshots_of_its_user_that_add_no_rows(make: Make, key: tuple[str, ...]) -> None:
    """Its own commits without rows, and the removal of old partitions after them."""
    expiry = {
        "partition_expiration__time": "100 d",
        "partition_expiration__check__interval": "1 ms",
        "partition_timestamp__formatter": "yyyy-MM-dd",
    }
    table = make(primary_key=key, **SMALL, **expiry)
    writer, today = table.writer("job"), datetime.date.today().isoformat()
    writer.write(rows((today, 1, "v", 1), ("2020-01-01", 2, "v", 1)))
    writer.commit(1, writer.prepare_commit())
    writer.commit(2, [])
    writer.write(rows((today, 1, "w", 2), (today, 2, "w", 2)))
    writer.commit(3, writer.prepare_commit())
    assert "overwrite" in [snapshot.action for snapshot in table.history()]
    assert contents(table) == [(today, 1, "w", 2), (today, 2, "w", 2)]
    assert len(buckets(table)) >= 2


def test_one_writer_may_prepare_many_commits(make: Make) -> None:
    for key in (("dt", "id"), ("id",)):
        table = make(primary_key=key, **SMALL)
        writer = table.writer("u")
        commits = {}
        for turn in range(3):
            writer.write(rows(*(("a", i, f"v{turn}", 1) for i in range(turn * 20, turn * 20 + 50))))
            commits[turn] = writer.prepare_commit()
        assert writer.filter_and_commit(commits) == 3
        assert len(buckets(table)) == 90
        assert len(contents(table)) == 90


@pytest.mark.slow
@pytest.mark.parametrize("grows", [True, False])
def test_a_first_write_holds_an_eighth_of_a_buffer_while_it_looks_up(
    make: Make, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[int] = []
    assign = KeyAssigner.assign

    def watched(self: KeyAssigner, batch: pa.Table, kinds: Any) -> Any:
        looked_up.append(batch.nbytes)
        return assign(self, batch, kinds)

    monkeypatch.setattr(KeyAssigner, "assign", watched)
    table = make(primary_key=("id",), write__buffer__size="80 kb", bucket="-1")
    ids = list(range(6000))
    random.Random(3).shuffle(ids)
    ids = sorted(ids) if grows else ids
    data = rows(*((f"p{turn}", i, "v", turn) for turn in range(2) for i in ids))
    table.write(pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=50)))
    assert len(looked_up) > 8
    assert max(looked_up) < 12_000
    assert sorted(contents(table)) == [("p1", i, "v", 1) for i in range(6000)]
    assert len(live_files(table.store, History(table.store).latest())) == 2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
def test_a_key_that_changes_its_partition(make: Make, engine: str) -> None:
    random.seed(7)
    table = make(primary_key=("id",), merge__engine=engine, **SMALL)
    model: dict[int, tuple[Any, ...]] = {}
    for turn in range(6):
        batch = [(f"p{random.randrange(3)}", random.randrange(60), f"v{turn}-{n}", n) for n in range(50)]
        kinds = ["-D" if engine == "deduplicate" and random.random() < 0.1 else "+I" for _ in batch]
        table.write(rows(*batch, kinds=kinds))
        for row, kind in zip(batch, kinds, strict=True):
            key = row[1]
            if kind == "-D":
                model.pop(key, None)
            elif engine == "deduplicate":
                model[key] = row
            elif engine == "first-row":
                model.setdefault(key, row)
            else:
                model[key] = (model[key][0], *row[1:]) if key in model else row
    assert len(buckets(table)) == len(model)
    if engine != "first-row":  # its rows wait in level 0 for a compaction
        assert contents(table) == sorted(model.values(), key=repr)


def test_postponed_rows_wait_for_a_compaction(make: Make) -> None:
    table = make(bucket="-2")
    table.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1), ("a", 1, "w", 2)))
    assert contents(table) == []
    (entry,) = live_files(table.store, History(table.store).latest())
    assert (entry.bucket, entry.total_buckets, entry.file.row_count) == (-2, -2, 3)
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (-1, -1)
    assert entry.file.file_name.startswith("data--u-")


def test_fewer_tasks_may_assign_than_there_are(make: Make) -> None:
    table = make(bucket="-1", dynamic__bucket_assigner__parallelism="2")
    assert isinstance(table, PaimonTable)
    batch = rows(*[("a", i, "v", i) for i in range(50)]).to_batches()[0]
    routing = table.sink().plan(8).routing
    assert routing is not None
    assert len(set(routing.channels(batch).to_pylist())) == 2
