"""Files added to an Iceberg table as they are: what partition and metrics they get, and what is refused.

The rows are known from how the files were written; pyiceberg reads them again, and its own `add_files` gives the
metrics that ours are held to."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import (
    CorruptError,
    LakebedError,
    OptionError,
    SchemaError,
    TableExistsError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.iceberg.data_files import data_files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.iceberg.commits import scan

SCHEMA = pa.schema([
    ("id", pa.int64()), ("x", pa.float64()), ("name", pa.string()), ("at", pa.timestamp("us")), ("d", pa.date32()),
    ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])), ("l", pa.list_(pa.int64())), ("dt", pa.date32()),
])  # fmt: skip
KINDS = (Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER)
DAY = datetime.date(2026, 11, 1)


def rows(start: int, count: int = 4, **columns: Any) -> pa.Table:
    made = {
        "id": range(start, start + count), "x": [n / 2 for n in range(count)], "name": [f"n{n}" for n in range(count)],
        "at": [datetime.datetime(2026, 11, 1) + datetime.timedelta(hours=n) for n in range(count)], "d": [DAY] * count,
        "s": [{"a": n, "b": None} for n in range(count)], "l": [[n] for n in range(count)],
    }  # fmt: skip
    return pa.table(made, schema=pa.schema([field for field in SCHEMA if field.name in made]))


def created(folder: Path, by: Any = ("dt",), **options: str) -> IcebergTable:
    table = lakebed.create(folder, "iceberg", SCHEMA, (), by, options)
    assert isinstance(table, IcebergTable)
    return table


def put(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        pq.write_table(table, path)
    return path


def live(table: IcebergTable) -> Any:
    metadata = table.table_metadata
    found = scan(table.operations.files, metadata, metadata.head(), ALL_COLUMNS)
    return {Path(f.path).name: f for entries in found.data.values() for f in data_files(entries)}


def ids(table: Any, **how: Any) -> list[int]:
    return sorted(table.read(["id"], **how).read_all()["id"].to_pylist())


def seen_by_pyiceberg(folder: Path) -> pa.Table:
    newest = max(folder.glob("metadata/v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    return StaticTable.from_metadata(str(newest)).scan().to_arrow().sort_by("id")


def test_a_folder_in_hives_layout(tmp_path: Path) -> None:
    table = created(tmp_path / "t")
    landing = tmp_path / "t" / "landing"
    put(landing / "dt=2026-11-01" / "a.parquet", rows(0))
    put(landing / "dt=2026-11-02" / "b.parquet", rows(10))
    put(landing / "dt=__HIVE_DEFAULT_PARTITION__" / "c.parquet", rows(20))
    (landing / "_SUCCESS").write_bytes(b"")
    put(landing / "_temporary" / "d.parquet", rows(30))
    planned = table.add_files(str(landing), dry_run=True)
    assert planned.dry_run and (planned.files, planned.rows) == (3, 12) and table.history() == []
    assert [(part.path, part.files, part.rows) for part in planned.partitions] == [
        ("dt=2026-11-01", 1, 4), ("dt=2026-11-02", 1, 4), ("dt=null", 1, 4),
    ]  # fmt: skip
    done = table.add_files(str(landing))
    assert done.partitions == planned.partitions and done.instants == (table.history()[0].time,)
    assert table.history()[0].summary["added-records"] == "12" and table.history()[0].action == "append"
    assert ids(table) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert ids(table, where="dt = '2026-11-02'") == [10, 11, 12, 13]
    assert ids(table, where="dt is null") == [
        20,
        21,
        22,
        23,
    ]
    seen = seen_by_pyiceberg(tmp_path / "t")
    assert seen["id"].to_pylist() == ids(table) and seen["dt"].to_pylist()[:5] == [DAY] * 4 + [
        datetime.date(2026, 11, 2)
    ]
    assert seen["s"].to_pylist()[:2] == [{"a": 0, "b": None}, {"a": 1, "b": None}]
    for again in (str(landing), [str(landing / "dt=2026-11-01" / "a.parquet")]):
        for dry in (True, False):
            with pytest.raises(UsageError, match="in the table already"):
                table.add_files(again, dry_run=dry)
    table.add_files([str(landing / "dt=2026-11-01" / "a.parquet")], options={"check_duplicate_files": "false"})
    assert ids(table).count(0) == 2
    table.write(rows(40).append_column("dt", pa.array([DAY] * 4)))
    table.rewrite(options={"rewrite-all": "true"})
    assert len(ids(table)) == 20


def test_metrics_are_those_of_pyiceberg(tmp_path: Path) -> None:
    data = rows(5).append_column("dt", pa.array([DAY] * 4))
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"))
    catalog.create_namespace("n")
    theirs = catalog.create_table("n.t", SCHEMA)
    path = put(tmp_path / "t" / "data" / "a.parquet", data)
    theirs.add_files([str(path)])
    (wanted,) = theirs.inspect.data_files().to_pylist()
    table = created(tmp_path / "t", (), **{"write.metadata.metrics.default": "full"})
    table.add_files(str(path))
    ours = live(table)["a.parquet"]
    assert (ours.record_count, ours.size, list(ours.split_offsets)) == (
        wanted["record_count"], wanted["file_size_in_bytes"], wanted["split_offsets"],
    )  # fmt: skip
    assert dict(ours.metrics.column_sizes) == dict(wanted["column_sizes"])
    for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        mine, theirs_by_id = dict(getattr(ours.metrics, name)), dict(wanted[name])
        shared = mine.keys() & theirs_by_id.keys()
        assert {id: mine[id] for id in shared} == {id: theirs_by_id[id] for id in shared}, name
        assert shared >= {1, 2, 3, 4, 5}, name


def test_partitions_from_metrics(tmp_path: Path) -> None:
    table = created(tmp_path / "t", ("day(at)",))
    inside = put(tmp_path / "t" / "in" / "a.parquet", rows(0))
    table.add_files(str(inside))
    assert live(table)["a.parquet"].partition == (DAY,) and ids(table, where="at < '2026-11-02'") == [0, 1, 2, 3]
    across = put(tmp_path / "t" / "in" / "b.parquet", rows(10, 30))
    with pytest.raises(SchemaError, match=r"nothing says in which partition.*more than one value"):
        table.add_files(str(across))
    bucketed = created(tmp_path / "b", ("bucket(4, id)",))
    with pytest.raises(SchemaError, match="nothing says"):
        bucketed.add_files(str(put(tmp_path / "b" / "in" / "a.parquet", rows(0))))
    one = put(tmp_path / "b" / "in" / "c.parquet", rows(7, 1))
    bucketed.add_files(str(one))
    assert ids(bucketed, where="id = 7") == [7]
    floats = created(tmp_path / "f", ("x",))
    with pytest.raises(SchemaError, match="nothing says"):
        floats.add_files(str(put(tmp_path / "f" / "in" / "a.parquet", rows(0, 1))))


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_other_formats(tmp_path: Path, kind: str) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", {"id": "int64", "name": "string", "p": "string"}, (), ["p"])
    data = pa.table({"name": ["a", "b"], "id": [1, 2]})
    path = tmp_path / "t" / "in" / "p=x%2Fy" / f"f.{kind}"
    if kind == "orc":
        put(path, data)
    else:
        path.parent.mkdir(parents=True)
        fields = [{"name": "name", "type": ["null", "string"]}, {"name": "id", "type": "long"}]
        with path.open("wb") as sink:
            fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, data.to_pylist())
    assert table.add_files(str(path.parent)).rows == 2
    assert sorted(map(str, table.read().read_all().to_pylist())) == [
        "{'id': 1, 'name': 'a', 'p': 'x/y'}", "{'id': 2, 'name': 'b', 'p': 'x/y'}",
    ]  # fmt: skip
    wrong = tmp_path / "t" / "in" / "p=z" / f"g.{kind}"
    shutil.copytree(path.parent, wrong.parent)
    other = lakebed.create(tmp_path / "o", "iceberg", {"id": "string", "name": "string", "p": "string"}, (), ["p"])
    shutil.copytree(path.parent, tmp_path / "o" / "in" / "p=z")
    with pytest.raises(SchemaError, match=r"'id' of a file is a int64.*table has string"):
        other.add_files(str(tmp_path / "o" / "in"))


def with_ids(ids: dict[str, int], *columns: tuple[str, pa.Array]) -> pa.Table:
    fields = [pa.field(name, array.type, metadata={"PARQUET:field_id": str(ids[name])}) for name, array in columns]
    return pa.table([array for _, array in columns], schema=pa.schema(fields))


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32()), ("dt", pa.date32())])
    table = lakebed.create(tmp_path / "t", "iceberg", schema, (), ["dt"])
    place = tmp_path / "t" / "in" / "dt=2026-11-01"
    one = pa.array([1], pa.int64())
    bad = {
        "is a int64, .*the table has int|is a int64.*table has int": pa.table({"id": one, "n": one}),
        "lacks the required column 'id'": pa.table({"n": one.cast(pa.int32())}),
        "field id 2 there, the table 1": with_ids({"id": 2}, ("id", one)),
        "has no column 'more', and a file has": pa.table({"id": one, "more": one}),
        "field id 1 is that of 'id'": with_ids({"other": 1}, ("other", one)),
        "path of a file says dt=2026-11-01, and its rows are from 2026-11-02": pa.table(
            {"id": one, "dt": [datetime.date(2026, 11, 2)]}
        ),
    }
    for message, data in bad.items():
        path = put(place / "bad.parquet", data)
        with pytest.raises(SchemaError, match=message):
            table.add_files(str(path))
    with pytest.raises(SchemaError, match="dt=yesterday, which is no date32"):
        table.add_files(str(put(place.parent / "dt=yesterday" / "a.parquet", pa.table({"id": one}))))
    path = put(place / "bad.parquet", pa.table({"id": one}))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptError):
        table.add_files(str(path))
    outside = put(tmp_path / "elsewhere" / "dt=2026-11-01" / "a.parquet", pa.table({"id": one}))
    with pytest.raises(UnsupportedError, match=r"lakebed.storage.places"):
        table.add_files(str(outside))
    places = {"lakebed.storage.places": str(tmp_path / "elsewhere")}
    lakebed.open(tmp_path / "t", places).add_files(str(outside))
    assert ids(lakebed.open(tmp_path / "t", places)) == [1]
    for wrong, error in (
        ([], UsageError),
        (str(tmp_path / "t" / "none"), UsageError),
        (5, UsageError),
        ([5], UsageError),
    ):
        with pytest.raises(error):
            table.add_files(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="which format"):
        table.add_files(str(put(place / "part-0", pa.table({"id": one}))))
    table.add_files(str(place / "part-0"), options={"format": "parquet"})
    with pytest.raises(OptionError, match="check-duplicate-files"):
        table.add_files(str(place), options={"check-duplicate-file": "false"})
    assert len(table.history()) == 2
    with pytest.raises(UnsupportedError, match="no adding of files for hudi tables"):
        lakebed.open("examples/orders_hudi").add_files("x")


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("dt=2024-01-01/.hoodie_partition_metadata", "a partition of a Hudi table"),
        ("_delta_log/0.json", "a Delta table"),
        ("t/metadata/v1.metadata.json", "an Iceberg table"),
    ],
)
def test_folders_of_other_tables_are_refused(tmp_path: Path, mark: str, text: str) -> None:
    table = created(tmp_path / "t")
    into = tmp_path / "t" / "landing"
    put(into / "dt=2024-01-01" / "a.parquet", rows(0))
    (into / mark).parent.mkdir(parents=True, exist_ok=True)
    (into / mark).write_text("{}")
    for dry_run in (True, False):
        with pytest.raises((TableExistsError, UnsupportedError), match=text):
            table.add_files([str(into)], dry_run=dry_run)
    assert lakebed.open(tmp_path / "t").history() == []
    put(into / "delta_2026_01" / "dt=2024-01-01" / "a.parquet", rows(0))  # no name of a transaction
    table.add_files([str(into / "delta_2026_01")])


def test_a_name_mapping_comes_with_the_commit_and_a_given_one_is_kept(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", {"id": "int64", "n": "string"})
    one = pa.array([1], pa.int64())
    own = put(tmp_path / "t" / "in" / "own.parquet", with_ids({"id": 1}, ("id", one)))
    table.add_files(str(own))
    assert "schema.name-mapping.default" not in table.table_metadata.properties, "the file has ids"
    table.add_files(str(put(tmp_path / "t" / "in" / "none.parquet", pa.table({"id": one}))))
    assert table.table_metadata.properties["schema.name-mapping.default"].startswith("[{")
    assert ids(table) == [1, 1] == seen_by_pyiceberg(tmp_path / "t")["id"].to_pylist()
    table.alter([lakebed.set_option("schema.name-mapping.default", '[{"field-id": 1, "names": ["id"]}]')])
    with pytest.raises(SchemaError, match=r"'n' of a file would not be read.*name mapping does not have it"):
        table.add_files(str(put(tmp_path / "t" / "in" / "n.parquet", pa.table({"id": one, "n": ["x"]}))))


def test_every_failure_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    created(tmp_path / "t", ())
    put(tmp_path / "t" / "in" / "a.parquet", rows(0))
    shutil.copytree(tmp_path / "t", tmp_path / "kept")

    def make() -> Any:
        shutil.rmtree(tmp_path / "t")
        shutil.copytree(tmp_path / "kept", tmp_path / "t")
        return open_store(tmp_path / "t")

    def add(store: Any) -> None:
        try:
            lakebed.open(store).add_files(str(tmp_path / "t" / "in"))
        except UsageError as error:
            assert "already" in str(error)

    def observe(store: Any) -> tuple[list[int], int]:
        table = lakebed.open(store)
        return ids(table), len(table.history())

    assert check_crash_safety(make, add, observe, KINDS) >= 8
    assert observe(make()) == ([], 0)


def test_two_at_once_add_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.formats.iceberg.add_files import run

    table = created(tmp_path / "t", ())
    path = str(put(tmp_path / "t" / "in" / "a.parquet", rows(0)))
    real = run.commit_snapshot

    def after_another(*arguments: Any) -> Any:
        monkeypatch.setattr(run, "commit_snapshot", real)
        lakebed.open(tmp_path / "t").add_files(path)
        return real(*arguments)

    monkeypatch.setattr(run, "commit_snapshot", after_another)
    with pytest.raises(LakebedError, match="in the table already"):
        table.add_files(path)
    assert ids(table) == [0, 1, 2, 3]


def test_files_outside_the_tables_folder_are_refused_unless_their_folder_is_named(tmp_path: Path) -> None:
    """The caller named the place, so the error speaks of the files and not of the table's metadata."""
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "other.parquet")
    table = lakebed.create(tmp_path / "t", "iceberg", {"id": "int64"})
    with pytest.raises(UnsupportedError, match=r"files to add lie outside.*lakebed\.storage\.places"):
        table.add_files([str(tmp_path / "other.parquet")])
    assert table.history() == []
    named = lakebed.open(tmp_path / "t", {"lakebed.storage.places": str(tmp_path)})
    assert named.add_files([str(tmp_path / "other.parquet")]).files == 1
