"""The tables of the bench. Rows are few per file: what counts is how many files there are, and how they came."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from bench.objectstore.place import Place, Tables
from tests.objectstore.server import KEY, SECRET
from tests.tables.hudi.timelines import Lake, commit_metadata
from tests.tables.hudi.writing import HudiFolder

SCHEMA = pa.schema([
    pa.field("id", pa.int64(), False), pa.field("p", pa.string(), False), ("name", pa.string()),
    ("amount", pa.float64()), ("v", pa.int64()),
])  # fmt: skip
ROWS = 500
"""Rows of one file."""
WIDE, WIDE_ROWS = 100, 40_000
"""Columns and rows of the one file of the wide tables: 32 MB."""
OWED = {"lakebed.owed.time-retained": "1 ms"}


def rows(partitions: int, commit: int = 0, per_file: int = ROWS) -> pa.Table:
    """Rows of one commit: `per_file` in each partition. `v` has the same values in every file."""
    count = partitions * per_file
    ids = np.arange(count, dtype=np.int64) + commit * count
    values = {
        "id": ids, "p": np.char.add("p", (ids % partitions).astype(str)),
        "name": np.char.add("name-", (ids * 7919 % 100_003).astype(str)), "amount": ids * 0.37,
        "v": ids // partitions % per_file,
    }  # fmt: skip
    return pa.table({name: pa.array(value) for name, value in values.items()}).cast(SCHEMA)


def shape(files: int) -> tuple[int, int]:
    """(commits, partitions) of a table with so many files."""
    commits = min(max(files // 4, 1), 64)
    return commits, files // commits


def iceberg(tables: Tables, commits: int, partitions: int, key: str = "") -> Place:
    """An Iceberg table by path."""
    url = tables.server.url("iceberg")
    table = lakebed.create(
        url, "iceberg", SCHEMA, [key] if key else (), ["p"] if partitions else (), tables.server.direct
    )
    for commit in range(commits):
        table.write(rows(max(partitions, 1), commit))
    return Place(url)


def iceberg_catalog(tables: Tables, commits: int, partitions: int) -> Place:
    """An Iceberg table in a SQLite catalog: `bench:ns.t`."""
    url = tables.server.url("warehouse")
    file = tables.folder / f"catalog-{secrets.token_hex(4)}.db"

    def options(endpoint: str) -> dict[str, str]:
        settings = {
            "type": "sql", "uri": f"sqlite:///{file}", "warehouse": url, "s3.endpoint": endpoint,
            "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": "us-east-1",
        }  # fmt: skip
        return {f"lakebed.catalog.{key}": value for key, value in settings.items()}

    table = lakebed.create(
        "bench:ns.t", "iceberg", SCHEMA, (), ["p"], {**tables.server.direct, **options(tables.server.backend)}
    )
    for commit in range(commits):
        table.write(rows(partitions, commit))
    return Place(url, file, options(tables.server.endpoint))


def paimon(tables: Tables, commits: int, partitions: int, key: bool, buckets: int = 1) -> Place:
    """A Paimon table: with a primary key and buckets, or for appends."""
    url = tables.server.url("bench.db/t")
    keys, options = (["p", "id"], {"bucket": str(buckets)}) if key else ((), {"bucket": "-1"})
    table = lakebed.create(
        url, "paimon", SCHEMA, keys, ["p"] if partitions else (), {**options, **tables.server.direct}
    )
    for commit in range(commits):
        table.write(rows(max(partitions, 1), commit), mode="upsert" if key else "append")
    return Place(url)


def wide(tables: Tables, format: str) -> Place:
    """One file with many columns; they don't compress."""
    url = tables.server.url("bench.db/wide")
    chance = np.random.default_rng(1)
    data = pa.table({f"c{number}": chance.random(WIDE_ROWS) for number in range(WIDE)})
    if format == "hudi":
        folder = tables.folder / "wide"
        lake = HudiFolder(folder, 6, {"id": "string", **{f"c{number}": "double" for number in range(WIDE)}})
        lake.done(1, [_hudi_file(lake, 1, 0, "", data, WIDE_ROWS)])
        tables.server.upload(folder, url)
    else:
        lakebed.create(url, format, data.schema, options=tables.server.direct).write(data)
    return Place(url)


def hudi(tables: Tables, version: int, files: int, partitions: int, logs: int = 0) -> Place:
    """A merge-on-read table of base files, with log files beside the first ones."""
    folder = tables.folder / f"hudi-{version}-{files}-{partitions}-{logs}"
    columns = {"id": "string", "name": "string", "amount": "double", "v": "long", "ts": "long", "p": "string"}
    lake = HudiFolder(folder, version, columns, table__partition__fields="p")
    (folder / ".hoodie_partition_metadata").unlink()
    names = [f"p={number}" for number in range(partitions)]
    for name in names:
        (folder / name).mkdir()
        (folder / name / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
    paths = []
    for file in range(files):
        data = rows(1, file).select(["name", "amount", "v"])
        data = data.append_column("ts", data["v"]).append_column("p", pa.array([str(file % partitions)] * ROWS))
        paths.append(_hudi_file(lake, 1, file, names[file % partitions], data, ROWS))
    lake.done(1, paths, operation="INSERT")
    if logs:
        written = []
        for file in range(logs):
            partition = names[file % partitions]
            changed = [{"id": f"{file}-{row}", "name": "new", "ts": 10**6, "v": 1, "p": str(file % partitions)}
                       for row in range(20)]  # fmt: skip
            block = lake.data(2, changed, partition)
            written.append(lake.log(_group(file), 1 if version == 6 else 2, block, partition=partition))
        lake.done(2, written)
    url = tables.server.url("hudi")
    tables.server.upload(folder, url)
    return Place(url)


def hudi_timeline(tables: Tables, version: int, commits: int) -> Place:
    """A timeline alone, of completed commits."""
    folder = tables.folder / f"timeline-{version}-{commits}"
    lake = Lake(folder, version)
    lake.commit(*range(commits), data=commit_metadata(size=2800))
    url = tables.server.url("hudi")
    tables.server.upload(folder, url)
    return Place(url)


def _group(file: int) -> str:
    return f"{file:08d}-aaaa-bbbb-cccc-000000000000"


def _hudi_file(lake: HudiFolder, instant: int, file: int, partition: str, data: pa.Table, count: int) -> str:
    """A base file with Hudi's own columns."""
    import pyarrow.parquet as pq

    from tests.tables.hudi.writing import ARROW, t

    name = f"{_group(file)}-0_0-1-1_{t(instant)}.parquet"
    ids = np.char.add(f"{file}-", np.arange(count).astype(str))
    meta: dict[str, Any] = {
        "_hoodie_commit_time": [t(instant)] * count, "_hoodie_commit_seqno": [f"{t(instant)}_0_0"] * count,
        "_hoodie_record_key": ids, "_hoodie_partition_path": [partition] * count,
        "_hoodie_file_name": [name] * count, "id": ids,
    }  # fmt: skip
    columns = {**{key: pa.array(value) for key, value in meta.items()},
               **{key: data[key].cast(ARROW[kind]) for key, kind in lake.columns.items() if key != "id"}}  # fmt: skip
    path = Path(partition, name)
    (lake.folder / partition).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), lake.folder / path)
    return str(path)
