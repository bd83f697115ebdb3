"""What went wrong for users of other Paimon writers, each as a test of its own; where another file holds it, the list
says where (numbers of apache/paimon unless another project is named).

- #8071 parallel tasks assign the same dynamic keys: test_dynamic.test_many_tasks_put_no_key_twice, and on Spark
  test_paimon_source.test_dynamic_buckets
- apache/seatunnel#8565 a second job moves keys: test_dynamic.test_keys_keep_their_bucket
- #3841 the bucket number changed without a rewrite: test_sink.test_another_bucket_number_is_refused_until_overwritten
- #8349, #5654 partitions with bucket counts of their own: test_sink.test_a_rescaled_partition_keeps_its_own_number
- #5920 a primary key without the partition column: test_create.test_refused
- #8078, #1719 an update changes the partition: test_dynamic.test_a_key_that_changes_its_partition
- #5095, #7168, #6460 postponed rows nobody sees: test_postpone, test_inspect.test_rows_that_wait
- #8985 rows one by one and all at once: here
- #5556, #9216, #9322 timestamps hashed by another precision: tests/golden/test_paimon_hash.py
- #3365 ignore-delete and the kind column: test_sink.test_ignore_delete_sees_the_kind_column
- #2471 deletes in dynamic buckets: here
- #8858 deletes in partial-update with sequence groups: here
- #4802 a compaction drops rows appended meanwhile: here
- #6137 a compaction meets a delete of its files: here
- #9269 files deleted that a retry committed: test_kinds.test_an_unknown_end_keeps_the_files_and_can_be_committed_again
- #9666, #10010 a replayed micro-batch: tests/programs/test_killed.py, test_kinds.test_a_replay_is_skipped…
- #9589, #9667 a callback lost after a crash: test_callbacks.test_a_replay_after_a_crash_calls_what_is_owed
- #5800 two tags on one snapshot: here
- #3367, #3401, #8952 messages of another version: tests/golden/test_paimon_serializers.py
- #7745 merge engines read as plain files: tests/golden/test_paimon_read.py, tests/property/test_paimon_model.py
- #4906 a number picks rows of a text column: here
- #5581, #5648 a partition is marked before its data is there, or never: here
- #6760 compaction of some partitions, from Python: here, for postponed rows
- #5874 deletion vectors switched on later: here
- #6978 expiry deletes data before the snapshot that names it: tests/crash/test_paimon_expire.py, and beside branches
  and tags test_run.test_a_branch_keeps_its_files
- ClickHouse/ClickHouse#113360 the union of all files: test_sink.test_the_last_row_of_a_key_wins
- #5883, #2675, #5442 nobody compacts append tables, or in too many tasks: test_append.test_small_files_become_one, and
  tests/golden for what becomes a task
- #8205 a restarted stream drops its position: test_stream.test_a_restarted_stream_reads_neither_twice_nor_past
- #7710 a removal of orphan files sees no live file: test_orphans.test_an_age_that_spares_no_writer…
- #3647 tags of hours without a commit: test_automatic.test_hours_without_a_commit_are_named_or_made_up_for
- reports of a table's health (apache/hudi#19262): test_inspect.test_what_holds_expiry_back_is_a_blocker, what_is_broken
- upkeep beside a running stream (apache/iceberg#7030, #4875): tests/crash/test_paimon_beside.py
- a kill at any step of upkeep (malon64/openlakeforge#173): tests/crash/test_paimon_verbs.py
- a list of deletions that is old when it is applied (renart-data/renart#113): here
"""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.callbacks import RegisterPartitions
from lakebed.errors import CommitConflictError, LakebedError, PredicateError, SchemaError
from lakebed.formats.paimon.commit import loop
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.rewrite.postpone import PostponeRewrite
from lakebed.formats.paimon.snapshot import History
from tests.tables.paimon.small import Make, contents, rows


def test_rows_one_by_one_and_all_at_once_plan_the_same_buckets(make: Make) -> None:
    some = [("a", i, "v", i) for i in range(8)]
    buckets = []
    for pieces in ([some], [[row] for row in some]):
        table = make(bucket="-1", dynamic__bucket_target__row__num="1")
        writer = table.writer()
        for piece in pieces:
            writer.write(rows(*piece))
        writer.commit(1, writer.prepare_commit())
        buckets.append(sorted(split.bucket for split in table.plan_read().splits))
    assert buckets[0] == buckets[1] == list(range(8))


def test_a_delete_goes_to_the_bucket_that_holds_the_key(make: Make) -> None:
    table = make(bucket="-1", dynamic__bucket_target__row__num="25")
    table.write(rows(*[("a", i, "v", i) for i in range(100)]))
    assert {split.bucket for split in table.plan_read().splits} == {0, 1, 2, 3}
    table.write(rows(*[("a", i, "v", i) for i in range(0, 100, 10)]), "delete")
    assert len(contents(table)) == 90


def test_a_delete_in_partial_update_never_does_nothing_and_says_nothing(make: Make) -> None:
    for more in ({}, {"fields_n_sequence__group": "v"}, {"partial__update_remove__record__on__delete": "true"}):
        table = make(merge__engine="partial-update", **more)
        table.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1)))
        try:
            table.write(rows(("a", 1, "v", 2), kinds=["-D"]))
            found = contents(table)
        except LakebedError as error:
            assert "-D" in str(error)
            continue
        assert found != [("a", 1, "v", 1), ("a", 2, "v", 1)]


def _meanwhile(monkeypatch: pytest.MonkeyPatch, act: object) -> None:
    """Let a compaction be planned, then `act` happen, then the compaction go on."""
    compact = PostponeRewrite.compact

    def after_it(self: PostponeRewrite, partition: object) -> object:
        monkeypatch.setattr(PostponeRewrite, "compact", compact)
        act()  # type: ignore[operator]
        return compact(self, partition)  # type: ignore[arg-type]

    monkeypatch.setattr(PostponeRewrite, "compact", after_it)


def test_rows_appended_during_a_compaction_stay(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(bucket="-2")
    table.write(rows(("a", 1, "v", 1)))
    _meanwhile(monkeypatch, lambda: lakebed.open(table.location).write(rows(("a", 2, "w", 2))))
    table.rewrite()
    assert contents(table) == [("a", 1, "v", 1)]
    table.rewrite()
    assert contents(table) == [("a", 1, "v", 1), ("a", 2, "w", 2)]


def test_a_compaction_whose_files_are_gone_is_one_clean_conflict(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(bucket="-2")
    table.write(rows(("a", 1, "v", 1)))
    _meanwhile(monkeypatch, lambda: lakebed.open(table.location).write(rows(("a", 2, "w", 2)), "overwrite"))
    with pytest.raises(CommitConflictError):
        table.rewrite()
    assert not list(Path(table.location).glob("dt=a/bucket-0/*"))
    table.rewrite()
    assert contents(table) == [("a", 2, "w", 2)]


def test_two_tags_on_one_snapshot_stop_no_commit(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.tag("daily")
    table.tag("monthly")
    table.write(rows(("a", 1, "w", 2)))
    for name in ("daily", "monthly"):
        assert contents(table, as_of=f"tag:{name}") == [("a", 1, "v", 1)]


def test_deletion_vectors_switched_on_later_hide_no_merge(make: Make) -> None:
    table = make(bucket="1")
    for version in range(6):
        table.write(rows(("a", 1, f"v{version}", version)))
    folder = Path(table.location) / "schema"
    schema = json.loads((folder / "schema-0").read_text("utf-8"))
    schema["id"], schema["options"]["deletion-vectors.enabled"] = 1, "true"
    (folder / "schema-1").write_text(json.dumps(schema), "utf-8")
    assert contents(lakebed.open(table.location)) == [("a", 1, "v5", 5)]


def test_a_number_picks_no_rows_of_a_text_column(make: Make) -> None:
    table = make()
    table.write(rows(*((name, 1, name, 1) for name in ("1", "2", "a", "b"))))
    before = contents(table)
    for where in ("dt = 2", "v = 2", "v in (1, 2)"):
        with pytest.raises(PredicateError, match="put it in quotes"):
            table.read(where=where)
    with pytest.raises(SchemaError, match="Cast it to string"):
        table.write(pa.table({"dt": [2], "id": [1]}), "delete")
    assert contents(table) == before
    assert [row[0] for row in contents(table, where="v = '2'")] == ["2"]
    table.write(pa.table({"dt": ["2"], "id": [1]}), "delete")
    assert [row[0] for row in contents(table)] == ["1", "a", "b"]


@pytest.mark.parametrize("landed", [False, True])
def test_a_partition_is_registered_when_its_commit_is_there(
    make: Make, tmp_path: Path, landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    claim = loop.claim_snapshot

    def die(*given: Any) -> None:
        if landed:
            claim(*given)
        raise Killed

    table, database = make(), tmp_path / "partitions.sqlite"

    def commit() -> None:
        writer = table.writer("job", callbacks=[RegisterPartitions(lambda: sqlite3.connect(database))])
        writer.write(rows(("a", 1, "v", 1)))
        writer.commit(1, writer.prepare_commit())

    def registered() -> list[Any]:
        with sqlite3.connect(database) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'lakebed_partitions'").fetchall():
                return []
            return connection.execute("SELECT partition, snapshot_id FROM lakebed_partitions").fetchall()

    with monkeypatch.context() as patch:
        patch.setattr(loop, "claim_snapshot", die)
        with pytest.raises(Killed):
            commit()
    assert registered() == []
    commit()  # the job starts again, with the identifier that it had
    assert registered() == [('{"dt": "a"}', 1)]
    assert len(table.history()) == 1


@pytest.mark.slow
def test_a_compaction_touches_the_partitions_that_were_asked_for(tmp_path: Path) -> None:
    schema = pa.schema([("day", pa.int32()), ("hour", pa.int32()), ("id", pa.int64()), ("v", pa.string())])
    keys = ["day", "hour", "id"]
    table = lakebed.create(tmp_path / "t", "paimon", schema, keys, ["day", "hour"], {"bucket": "-2"})
    for version in range(3):
        made = [(day, hour, 1, f"v{version}") for day in range(1, 8) for hour in range(4)]
        table.write(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in made], schema=schema))
    waiting = {file for file in table.store.walk() if "bucket-postpone" in file.path}
    planned = table.rewrite(where="day >= 5", dry_run=True)
    done = table.rewrite(where="day >= 5")
    assert (planned.groups, done.groups) == (12, 12)
    assert {(row[0], row[3]) for row in contents(table)} == {(5, "v2"), (6, "v2"), (7, "v2")}
    files = live_files(table.store, History(table.store).latest())
    postponed = [entry.file.file_name for entry in files if entry.bucket == -2]
    assert sorted(postponed) == sorted(file.name for file in waiting if int(file.path[4]) < 5)
    assert not table.rewrite(where="day >= 5", dry_run=True).groups


def test_a_file_that_becomes_live_after_it_was_listed_for_deletion_stays(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    writer = table.writer("job")
    writer.write(rows(("a", 2, "w", 2)))
    messages = writer.prepare_commit()
    stray = Path(table.location) / "dt=a" / "bucket-0" / "data-0-0.parquet"
    stray.write_bytes(b"left")
    for path in Path(table.location).rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    orphans = {"lakebed.expire.what": "orphan-files"}
    listed = {*table.expire(dry_run=True, options=orphans).deleted_files}
    assert len(listed) == 2
    writer.commit(1, messages)
    assert [*table.expire(options=orphans).deleted_files] == [f"dt=a/bucket-0/{stray.name}"]
    assert contents(table) == [("a", 1, "v", 1), ("a", 2, "w", 2)]
