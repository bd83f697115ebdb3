"""Compaction of tables without a primary key: what is packed, sorted, moved into other buckets, and what is left."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import OptionError, UnsupportedError, UsageError
from lakebed.formats.paimon.codec.manifest import DataFileMeta, ManifestEntry
from lakebed.formats.paimon.commit.serializers import (
    MULTI_TABLE_TASK_VERSION,
    MultiTableCompactTask,
    deserialize_multi_table_task,
)
from lakebed.formats.paimon.layout import TableName
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.options import table_options
from lakebed.formats.paimon.rewrite.append_task import AppendCompactor, AppendTask
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.table import PaimonTable
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.kernel.engine import Engine
from lakebed.model.upkeep import RewriteResult

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.string())])
Row = tuple[Any, ...]


def entries(table: lakebed.Table) -> list[ManifestEntry]:
    return live_files(table.store, History(table.store).latest())


def files(table: lakebed.Table) -> list[DataFileMeta]:
    return [entry.file for entry in entries(table)]


def rows(numbers: range, p: str = "a") -> pa.Table:
    columns = [pa.array(numbers, pa.int64()), pa.array([p] * len(numbers)), pa.array([f"v{n}" for n in numbers])]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def contents(table: lakebed.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.read().read_all().to_pylist()]


def create(folder: Path, count: int = 5, **options: str) -> lakebed.Table:
    given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    table = lakebed.create(folder / "t", "paimon", SCHEMA, partition_by=["p"], options=given)
    for number in range(count):
        table.write(rows(range(number * 4, number * 4 + 4)))
    return table


def test_small_files_become_one(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(rows(range(3), "b"))
    before = contents(table)
    planned = table.rewrite(dry_run=True)
    assert (planned.files_before, planned.files_after, planned.groups) == (5, 1, 1)
    assert planned.plan[0].what == "p=a/bucket-0"
    assert planned.plan[0].reason == "small files: 5 of 5 files are smaller than 187904815 bytes"
    (left,) = planned.skipped
    assert (left.what, left.reason) == (
        "p=b/bucket-0", "1 small file waits until there are 5 (compaction.min.file-num)",
    )  # fmt: skip
    assert table.rewrite(where="p = 'b'").instants == ()
    with pytest.raises(UsageError, match="whole partitions"):
        table.rewrite(where="k = 1")
    done = table.rewrite()
    assert (done.files_before, done.files_after, done.instants) == (5, 1, ("7",))
    assert sorted(contents(table)) == sorted(before)
    assert table.history()[-1].action == "compact"
    assert table.rewrite().instants == ()
    assert not any("small files" in finding.what for finding in table.inspect().findings)


def test_a_call_takes_so_many_files_at_most(tmp_path: Path) -> None:
    """Which partitions qualify stays the same, and the next call goes on until nothing is left."""
    bound = {"lakebed.rewrite.max-files": "10"}
    table = create(tmp_path, 0)
    for number in range(5):
        table.write(pa.concat_tables([rows(range(number, 9), p) for p in "abcdefg"]))
    before = sorted(contents(table))
    planned = table.rewrite(dry_run=True, options=bound)
    assert (planned.files_before, planned.groups, len(planned.skipped)) == (10, 2, 5)
    assert planned.skipped[0].reason == "lakebed.rewrite.max-files=10 leaves room for 0 of its 5 files: run again"
    taken = []
    while (result := table.rewrite(options=bound)).instants:
        assert result.plan == planned.plan if not taken else len(result.skipped) == 7 - result.groups
        taken.append(result.files_before)
    assert taken == [10, 10, 10, 5] and sorted(contents(table)) == before

    # one group of more files than a call takes: its first files
    single = create(tmp_path / "single", 12)
    ordered = contents(single)
    taken = []
    while (result := single.rewrite(options={"lakebed.rewrite.max-files": "5"})).instants:
        taken.append(result.files_before)
    assert taken == [5, 5] and sorted(contents(single)) == sorted(ordered)
    fixed = create(tmp_path / "fixed", 7, bucket="1", bucket__key="k", compaction_min_file__num="99")
    ordered, result = contents(fixed), fixed.rewrite(options={"lakebed.rewrite.max-files": "4"})
    assert (result.files_before, result.files_after) == (4, 1) and contents(fixed) == ordered
    assert result.skipped[0].reason == "lakebed.rewrite.max-files=4 leaves room for 4 of its 7 files: run again"
    sort = {"order_strategy": "order", "order_by": "k", "lakebed.rewrite.max-files": "4"}
    (left,) = create(tmp_path / "sorted").rewrite(options=sort).skipped
    assert left.reason == "its 5 files are compacted together, and lakebed.rewrite.max-files is 4"

    # buckets with a key and postponed ones are compacted whole
    options = {"bucket": "1", "write-only": "true"}
    keys = lakebed.create(tmp_path / "keys", "paimon", KEYED, ["k", "p"], ["p"], options)
    waits = lakebed.create(tmp_path / "waits", "paimon", KEYED, ["k", "p"], ["p"], {"bucket": "-2"})
    for number in range(3):
        for one in (keys, waits):
            one.write(pa.concat_tables([keyed(range(5), p, f"v{number}") for p in "abc"]))
    room = "lakebed.rewrite.max-files=7 leaves room for 1 of its 3 files: run again"
    for one in (keys, waits):
        assert one.rewrite(dry_run=True, options={"lakebed.rewrite.max-files": "7"}).skipped[0].reason == room
        taken = []
        while (result := one.rewrite(options={"lakebed.rewrite.max-files": "7"})).files_before:
            taken.append(result.files_before)
            assert taken[1:] or [left.reason for left in result.skipped] == [room]
        assert taken == [6, 3] and {row[2] for row in contents(one)} == {"v2"} and len(contents(one)) == 15
    assert keys.rewrite(options={"lakebed.rewrite.max-files": "1"}).instants == ()
    for wrong in ({"bucket": "4"}, {"lakebed.rewrite.what": "manifests"}):
        with pytest.raises(OptionError, match="max-files"):
            keys.rewrite(options={**wrong, "lakebed.rewrite.max-files": "7"})


def test_fixed_buckets_keep_the_order_of_their_rows(tmp_path: Path) -> None:
    table = create(tmp_path, 4, bucket="1", bucket__key="k")
    assert table.rewrite(options={"compact_strategy": "minor"}).instants == ()
    assert (
        table.rewrite(dry_run=True, options={"compact_strategy": "minor", "compaction.min.file-num": "2"}).files_before
        == 2
    )
    assert table.rewrite().instants == ("5",)
    (file,) = files(table)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 15)
    table.write(rows(range(16, 18)))
    assert [row[0] for row in contents(table)] == [*range(18)]
    assert files(table)[1].min_sequence_number == 16
    assert table.rewrite().skipped[0].reason == "2 small files are too few for a full compaction"
    assert table.rewrite(options={"compaction.force-rewrite-all-files": "true"}).files_after == 1


def test_writes_compact_fixed_buckets(tmp_path: Path) -> None:
    table = create(tmp_path, 4, bucket="1", bucket__key="k")
    assert [instant.action for instant in table.history()] == ["append"] * 4
    table.write(rows(range(16, 20)))
    assert [instant.action for instant in table.history()][4:] == ["append", "compact"]
    (file,) = files(table)
    assert (file.min_sequence_number, file.max_sequence_number, file.row_count) == (0, 19, 20)
    writer = cast(PaimonTable, table).writer("job")
    prepared = []
    for number in range(20, 26):
        writer.write(rows(range(number, number + 1)))
        prepared.append(writer.prepare_commit())
    for number, messages in enumerate(prepared):
        writer.commit(number, messages)
    assert [row[0] for row in contents(table)] == [*range(26)]
    table.write(rows(range(26, 27)))
    assert [row[0] for row in contents(table)] == [*range(27)]
    assert len(files(table)) == 4
    assert len(files(create(tmp_path / "alone", 6, bucket="1", bucket__key="k", write__only="true"))) == 6


@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert", "auto"])
def test_rows_are_sorted(tmp_path: Path, strategy: str) -> None:
    table = create(tmp_path, 3, clustering_columns="v,k")
    options = {"order_strategy": strategy, "target-file-size": "1 kb"}
    if strategy == "order":
        options["order_by"] = "v"
    before = contents(table)
    assert table.rewrite(options=options).groups == 1
    assert sorted(contents(table)) == sorted(before)
    if strategy == "order":
        assert [row[2] for row in contents(table)] == sorted(row[2] for row in before)


def test_what_cannot_be_sorted_or_rewritten_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path, 1)
    for options, message in (
        ({"order_by": "v"}, "'order_strategy' is none"),
        ({"order_strategy": "order"}, "needs columns to sort by"),
        ({"order_strategy": "order", "order_by": "w"}, "unknown"),
        ({"order_strategy": "order", "order_by": "p"}, "cannot be sorted by column 'p'"),
        ({"bucket": "3"}, "cannot move into 3 buckets"),
        ({"clustering.incremental": "true"}, "clustering.incremental"),
        ({"row-tracking.enabled": "true"}, "row-tracking.enabled"),
    ):
        with pytest.raises((OptionError, UsageError, UnsupportedError), match=message):
            table.rewrite(options=options)
    fixed = create(tmp_path / "fixed", 1, bucket="1", bucket__key="k")
    with pytest.raises(UnsupportedError, match="sort the files of a table of bucket mode HASH_FIXED"):
        fixed.rewrite(options={"order_strategy": "order", "order_by": "k"})
    assert len(table.history()) == len(fixed.history()) == 1


def test_tasks_travel(tmp_path: Path) -> None:
    """As Paimon's own bytes, to an engine of other processes."""

    class Elsewhere:
        parallelism = 1

        def map(self, fn: Any, tasks: Any) -> Any:
            for task in tasks:
                yield pickle.loads(pickle.dumps(fn))(pickle.loads(pickle.dumps(task)))

    table = create(tmp_path)
    assert table.rewrite(engine=Elsewhere()).files_after == 1
    assert len(contents(table)) == 20


def test_tasks_of_many_tables_travel_with_their_names(tmp_path: Path) -> None:
    """As the tasks of Paimon's combined compaction, in one map, and with one commit per table."""
    sent: list[MultiTableCompactTask] = []

    class Cluster:
        parallelism = 2

        def map(self, fn: Any, tasks: Any) -> Any:
            for number, task in tasks:
                if isinstance(task, AppendTask):
                    data = cast(tuple[Any, ...], task.__reduce__())[1][0]
                    sent.append(deserialize_multi_table_task(MULTI_TABLE_TASK_VERSION, data))
                yield pickle.loads(pickle.dumps(fn))(pickle.loads(pickle.dumps((number, task))))

    settings = {"lakebed.catalog.metastore": "filesystem", "lakebed.catalog.warehouse": str(tmp_path / "lake")}
    first, second = create(tmp_path / "a.db"), create(tmp_path / "b.db")
    second.write(rows(range(3), "b"), options={"compaction.min.file-num": "9"})
    keyed_table = lakebed.create(tmp_path / "a.db" / "keyed", "paimon", KEYED, ["k", "p"], ["p"], {"bucket": "1"})
    keyed_table.write(keyed(range(3), "a", "x"))
    named = lakebed.create("shop:sales.orders", "paimon", SCHEMA, (), ["p"], settings)
    for number in range(5):
        named.write(rows(range(number + 1)))
    first.tag("t")
    first.branch("dev", "tag:t")
    locations = [str(tmp_path / "a.db" / "t"), second.location, "shop:sales.orders", keyed_table.location]

    def act(place: tuple[str, str], engine: Engine) -> RewriteResult:
        location, branch = place
        return lakebed.open(location, settings | {"branch": branch}).rewrite(engine=engine)

    results = lakebed.together([(location, "main") for location in locations], act, Cluster())
    assert [cast(RewriteResult, result).files_before for result in results] == [5, 5, 5, 1]
    assert sorted((task.database, task.table, len(task.task.compact_before)) for task in sent) == [
        ("a", "t", 5), ("b", "t", 5), ("sales", "orders", 5),
    ]  # fmt: skip
    for location, count in zip(locations, (20, 23, 15, 3), strict=True):
        table = lakebed.open(location, settings)
        assert table.history()[-1].action == "compact" and len(contents(table)) == count
        assert sum(instant.action == "compact" for instant in table.history()) == 1

    sent.clear()
    (result,) = lakebed.together([(locations[0], "dev")], act, Cluster())
    assert cast(RewriteResult, result).files_before == 5
    assert [(task.database, task.table) for task in sent] == [("a", "t$branch_dev")]
    assert lakebed.open(locations[0], {"branch": "dev"}).history()[-1].action == "compact"

    # a task that reaches the worker of another table ends there
    history, other = History(first.store), History(second.store)
    schema = history.latest_schema()
    options = WriteOptions.of(schema, table_options(schema.options))
    task = replace(AppendTask(sent[0].task, 0, -1, "p=a/bucket-0"), table=TableName("a", "t"))
    before = sorted(path.name for path in Path(second.location).rglob("*"))
    with pytest.raises(UsageError, match=r"compacts the table a\.t"):
        AppendCompactor(other, schema, options)(task)
    assert sorted(path.name for path in Path(second.location).rglob("*")) == before


# ---- another number of buckets ----

KEYED = pa.schema([pa.field("k", pa.int64(), False), pa.field("p", pa.string(), False), ("v", pa.string())])


def keyed(numbers: range, p: str, v: str) -> pa.Table:
    return pa.table({"k": list(numbers), "p": [p] * len(numbers), "v": [v] * len(numbers)}, schema=KEYED)


def test_rows_move_into_another_number_of_buckets(tmp_path: Path) -> None:
    table = lakebed.create(
        tmp_path / "t", "paimon", KEYED, ["k", "p"], ["p"], {"bucket": "2", "changelog-producer": "lookup"}
    )
    for p in "ab":
        table.write(keyed(range(20), p, "old"))
        table.write(keyed(range(5, 30), p, "new"))
    before, history = sorted(contents(table)), len(table.history())
    with pytest.raises(UsageError, match="all partitions would have 4 buckets"):
        table.rewrite(options={"bucket": "4"})
    planned = table.rewrite("p = 'a'", options={"bucket": "4"}, dry_run=True)
    assert planned.plan[0].reason == "its rows move from 2 buckets to 4"
    done = table.rewrite("p = 'a'", options={"bucket": "4"})
    assert done.files_after == 4 and len(table.history()) == history + 1
    assert sorted(contents(table)) == before
    totals = {(entry.bucket, entry.total_buckets) for entry in entries(table) if b"a" in entry.partition}
    assert totals == {(number, 4) for number in range(4)}
    table.write(keyed(range(25, 35), "a", "newer"))
    assert len(contents(table)) == 65
    assert len(table.changes(after=str(history)).read_all()) == 15  # 5 rows replaced, 5 added: none that only moved
    assert table.rewrite("p = 'a'", options={"bucket": "4"}).skipped[0].reason == "it has 4 buckets"


def test_rows_of_tables_without_a_key_move_too(tmp_path: Path) -> None:
    table = create(tmp_path, 3, bucket="2", bucket__key="k")
    table.write(rows(range(3), "b"))
    before = sorted(contents(table))
    assert table.rewrite("p = 'a'", options={"bucket": "3"}).groups == 1
    assert sorted(contents(table)) == before
    assert {entry.total_buckets for entry in entries(table)} == {2, 3}
    table.write(rows(range(50, 60)))
    assert len(contents(table)) == 25


def test_postponed_rows_stay_while_real_ones_move(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", KEYED, ["k", "p"], ["p"], {"bucket": "-2"})
    table.write(keyed(range(20), "a", "one"))
    assert table.rewrite(options={"postpone.target-row-num-per-bucket": "8"}).files_after == 3
    table.write(keyed(range(10, 25), "a", "two"))
    table.rewrite(options={"bucket": "2"})
    assert sorted(contents(table)) == [(k, "a", "one") for k in range(20)]
    assert {entry.total_buckets for entry in entries(table) if entry.bucket >= 0} == {2}
    table.rewrite()
    assert sorted(contents(table)) == [
        *((k, "a", "one") for k in range(10)), *((k, "a", "two") for k in range(10, 25))
    ]  # fmt: skip
    assert {entry.total_buckets for entry in entries(table)} == {2}


@pytest.mark.parametrize(
    ("options", "buckets"),
    [
        ({}, 1),
        ({"postpone.target-size-per-bucket": "600 b"}, 5),
        ({"postpone.target-row-num-per-bucket": "20", "postpone.target-size-per-bucket": "1 b"}, 1),
        ({"postpone.default-bucket-num": "4", "postpone.target-row-num-per-bucket": "1"}, 4),
    ],
)
def test_rows_and_bytes_size_the_first_buckets(tmp_path: Path, options: dict[str, str], buckets: int) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", KEYED, ["k", "p"], ["p"], {"bucket": "-2", **options})
    table.write(keyed(range(20), "a", "one"))
    size = sum(file.file_size for file in files(table))
    table.rewrite()
    if "postpone.target-size-per-bucket" in options and len(options) == 1:
        buckets = -(-size // 600)
    assert {entry.total_buckets for entry in entries(table)} == {buckets}
