"""Staged rows become as many files as their bytes want, at any parallelism, whatever a sample says; each row once."""

from __future__ import annotations

import io
import itertools
import pickle
import uuid
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import open_store
from lakebed.kernel.files.store import Store
from lakebed.kernel.sizing.file_counts import in_bounds
from lakebed.kernel.sizing.finalize import FileSize, finalize
from lakebed.kernel.sizing.ranges import RangeSplitter
from lakebed.kernel.sizing.staging import Grouped, Place, Run, Staged, StagedBuckets, Stager, StagingLimits, grouped
from lakebed.kernel.sort_keys import Direction, comparable, thinned, with_ties

SCHEMA = pa.schema([("bucket", pa.int64()), ("id", pa.int64()), ("text", pa.string())])
TARGET, GREATEST = 100_000, 140_000


def group(rows: pa.Table) -> Grouped:
    codes = rows["bucket"].to_numpy()
    found, inverse = np.unique(codes, return_inverse=True)
    return grouped(inverse.astype(np.int64), found.tolist())


def keys(rows: pa.Table) -> pa.Table:
    return comparable([rows["id"].combine_chunks()], [Direction(descending=True)])


@dataclass(frozen=True)
class Maker:
    """Parquet files in a folder; `lie` is how wrong its samples are."""

    store: Store
    lie: float = 1.0
    fail_at: int = -1

    @property
    def place(self) -> Place:
        return self.store

    @property
    def at_once(self) -> int:
        return self.store.at_once

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        rows = pa.Table.from_batches(run.batches(self.store), SCHEMA)
        return FileSize(0, self.lie * len(encoded(rows)) / len(rows), thinned(with_ties(keys(rows)), 1000))

    def make(self, bucket: Hashable, run: Run) -> tuple[str, int, int]:
        rows = pa.Table.from_batches(run.batches(self.store), SCHEMA)
        assert len(rows) == run.rows
        first = rows["id"][0].as_py()
        path, data = f"{bucket}/{first}-{uuid.uuid4()}.parquet", encoded(rows)
        if bucket == self.fail_at:
            raise RuntimeError("no")
        self.store.write(path, data)
        return path, len(data), len(rows)

    def size(self, made: tuple[str, int, int]) -> int:
        return made[1]

    def remove(self, made: Sequence[tuple[str, int, int]]) -> None:
        self.store.delete_many([one[0] for one in made])


def encoded(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", use_dictionary=False)
    return sink.getvalue()


def rows_of(count: int, seed: int, skew: float = 0.0) -> pa.Table:
    random = np.random.default_rng(seed)
    buckets = np.where(random.random(count) < skew, 0, random.integers(0, 6, count))
    texts = [f"{number:x}" for number in random.integers(0, 2**60, count)]
    return pa.table({"bucket": buckets, "id": random.permutation(count), "text": texts})


def stage(store: Store, parts: Iterable[pa.Table], inline: int = 0, buffer: int = 200_000) -> list[Staged]:
    found = []
    for number, part in enumerate(parts):
        stager = Stager(store, f"staging/{number}.arrow", SCHEMA, group, StagingLimits(buffer, inline, chunk=20_000))
        for batch in part.to_batches(max_chunksize=1000):
            stager.write(batch)
        one = stager.finish()
        if one is not None:
            found.append(one)
    return found


def bag(store: Store) -> pa.Table:
    root = store.local_path("")
    assert root
    files = list(Path(root).glob("*/*.parquet"))
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in files]).sort_by("id")


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [2, 8])
@pytest.mark.parametrize("lie", [1.0, 0.3, 4.0])
@pytest.mark.parametrize("ranges", [False, True])
def test_files_follow_bytes(tmp_path: Path, parallelism: int, lie: float, ranges: bool) -> None:
    store = open_store(tmp_path / "t")
    whole = rows_of(60_000, 1, 0.8)
    size = -(-len(whole) // parallelism)
    staged = stage(store, [whole.slice(at, size) for at in range(0, len(whole), size)], inline=1000)
    buckets = StagedBuckets(staged, SCHEMA)
    assert int(buckets.rows.sum()) == len(whole)
    splitter = RangeSplitter(store, "again", SCHEMA, keys) if ranges else None
    files = finalize(buckets, Maker(store, lie), LocalEngine(2), TARGET, GREATEST, splitter)
    for bucket in range(6):
        mine = [file for file in files if file[0].startswith(f"{bucket}/")]
        assert in_bounds(len(mine), sum(file[1] for file in mine), TARGET, GREATEST), mine
    store.delete_many(buckets.paths)
    assert not list((tmp_path / "t" / "staging").glob("*")) and not list((tmp_path / "t").glob("again/*"))
    assert len(list((tmp_path / "t").glob("*/*.parquet"))) == len(files) >= 10
    assert bag(store).equals(whole.sort_by("id"))
    if ranges:
        spans = []
        for path in (tmp_path / "t" / "0").glob("*.parquet"):
            ids = pq.read_table(path, partitioning=None)["id"].to_numpy()
            spans.append((ids.min(), ids.max()))
        spans.sort()
        assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))


def test_little_data_needs_no_staged_file_and_keeps_its_order(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    whole = rows_of(500, 3)
    staged = stage(store, [whole.slice(0, 250), whole.slice(250)], inline=1 << 20)
    assert [one.path for one in staged] == ["", ""] and not (tmp_path / "t" / "staging").exists()
    buckets = StagedBuckets(staged, SCHEMA)
    for at, bucket in enumerate(buckets.buckets):
        run = buckets.run(at, 0, int(buckets.rows[at]))
        found = pa.Table.from_batches(run.batches(store), SCHEMA)
        assert found.equals(whole.filter(pa.compute.equal(whole["bucket"], bucket)).combine_chunks())
        assert sum(map(len, run.inline)) < sum(len(one.inline) for one in staged)


def test_any_run_of_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    whole = rows_of(9000, 4)
    buckets = StagedBuckets(stage(store, [whole.slice(0, 4000), whole.slice(4000)]), SCHEMA)
    mine = whole.filter(pa.compute.equal(whole["bucket"], buckets.buckets[2])).combine_chunks()
    for start, end in ((0, 1), (0, len(mine)), (777, 1200), (len(mine) - 1, len(mine)), (5, 5)):
        found = pa.Table.from_batches(buckets.run(2, start, end).batches(store), SCHEMA)
        assert found.equals(mine.slice(start, end - start))


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    buckets = StagedBuckets(stage(store, [rows_of(20_000, 5)]), SCHEMA)
    with pytest.raises(RuntimeError, match="no"):
        finalize(buckets, Maker(store, fail_at=3), LocalEngine(2), TARGET, GREATEST)
    assert not list((tmp_path / "t").glob("*/*.parquet"))


def test_an_aborted_task_leaves_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    stager = Stager(store, "staging/1.arrow", SCHEMA, group, StagingLimits(1000))
    stager.write(rows_of(3000, 6))
    stager.abort()
    assert not list((tmp_path / "t" / "staging").glob("*"))


def test_rows_that_stay_in_memory_come_before_those_in_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    whole = rows_of(9000, 7).combine_chunks()
    stager = Stager(store, "staging/1.arrow", SCHEMA, group, StagingLimits(50_000, memory=whole.nbytes // 2))
    stager.write(whole)  # one batch, many times the buffer
    staged = stager.finish()
    assert staged is not None
    assert sum(batch.nbytes for batch in staged.kept) > 100_000
    assert 100_000 < int(staged.sizes[staged.lengths > 0].sum()) < whole.nbytes
    buckets = StagedBuckets([staged], SCHEMA)
    for at, bucket in enumerate(buckets.buckets):
        mine = whole.filter(pa.compute.equal(whole["bucket"], bucket)).combine_chunks()
        for start, end in ((0, len(mine)), (100, len(mine) - 100)):
            run = pickle.loads(pickle.dumps(buckets.run(at, start, end)))
            assert pa.Table.from_batches(run.batches(store), SCHEMA).equals(mine.slice(start, end - start))


@pytest.mark.parametrize(("limits", "packed"), [(None, False), (True, True), (False, False)])
def test_only_what_leaves_this_machine_is_compressed(tmp_path: Path, limits: bool | None, packed: bool) -> None:
    store, rows = open_store(tmp_path / "t"), pa.table({"bucket": [1] * 9000, "id": [7] * 9000, "text": ["a"] * 9000})
    stager = Stager(store, "staging/1.arrow", SCHEMA, group, StagingLimits(50_000, compressed=limits))
    stager.write(rows)
    staged = stager.finish()
    assert staged is not None
    assert (int(staged.lengths.sum()) < int(staged.sizes.sum()) // 4) is packed
    run = StagedBuckets([staged], SCHEMA).run(0, 0, 9000)
    assert pa.Table.from_batches(run.batches(store), SCHEMA).equals(rows.combine_chunks())


def test_rows_for_a_remote_store_are_compressed() -> None:
    place = open_store("s3://bucket/t")
    stager = Stager(place, "staging/1.arrow", SCHEMA, group, StagingLimits(inline=1 << 20))
    stager.write(pa.table({"bucket": [1] * 9000, "id": [7] * 9000, "text": ["a"] * 9000}))
    staged = stager.finish()
    assert staged is not None
    assert 0 < len(staged.inline) < int(staged.sizes.sum()) // 4


class NoEngine:
    """An engine whose jobs would be too dear."""

    parallelism = 4

    def map(self, fn: Any, tasks: Any) -> Any:
        raise AssertionError("it was asked")


def test_little_data_is_written_without_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "t")
    buckets = StagedBuckets(stage(store, [rows_of(5000, 8)]), SCHEMA)
    assert sum(rows for _, _, rows in finalize(buckets, Maker(store), NoEngine(), TARGET, GREATEST)) == 5000
    monkeypatch.setattr("lakebed.kernel.sizing.finalize.HERE_BYTES", 1000)
    with pytest.raises(AssertionError, match="it was asked"):
        finalize(buckets, Maker(store), NoEngine(), TARGET, GREATEST)


@dataclass
class OtherProcesses:
    """An engine of other processes that keeps which functions it ran, on this machine where it has `threads`."""

    threads: int
    parallelism = 4

    def __post_init__(self) -> None:
        self.ran: list[str] = []

    def in_this_process(self) -> LocalEngine | None:
        return LocalEngine(self.threads) if self.threads else None

    def map(self, fn: Any, tasks: Any) -> Any:
        self.ran.append(type(fn).__name__)
        yield from map(fn, tasks)


def test_processes_of_this_machine_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.kernel.sizing.finalize.HERE_BYTES", 0)
    store = open_store(tmp_path / "t")
    buckets = StagedBuckets(stage(store, [rows_of(20_000, 8, 0.8)]), SCHEMA)
    near, far = OtherProcesses(2), OtherProcesses(0)
    made = [finalize(buckets, Maker(store), engine, TARGET, GREATEST) for engine in (near, far)]
    assert (near.ran, far.ran) == ([], ["_Measure", "_Make"])
    sizes = [[(rows, size) for _, size, rows in files] for files in made]
    assert sizes[0] == sizes[1]
    assert sum(rows for rows, _ in sizes[0]) == 20_000


def test_small_samples_are_encoded_without_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, engine = open_store(tmp_path / "t"), OtherProcesses(0)
    buckets = StagedBuckets(stage(store, [rows_of(40_000, 8, 0.8)]), SCHEMA)
    assert int(buckets.sizes.sum()) > 1_000_000  # an eighth of it is more than the least sample only by a little
    monkeypatch.setattr("lakebed.kernel.sizing.finalize.HERE_BYTES", 1_000_000)
    files = finalize(buckets, Maker(store), engine, TARGET, GREATEST)
    assert engine.ran == ["_Make"]
    assert sum(rows for _, _, rows in files) == 40_000
