"""The writers of one process in `bench/commits.py`.

    python commits_writer.py CASE FOLDER SECONDS THREADS

SECONDS is 0 to create the table, and -1 to check that THREADS commits are in it. Otherwise each thread makes a first
commit; then the process prints `ready`, waits for a line, and commits for so many seconds. It prints one JSON object:
the commits of each thread, how often one had to begin anew, and the longest time of one commit.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

ROWS = 10
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
DATA = pa.table({"id": range(ROWS), "name": [f"row {n}" for n in range(ROWS)]}, schema=SCHEMA)
Commit = Callable[[], int]
"""Commits once, and says how often it had to begin anew."""
Engine = tuple[Callable[[], object], Callable[[], Commit], Callable[[], int]]
"""Creates the table; opens it for a writer; counts its rows."""


def of_lakebed(format: str, folder: str) -> Engine:
    import lakebed

    place, options = f"{folder}/t", {}
    if format == "iceberg-catalog":
        place, format, options = "bench:n.t", "iceberg", sql_catalog(folder)
        options = {f"lakebed.catalog.{key}": value for key, value in options.items()}
    patient = {
        "paimon": {"commit.max-retries": "1000", "commit.timeout": "10 min", "snapshot.num-retained.min": "1000000"},
        "iceberg": {"commit.retry.num-retries": "1000"},
        "hudi": {
            "hoodie.write.num.retries.on.conflict.failures": "100", "hoodie.parquet.small.file.limit": "0",
            "hoodie.metadata.enable": "false",
        },
    }[format]  # fmt: skip

    def create() -> None:
        settings = {**options, **(patient if format == "iceberg" else {})}
        lakebed.create(place, format, SCHEMA, ["id"] if format == "hudi" else [], options=settings)

    def open_table() -> Commit:
        table = lakebed.open(place, options if format == "iceberg" else patient)
        write_options = {"hoodie.datasource.write.operation": "insert"} if format == "hudi" else {}

        def commit() -> int:
            table.write(DATA, options=write_options)
            return 0

        return commit

    return create, open_table, lambda: lakebed.open(place, options).read(["id"]).read_all().num_rows


def sql_catalog(folder: str) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/c.db?timeout=60", "warehouse": f"file://{folder}/w"}


def of_pyiceberg(folder: str) -> Engine:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException

    def catalog() -> Any:
        return load_catalog("bench", **sql_catalog(folder))

    def create() -> None:
        found = catalog()
        found.create_namespace("n")
        found.create_table("n.t", SCHEMA)

    def open_table() -> Commit:
        from sqlalchemy.exc import OperationalError

        table = catalog().load_table("n.t")

        def commit() -> int:
            anew = 0
            while True:
                try:
                    table.append(DATA)
                    return anew
                except (CommitFailedException, OperationalError):
                    anew += 1
                    table.refresh()

        return commit

    return create, open_table, lambda: catalog().load_table("n.t").scan().count()


def of_pypaimon(folder: str) -> Engine:
    from pypaimon import CatalogFactory, Schema

    def catalog() -> Any:
        return CatalogFactory.create({"warehouse": folder})

    def create() -> None:
        found = catalog()
        found.create_database("d", True)
        found.create_table("d.t", Schema.from_pyarrow_schema(SCHEMA, options={"bucket": "-1"}), False)

    def open_table() -> Commit:
        builder = catalog().get_table("d.t").new_batch_write_builder()

        def commit() -> int:
            anew = 0
            while True:
                writer, committer = builder.new_write(), builder.new_commit()
                try:
                    writer.write_arrow(DATA)
                    committer.commit(writer.prepare_commit())
                    return anew
                except RuntimeError:
                    anew += 1
                finally:
                    writer.close()
                    committer.close()

        return commit

    return create, open_table, lambda: 0


def engine(case: str, folder: str) -> Engine:
    owner, _, rest = case.removesuffix("-threads").partition("-")
    if owner == "lakebed":
        return of_lakebed(rest, folder)
    return of_pyiceberg(folder) if owner == "pyiceberg" else of_pypaimon(folder)


def main(case: str, folder: str, seconds: float, count: int) -> None:
    create, open_table, rows = engine(case, folder)
    if seconds == 0:
        create()
        return
    if seconds < 0:
        if rows() != count * ROWS:
            sys.exit(f"{case}: {count} commits were acknowledged, and the table has {rows()} rows")
        return
    commits, anew, longest = [0] * count, [0] * count, [0.0] * count
    ready, start = threading.Barrier(count + 1), threading.Event()

    def write(number: int) -> None:
        commit = open_table()
        commit()
        ready.wait()
        start.wait()
        ends = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ends:
            anew[number] += commit()
            longest[number] = max(longest[number], time.perf_counter() - began)
            commits[number] += 1

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    began, worked = time.perf_counter(), time.process_time()
    start.set()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - began
    worked = time.process_time() - worked
    figures = {"begun_anew": sum(anew), "longest": max(longest), "seconds": wall, "processor_seconds": worked}
    print(json.dumps({"commits": commits, **figures}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
