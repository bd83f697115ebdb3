"""Writes into a Paimon primary-key table, beside pypaimon's native path, in one run on one machine.

    ./run bench paimon-write [--rows 1000000] [--runs 3] [--parts engines,hashing,key-dynamic,spark,appends,spilling]

engines: 1,000,000 rows x 10 columns in 4 buckets, then three upserts of a tenth, then a read that merges the four
sorted runs, with fixed and with dynamic buckets. pypaimon runs in the interpreter that LAKEBED_INTEROP_PYTHON names
(with pypaimon-rust for its native path); without it only lakebed is measured. The engines take turns; the best of the
runs counts.

hashing: million keys a second on one core, from columns to bucket numbers.

key-dynamic: the first write of ten times `--rows` keys in 8 partitions (KEY_DYNAMIC), then a hundredth of them that
move to another partition, each with the peak memory of the process that writes.

spark: the same insert on a warm local[2], a DataFrame of a Parquet file in, the shuffle included, beside the local
engine and beside what Spark itself takes to read, shuffle and hand the rows to Python; and the files of a bucket at
several parallelisms.

appends: the same rows into a table without keys and buckets, seven in ten of them in one of ten partitions: both
engines' times, and the files of each partition at several parallelisms beside the least and the most that its bytes
allow.

spilling: one, two, four and eight times `--rows` in random order of their keys, given in batches: the rows beyond
`write-buffer-size` (256 MB) are spilled and merged, beside the same write with room for all of them. Each write is a
process of its own.

The parts that ran replace theirs in results/paimon_write.json.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

RESULT = Path(__file__).parent / "results" / "paimon_write.json"
T = TypeVar("T")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("c_int", pa.int32()),
        ("c_big", pa.int64()),
        ("c_dbl", pa.float64()),
        ("c_name", pa.string()),
        ("c_text", pa.string()),
        ("c_dec", pa.decimal128(10, 2)),
        ("c_ts", pa.timestamp("ms")),
        ("c_date", pa.date32()),
        ("c_bool", pa.bool_()),
    ]
)


def rows(ids: np.ndarray, version: int) -> pa.Table:  # type: ignore[type-arg]
    decimals = np.zeros((len(ids), 2), np.int64)
    decimals[:, 0] = (ids * 7 + version) % 100_000_000
    return pa.Table.from_arrays(
        [
            pa.array(ids),
            pa.array((ids * 31 + version).astype(np.int32)),
            pa.array(ids * 1_000_003 + version),
            pa.array((ids + version) * 0.5),
            pa.array([f"name-{i % 1000}" for i in ids.tolist()]),
            pa.array([f"a longer text value {i}/{version}" for i in ids.tolist()]),
            pa.Array.from_buffers(pa.decimal128(10, 2), len(ids), [None, pa.py_buffer(decimals.tobytes())]),
            pa.array(1_700_000_000_000 + ids * 1000 + version).cast(pa.timestamp("ms")),
            pa.array((19_000 + ids % 1000).astype(np.int32)).cast(pa.date32()),
            pa.array((ids + version) % 2 == 0),
        ],
        schema=SCHEMA,
    )


def measure(write: Callable[[pa.Table], object], read: Callable[[], int], count: int) -> dict[str, float]:
    """Seconds of each stage; making the rows is not counted."""
    seconds: dict[str, float] = {}
    for turn in range(4):
        ids = np.arange(count if turn == 0 else count // 10, dtype=np.int64)
        data = rows(ids if turn == 0 else (ids * 10 + turn) % count, turn)
        timed(seconds, "insert" if turn == 0 else f"upsert {turn}", lambda data=data: write(data))
    found = timed(seconds, "read", read)
    assert found == count, f"{found} rows read"
    return seconds


def timed(seconds: dict[str, float], stage: str, act: Callable[[], T]) -> T:
    """Wall seconds of the stage, and the CPU seconds of all threads under `STAGE cpu`: those hold on a busy machine
    too."""
    wall, cpu = time.perf_counter(), time.process_time()
    made = act()
    seconds[stage] = round(time.perf_counter() - wall, 4)
    seconds[f"{stage} cpu"] = round(time.process_time() - cpu, 4)
    return made


def lakebed_run(warehouse: str, count: int, options: dict[str, str]) -> dict[str, float]:
    import lakebed

    table = lakebed.create(
        f"{warehouse}/bench.db/ours{len(options)}", "paimon", SCHEMA, ["id"], options={"bucket": "4", **options}
    )
    return measure(lambda data: table.write(data, "upsert"), lambda: table.read().read_all().num_rows, count)


def pypaimon_run(warehouse: str, count: int) -> dict[str, float]:
    """Runs in the other interpreter."""
    import pypaimon
    from pypaimon import Schema

    catalog = pypaimon.CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("bench", True)
    schema = Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options={"bucket": "4"})
    catalog.create_table("bench.theirs", schema, False)
    native = {f"{verb}.native.enabled": "true" for verb in ("read", "write", "commit")}
    table = catalog.get_table("bench.theirs").copy(native)

    def write(data: pa.Table) -> None:
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(data)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def read() -> int:
        builder = table.new_read_builder()
        return int(builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows)

    return measure(write, read, count)


def best(runs: list[dict[str, float]]) -> dict[str, float]:
    return {stage: min(run[stage] for run in runs) for stage in runs[0]}


def engines(given: argparse.Namespace) -> dict[str, object]:
    """The stages of each engine, in turns."""
    outside = os.environ.get("LAKEBED_INTEROP_PYTHON")
    found: dict[str, list[dict[str, float]]] = {"lakebed": [], "lakebed, dynamic buckets": []}
    for turn in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            found["lakebed"].append(lakebed_run(folder, given.rows, {}))
            dynamic = {"bucket": "-1", "dynamic-bucket.target-row-num": str(given.rows // 4)}
            found["lakebed, dynamic buckets"].append(lakebed_run(folder, given.rows, dynamic))
            if outside:
                made = child([outside, __file__, "--rows", str(given.rows), "--pypaimon", folder])
                found.setdefault("pypaimon native", []).append(made)
        print(f"run {turn + 1}: { ({name: runs[-1] for name, runs in found.items()}) }", file=sys.stderr)
    return {name: best(runs) for name, runs in found.items()}


def child(command: list[str]) -> dict[str, float]:
    """The JSON of the last line that a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return made


def hashing(given: argparse.Namespace) -> dict[str, object]:
    """From columns to buckets on one thread, the best of five tries of each kind of key."""
    from lakebed.formats.paimon.definition import BucketMode, new_schema
    from lakebed.formats.paimon.write.routing import Router

    count = 2_000_000
    numbers = np.random.default_rng(1).integers(0, 1 << 40, count)
    big, small = pa.array(numbers), pa.array((numbers % (1 << 31)).astype(np.int32))
    wide = numbers.view(np.uint64) | np.uint64(1 << 62)
    sixteen = pa.Array.from_buffers(
        pa.decimal128(38, 0),
        count,
        [None, pa.py_buffer(np.stack([wide, numbers.astype(np.uint64) << 20], 1).tobytes())],
    )
    keys = {
        "BIGINT": [big],
        "INT": [small],
        "BIGINT, INT": [big, small],
        "DATE": [small.cast(pa.date32())],
        "TIMESTAMP(3)": [big.cast(pa.timestamp("ms"))],
        "TIMESTAMP(6)": [big.cast(pa.timestamp("us"))],
        "DECIMAL(18, 0)": [big.cast(pa.decimal128(38, 0)).cast(pa.decimal128(18, 0))],
        "DECIMAL(25, 0)": [big.cast(pa.decimal128(38, 0)).cast(pa.decimal128(25, 0))],
        "DECIMAL(38, 0) of 16 bytes": [sixteen],
        "STRING of 6": [pa.array([f"{n % 10**6:06}" for n in numbers.tolist()])],
        "STRING of 18": [pa.array([f"order-{n % 10**12:012}" for n in numbers.tolist()])],
    }
    made: dict[str, object] = {"unit": "million keys a CPU second, one thread"}
    for name, columns in keys.items():
        data = pa.table(columns, names=[f"k{place}" for place in range(len(columns))])
        schema = new_schema(data.schema, data.schema.names, (), {"bucket": "16"}, "bench")
        router = Router(schema, BucketMode.HASH_FIXED, 16)
        partitions = router.partitions(data)
        seconds = []
        for _ in range(5):
            start = time.process_time()
            router.fixed_buckets(data, partitions)
            seconds.append(time.process_time() - start)
        made[name] = round(count / min(seconds) / 1e6, 1)
    return made


MOVING = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.int32(), False), ("v", pa.int64())])


def moving(ids: np.ndarray, partitions: np.ndarray) -> pa.Table:  # type: ignore[type-arg]
    return pa.table([pa.array(ids), pa.array(partitions.astype(np.int32)), pa.array(ids * 3)], schema=MOVING)


def key_dynamic(given: argparse.Namespace) -> dict[str, object]:
    """Each write in a process of its own, whose memory is looked at."""
    import lakebed

    with tempfile.TemporaryDirectory() as folder:
        lakebed.create(f"{folder}/t", "paimon", MOVING, ["id"], ["p"], {"bucket": "-1"})
        made: dict[str, object] = {"keys in the table": given.rows * 10}
        for step in KEY_STEPS:
            command = [sys.executable, "-m", "bench.paimon_write", "--rows", str(given.rows)]
            made[step] = child([*command, "--step", step, f"{folder}/t"])
        return made


def filled(location: str, count: int) -> dict[str, float]:
    """The first write of all keys."""
    import lakebed

    table = lakebed.open(location)
    steps = [np.arange(start, min(count * 10, start + 500_000)) for start in range(0, count * 10, 500_000)]
    batches = (batch for ids in steps for batch in moving(ids, ids % 8).to_batches())
    return measured(lambda: table.write(pa.RecordBatchReader.from_batches(MOVING, batches)))


def moved(location: str, count: int) -> dict[str, float]:
    """Every hundredth key to another partition."""
    import lakebed

    table = lakebed.open(location)
    ids = np.arange(0, count * 10, 100)
    data = moving(ids, (ids + 1) % 8)
    return {"rows": len(ids)} | measured(lambda: table.write(data, "upsert"))


KEY_STEPS = {"first write": filled, "move": moved}


def measured(act: Callable[[], object]) -> dict[str, float]:
    """Seconds, and memory in MiB: of the process before the write and at its peak."""
    seconds: dict[str, float] = {"MiB before": peak_mebibytes()}
    timed(seconds, "wall", act)
    seconds["cpu"] = seconds.pop("wall cpu")
    return seconds | {"MiB at the peak": peak_mebibytes()}


def peak_mebibytes() -> float:
    """The most memory that this program has held (what the program before it in this process held does not count)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return round(int(status["VmHWM"].split()[0]) / 1024)


def tree_cpu() -> float:
    """CPU seconds of this process and all below it."""
    below: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            process = int(stat.parent.name)
            below.setdefault(int(fields[1]), []).append(process)
            seconds[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def whole(process: int) -> float:
        return seconds.get(process, 0.0) + sum(map(whole, below.get(process, [])))

    return whole(os.getpid())


def spark(given: argparse.Namespace) -> dict[str, object]:
    """Wall and CPU seconds (JVM and Python workers too), the best of the runs after one that warms up."""
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame

    import lakebed
    import lakebed.spark
    from lakebed.formats.paimon.manifests import live_files
    from lakebed.formats.paimon.snapshot import History
    from lakebed.spark.session import local_session

    def drained(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (batch.slice(0, 0) for batch in batches)

    def floor(frame: DataFrame) -> None:
        frame.repartition(2).mapInArrow(drained, frame.schema).write.format("noop").mode("overwrite").save()

    made: dict[str, object] = {}
    data = rows(np.arange(given.rows, dtype=np.int64), 0)
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(data, f"{folder}/rows.parquet", row_group_size=given.rows // 8)
        session = local_session("local[2]", app="bench")
        frame = session.read.parquet(f"{folder}/rows.parquet")
        fresh = itertools.count()

        def table(**options: str) -> lakebed.Table:
            where = f"{folder}/{next(fresh)}"
            return lakebed.create(where, "paimon", SCHEMA, ["id"], options={"bucket": "4", **options})

        def write(tasks: int, **options: str) -> lakebed.Table:
            target = table(**options)
            lakebed.spark.write(frame, target.location, options={"sink.parallelism": tasks})
            return target

        acts: dict[str, Callable[[], object]] = {
            "local engine": lambda: table().write(data),
            "lakebed.spark.write": lambda: write(2),
            "Spark alone: read, shuffle, hand to Python": lambda: floor(frame),
        }
        made |= warm(acts, given.runs)
        target_size = 1 << 20
        for tasks in (2, 4, 8, 16):
            written = write(tasks, **{"target-file-size": str(target_size)})
            sizes: dict[int, list[int]] = {}
            for entry in live_files(written.store, History(written.store).latest()):
                sizes.setdefault(entry.bucket, []).append(entry.file.file_size)
            made[f"files of a bucket at parallelism {tasks}: found, ceil(bytes / 1 MiB)"] = {
                bucket: [len(some), -(-sum(some) // target_size)] for bucket, some in sorted(sizes.items())
            }
        session.stop()
    return made


def warm(acts: dict[str, Callable[[], object]], runs: int) -> dict[str, object]:
    """Seconds of each act, the best of the runs after one that warms up."""
    for act in acts.values():
        act()
    made: dict[str, object] = {}
    for name, act in acts.items():
        tries = []
        for _ in range(runs):
            wall, cpu = time.perf_counter(), tree_cpu()
            act()
            tries.append((round(time.perf_counter() - wall, 2), round(tree_cpu() - cpu, 2)))
        made[name] = {"wall": min(tries)[0], "cpu": min(cpu for _, cpu in tries)}
    return made


def appends(given: argparse.Namespace) -> dict[str, object]:
    """As `spark`, for a table without buckets."""
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame

    import lakebed
    import lakebed.spark
    from lakebed.formats.paimon.write.file_maker import greatest_size
    from lakebed.spark.session import local_session
    from lakebed.verbs.two_phase import TableWriter

    ids = np.arange(given.rows, dtype=np.int64)
    parts = np.where(ids % 10 < 7, "d", np.char.mod("s%d", ids // 10 % 9))
    data = rows(ids, 0).append_column("part", pa.array(parts.astype(str)))
    target_size = 1 << 20
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(data, f"{folder}/rows.parquet", row_group_size=given.rows // 8)
        session = local_session("local[2]", app="bench")
        frame = session.read.parquet(f"{folder}/rows.parquet")
        fresh = itertools.count()

        def table(**options: str) -> lakebed.Table:
            return lakebed.create(f"{folder}/{next(fresh)}", "paimon", data.schema, (), ["part"], options)

        def by_spark(frame: DataFrame, tasks: int, **options: str) -> str:
            target = table(**options).location
            lakebed.spark.write(frame, target, options={"sink.parallelism": tasks})
            return target

        def here(threads: int, **options: str) -> str:
            target = table(**options)
            with TableWriter(target.sink(), threads) as writer:
                writer.write(data)
                writer.prepare_commit()
                writer.commit()
            return target.location

        def files(location: str) -> dict[str, list[int]]:
            sizes: dict[str, list[int]] = {}
            for path in Path(location).glob("part=*/bucket-0/data-*"):
                sizes.setdefault(path.parent.parent.name, []).append(path.stat().st_size)
            found = {
                name: [len(some), -(-sum(some) // greatest_size(target_size)), -(-sum(some) // target_size)]
                for name, some in sorted(sizes.items())
            }
            assert all(least <= count <= most for count, least, most in found.values()), found
            return found

        made = warm(
            {
                "local engine": lambda: here(2),
                "lakebed.spark.write": lambda: by_spark(frame, 2),
                "lakebed.spark.write, files of 1 MiB": lambda: by_spark(frame, 2, **{"target-file-size": "1 mb"}),
            },
            given.runs,
        )
        for tasks in (2, 4, 8, 16):
            named = f"files of a partition at parallelism {tasks}: found, ceil(bytes / 1.4 MiB), ceil(bytes / 1 MiB)"
            made[f"local engine, {named}"] = files(here(tasks, **{"target-file-size": "1 mb"}))
            made[f"Spark, {named}"] = files(by_spark(frame.repartition(tasks), tasks, **{"target-file-size": "1 mb"}))
        session.stop()
    return made


def spilling(given: argparse.Namespace) -> dict[str, object]:
    made: dict[str, object] = {}
    for times in (1, 2, 4, 8):
        count = given.rows * times
        of_size: dict[str, dict[str, float]] = {}
        for name, buffer in (("256 MB", "256mb"), ("room for all", "64gb")):
            runs = []
            for _ in range(given.runs):
                with tempfile.TemporaryDirectory() as folder:
                    command = [sys.executable, "-m", "bench.paimon_write", "--rows", str(count)]
                    done = subprocess.run([*command, "--buffer", buffer, folder], capture_output=True, check=True)
                    runs.append(json.loads(done.stdout))
            of_size[name] = best(runs)
        ratio = of_size["256 MB"]["write cpu"] / of_size["room for all"]["write cpu"]
        made[f"{count:,} rows"] = {**of_size, "processor time, spilled to in memory": {"times": round(ratio, 2)}}
    return made


def buffered_run(count: int, buffer: str, folder: str) -> dict[str, float]:
    """One write in batches, with a `write-buffer-size`."""
    import lakebed

    data = rows(np.random.default_rng(1).permutation(count).astype(np.int64), 0)
    options = {"bucket": "4", "write-buffer-size": buffer}
    table = lakebed.create(f"{folder}/t", "paimon", SCHEMA, ["id"], options=options)
    batches = data.to_batches(max_chunksize=100_000)
    seconds: dict[str, float] = {}
    timed(seconds, "write", lambda: table.write(pa.RecordBatchReader.from_batches(SCHEMA, batches)))
    return seconds


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "engines": engines, "hashing": hashing, "key-dynamic": key_dynamic, "spark": spark,
    "appends": appends, "spilling": spilling,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--pypaimon", metavar="WAREHOUSE", help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=2, metavar=("NAME", "TABLE"), help=argparse.SUPPRESS)
    parser.add_argument("--buffer", nargs=2, metavar=("SIZE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.buffer:
        print(json.dumps(buffered_run(given.rows, *given.buffer)))
        return
    if given.pypaimon:
        print(json.dumps(pypaimon_run(given.pypaimon, given.rows)))
        return
    if given.step:
        step, location = given.step
        print(json.dumps(KEY_STEPS[step](location, given.rows)))
        return
    for part in given.parts.split(","):
        found = PARTS[part](given)
        result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        result |= {"bench": "paimon-write", "rows": given.rows, "unit": "seconds, best of the runs"}
        result[part] = found
        result.setdefault("measured", {})[part] = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "runs": given.runs,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        }
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps({part: found}, indent=2))


if __name__ == "__main__":
    main()
