"""Checking an Iceberg table of 100,000 data files for lost ones: seconds, processor time, peak memory, and store calls.

    ./run bench iceberg-repair [--files 100000] [--folder FOLDER] [--cases length,pyiceberg,jvm]

The table has 100,000 small Parquet files in 1,000 partitions (links to one file), of which 100 are gone:

    existence, length, footer, data    the dry run of table.repair() at each depth
    repair                             table.repair(): the check at depth `length`, and the commit without the 100
    pyiceberg                          its plan of all files, and `exists` of its FileIO for each, in 16 threads: what
                                       scripts do today
    jvm                                Iceberg's own `rewrite_manifests` in LAKEBED_ICEBERG_JVM_PYTHON: no engine checks
                                       files, and this reads and writes the same manifests

Figures go to bench/results/iceberg_repair.json.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.iceberg_cases import Bench, Case, Statements, keep_metadata, restore_metadata

DEPTHS = ("existence", "length", "footer", "data")
PARTITIONS, LOST, COMMITS = 1000, 100, 20


def make(place: Path, files: int) -> None:
    """The table, of which the first `LOST` files are gone."""
    import lakebed
    from lakebed.formats.iceberg.codec.schema import arrow_schema
    from lakebed.formats.iceberg.data_files import DataFile
    from lakebed.formats.iceberg.table import IcebergTable
    from tests.tables.iceberg import commits

    folder = place / "db" / "t"
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    table = lakebed.create(folder, "iceberg", schema, (), ["p"])
    assert isinstance(table, IcebergTable)
    source = folder / "data" / "source.parquet"
    source.parent.mkdir(parents=True)
    rows = pa.table({"id": range(100), "p": [0] * 100}, schema=arrow_schema(table.table_metadata.schema, ids=True))
    pq.write_table(rows, source)
    size = source.stat().st_size
    made: list[DataFile] = []
    for number in range(files):
        data = folder / "data" / f"p={number % PARTITIONS}" / f"{number:08}.parquet"
        if number < PARTITIONS:
            data.parent.mkdir()
        if number % 10_000 == 0:  # a disk allows some ten thousand links to a file
            source = Path(shutil.copyfile(source, source.with_name(f"source-{number}.parquet")))
        if number >= LOST:
            os.link(source, data)
        made.append(DataFile(str(data), "PARQUET", 0, (number % PARTITIONS,), 100, size, split_offsets=(4,)))
    for start in range(0, files, files // COMMITS):
        commits.append(table.operations, made[start : start + files // COMMITS])
    keep_metadata(folder)


def by_lakebed(depth: str, place: Path, files: int, dry_run: bool = True) -> Mapping[str, Any]:
    import lakebed
    from lakebed.kernel.files import open_store
    from lakebed.testing.faults import FaultyStore

    store = FaultyStore(open_store(place / "db" / "t"))
    lost = lakebed.open(store).repair(dry_run=dry_run, options={"lakebed.repair.check": depth}).lost
    assert len(lost) == LOST
    return {"calls": dict(Counter(call.verb for call in store.calls))}


def by_pyiceberg(place: Path, files: int) -> Mapping[str, Any]:
    from pyiceberg.table import StaticTable

    metadata = (place / "db" / "t" / "metadata").glob("v*.metadata.json")
    newest = max(metadata, key=lambda path: int(path.name[1:].split(".")[0]))
    table = StaticTable.from_metadata(str(newest))
    paths = [task.file.file_path for task in table.scan().plan_files()]
    with ThreadPoolExecutor(16) as pool:
        lost = sum(not there for there in pool.map(lambda path: table.io.new_input(path).exists(), paths))
    assert lost == LOST
    return {}


def by_jvm(place: Path, files: int) -> Statements:
    return Statements(["CALL had.system.rewrite_manifests(table => 'db.t', use_caching => false)"])


CASES: dict[str, Case] = {
    **{depth: partial(by_lakebed, depth) for depth in DEPTHS},
    "repair": partial(by_lakebed, "length", dry_run=False), "pyiceberg": by_pyiceberg,
}  # fmt: skip
BENCH = Bench(
    "iceberg_repair", __doc__, "files", 100_000, make, CASES, {"jvm": by_jvm},
    lambda place: restore_metadata(place / "db" / "t"),
)  # fmt: skip
if __name__ == "__main__":
    BENCH.main()
