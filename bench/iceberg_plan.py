"""Planning on an Iceberg table of a million data files: seconds on the clock, of processor time, and peak memory.

    ./run bench iceberg-plan [--files 1000000] [--folder FOLDER] [--columns 12]

The table has no data: its manifests are written by lakebed's own writer, with figures of 12 columns for each file, in
1,000 partitions. Each case runs in a process of its own:

    write      the commit of all files (manifests of 8 MiB), and of two branches more
    scan       the entries of all live files as columns, without figures of columns
    prune      the same of one partition, by its manifests' summaries and the entries
    first      the plan of a read of all files, up to its first split
    read       the same, all splits one after the other, as a reader in this process takes them
    tasks      the same of a branch with deletes for some files, and its splits spread over 64 Spark tasks as bytes
    rewrite    the dry run of table.rewrite(): groups of every partition, with reasons
    twice      the same of a branch with twice as many files, to see what a file takes of memory
    deletes    the same of a branch where a twentieth of the files has a deletion vector and a twentieth a position
               delete file, and each partition an equality delete
    rest       table.rewrite with `lakebed.rewrite.what` = manifests, dry, and table.inspect()

Seconds hold the start of the libraries too, about 1.5 s of processor time.
Figures go to bench/results/iceberg_plan.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from lakebed.formats.iceberg.codec.manifest import ADDED, COLUMNS, STATS, entry_schema
from lakebed.formats.iceberg.codec.metadata import MAIN
from lakebed.formats.iceberg.codec.partition_type import partition_type
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.manifests import manifests_of, read_entries
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.verbs.many_splits import ManySplits, StreamedSplits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "iceberg_plan.json"
CASES = ("write", "scan", "prune", "first", "read", "tasks", "rewrite", "twice", "deletes", "rest")
PARTITIONS = 1000
PIECE = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=12)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--case", choices=CASES)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measured(args.case, args.folder, args.files, args.columns)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        found = {case: in_a_process(case, folder, args.files, args.columns) for case in CASES}
    for case, figures in found.items():
        print(f"{case:8} " + "  ".join(f"{name} {value}" for name, value in figures.items()))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"files": args.files, "columns": args.columns, "cases": found}, indent=1) + "\n")


def in_a_process(case: str, folder: Path, files: int, columns: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.iceberg_plan", "--case", case, "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--files", str(files), "--columns", str(columns)], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(case: str, folder: Path, files: int, columns: int) -> dict[str, Any]:
    work = CASES_BY_NAME[case](folder / "t", files, columns)
    began, cpu = time.perf_counter(), time.process_time()
    what = work()
    return {
        "seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "load": round(os.getloadavg()[0], 1),
        **what,
    }  # fmt: skip


def opened(path: Path, branch: str = "main") -> IcebergTable:
    table = lakebed.open(path, {"branch": branch})
    assert isinstance(table, IcebergTable)
    return table


def write(path: Path, files: int, columns: int) -> Callable[[], dict[str, Any]]:
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32()), *((f"c{n}", pa.int64()) for n in range(columns - 2))])
    lakebed.create(path, "iceberg", schema, (), "p", {"format-version": "3"})
    table = opened(path)

    def work() -> dict[str, Any]:
        def produce(attempt: Any) -> Produced:
            manifests: list[Any] = []
            for start in range(0, files, PIECE):
                piece = entries(attempt, start, min(PIECE, files - start), columns)
                manifests += attempt.write(piece, 0, 0)
            counts = {"added-data-files": str(files), "added-records": str(files * 1000)}
            return Produced("append", manifests, counts)

        commit_snapshot(table.operations, produce)
        twice, deletes = CommitOptions("twice", start=MAIN), CommitOptions("deletes", start=MAIN)
        commit_snapshot(table.operations, lambda attempt: Produced("append", [*attempt.existing] * 2), twice)
        commit_snapshot(table.operations, lambda attempt: with_deletes(attempt, files), deletes)
        size = sum(f.stat().st_size for f in (path / "metadata").iterdir())
        return {"manifest_mb": size >> 20, "manifests": len(list((path / "metadata").glob("*-m*.avro")))}

    return work


def entries(attempt: Any, start: int, rows: int, columns: int) -> pa.Table:
    """New data files, in order of partition, with figures of all columns."""
    metadata = attempt.metadata
    kind = partition_type(metadata, metadata.spec)
    schema = entry_schema({*COLUMNS, *STATS}, kind)
    numbers = np.arange(start, start + rows)
    place = numbers // 1000 % PARTITIONS
    random = np.random.default_rng(start)
    made: dict[str, Any] = {
        "status": pa.array(np.full(rows, ADDED, np.int8)), "snapshot_id": pa.array(np.full(rows, attempt.snapshot_id)),
        "content": pa.array(np.zeros(rows, np.int8)), "file_format": pa.array(["PARQUET"] * rows),
        "file_path": pa.array([data_path(metadata.location, n) for n in numbers.tolist()]),
        "spec_id": pa.array(np.zeros(rows, np.int32)),
        "partition": pa.StructArray.from_arrays([pa.array(place.astype(np.int32))], fields=[*kind]),
        "record_count": pa.array(np.full(rows, 1000)),
        "file_size_in_bytes": pa.array(random.integers(1 << 20, 600 << 20, rows)),
    }  # fmt: skip
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * columns)
    keys = pa.array(np.tile(np.arange(1, columns + 1, dtype=np.int32), rows))
    for name in STATS:
        if name.endswith("bounds"):
            raw = random.integers(0, 1 << 40, rows * columns).astype("<i8")
            ends = np.arange(rows * columns + 1, dtype=np.int32) * 8
            values = pa.Array.from_buffers(
                pa.binary(), rows * columns, [None, pa.py_buffer(ends), pa.py_buffer(raw.tobytes())]
            )
        else:
            values = pa.array(random.integers(0, 100_000, rows * columns))
        made[name] = pa.MapArray.from_arrays(offsets, keys, values)
    arrays = [made[f.name].cast(f.type) if f.name in made else pa.nulls(rows, f.type) for f in schema]
    return pa.table(arrays, schema=schema)


def data_path(location: str, number: int) -> str:
    """Where a data file would lie."""
    place = number // 1000 % PARTITIONS
    return f"{location}/data/p={place}/00000-{number}-d2459ef0-2886-4a60-90ba-4893b9e15a13-00001.parquet"


def with_deletes(attempt: Any, files: int) -> Produced:
    """Vectors and position deletes of every tenth file, and an equality delete in each partition."""
    metadata = attempt.metadata
    kind = partition_type(metadata, metadata.spec)

    def table(rows: int, place: Any, **columns: Any) -> pa.Table:
        made = {
            "status": pa.array(np.full(rows, ADDED, np.int8)), "spec_id": pa.array(np.zeros(rows, np.int32)),
            "snapshot_id": pa.array(np.full(rows, attempt.snapshot_id)), "record_count": pa.array(np.full(rows, 300)),
            "file_size_in_bytes": pa.array(np.full(rows, 4000)),
            "file_path": pa.array([f"{metadata.location}/data/deletes-{n}" for n in range(rows)]),
            "partition": pa.StructArray.from_arrays([pa.array(place.astype(np.int32))], fields=[*kind]), **columns,
        }  # fmt: skip
        schema = entry_schema({*COLUMNS, *STATS}, kind)
        return pa.table([made.get(f.name, pa.nulls(rows, f.type)) for f in schema], schema=schema)

    numbers = np.arange(0, files, 10)
    vector = np.arange(len(numbers)) % 2 == 0
    of_files = table(
        len(numbers), numbers // 1000 % PARTITIONS, content=pa.array(np.ones(len(numbers), np.int8)),
        file_format=pa.array(np.where(vector, "PUFFIN", "PARQUET")), content_offset=pa.array(numbers * 50),
        content_size_in_bytes=pa.array(np.full(len(numbers), 50)),
        referenced_data_file=pa.array([data_path(metadata.location, n) for n in numbers.tolist()]),
    )  # fmt: skip
    rows = min(PARTITIONS, max(1, files // 1000))
    of_partitions = table(
        rows, np.arange(rows), content=pa.array(np.full(rows, 2, np.int8)), file_format=pa.array(["PARQUET"] * rows),
        equality_ids=pa.array([[1]] * rows, pa.list_(pa.int32())),
    )  # fmt: skip
    made = [one for some in (of_files, of_partitions) for one in attempt.write(some, 0, 1)]
    return Produced("delete", [*attempt.existing, *made])


def scanning(path: Path, files: int, columns: int) -> Callable[[], dict[str, Any]]:
    def work() -> dict[str, Any]:
        table = opened(path)
        metadata = table.table_metadata
        head = metadata.head()
        assert head is not None
        manifests = manifests_of(table.operations.files, metadata, head)
        entries = read_entries(table.operations.files, metadata, [m for m in manifests if m.content == 0])
        assert len(entries) == files
        return {"files": files, "result_mb": entries.nbytes >> 20}

    return work


def pruning(path: Path, files: int, columns: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"splits": len(opened(path).plan_read(where="p = 7").splits)}


def first(path: Path, files: int, columns: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"first_bytes": next(iter(opened(path).plan_read().splits)).size}


def reading(path: Path, files: int, columns: int) -> Callable[[], dict[str, Any]]:
    def work() -> dict[str, Any]:
        splits = opened(path).plan_read().splits
        return {"splits": sum(1 for _ in splits), "in_memory": len(splits) if not is_streamed(splits) else 0}

    return work


def is_streamed(splits: Any) -> bool:
    """Whether splits come while metadata is read."""
    return isinstance(splits, StreamedSplits) and not splits.is_whole


def spreading(path: Path, files: int, columns: int) -> Callable[[], dict[str, Any]]:
    def work() -> dict[str, Any]:
        splits = opened(path, "deletes").plan_read().splits
        splits = splits.whole if isinstance(splits, StreamedSplits) else splits
        assert isinstance(splits, ManySplits)
        return {"splits": len(splits), "task_mb": sum(len(pickle.dumps(some)) for some in splits.spread(64)) >> 20}

    return work


def rewriting(branch: str) -> Callable[[Path, int, int], Callable[[], dict[str, Any]]]:
    def work(path: Path) -> dict[str, Any]:
        result = opened(path, branch).rewrite(dry_run=True)
        return {"groups": result.groups, "files_before": result.files_before, "files_after": result.files_after}

    return lambda path, files, columns: lambda: work(path)


def rest(path: Path, files: int, columns: int) -> Callable[[], dict[str, Any]]:
    def work() -> dict[str, Any]:
        table = opened(path)
        result = table.rewrite(dry_run=True, options={"lakebed.rewrite.what": "manifests"})
        report = table.inspect()
        return {"manifests": result.files_before, "small files": report.figures["files"]["small files"]}

    return work


CASES_BY_NAME = {
    "write": write, "scan": scanning, "prune": pruning, "first": first, "read": reading,
    "tasks": spreading,
    "rewrite": rewriting("main"), "twice": rewriting("twice"),
    "deletes": rewriting("deletes"), "rest": rest,
}  # fmt: skip

if __name__ == "__main__":
    main()
