"""Upserts into an Iceberg table: seconds, processor time and peak memory, beside its other engines.

    ./run bench iceberg-upsert [--rows 100000] [--folder FOLDER] [--cases lakebed,pyiceberg,jvm]

The table has so many rows of 5 columns in 4 files, and as many come in one upsert, in random order: half of them
replace a row, half are new.

    lakebed      table.write(rows, mode="upsert"): the old rows are found, and deletion vectors name their positions
    pyiceberg    table.upsert(rows) on a SQL catalog; it is stopped after 10 minutes, and its figures say so
    jvm          MERGE INTO of Iceberg's own engine in LAKEBED_ICEBERG_JVM_PYTHON, merge-on-read

Figures go to bench/results/iceberg_upsert.json, by the number of rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.iceberg_cases import Bench, Statements

FILES = 4
PATIENCE = 600


def make(folder: Path, count: int) -> None:
    for name, ids in (("first", np.arange(count)), ("changes", np.arange(count // 2, count // 2 + count))):
        chance = np.random.default_rng(len(name))
        chance.shuffle(ids)
        rows = pa.table({
            "id": ids, "cust": chance.integers(0, 1000, count), "amount": chance.random(count),
            "day": (18_262 + chance.integers(0, 1500, count)).astype("datetime64[D]"),
            "note": [f"note {number % 5000} of {name}" for number in ids.tolist()],
        })  # fmt: skip
        pq.write_table(rows, folder / f"{name}.parquet")


def fresh(folder: Path) -> None:
    for place in ("db", "w"):
        shutil.rmtree(folder / place, ignore_errors=True)
    (folder / "c.db").unlink(missing_ok=True)


def by_lakebed(folder: Path, count: int) -> Mapping[str, Any]:
    import lakebed

    first, changes = pq.read_table(folder / "first.parquet"), pq.read_table(folder / "changes.parquet")
    table = lakebed.create(folder / "db" / "t", "iceberg", first.schema, ["id"], options={"format-version": "3"})
    for start in range(0, count, count // FILES):
        table.write(first.slice(start, count // FILES))
    began = processor_seconds()
    table.write(changes, mode="upsert")
    return {"upsert_cpu_seconds": round(processor_seconds() - began, 2)}


def by_pyiceberg(folder: Path, count: int) -> Mapping[str, Any]:
    from pyiceberg.catalog.sql import SqlCatalog

    first, changes = pq.read_table(folder / "first.parquet"), pq.read_table(folder / "changes.parquet")
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"{folder}/w")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", first.schema)
    for start in range(0, count, count // FILES):
        table.append(first.slice(start, count // FILES))
    began = processor_seconds()
    table.upsert(changes, join_cols=["id"])
    return {"upsert_cpu_seconds": round(processor_seconds() - began, 2)}


def processor_seconds() -> float:
    import time

    return time.process_time()


def by_jvm(folder: Path, count: int) -> Statements:
    properties = "TBLPROPERTIES ('format-version'='3', 'write.merge.mode'='merge-on-read')"
    warm = [
        f"CREATE TABLE warm.db.t USING iceberg {properties} AS SELECT * FROM parquet.`{folder}/first.parquet` LIMIT 9",
        merge("warm.db.t", f"(SELECT * FROM parquet.`{folder}/changes.parquet` LIMIT 9)"),
    ]
    create = (
        f"CREATE TABLE had.db.peer USING iceberg {properties} AS SELECT /*+ REPARTITION({FILES}) */ * "
        f"FROM parquet.`{folder}/first.parquet`"
    )
    return Statements([merge("had.db.peer", f"parquet.`{folder}/changes.parquet`")], [*warm, create])


def merge(table: str, source: str) -> str:
    return (
        f"MERGE INTO {table} t USING {source} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


BENCH = Bench(
    "iceberg_upsert", __doc__, "rows", 100_000, make,
    {"lakebed": by_lakebed, "pyiceberg": by_pyiceberg},
    {"jvm": by_jvm}, fresh, {"pyiceberg": PATIENCE},
)  # fmt: skip
if __name__ == "__main__":
    BENCH.main()
