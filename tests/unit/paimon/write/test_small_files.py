"""What several tasks wrote for one bucket without routing becomes few files before the commit: equal rows, old files
gone, a bound on the work, and no key in two dynamic buckets."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

import lakebed
from lakebed import LocalEngine
from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.manifest import HASH_INDEX
from lakebed.formats.paimon.manifests import index_files, key_hashes
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.write import small_files
from lakebed.formats.paimon.write.sink import PaimonSink
from lakebed.kernel.engine import Engine
from lakebed.model.commit import CommitMessage, CommitResult
from lakebed.verbs.write import WritePlan, finalize_and_commit
from tests.tables.paimon.small import Make, contents, rows
from tests.unit.paimon.write.test_spill import files

T, R = TypeVar("T"), TypeVar("R")


class OtherEngine:
    """Another engine than this process, whose work has no bound."""

    parallelism = 1

    def map(self, fn: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """As it would be on another machine."""
        return (pickle.loads(pickle.dumps(fn))(pickle.loads(pickle.dumps(task))) for task in tasks)


def tasks(plan: WritePlan, parts: Iterable[pa.Table]) -> list[CommitMessage]:
    """What tasks that know nothing of each other give."""
    made: list[CommitMessage] = []
    for part in parts:
        writer = pickle.loads(pickle.dumps(plan)).task_writer()
        for batch in part.to_batches():
            writer.write(batch)
        made += writer.finish()
    return made


def unrouted(table: lakebed.Table, parts: Iterable[pa.Table], engine: Engine | None = None) -> CommitResult:
    """A write whose tasks know nothing of each other."""
    sink = table.sink()
    assert isinstance(sink, PaimonSink)
    plan = sink.plan()
    return finalize_and_commit(sink, plan, tasks(plan, parts), engine or LocalEngine(), 1)


def test_the_later_task_wins_and_each_bucket_gets_one_file(make: Make) -> None:
    table = make()
    table.write(rows(("p0", 0, "old", 0)))
    parts = [rows(*((f"p{i % 2}", i % 100, f"t{task}", i) for i in range(100))) for task in range(3)]
    parts[1] = parts[1].slice(0, 50)
    result = unrouted(table, [*parts[:2], rows(("p0", 0, "", 0), kinds=["-D"])])
    assert result.notes == ()
    assert len(files(table)) == 1 + 4
    assert len(list(Path(table.location).glob("dt=*/bucket-*/data-*"))) == 5
    found = {row[1]: row[2] for row in contents(table)}
    assert found == {i: "t1" if i < 50 else "t0" for i in range(1, 100)}
    numbers = sorted((f.min_sequence_number, f.max_sequence_number) for f in files(table))
    assert all(low <= high for low, high in numbers)


def test_folding_engines_fold_the_rows_of_all_tasks(make: Make) -> None:
    table = make(merge__engine="aggregation", fields_n_aggregate__function="sum", bucket="1")
    unrouted(table, [rows(("a", 1, f"v{i}", 10**i)) for i in range(3)])
    assert contents(table) == [("a", 1, "v2", 111)]
    assert len(files(table)) == 1


def test_changelog_files_become_one_with_every_row(make: Make) -> None:
    table = make(changelog__producer="input", bucket="1")
    unrouted(table, [rows(("a", 1, f"v{i}", i), ("a", 9 - i, "w", i)) for i in range(3)])
    assert len(files(table)) == 1
    logs = list(Path(table.location).glob("dt=*/bucket-*/changelog-*"))
    assert len(logs) == 1
    assert pa.parquet.read_table(logs[0])["id"].to_pylist() == [1, 1, 1, 7, 8, 9]
    assert pa.parquet.read_table(logs[0])["v"].to_pylist()[:3] == ["v0", "v1", "v2"]


def test_what_is_too_much_for_one_process_stays_and_says_so(make: Make) -> None:
    table = make(lakebed_gather_max__bytes="1 b")
    parts = [rows(*(("a", i, f"t{task}", i) for i in range(50))) for task in range(2)]
    result = unrouted(table, parts)
    (note,) = result.notes
    assert "lakebed.gather.max-bytes" in note
    assert "lakebed.spark.write" in note
    assert len(files(table)) == 4
    assert {row[2] for row in contents(table)} == {"t1"}


@pytest.mark.parametrize("here", [0, 1 << 30], ids=["there", "here"])
def test_another_engine_has_no_bound(make: Make, monkeypatch: pytest.MonkeyPatch, here: int) -> None:
    monkeypatch.setattr(small_files, "HERE_BYTES", here)
    table = make(lakebed_gather_max__bytes="1 b")
    parts = [rows(*(("a", i, f"t{task}", i) for i in range(50))) for task in range(2)]
    assert unrouted(table, parts, OtherEngine()).notes == ()
    assert len(files(table)) == 2
    assert {row[2] for row in contents(table)} == {"t1"}


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_tables_without_a_key_keep_the_order_of_tasks(make: Make, bucket: str) -> None:
    options = {"bucket__key": "dt"} if bucket == "2" else {}
    table = make(primary_key=(), partition_by=(), bucket=bucket, **options)
    unrouted(table, [rows(*(("a", task * 10 + i, "v", i) for i in range(10))) for task in range(5)])
    assert len(files(table)) == 1
    assert [row["id"] for row in table.read().read_all().to_pylist()] == list(range(50))
    assert (files(table)[0].min_sequence_number, files(table)[0].max_sequence_number) == (0, 49)


def test_big_appends_are_merged_by_many_tasks(make: Make) -> None:
    table = make(primary_key=(), partition_by=(), bucket="1", bucket__key="id", target__file__size="20 kb")
    parts = [rows(*(("a", task * 3000 + i, f"{i * 7919 % 3000}", i) for i in range(3000))) for task in range(20)]
    unrouted(table, parts)
    sizes = [file.file_size for file in files(table)]
    wanted = -(-sum(sizes) // (20 << 10))
    assert wanted > 4
    assert wanted <= len(sizes) <= wanted + len(sizes) // 4 + 1
    assert [row["id"] for row in table.read().read_all().to_pylist()] == list(range(60_000))


@pytest.mark.parametrize("key", [("dt", "id"), ("id",)], ids=["HASH_DYNAMIC", "KEY_DYNAMIC"])
def test_keys_that_may_lie_in_two_dynamic_buckets_are_refused(make: Make, key: tuple[str, ...]) -> None:
    table = make(primary_key=key, bucket="-1", dynamic__bucket_target__row__num="3")
    parts = [rows(*(("a", i, "v", 1) for i in some)) for some in ((1, 2, 3, 4, 5, 6), (6, 5, 4, 3, 2, 1))]
    with pytest.raises(UnsupportedError, match=r"lakebed\.spark\.write"):
        unrouted(table, parts)
    assert table.history() == []
    assert not list(Path(table.location).glob("dt=*/bucket-*/data-*"))


def test_new_keys_of_dynamic_buckets_that_tasks_do_not_share_are_taken(make: Make) -> None:
    table = make(bucket="-1")
    unrouted(table, [rows(*(("a", i, "v", 1) for i in some)) for some in ((1, 2, 3), (3, 4, 5))])
    assert [row[1] for row in contents(table)] == [1, 2, 3, 4, 5]
    history = History(table.store)
    (entry,) = [e for e in index_files(table.store, history.latest()) if e.index_type == HASH_INDEX]
    assert len(key_hashes(table.store, entry)) == 5
    assert len(files(table)) == 1
