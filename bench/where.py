"""What `where` costs by the width of a table: seconds of processor time at 10, 100 and 1,000 columns.

    ./run bench where [--before FOLDER] [--columns 10,100,1000] [--repeats 5]

Each table has 3 data files of 1,000 rows. The predicate names two columns, and the statistics of one of them rule out
two files. Measured are the two ways to parse a predicate (SQL text, a pyarrow expression), and in each format a read
without `where` and reads with both. `--before` measures the sources of another checkout too, on the same tables. The
figures are the least of several runs in one process, after a first run that is not counted. They go to
bench/results/where.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakebed
from lakebed.kernel.predicates.where import Where, parse_where

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "where.json"
FILES, ROWS = 3, 1000
SQL = "c0 >= 2500 and c1 < 7"
FORMATS = ("hudi", "paimon", "iceberg")
_LONG_ENOUGH = 10.0
"""Seconds after which a case is not repeated."""
_HUDI_TIME = "20260301000000000"
_HUDI_PROPERTIES = {
    "hoodie.table.name": "wide",
    "hoodie.table.version": "6",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "c0",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, whose sources are measured too")
    parser.add_argument("--columns", default="10,100,1000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tables", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    widths = [int(width) for width in given.columns.split(",")]
    if given.tables:
        print(json.dumps(measured(given.tables, widths, given.repeats)))
        return
    sources = {"before": given.before} if given.before else {}
    with tempfile.TemporaryDirectory() as folder:
        for width in widths:
            make_tables(Path(folder), width)
        figures = {
            name: in_a_process(source, Path(folder), given) for name, source in {**sources, "after": ROOT}.items()
        }
    for case in figures["after"]:
        for name, cases in figures.items():
            shown = "  ".join(f"{width}: {seconds:8.4f}" for width, seconds in cases[case].items())
            print(f"{case:34} {name:6} {shown}")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": round(os.getloadavg()[0], 1)}
    found = {"machine": machine, "files": FILES, "rows": FILES * ROWS, "cpu_seconds": figures}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


def in_a_process(source: Path, tables: Path, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The figures of the sources in a checkout."""
    command = [sys.executable, "-m", "bench.where", "--tables", str(tables)]
    command += ["--columns", given.columns, "--repeats", str(given.repeats)]
    environment = {**os.environ, "PYTHONPATH": f"{source.resolve()}/src"}
    text = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, dict[str, float]] = json.loads(text.splitlines()[-1])
    return figures


def measured(tables: Path, widths: list[int], repeats: int) -> dict[str, dict[str, float]]:
    """Seconds of processor time of each case, by the number of columns."""
    expression = (pc.field("c0") >= 2500) & (pc.field("c1") < 7)
    ways: dict[str, Where] = {"no where": None, "SQL": SQL, "pyarrow": expression}
    figures: dict[str, dict[str, float]] = {}
    for width in widths:
        schema = schema_of(width)
        cases: dict[str, Callable[[], Any]] = {
            "parse SQL": lambda schema=schema: parse_where(SQL, schema),
            "parse pyarrow": lambda schema=schema: parse_where(expression, schema),
        }
        for format in FORMATS:
            for name, where in ways.items():
                location = tables / f"{format}{width}"
                cases[f"read {format}, {name}"] = lambda location=location, where=where: read(location, where)
        for case, work in cases.items():
            figures.setdefault(case, {})[str(width)] = round(least(work, repeats), 5)
    return figures


def least(work: Callable[[], Any], repeats: int) -> float:
    """The least processor time of some runs, after one that is not counted."""
    began = time.perf_counter()
    work()
    runs: list[float] = []
    while not runs or (len(runs) < repeats and time.perf_counter() - began < _LONG_ENOUGH):
        used = time.process_time()
        work()
        runs.append(time.process_time() - used)
    return min(runs)


def read(location: Path, where: Where) -> None:
    rows = lakebed.open(location).read(columns=["c0"], where=where).read_all().num_rows
    assert rows == (FILES * ROWS if where is None else 500 // 10 * 7), rows


def schema_of(width: int) -> pa.Schema:
    return pa.schema([(f"c{number}", pa.int64()) for number in range(width)])


def rows_of(file: int, width: int) -> pa.Table:
    """The rows of one file: c0 counts on from file to file, the other columns repeat the numbers up to 9."""
    first = pa.array(range(file * ROWS, (file + 1) * ROWS), pa.int64())
    digits = pa.array([row % 10 for row in range(ROWS)], pa.int64())
    return pa.Table.from_arrays([first, *[digits] * (width - 1)], schema=schema_of(width))


def make_tables(folder: Path, width: int) -> None:
    for format in ("paimon", "iceberg"):
        table = lakebed.create(folder / f"{format}{width}", format, schema_of(width))
        for file in range(FILES):
            table.write(rows_of(file, width))
    make_hudi_table(folder / f"hudi{width}", width)


def make_hudi_table(table: Path, width: int) -> None:
    """A copy-on-write table of one commit; lakebed does not write Hudi tables yet."""
    timeline = table / ".hoodie"
    timeline.mkdir(parents=True)
    lines = [f"{key}={value}\n" for key, value in _HUDI_PROPERTIES.items()]
    (timeline / "hoodie.properties").write_text("".join(lines))
    (table / ".hoodie_partition_metadata").write_text("partitionDepth=0\n")
    stats = []
    for file in range(FILES):
        rows = rows_of(file, width)
        file_id = f"0000000{file}-aaaa-bbbb-cccc-000000000000-0"
        name = f"{file_id}_0-1-1_{_HUDI_TIME}.parquet"
        meta = {
            "_hoodie_commit_time": pa.repeat(_HUDI_TIME, ROWS),
            "_hoodie_commit_seqno": pa.array([f"{_HUDI_TIME}_{file}_{row}" for row in range(ROWS)]),
            "_hoodie_record_key": rows["c0"].cast(pa.string()),
            "_hoodie_partition_path": pa.repeat("", ROWS),
            "_hoodie_file_name": pa.repeat(name, ROWS),
        }
        columns = [*meta.values(), *rows.columns]
        pq.write_table(pa.Table.from_arrays(columns, [*meta, *rows.column_names]), table / name)
        size = (table / name).stat().st_size
        stats.append(
            {"fileId": file_id, "path": name, "prevCommit": "null", "numWrites": ROWS, "fileSizeInBytes": size}
        )
    fields = [{"name": field.name, "type": ["null", "long"], "default": None} for field in schema_of(width)]
    schema = json.dumps({"type": "record", "name": "row", "fields": fields})
    written = {"partitionToWriteStats": {"": stats}, "operationType": "INSERT", "extraMetadata": {"schema": schema}}
    (timeline / f"{_HUDI_TIME}.commit").write_text(json.dumps(written))
    (timeline / f"{_HUDI_TIME}.commit.requested").touch()
    (timeline / f"{_HUDI_TIME}.inflight").touch()


if __name__ == "__main__":
    main()
