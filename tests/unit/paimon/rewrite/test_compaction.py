"""Compaction of tables with a primary key: what is taken, what is moved and what is rewritten, inside writes and
beside them."""

import datetime
import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CommitConflictError, DataCleanedError, OptionError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.rewrite import few_runs
from lakebed.formats.paimon.rewrite.inline import InlineCompaction
from lakebed.formats.paimon.rewrite.task import BucketCompactor
from lakebed.formats.paimon.rewrite.universal import Pick, UniversalPicker
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.table import PaimonTable
from lakebed.formats.paimon.write.sink import PaimonSink
from lakebed.kernel import clock
from lakebed.kernel.engine import LocalEngine
from tests.tables.paimon.small import Make, contents, rows

DAY = 86_400


def files(table: lakebed.Table) -> list[DataFileMeta]:
    return [entry.file for entry in live_files(table.store, History(table.store).latest())]


def levels(table: lakebed.Table) -> list[int]:
    return sorted(file.level for file in files(table))


def kinds(table: lakebed.Table) -> list[str]:
    return [instant.action for instant in table.history()]


class Run:
    def __init__(self, level: int, size: int) -> None:
        self.level, self.size = level, size


# ---- picking ----


def picker(**given: Any) -> UniversalPicker:
    return UniversalPicker.of(
        opt.table_options({}, {key.replace("__", "-").replace("_", "."): value for key, value in given.items()}), False
    )


def test_an_interval_and_a_size_make_whole_compactions() -> None:
    runs = [Run(0, 10), Run(5, 1000)]
    timed = picker(compaction_optimization__interval="1 min")
    assert timed.pick(6, runs, None) == Pick(2, 5, "not compacted whole for 60000 ms")
    assert timed.pick(6, runs, 60_001) is not None
    assert timed.pick(6, runs, 60_000) is None
    assert timed.pick(6, runs[1:], None) is None
    small = picker(compaction_total__size__threshold="1 kb")
    assert small.pick(6, runs) == Pick(2, 5, "fewer than 1024 bytes")
    assert small.pick(6, [Run(0, 30), Run(5, 1000)]) is None


def test_the_off_peak_ratio_holds_in_its_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "compaction.offpeak-ratio": "50",
        "compaction.offpeak.start.hour": "22",
        "compaction.offpeak.end.hour": "6",
    }
    for hour, ratio in ((23, 51), (3, 51), (6, 1), (12, 1), (22, 51)):
        monkeypatch.setattr(clock, "now", lambda hour=hour: datetime.datetime(2026, 1, 1, hour).timestamp())
        assert UniversalPicker.of(opt.table_options({}, given), False).ratio == ratio


def test_gentle_tables_let_level_0_wait() -> None:
    options = opt.table_options({}, {"lookup-compact": "GENTLE", "num-sorted-run.compaction-trigger": "30"})
    rules = UniversalPicker.of(options, True)
    runs = [Run(0, 1)] * 29
    assert rules.pick(31, runs) is None
    assert (
        UniversalPicker.of(
            opt.table_options({}, {"lookup-compact": "gentle", "lookup-compact.max-interval": "6"}), True
        ).level_0_waits
        == 5
    )


# ---- rewrite ----


def test_the_dry_run_says_what_and_why(make: Make) -> None:
    table = make(bucket="1", write__only="true")
    for turn in range(3):
        table.write(rows(("a", turn, f"v{turn}", turn), ("a", 9, f"v{turn}", turn)))
    table.write(rows(("b", 1, "v", 1)))
    planned = table.rewrite(dry_run=True)
    assert (planned.dry_run, planned.files_before, planned.files_after, planned.groups) == (True, 4, 2, 2)
    first, second = planned.plan
    assert (first.what, first.files, first.files_after) == ("dt=a/bucket-0", 3, 1)
    assert first.reason == "full compaction: 3 files of level 0 go to level 5"
    assert second.reason == "full compaction: 1 file of level 0 goes to level 5, and only changes its level"
    assert levels(table) == [0, 0, 0, 0]
    assert table.rewrite(where="dt = 'a'").groups == 1
    assert levels(table) == [0, 5]
    with pytest.raises(UsageError, match="names id"):
        table.rewrite(where="id = 1")
    done = table.rewrite()
    assert (done.groups, [left.reason for left in done.skipped]) == (
        1,
        ["its only file is in the highest level, without deleted or expired rows"],
    )
    assert table.rewrite().instants == ()
    assert kinds(table) == ["append"] * 4 + ["compact"] * 2
    assert len(contents(table)) == 5


def test_options_of_a_rewrite(make: Make) -> None:
    table = make(bucket="1", write__only="true")
    table.write(rows(("a", 1, "v", 1)))
    assert table.rewrite(options={"compact_strategy": "minor"}).skipped[0].reason.startswith("no rule of universal")
    with pytest.raises(OptionError, match="compact_strategy"):
        table.rewrite(options={"compact_strateg": "minor"})
    with pytest.raises(OptionError, match="full, minor"):
        table.rewrite(options={"compact_strategy": "half"})
    assert table.rewrite(options={"compact_strategy": "minor", "compaction.force-up-level-0": True}).groups == 1
    assert levels(table) == [5]


def test_large_files_move_and_small_ones_beside_them_are_joined(make: Make) -> None:
    """A file of at least 7/10 of the target size that overlaps no other only changes its level."""
    table = make(bucket="1", write__only="true", metadata_stats__mode="none")
    texts = {
        span: [f"{n * 7919 % 1000003}-{n * 104729 % 1000003}" for n in span]
        for span in (range(2000), range(3000, 3010), range(4000, 6000))
    }
    for span, words in texts.items():
        table.write(rows(*(("a", n, word, n) for n, word in zip(span, words, strict=True))))
    before = {file.file_name: file for file in files(table)}
    size = min(file.file_size for file in before.values() if file.row_count == 2000)
    table.rewrite(options={"target-file-size": f"{size} b"})
    after = {file.file_name: file for file in files(table)}
    assert levels(table) == [5, 5, 5]
    moved = before.keys() & after.keys()
    assert len(moved) == 3, "each of them alone: even the small one is beside no file that is rewritten"
    table.write(rows(("a", 3005, "new", 1)))
    table.rewrite(options={"target-file-size": f"{size} b"})
    left = {file.file_name for file in files(table)}
    assert len(left & moved) == 2
    assert len(contents(table)) == 4010


def test_deletes_go_only_where_nothing_older_is_left(make: Make) -> None:
    table = make(bucket="1", write__only="true", num__levels="4")
    table.write(rows(*(("a", n, "old", n) for n in range(2000))))
    table.rewrite()
    table.write(rows(("a", 1, None, None), ("a", 2, "new", 2), kinds=["-D", "+I"]))
    table.rewrite(options={"compact_strategy": "minor", "compaction.force-up-level-0": "true"})
    assert [(file.level, file.delete_row_count) for file in files(table)] == [(3, 0), (2, 1)]
    assert len(contents(table)) == 1999
    table.rewrite()
    assert [(file.level, file.delete_row_count, file.row_count) for file in files(table)] == [(3, 0, 1999)]


def test_each_level_has_its_format(make: Make) -> None:
    table = make(
        bucket="1", file_format="orc", file_format_per_level="0:avro,5:parquet", file_compression_per_level="5:snappy",
        metadata_stats__mode_per_level="5:none",
    )  # fmt: skip
    for turn in range(2):
        table.write(rows(("a", 1, f"v{turn}", 1)))
    assert {Path(file.file_name).suffix for file in files(table)} == {".avro"}
    table.rewrite()
    (only,) = files(table)
    path = next(Path(table.location).rglob(only.file_name))
    assert path.suffix == ".parquet"
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "SNAPPY"
    assert only.value_stats.null_counts in ((), (None,) * 4)
    assert contents(table) == [("a", 1, "v1", 1)]


def test_two_rewrites_of_the_same_files(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(bucket="1", write__only="true")
    for turn in range(2):
        table.write(rows(("a", 1, f"v{turn}", 1)))
    compact = BucketCompactor.__call__

    def with_another(self: BucketCompactor, task: Any) -> Any:
        monkeypatch.setattr(BucketCompactor, "__call__", compact)
        lakebed.open(table.location).rewrite()
        return compact(self, task)

    monkeypatch.setattr(BucketCompactor, "__call__", with_another)
    with pytest.raises(CommitConflictError, match="stands in the way"):
        table.rewrite()
    assert contents(table) == [("a", 1, "v1", 1)]
    assert len(list(Path(table.location).rglob("data-*"))) == 3


def test_files_that_another_rewrite_replaced_and_that_expired(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(bucket="1", write__only="true")
    for turn in range(2):
        table.write(rows(("a", 1, f"v{turn}", 1)))
    compact = BucketCompactor.__call__

    def with_another(self: BucketCompactor, task: Any) -> Any:
        monkeypatch.setattr(BucketCompactor, "__call__", compact)
        lakebed.open(table.location).rewrite()
        table.expire(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
        return compact(self, task)

    monkeypatch.setattr(BucketCompactor, "__call__", with_another)
    with pytest.raises(CommitConflictError, match="replaced files of this compaction"):
        table.rewrite()
    assert contents(table) == [("a", 1, "v1", 1)]


def test_a_file_that_is_lost_is_no_conflict(make: Make) -> None:
    table = make(bucket="1", write__only="true")
    for turn in range(2):
        table.write(rows(("a", 1, f"v{turn}", 1)))
    next(Path(table.location).rglob("data-*")).unlink()
    with pytest.raises(DataCleanedError, match="a data file is gone"):
        table.rewrite()


@pytest.mark.parametrize("failing", [0, 1])
def test_a_task_that_fails_leaves_nothing(make: Make, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    table = make(write__only="true")
    for turn in range(2):
        table.write(rows(*(("a", n, f"v{turn}", 1) for n in range(10))))
    compact, other_is_done = BucketCompactor.__call__, threading.Event()

    def one_fails(self: BucketCompactor, task: Any) -> Any:
        if task.bucket == failing:
            assert other_is_done.wait(60)
            raise OSError("no more")
        done = compact(self, task)
        other_is_done.set()
        return done

    monkeypatch.setattr(BucketCompactor, "__call__", one_fails)
    with pytest.raises(OSError, match="no more"):
        table.rewrite(engine=LocalEngine(2))
    assert len(list(Path(table.location).rglob("data-*"))) == 4


def test_tasks_travel(make: Make) -> None:
    class Elsewhere(LocalEngine):
        def map(self, fn: Any, tasks: Any) -> Iterator[Any]:
            for task in tasks:
                yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(fn))(pickle.loads(pickle.dumps(task)))))

    table = make(write__only="true", deletion__vectors_enabled="true")
    for turn in range(2):
        table.write(rows(*(("a", n, f"v{turn}", 1) for n in range(10))))
    assert table.rewrite(engine=Elsewhere()).groups == 2
    assert [row[2] for row in contents(table)] == ["v1"] * 10


def test_options_that_exclude_each_other(make: Make) -> None:
    with pytest.raises(OptionError, match="first-row never deletes"):
        make(merge__engine="first-row", deletion__vectors_enabled="true")
    with pytest.raises(OptionError, match="none, input or lookup"):
        make(changelog__producer="full-compaction", deletion__vectors_enabled="true")
    table = make(merge__engine="first-row")
    for act in (lambda **how: table.write(rows(("a", 1, "v", 1)), **how), table.rewrite):
        with pytest.raises(OptionError, match="first-row never deletes"):
            act(options={"deletion-vectors.enabled": True})
    assert table.history() == []


# ---- rows that expire ----


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.timestamp("ms"), pa.timestamp("us", "UTC")])
def test_rows_expire_in_compactions(tmp_path: Path, kind: pa.DataType) -> None:
    now = int(clock.now())
    times = [now - 10 * DAY, now - DAY, None]
    per_second = {"ms": 1000, "us": 10**6}[kind.unit] if pa.types.is_timestamp(kind) else 1
    seconds = pa.array([None if at is None else at * per_second for at in times], pa.int64())
    data = pa.table({"k": pa.array([1, 2, 3]), "at": seconds.cast(kind)})
    schema = pa.schema([pa.field("k", pa.int64(), False), ("at", kind)])
    options = {"bucket": "1", "record-level.expire-time": "3 d", "record-level.time-field": "at", "write-only": "true"}
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["k"], options=options)
    table.write(data)
    assert len(table.read().read_all()) == 3
    table.rewrite()
    assert table.read().read_all()["k"].to_pylist() == [2, 3]
    assert table.rewrite().groups == 0
    later = {"record-level.expire-time": "1 h"}
    assert "expired rows" in table.rewrite(options=later, dry_run=True).plan[0].reason
    table.rewrite(options=later)
    assert table.read().read_all()["k"].to_pylist() == [3]
    with pytest.raises(OptionError, match="time-field"):
        table.rewrite(options={"record-level.time-field": "nothing"})


# ---- inside writes ----


def test_every_fifth_run_is_compacted_with_its_commit(make: Make) -> None:
    table = make(bucket="1")
    for turn in range(5):
        assert table.write(rows(("a", turn, "v", 1), ("a", 9, f"v{turn}", 1))).notes == ()
    assert kinds(table) == ["append"] * 5 + ["compact"]
    *_, written, compacted = table.history()
    assert written.summary["commit_identifier"] == compacted.summary["commit_identifier"]
    assert levels(table) == [5]
    assert [row[2] for row in contents(table)] == ["v"] * 5 + ["v4"]
    alone = make(bucket="1", write__only="true")
    for turn in range(7):
        alone.write(rows(("a", turn, "v", 1)))
    assert levels(alone) == [0] * 7


def test_a_write_that_compacts_nothing_reads_nothing_more(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(bucket="1")
    monkeypatch.setattr(InlineCompaction, "_tasks", lambda *_: pytest.fail("it looked"))
    for turn in range(4):
        table.write(rows(("a", turn, "v", 1)))


def test_what_is_prepared_and_not_committed_is_left_alone(make: Make) -> None:
    """A delete of a later batch is not dropped while an earlier batch, which has the row, is not committed."""
    table = make(bucket="1", num__sorted__run_compaction__trigger="1")
    writer = table.writer("job")
    batches: list[list[Any]] = []
    for data in (rows(("a", 1, "v", 1), ("a", 2, "v", 1)), rows(("a", 1, None, None), kinds=["-D"])):
        writer.write(data)
        batches.append(writer.prepare_commit())
    assert not any(message.compact_before for message in batches[1])
    writer.commit(1, batches[0])
    writer.commit(2, batches[1])
    assert contents(table) == [("a", 2, "v", 1)]
    writer.write(rows(("a", 3, "v", 1)))
    writer.commit(3, writer.prepare_commit())
    assert levels(table) == [1]
    assert contents(table) == [("a", 2, "v", 1), ("a", 3, "v", 1)]


def test_an_overwrite_compacts_only_what_it_wrote(make: Make) -> None:
    table = make(bucket="1", merge__engine="first-row")
    table.write(rows(("a", 1, "old", 1), ("b", 1, "old", 1)))
    table.write(rows(("a", 1, "new", 1)), mode="overwrite")
    assert contents(table) == [("a", 1, "new", 1), ("b", 1, "old", 1)]
    assert kinds(table)[-2:] == ["overwrite", "compact"]


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_rows_of_looked_up_tables_are_there_at_once(make: Make, bucket: str) -> None:
    for options in ({"merge__engine": "first-row"}, {"deletion__vectors_enabled": "true"}):
        table = make(bucket=bucket, **options)
        for turn in range(3):
            assert table.write(rows(("a", 1, f"v{turn}", 1), ("b", turn, "v", 1))).notes == ()
        assert contents(table)[0][2] == ("v0" if "merge__engine" in options else "v2")
        assert 0 not in levels(table)


def test_older_rows_count_once(make: Make) -> None:
    """A row that was merged with older ones in a compaction is not merged with them again."""
    table = make(
        bucket="1", merge__engine="aggregation", fields_n_aggregate__function="sum", changelog__producer="lookup",
    )  # fmt: skip
    table.write(rows(*(("a", n, "v", 1) for n in range(500))))
    for _ in range(3):
        table.write(rows(("a", 7, "v", 10)))
    assert len({*levels(table)}) > 1
    assert [row[3] for row in contents(table) if row[1] in (6, 7)] == [1, 31]
    lakebed.open(table.location, {"write-only": "true"}).write(rows(("a", 7, "v", 100)))
    assert [row[3] for row in contents(table) if row[1] == 7] == [131]
    table.rewrite()
    assert [row[3] for row in contents(table) if row[1] == 7] == [131]


def test_all_buckets_are_compacted_after_so_many_commits(make: Make) -> None:
    table = make(bucket="1", full__compaction_delta__commits="3")
    table.write(rows(("a", 1, "v", 1)))
    table.write(rows(("b", 1, "v", 1)))
    assert levels(table) == [0, 0]
    table.write(rows(("b", 1, "w", 1)))
    assert sorted((file.level, file.row_count) for file in files(table)) == [(0, 1), (0, 1), (5, 1)]
    table.write(rows(("c", 1, "v", 1)))
    assert levels(table) == [0, 5, 5]
    every = make(bucket="1", full__compaction_delta__commits="1")
    for turn in range(2):
        every.write(rows(("a", 1, f"v{turn}", 1)))
        assert levels(every) == [5]


@pytest.mark.parametrize("wide", ["false", "true"])
def test_vectors_say_which_older_rows_are_replaced(make: Make, wide: str) -> None:
    table = make(bucket="1", deletion__vectors_enabled="true", deletion__vectors_bitmap64=wide)
    table.write(rows(*(("a", n, "v", 1) for n in range(400))))
    table.write(rows(("a", 3, "w", 1), ("a", 5, None, None), ("a", 900, None, None), kinds=["+U", "-D", "-D"]))
    assert levels(table) == [4, 5]
    (index,) = index_files(table.store, History(table.store).latest())
    assert [(block.cardinality, index.row_count) for block in index.ranges or ()] == [(2, 1)]
    assert len(contents(table)) == 399
    table.write(rows(("a", 3, "x", 1)))
    assert {row[2] for row in contents(table) if row[1] == 3} == {"x"}
    table.rewrite()
    assert index_files(table.store, History(table.store).latest()) == []
    assert len(contents(table)) == 399


def test_several_runs_of_a_bucket_are_merged_a_batch_at_a_time(tmp_path: Path) -> None:
    """Keys of several columns and types, rows that tie in their sequence field."""
    schema = pa.schema(
        [pa.field("s", pa.string(), False), pa.field("x", pa.float64(), False), ("n", pa.int32()), ("at", pa.int32())]
    )
    options = {"bucket": "1", "write-only": "true", "sequence.field": "at", "target-file-size": "200 kb"}
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["s", "x"], options=options)
    state: dict[tuple[str, float], tuple[int, int]] = {}
    for turn in range(4):
        picked = [(n * 7919) % 90_000 for n in range(turn * 1000, turn * 1000 + 70_000)]
        keys = [(f"k{n % 300}", n / 4) for n in dict.fromkeys(picked)]
        for key in keys:
            at = (turn * 3) % 4
            if key not in state or state[key][1] <= at:
                state[key] = (turn, at)
        table.write(
            pa.table(
                [
                    [s for s, _ in keys],
                    [x for _, x in keys],
                    pa.array([turn] * len(keys), pa.int32()),
                    pa.array([(turn * 3) % 4] * len(keys), pa.int32()),
                ],
                schema=schema,
            )
        )
    table.rewrite()
    found = table.read().read_all()
    assert {
        (s, x): (n, at) for s, x, n, at in zip(*(found[name].to_pylist() for name in schema.names), strict=True)
    } == state
    assert len(files(table)) > 1
    assert all(file.file_size < 260_000 for file in files(table))


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_very_many_runs_are_joined_on_disk_before(make: Make, monkeypatch: pytest.MonkeyPatch, producer: str) -> None:
    monkeypatch.setattr(few_runs, "_MOST_RUNS", 3)
    monkeypatch.setattr(few_runs, "_BATCH_BYTES", 200)
    table = make(bucket="1", write__only="true", changelog__producer=producer)
    state: dict[int, str] = {}
    before: set[int] = set()
    for turn in range(11):
        ids = [n * (turn + 3) % 50 for n in range(12)]
        table.write(rows(*(("a", n, f"v{turn}", 1) for n in dict.fromkeys(ids))))
        state |= dict.fromkeys(ids, f"v{turn}")
        if turn == 4:
            table.rewrite()
            before = {*state}
    table.rewrite()
    assert {row[1]: row[2] for row in contents(table)} == state
    after = {n for n, version in state.items() if int(version[1:]) > 4}
    assert changes(table)[-1] == (0 if producer == "none" else len(after) + len(after & before))


def test_the_sink_pickles(make: Make) -> None:
    table = make(merge__engine="first-row")
    assert isinstance(table, PaimonTable)
    sink = pickle.loads(pickle.dumps(table.sink()))
    assert isinstance(sink, PaimonSink)
    writer = sink.plan().task_writer()
    writer.write(rows(("a", 1, "v", 1)).to_batches()[0])
    prepared = sink.finalize(sink.plan(), writer.finish(), LocalEngine())
    sink.commit(1, prepared.messages)
    assert contents(table) == [("a", 1, "v", 1)]


def changes(table: lakebed.Table) -> Sequence[int]:
    return [snapshot.changelog_record_count for snapshot in History(table.store).snapshots()]


def test_the_changelog_leaves_out_what_did_not_change(make: Make) -> None:
    for options, count in (({}, 2), ({"changelog__producer_row__deduplicate": "true"}, 0)):
        table = make(bucket="1", changelog__producer="lookup", **options)
        for _ in range(2):
            table.write(rows(("a", 1, "v", None)))
        assert changes(table) == [0, 1, 0, count]
    ignoring = make(
        bucket="1", changelog__producer="lookup", changelog__producer_row__deduplicate="true",
        changelog__producer_row__deduplicate__ignore__fields="n", changelog__file_format="avro",
    )  # fmt: skip
    for turn in range(3):
        ignoring.write(rows(("a", 1, "v" if turn < 2 else "w", turn)))
    assert changes(ignoring) == [0, 1, 0, 0, 0, 2]
    assert {path.suffix for path in Path(ignoring.location).rglob("changelog-*")} == {".avro"}


# ---- another number of buckets ----


def heard(table: lakebed.Table) -> list[tuple[Any, ...]]:
    """What a reader of the changelog has in the end."""
    state: dict[Any, tuple[Any, ...]] = {}
    told = lakebed.open(table.location, {"incremental-between-scan-mode": "changelog"}).changes()
    for row in told.read_all().to_pylist():
        kind, key = row.pop("_row_kind"), (row["dt"], row["id"])
        if kind[0] == "-":
            assert state.pop(key) == tuple(row.values())
        else:
            state[key] = tuple(row.values())
    return sorted(state.values())


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_rows_that_move_into_other_buckets_are_in_the_changelog(make: Make, producer: str) -> None:
    table = make(changelog__producer=producer, write__only="true")
    for turn in range(2):
        table.write(rows(*[(part, number, f"v{turn}", turn) for part in "ab" for number in range(turn, 6)]))
    moves = {"bucket": "3", "write-only": "false"}
    (group,) = table.rewrite("dt = 'a'", dry_run=True, options=moves).plan
    assert group.reason == "its rows move from 2 buckets to 3, after a full compaction that writes their changelog"
    assert len(table.rewrite("dt = 'a'", options=moves).instants) == 2
    assert heard(table) == [row for row in contents(table) if row[0] == "a"]
    table.rewrite(options={"write-only": "false"})
    assert heard(table) == contents(table)


def test_rows_that_come_before_they_move_stop_it(make: Make) -> None:
    table = make(changelog__producer="lookup", write__only="true")
    table.write(rows(("a", 1, "v", 1), ("b", 1, "v", 1)))

    class Beside(LocalEngine):
        def map(self, fn: Any, tasks: Any) -> Any:
            for done in super().map(fn, tasks):
                table.write(rows(("a", 1, "w", 2)))
                yield done

    moves = {"bucket": "3", "write-only": "false"}
    with pytest.raises(CommitConflictError, match="other writers added 1 file to dt=a"):
        table.rewrite("dt = 'a'", engine=Beside(), options=moves)
    table.rewrite("dt = 'a'", options=moves)
    table.rewrite(options={"write-only": "false"})
    assert heard(table) == contents(table) == [("a", 1, "w", 2), ("b", 1, "v", 1)]


# ---- two writers at once ----


@pytest.mark.parametrize("more", [{"changelog__producer": "lookup"}, {"deletion__vectors_enabled": "true"}])
def test_the_row_that_a_late_commit_lost_to_stays_after_a_compaction(make: Make, more: dict[str, str]) -> None:
    table = make(bucket="1", write__only="true", num__levels="3", **more)
    late = table.writer("late")
    late.write(rows(("a", 1, "old", 1)))
    messages = late.prepare_commit()
    table.write(rows(("a", 2, "new", 2), ("a", 1, "new", 2)))
    table.rewrite(options={"compact_strategy": "full", "write-only": "false"})
    late.commit(1, messages)
    table.rewrite(options={"compact_strategy": "minor", "write-only": "false"})
    assert 0 not in levels(table)
    assert contents(table) == [("a", 1, "new", 2), ("a", 2, "new", 2)]


def test_of_two_rows_with_one_number_the_later_one_wins_before_and_after_a_compaction(make: Make) -> None:
    for turn in range(4):  # names are random
        table = make(bucket="1", write__only="true", num__levels="3")
        writers = [table.writer(f"u{n}") for n in range(2)]
        for n, writer in enumerate(writers):
            writer.write(rows(("a", 1, f"w{n}", turn)))
        for writer in writers:
            writer.commit(1, writer.prepare_commit())
        assert {file.max_sequence_number for file in files(table)} == {0}
        newer = [("a", 1, "w1", turn)]  # its file was created later
        assert contents(table) == newer
        table.rewrite(options={"compact_strategy": "full", "write-only": "false"})
        assert contents(table) == newer
