"""Writes into a Paimon primary-key table, beside pypaimon's native path, in one run on one machine.

    ./run bench paimon-write [--rows 1000000] [--runs 3]

1,000,000 rows x 10 columns in 4 buckets, then three upserts of a tenth, then a read that merges the four sorted runs.
pypaimon runs in the interpreter that LAKEBED_INTEROP_PYTHON names (with pypaimon-rust for its native path); without
it only lakebed is measured. The engines take turns; the best of the runs counts. The result goes to
results/paimon_write.json.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pypaimon", metavar="WAREHOUSE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pypaimon:
        print(json.dumps(pypaimon_run(given.pypaimon, given.rows)))
        return
    outside = os.environ.get("LAKEBED_INTEROP_PYTHON")
    engines: dict[str, list[dict[str, float]]] = {"lakebed": [], "lakebed, dynamic buckets": []}
    for turn in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            engines["lakebed"].append(lakebed_run(folder, given.rows, {}))
            dynamic = {"bucket": "-1", "dynamic-bucket.target-row-num": str(given.rows // 4)}
            engines["lakebed, dynamic buckets"].append(lakebed_run(folder, given.rows, dynamic))
            if outside:
                command = [outside, __file__, "--rows", str(given.rows), "--pypaimon", folder]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                engines.setdefault("pypaimon native", []).append(json.loads(done.stdout.splitlines()[-1]))
        print(f"run {turn + 1}: { ({name: runs[-1] for name, runs in engines.items()}) }", file=sys.stderr)
    result = {
        "bench": "paimon-write",
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        "rows": given.rows,
        "runs": given.runs,
        "unit": "seconds, best of the runs",
        "engines": {name: best(runs) for name, runs in engines.items()},
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
