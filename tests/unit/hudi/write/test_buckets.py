"""The bucket index: which bucket a key is in, and what each operation does with buckets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, UnsupportedError, UsageError
from lakebed.formats.hudi.index.buckets import bucket_numbers
from lakebed.formats.hudi.index.hash_fields import HashFields
from tests.golden import unpack

OPERATION = "hoodie.datasource.write.operation"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")


def numbers(keys: list[str], fields: tuple[str, ...] = ("id",), hashed: tuple[str, ...] = (), buckets: int = 97) -> Any:
    rule = HashFields(fields, hashed or fields, False, "t")
    return bucket_numbers(pa.array(keys), rule, buckets).tolist()


def java(*texts: str | None) -> int:
    total = 1
    for text in texts:
        code = 0
        for unit in memoryview((text or "").encode("utf-16-le")).cast("H"):
            code = (31 * code + unit) & 0xFFFFFFFF
        total = (31 * total + code) & 0xFFFFFFFF
    return (total & 0x7FFFFFFF) % 97


def test_the_bucket_of_a_key_in_each_of_its_forms() -> None:
    plain = ["k1", "", "a:b", "x, y", "2024-01-01 10:00:00", "é☃😀"]
    assert numbers(plain) == [java(key) for key in plain]
    two = ("id", "k2")
    cases: list[tuple[str, tuple[str | None, ...]]] = [
        ("id:k1,k2:7", ("k1", "7")),
        ("id:__empty__,k2:__null__", ("", None)),
        ("id:2024-01-01 10:00:00,k2:a:b", ("2024-01-01 10:00:00", "a:b")),
        ("id:a, b,k2:c,d", ("a, b", "c,d")),
        ("id:a,b:c,k2:d", ("a", "d")),  # cut at the comma before the colon, whatever was meant
    ]
    assert numbers([key for key, _ in cases], two) == [java(*texts) for _, texts in cases]
    assert numbers(["id:k1,k2:7", "id:a,b:c,k2:d"], two, ("k2",)) == [java("7"), java("d")]
    assert numbers(["id:k1"], ("id",)) == [java("id:k1")]
    assert numbers(["id:a,b", "odd,key:1"], ("id",)) == [java("a,b"), java("odd,key:1")]


def test_keys_that_releases_hash_differently_are_refused_in_version_6() -> None:
    rule = HashFields(("id", "k2"), ("id",), True, "t")
    assert len(bucket_numbers(pa.array(["id:k1,k2:a:b"]), rule, 4)) == 1
    for key in ("a:b", "id:x,y,k2:1"):
        with pytest.raises(UnsupportedError, match="do not agree on the bucket"):
            bucket_numbers(pa.array([key]), rule, 4)


@pytest.mark.parametrize("name", ["mor_bucket_v6", "mor_bucket_v8"])
def test_a_table_of_hudis_own_goes_on(tmp_path: Path, name: str) -> None:
    folder = unpack("hudi", name, into=tmp_path)
    table = lakebed.open(folder)
    before = table.read(["_hoodie_record_key", "_hoodie_file_name"]).read_all().to_pydict()
    own = [int(file[:8]) for file in before["_hoodie_file_name"]]
    assert numbers(before["_hoodie_record_key"], buckets=2) == own
    rows = table.read().read_all()
    for options in ({}, {"hoodie.index.type": "BUCKET"}, {"hoodie.bucket.index.num.buckets": "1"}):
        with pytest.raises((UnsupportedError, UsageError)):
            table.write(rows.slice(0, 1), "upsert", {"hoodie.index.type": "BUCKET", **options} if options else {})
    groups = {path.name[:40] for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts}
    two = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    table.write(rows, "upsert", two)
    assert {path.name[:40] for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts} == groups
    names = [name for name in rows.schema.names if not name.startswith("_hoodie")]
    by_id = [("id", "ascending")]
    assert table.read(names).read_all().sort_by(by_id) == rows.select(names).sort_by(by_id)


def orders(folder: Path, kind: str, version: int = 9, **options: Any) -> Table:
    described = {
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": kind,
        **BUCKETS,
        **options,
    }
    return lakebed.create(
        folder / "t", "hudi", {"id": "int64", "dt": "string", "v": "string"}, ["id"], ["dt"], described
    )


def batch(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "dt": ["ab"[number % 2] for number in ids], "v": [v] * len(ids)})


def held(table: Table) -> dict[int, str]:
    rows = table.read(["id", "v", "_hoodie_file_name", "_hoodie_record_key"]).read_all().to_pylist()
    assert [int(row["_hoodie_file_name"][:8]) for row in rows] == numbers(
        [row["_hoodie_record_key"] for row in rows], buckets=4
    )
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_keeps_rows_in_their_bucket(tmp_path: Path, kind: str, version: int) -> None:
    table = orders(tmp_path, kind, version)
    table = lakebed.open(table.location)  # the index stands in the table's properties
    table.write(batch(*range(6)), options={OPERATION: "bulk_insert"})
    table.write(batch(6, 7, v="new"))
    table.write(batch(0, 7, 8, v="up"), "upsert")
    table.write(batch(1, 100), "delete")
    gone = batch(200).append_column("_row_kind", pa.array(["-D"]))
    table.write(gone, "upsert")  # its bucket may have no file
    model = {0: "up", 2: "x", 3: "x", 4: "x", 5: "x", 6: "new", 7: "up", 8: "up"}
    assert held(table) == model
    table.write(batch(0, 10, v="over"), "overwrite")
    model = {number: v for number, v in model.items() if number % 2} | {0: "over", 10: "over"}
    assert held(table) == model
    table.write(batch(10, 12, v="after"), "upsert")
    assert held(table) == model | {10: "after", 12: "after"}


@pytest.mark.parametrize("kind", KINDS)
def test_two_writers_do_not_make_a_bucket_twice(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind)
    table.write(batch(0))

    def write(number: int) -> str:
        try:
            lakebed.open(table.location).write(batch(*range(8), v=str(number)), "upsert")
        except CommitConflictError:
            return ""
        return str(number)

    with ThreadPoolExecutor(3) as pool:
        won = {*pool.map(write, range(3))} - {""}
    assert won and {*held(table).values()} <= won


def test_what_the_index_refuses_changes_nothing(tmp_path: Path) -> None:
    table = orders(tmp_path, "COPY_ON_WRITE")
    table.write(batch(1, 2))
    before = len(table.history())
    for options, error in [
        ({"hoodie.index.type": "BLOOM"}, "buckets of a bucket index"),
        ({"hoodie.bucket.index.num.buckets": "3"}, "was not written with this bucket index"),
        ({"hoodie.bucket.index.hash.field": "v"}, "not in the record key"),
        ({"hoodie.bucket.index.partition.expressions": ".*,3"}, "was not written with this bucket index"),
        ({"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "consistent hashing"),
        ({"hoodie.index.type": "GLOBAL_SIMPLE"}, "buckets of a bucket index"),
        ({"hoodie.index.type": "INMEMORY"}, "INMEMORY"),
        ({"hoodie.index.type": "HBASE"}, "HBASE"),
    ]:
        with pytest.raises(lakebed.errors.LakebedError, match=error):
            table.write(batch(1), "upsert", options)
    with pytest.raises(UnsupportedError, match="known keys in an insert"):
        table.write(batch(1), options={"hoodie.datasource.insert.dup.policy": "drop"})
    assert [i.state for i in table.history()[before:] if i.action not in ("rollback",)] == []
    plain = lakebed.create(tmp_path / "p", "hudi", batch(1).schema, ["id"], ["dt"])
    plain.write(batch(1))
    with pytest.raises(UsageError, match="is none of 4 buckets"):
        plain.write(batch(1), "upsert", BUCKETS)
