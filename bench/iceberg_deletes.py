"""Equality deletes of an Iceberg table into deletion vectors: seconds, processor time, peak memory and bytes written.

    ./run bench iceberg-deletes [--rows 2000000] [--folder FOLDER] [--cases lakebed,jvm]

The table has so many rows in 20 files, and 5 commits that each delete 1 row in 200 by its key.

    lakebed      table.rewrite with `lakebed.rewrite.what` = equality-deletes: one vector per data file
    jvm          rewrite_data_files with delete-file-threshold=1 in LAKEBED_ICEBERG_JVM_PYTHON: no procedure of Iceberg
                 makes vectors of equality deletes, so its users rewrite the data files

Figures go to bench/results/iceberg_deletes.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.iceberg_cases import Bench, Statements, keep_metadata, restore_metadata

FILES, COMMITS, SHARE = 20, 5, 200


def make(folder: Path, count: int) -> None:
    import lakebed
    from tests.tables.iceberg.lake import Lake

    chance = np.random.default_rng(1)
    schema = pa.schema([("id", pa.int64()), ("cust", pa.int64()), ("amount", pa.float64()), ("note", pa.string())])
    table = lakebed.create(folder / "db" / "t", "iceberg", schema, ["id"], options={"format-version": "3"})
    for ids in np.array_split(np.arange(count), FILES):
        notes = [f"note {number % 5000}" for number in ids.tolist()]
        columns = [ids, chance.integers(0, 1000, len(ids)), chance.random(len(ids)), notes]
        table.write(pa.table(columns, schema=schema))
    lake = Lake.at(table.location)
    for keys in np.array_split(chance.choice(count, count // SHARE * COMMITS, replace=False), COMMITS):
        lake.delete_equal([{"id": key} for key in keys.tolist()])
    keep_metadata(folder / "db" / "t")


def by_lakebed(folder: Path, count: int) -> Mapping[str, Any]:
    import lakebed

    done = lakebed.open(folder / "db" / "t").rewrite(options={"lakebed.rewrite.what": "equality-deletes"})
    assert done.files_before == COMMITS
    return {"files": done.files_before, "files_after": done.files_after, "bytes_after": done.bytes_after}


def by_jvm(folder: Path, count: int) -> Statements:
    options = "options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
    return Statements([f"CALL had.system.rewrite_data_files(table => 'db.t', {options})"])


BENCH = Bench(
    "iceberg_deletes", __doc__, "rows", 2_000_000, make, {"lakebed": by_lakebed}, {"jvm": by_jvm},
    lambda folder: restore_metadata(folder / "db" / "t"),
)  # fmt: skip
if __name__ == "__main__":
    BENCH.main()
