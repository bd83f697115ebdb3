"""Alterations and rollbacks of an Iceberg table whose metadata has 10,000 snapshots, beside its other engines.

    ./run bench iceberg-refs [--snapshots 10000] [--folder FOLDER] [--cases lakebed-alter,jvm-alter]

Each case does its work ten times, one commit after the other:

    lakebed-alter, pyiceberg-alter, jvm-alter             a column is added
    lakebed-rollback, pyiceberg-rollback, jvm-rollback    the table goes back to the snapshot before its newest

pyiceberg works on a SQL catalog, where the metadata file is registered; Iceberg's own engine in
LAKEBED_ICEBERG_JVM_PYTHON, after one such statement on a small table. Figures go to bench/results/iceberg_refs.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.iceberg_cases import Bench, Statements, keep_metadata, restore_metadata

TIMES = 10
FIRST = 1_000_000_007


def make(folder: Path, snapshots: int) -> None:
    """A table of one file, whose snapshot is in the metadata so many times, each the child of the one before."""
    import lakebed

    place = folder / "db" / "t"
    table = lakebed.create(place, "iceberg", pa.schema([("id", pa.int64())]))
    table.write(pa.table({"id": [1, 2, 3]}))
    newest = place / "metadata" / "v2.metadata.json"
    document = json.loads(newest.read_text())
    (snapshot,) = document["snapshots"]
    ids = [FIRST + number for number in range(snapshots)]
    start = document["last-updated-ms"]
    document["snapshots"] = [
        {**snapshot, "snapshot-id": id, "timestamp-ms": start + number, "sequence-number": number + 1,
         **({"parent-snapshot-id": id - 1} if number else {})}
        for number, id in enumerate(ids)
    ]  # fmt: skip
    document["snapshot-log"] = [{"snapshot-id": id, "timestamp-ms": start + n} for n, id in enumerate(ids)]
    document |= {
        "current-snapshot-id": ids[-1], "last-updated-ms": start + snapshots, "last-sequence-number": snapshots,
        "refs": {"main": {"snapshot-id": ids[-1], "type": "branch"}},
    }  # fmt: skip
    newest.write_text(json.dumps(document))
    keep_metadata(place)


def fresh(folder: Path) -> None:
    restore_metadata(folder / "db" / "t")
    (folder / "c.db").unlink(missing_ok=True)


def opened(folder: Path) -> Any:
    import lakebed

    return lakebed.open(folder / "db" / "t")


def lakebed_alter(folder: Path, snapshots: int) -> Mapping[str, Any]:
    import lakebed

    table = opened(folder)
    for number in range(TIMES):
        table.alter(lakebed.add_column(f"c{number}", "string"))
    return {}


def lakebed_rollback(folder: Path, snapshots: int) -> Mapping[str, Any]:
    table = opened(folder)
    for number in range(TIMES):
        table.rollback(FIRST + snapshots - 2 - number)
    return {}


def registered(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"{folder}/w")
    catalog.create_namespace("n")
    return catalog.register_table("n.t", f"{folder}/db/t/metadata/v2.metadata.json")


def pyiceberg_alter(folder: Path, snapshots: int) -> Mapping[str, Any]:
    from pyiceberg.types import StringType

    table = registered(folder)
    for number in range(TIMES):
        with table.update_schema() as update:
            update.add_column(f"c{number}", StringType())
    return {}


def pyiceberg_rollback(folder: Path, snapshots: int) -> Mapping[str, Any]:
    table = registered(folder)
    for number in range(TIMES):
        table.manage_snapshots().rollback_to_snapshot(FIRST + snapshots - 2 - number).commit()
    return {}


def jvm_alter(folder: Path, snapshots: int) -> Statements:
    warm = ["CREATE TABLE warm.db.t (id bigint) USING iceberg", "ALTER TABLE warm.db.t ADD COLUMN c string"]
    return Statements([f"ALTER TABLE had.db.t ADD COLUMN c{number} string" for number in range(TIMES)], warm)


def jvm_rollback(folder: Path, snapshots: int) -> Statements:
    call = "CALL had.system.rollback_to_snapshot('db.t', {})"
    return Statements([call.format(FIRST + snapshots - 2 - number) for number in range(TIMES)])


BENCH = Bench(
    "iceberg_refs", __doc__, "snapshots", 10_000, make,
    {
        "lakebed-alter": lakebed_alter, "lakebed-rollback": lakebed_rollback, "pyiceberg-alter": pyiceberg_alter,
        "pyiceberg-rollback": pyiceberg_rollback,
    },
    {"jvm-alter": jvm_alter, "jvm-rollback": jvm_rollback}, fresh,
)  # fmt: skip
if __name__ == "__main__":
    BENCH.main()
