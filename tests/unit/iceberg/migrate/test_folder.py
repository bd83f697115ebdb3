"""A folder of files as a new Iceberg table: its columns, partitions and rows, and what is refused.

The rows are known from how the files were written, and pyiceberg reads them again."""

from __future__ import annotations

import datetime
import itertools
import threading
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import (
    CorruptError,
    LakebedError,
    OptionError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.iceberg.small import QUICK

DAY = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)


def put(path: Path, table: pa.Table, **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        pq.write_table(table, path, **how)


def ids(*numbers: int, kind: pa.DataType = pa.int64(), **more: Any) -> pa.Table:  # noqa: B008  # a constant
    return pa.table({"id": pa.array(numbers, kind), **more})


def opened(place: Any, folder: Any = "", **options: str) -> IcebergTable:
    named = {"lakebed.storage.places": str(folder)} if folder else {}
    table = lakebed.open(place, {**named, **options})
    assert isinstance(table, IcebergTable)
    return table


def seen(table: IcebergTable, by: str = "id") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.read().read_all().sort_by(by).to_pylist()
    return rows


def by_pyiceberg(table: IcebergTable, by: str = "id") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        StaticTable.from_metadata(table.operations.load().location).scan().to_arrow().sort_by(by).to_pylist()
    )
    return rows


def landing(folder: Path) -> Path:
    """Two days, one of them unknown, in files of Parquet and ORC whose columns differ."""
    at = pa.array([DAY], pa.timestamp("us"))
    put(folder / "dt=2026-11-01" / "shop=01" / "a.parquet", ids(1, kind=pa.int32(), at=at),
        use_deprecated_int96_timestamps=True)  # fmt: skip
    put(folder / "dt=2026-11-01" / "shop=02" / "b.parquet", ids(2, s=pa.array([{"x": 1}])))
    put(folder / "dt=__HIVE_DEFAULT_PARTITION__" / "shop=a%2Fb" / "c.orc", ids(3, price=pa.array([1.5], pa.float32())))
    put(folder / "dt=2026-11-02" / "shop=02" / "d.parquet", ids(4, price=pa.array([2.5]), s=pa.array([{"y": "z"}])))
    (folder / "_SUCCESS").write_bytes(b"")
    return folder


def test_a_snapshot_has_all_rows_and_columns(tmp_path: Path) -> None:
    folder = landing(tmp_path / "in")
    before = sorted(folder.rglob("*"))
    plan = lakebed.snapshot(folder, tmp_path / "t", dry_run=True)
    assert plan.dry_run and not (tmp_path / "t").exists()
    done = lakebed.snapshot(folder, tmp_path / "t", options={"write.metadata.compression-codec": "gzip", "owner": "me"})
    assert done.columns == plan.columns == (
        "id long", "at timestamptz", "s struct<7: x: optional long, 8: y: optional string>", "price double",
        "dt date", "shop string",
    ) and (done.files, done.rows) == (4, 4)  # fmt: skip
    assert [each.path for each in done.partitions] == [
        "dt=2026-11-01/shop=01", "dt=2026-11-01/shop=02", "dt=2026-11-02/shop=02", "dt=null/shop=a%2Fb",
    ]  # fmt: skip
    table = opened(tmp_path / "t", folder)
    first, other = datetime.date(2026, 11, 1), datetime.date(2026, 11, 2)
    rows = seen(table)
    assert rows == [
        {"id": 1, "at": DAY, "s": None, "price": None, "dt": first, "shop": "01"},
        {"id": 2, "at": None, "s": {"x": 1, "y": None}, "price": None, "dt": first, "shop": "02"},
        {"id": 3, "at": None, "s": None, "price": 1.5, "dt": None, "shop": "a/b"},
        {"id": 4, "at": None, "s": {"x": None, "y": "z"}, "price": 2.5, "dt": other, "shop": "02"},
    ]
    assert by_pyiceberg(table) == rows
    assert [row["id"] for row in table.read(["id"], "dt = DATE '2026-11-02'").read_all().to_pylist()] == [4]
    properties = table.table_metadata.properties
    assert properties["gc.enabled"] == "false" and properties["snapshot"] == "true" and properties["owner"] == "me"
    assert len(table.history()) == 1 and table.table_metadata.metadata_log == ()
    table.write(ids(5))
    table.rewrite(options={"rewrite-all": True})
    assert [row["id"] for row in seen(table)] == [1, 2, 3, 4, 5]
    with pytest.raises(UnsupportedError, match=r"gc\.enabled"):
        table.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
    assert sorted(folder.rglob("*")) == before


def test_a_migrated_folder_is_a_table_and_its_files_are_the_tables(tmp_path: Path) -> None:
    folder = landing(tmp_path / "in")
    done = lakebed.migrate(folder, columns={"SHOP": "string", "id": pa.int64(), "dt": pa.string()})
    table = opened(folder)
    assert done.table == table.location and table.table_metadata.properties["migrated"] == "true"
    assert [row["dt"] for row in seen(table)] == ["2026-11-01", "2026-11-01", None, "2026-11-02"]
    assert by_pyiceberg(table) == seen(table)
    table.rewrite(options={"rewrite-all": True})
    table.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
    assert not [*folder.rglob("[a-d].*")] and [row["id"] for row in seen(table)] == [1, 2, 3, 4]


def test_types_of_folders_names(tmp_path: Path) -> None:
    names = {"n": ("1", "-20"), "big": ("1", "5000000000"), "month": ("01", "12"), "day": ("2026-11-01", "2024-02-29"),
             "wrong": ("2026-11-01", "2026-11-31"), "text": ("1", "x"),
             "none": ("__HIVE_DEFAULT_PARTITION__",) * 2}  # fmt: skip
    for number in range(2):
        place = "/".join(f"{name}={values[number]}" for name, values in names.items())
        put(tmp_path / "in" / place / "a.parquet", ids(number))
    assert lakebed.snapshot(tmp_path / "in", tmp_path / "t", dry_run=True).columns == (
        "id long", "n int", "big long", "month string", "day date", "wrong string", "text string", "none string",
    )  # fmt: skip


def test_avro_files_and_unpartitioned_folders(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    fields = [{"name": "id", "type": "long"}, {"name": "n", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "r", "fields": fields}
    with (tmp_path / "in" / "a.avro").open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), [{"id": 1, "n": None}, {"id": 2, "n": "x"}])
    put(tmp_path / "in" / "b", ids(3))
    put(tmp_path / "in" / "b.parquet", ids(4))
    (tmp_path / "in" / "b").rename(tmp_path / "in" / "_b")
    assert lakebed.snapshot(tmp_path / "in", tmp_path / "t").rows == 3
    assert [row["n"] for row in seen(opened(tmp_path / "t", tmp_path / "in"))] == [None, "x", None]


def _parquet(*tables: pa.Table, under: str = "") -> Any:
    def write(folder: Path) -> None:
        for number, table in enumerate(tables):
            put(folder / under / f"{number}.parquet", table)

    return write


def _marked(name: str) -> Any:
    def write(folder: Path) -> None:
        put(folder / "a.parquet", ids(1))
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}")

    return write


def _uneven(folder: Path) -> None:
    put(folder / "a=1" / "0.parquet", ids(1))
    put(folder / "b=1" / "0.parquet", ids(1))


def _cut(folder: Path) -> None:
    put(folder / "a.parquet", ids(1))
    put(folder / "b.parquet", ids(2))
    (folder / "b.parquet").write_bytes((folder / "b.parquet").read_bytes()[:-9])


def _with_ids(folder: Path) -> None:
    put(
        folder / "a.parquet",
        pa.table([[1]], pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "7"})])),
    )


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "two types": (
        _parquet(ids(1), pa.table({"id": ["x"]})), SchemaError, r"string in one file and a int64.*0\.parquet",
    ),
    "two types inside": (
        _parquet(pa.table({"s": [{"a": 1}]}), pa.table({"s": [{"a": "x"}]})), SchemaError, "'s' is a struct.*0.parquet",
    ),
    "case": (_parquet(ids(1), pa.table({"ID": [1]})), SchemaError, "differ only in case"),
    "case of a folder": (_parquet(ids(1), under="ID=1"), SchemaError, "of folders' names differ only in case"),
    "no type": (_parquet(pa.table({"n": pa.nulls(1)})), SchemaError, "which type the column 'n' has"),
    "ids": (_with_ids, SchemaError, "field ids of its own"),
    "cut": (_cut, CorruptError, r"b\.parquet"),
    "uneven": (_uneven, SchemaError, "different partition columns.*b here, a in"),
    "nothing": (lambda folder: folder.mkdir(), UsageError, "no data files"),
    "another value": (_parquet(ids(1, p=["x"]), under="p=y"), SchemaError, "from x to x"),
    "hudi": (_marked(".hoodie/hoodie.properties"), UnsupportedError, "a Hudi table"),
    "delta": (_marked("x/_delta_log/0.json"), UnsupportedError, "a Delta table"),
    "stream": (_marked("_spark_metadata/0"), UnsupportedError, "log says which files count"),
    "paimon": (_marked("schema/schema-0"), UnsupportedError, "a Paimon table"),
    "acid": (_marked("delta_0000001_0000001_0000/bucket_00000"), UnsupportedError, "transactional Hive table"),
    "iceberg": (_marked("metadata/00000-a.metadata.json"), TableExistsError, "lakebed.register"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_folders_that_are_refused(tmp_path: Path, case: str) -> None:
    make, error, text = REFUSED[case]
    make(tmp_path / "in")
    before = sorted((tmp_path / "in").rglob("*"))
    for act in (lambda: lakebed.snapshot(tmp_path / "in", tmp_path / "t"), lambda: lakebed.migrate(tmp_path / "in")):
        with pytest.raises(error, match=f"(?s){text}" if case != "iceberg" else "(?s)."):
            act()
    assert sorted((tmp_path / "in").rglob("*")) == before and not (tmp_path / "t").exists()


def test_arguments_that_are_refused(tmp_path: Path) -> None:
    folder = landing(tmp_path / "in")
    lakebed.create(tmp_path / "there", "iceberg", {"id": "int64"})
    wrong: list[tuple[type[Exception], str, Any]] = [
        (UsageError, "inside one another", lambda: lakebed.snapshot(folder, folder / "t")),
        (UsageError, "inside one another", lambda: lakebed.snapshot(folder, tmp_path)),
        (UsageError, "where it is", lambda: lakebed.migrate(folder, tmp_path / "t")),
        (TableExistsError, "already", lambda: lakebed.snapshot(folder, tmp_path / "there")),
        (OptionError, r"gc\.enabled", lambda: lakebed.snapshot(folder, tmp_path / "t", options={"gc.enabled": "true"})),
        (SchemaError, "unknown column 'x'", lambda: lakebed.snapshot(folder, tmp_path / "t", {"x": "int64"})),
        (SchemaError, "'id' of a file is a int64", lambda: lakebed.snapshot(folder, tmp_path / "t", {"id": "int32"})),
        (SchemaError, "which is no int", lambda: lakebed.snapshot(folder, tmp_path / "t", {"dt": "int32"})),
        (UsageError, "name of a table", lambda: lakebed.migrate("shop:db.t")),
        (UsageError, "not the name of a table in a catalog", lambda: lakebed.register(str(tmp_path), "x")),
    ]  # fmt: skip
    for error, text, act in wrong:
        with pytest.raises(error, match=text):
            act()
    assert not (tmp_path / "t").exists() and not (folder / "metadata").exists()


def test_a_crash_at_any_call(tmp_path: Path) -> None:
    numbers = itertools.count()

    def make() -> Store:
        folder = tmp_path / str(next(numbers))
        put(folder / "p=1" / "a.parquet", ids(1))
        put(folder / "p=2" / "a.parquet", ids(2))
        return open_store(folder)

    def operation(store: Store) -> None:
        try:
            lakebed.migrate(store, options=QUICK)
        except TableExistsError:
            assert lakebed.open(store).schema.names == ["id", "p"]

    def observe(store: Store) -> Any:
        try:
            table = lakebed.open(open_store(store.location))
        except LakebedError as error:
            return type(error).__name__
        return len(table.history()), table.read().read_all().sort_by("id").to_pylist()

    kinds = (Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER)
    assert check_crash_safety(make, operation, observe, kinds) >= 10


def test_two_at_once_make_one_table(tmp_path: Path) -> None:
    folder = landing(tmp_path / "in")
    outcomes: list[str] = []
    gate = threading.Barrier(4)

    def run() -> None:
        gate.wait()
        try:
            outcomes.append(lakebed.snapshot(folder, tmp_path / "t").table)
        except TableExistsError as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == sorted([str(tmp_path / "t"), *["TableExistsError"] * 3])
    table = opened(tmp_path / "t", folder)
    assert len(seen(table)) == 4 and len(table.history()) == 1
    assert len([*(tmp_path / "t" / "metadata").glob("*.avro")]) == 2  # a manifest and the list of the only snapshot


def test_nothing_is_there_to_register(tmp_path: Path) -> None:
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/c.db",
               "lakebed.catalog.warehouse": str(tmp_path / "w")}  # fmt: skip
    made = lakebed.create(tmp_path / "t", "iceberg", {"id": "int64"})
    made.write(ids(1))
    (tmp_path / "copy" / "metadata").mkdir(parents=True)
    for name in ("v2.metadata.json", "v1.metadata.json"):
        data = (tmp_path / "t" / "metadata" / name).read_bytes()
        (tmp_path / "copy" / "metadata" / name).write_bytes(data)
    (tmp_path / "copy" / "metadata" / "v3.metadata.json").write_bytes(data[:100])
    with pytest.raises(TableNotFoundError, match="v9"):
        lakebed.register("cat:db.t", tmp_path / "t" / "metadata" / "v9.metadata.json", options=options)
    with pytest.raises(CorruptError, match="v3"):
        lakebed.register("cat:db.t", tmp_path / "copy" / "metadata" / "v3.metadata.json", options=options)
    with pytest.raises(UnsupportedError, match=r"moved or copied.*rewrite_table_path"):
        lakebed.register("cat:db.t", tmp_path / "copy" / "metadata" / "v2.metadata.json", options=options)
    for manifests in (tmp_path / "t" / "metadata").glob("snap-*.avro"):
        manifests.unlink()
    with pytest.raises(CorruptError, match="manifest list"):
        lakebed.register("cat:db.t", tmp_path / "t" / "metadata" / "v2.metadata.json", options=options)
    assert lakebed.register("cat:db.t", tmp_path / "t" / "metadata" / "v1.metadata.json", options=options).rows == 0
