"""Adding 10,000 Parquet files to an Iceberg table: seconds, processor time and peak memory, beside its other engines.

    ./run bench iceberg-add-files [--files 10000] [--folder FOLDER] [--cases lakebed,pyiceberg,jvm]

The files have 12 columns and 100 rows and lie in 100 partitions, in Hive's layout. Each case adds them to a new table:

    lakebed      table.add_files(folder)
    pyiceberg    table.add_files(paths) on a SQL catalog. It takes no values from paths, so its table has no partitions
    jvm          Iceberg's own procedure in LAKEBED_ICEBERG_JVM_PYTHON, with two threads

Figures go to bench/results/iceberg_add_files.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.iceberg_cases import Bench, Statements

PARTITIONS, ROWS = 100, 100
COLUMNS = {f"c{n}": pa.int64() if n % 2 else pa.string() for n in range(12)}


def make(folder: Path, files: int) -> None:
    landing = folder / "db" / "t" / "landing"
    for partition in range(PARTITIONS):
        (landing / f"p={partition}").mkdir(parents=True)
    for number in range(files):
        texts = [f"{number}-{n}" for n in range(ROWS)]
        numbers = range(number * ROWS, number * ROWS + ROWS)
        rows = pa.table({n: numbers if pa.types.is_integer(k) else texts for n, k in COLUMNS.items()})
        pq.write_table(rows, landing / f"p={number % PARTITIONS}" / f"{number:06}.parquet")


def fresh(folder: Path) -> None:
    for place in (folder / "db" / "t" / "metadata", folder / "db" / "peer", folder / "w"):
        shutil.rmtree(place, ignore_errors=True)
    (folder / "c.db").unlink(missing_ok=True)


def by_lakebed(folder: Path, files: int) -> Mapping[str, Any]:
    import lakebed

    place = folder / "db" / "t"
    table = lakebed.create(place, "iceberg", pa.schema({**COLUMNS, "p": pa.int32()}), (), ["p"])
    return {"files": table.add_files(str(place / "landing")).files}


def by_pyiceberg(folder: Path, files: int) -> Mapping[str, Any]:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"{folder}/w")
    catalog.create_namespace("n")
    paths = [str(path) for path in (folder / "db" / "t" / "landing").rglob("*.parquet")]
    catalog.create_table("n.t", pa.schema(COLUMNS)).add_files(paths)
    return {"files": len(paths)}


def by_jvm(folder: Path, files: int) -> Statements:
    columns = ", ".join(
        f"{name} {'bigint' if pa.types.is_integer(kind) else 'string'}" for name, kind in COLUMNS.items()
    )
    create = f"CREATE TABLE had.db.peer ({columns}, p int) USING iceberg PARTITIONED BY (p)"
    source = f"`parquet`.`{folder}/db/t/landing`"
    call = f"CALL had.system.add_files(table => 'db.peer', source_table => '{source}', parallelism => 2)"
    return Statements([call], [create])


BENCH = Bench(
    "iceberg_add_files", __doc__, "files", 10_000, make, {"lakebed": by_lakebed, "pyiceberg": by_pyiceberg},
    {"jvm": by_jvm}, fresh,
)  # fmt: skip
if __name__ == "__main__":
    BENCH.main()
