"""Tables whose files leave out the partition columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import SchemaError, UnsupportedError

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("p2", pa.int32()), ("x", pa.string())])
DROP = {"hoodie.datasource.write.drop.partition.columns": "true"}


def rows(x: str, *ids: int, part: str | None = None) -> pa.Table:
    parts = [part if part is not None else "ab"[n % 2] for n in ids]
    return pa.table({"id": ids, "part": parts, "p2": [7] * len(ids), "x": [x] * len(ids)}, SCHEMA)


def read(folder: Path, where: str | None = None) -> list[tuple[Any, ...]]:
    found = lakebed.open(folder).read(["id", "part", "p2", "x"], where).read_all()
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize(
    ("kind", "version", "hive"),
    [("COPY_ON_WRITE", 8, "true"), ("COPY_ON_WRITE", 6, "false"), ("MERGE_ON_READ", 9, "true")],
)
def test_only_paths_hold_the_partition_columns(tmp_path: Path, kind: str, version: int, hive: str) -> None:
    options = {
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.hive_style_partitioning": hive,
        **DROP,
    }
    table = lakebed.create(tmp_path, "hudi", SCHEMA, ["id"], ["part", "p2"], options)
    table.write(rows("old", 0, 1, 2))
    lakebed.open(tmp_path).write(rows("new", 1, 3), mode="upsert")
    lakebed.open(tmp_path).write(rows("", 2).select(["id", "part", "p2"]), mode="delete")
    held = [(0, "a", 7, "old"), (1, "b", 7, "new"), (3, "b", 7, "new")]
    assert read(tmp_path) == held and read(tmp_path, "part = 'b'") == held[1:]
    if kind == "MERGE_ON_READ":
        options = {"lakebed.rewrite.what": "compaction", "hoodie.compact.inline.max.delta.commits": "1"}
        assert lakebed.open(tmp_path).rewrite(options=options).groups
    more = rows("new", 0).append_column("n", pa.array([1]))
    lakebed.open(tmp_path).write(more, mode="upsert", options={"lakebed.write.schema": "evolve"})
    assert read(tmp_path) == [(0, "a", 7, "new"), *held[1:]]
    files = [path for path in tmp_path.rglob("*.parquet") if ".hoodie" not in path.parts]
    assert not {"part", "p2"} & {name for path in files for name in pq.read_schema(path).names}


def test_values_that_a_path_would_not_give_back_are_refused(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, ["id"], ["part"], DROP)
    for odd in ("", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(SchemaError, match="which its path does not keep"):
            table.write(rows("x", 1, part=odd))
    assert not table.history()
    with pytest.raises(UnsupportedError, match="the index looks keys up in all partitions"):
        table.write(rows("x", 1), mode="upsert", options={"hoodie.index.type": "GLOBAL_SIMPLE"})
    with pytest.raises(UnsupportedError, match="the ordering column part is one of them"):
        ordered = {**DROP, "hoodie.table.ordering.fields": "part"}
        lakebed.create(tmp_path / "u", "hudi", SCHEMA, ["id"], ["part"], ordered)
    assert not (tmp_path / "u").exists()
    for version in (6, 8):
        older = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        with pytest.raises(UnsupportedError, match=r"releases before 1\.1 read nulls from its logs"):
            lakebed.create(tmp_path / "u", "hudi", SCHEMA, ["id"], ["part"], {**DROP, **older})
    assert not (tmp_path / "u").exists()
