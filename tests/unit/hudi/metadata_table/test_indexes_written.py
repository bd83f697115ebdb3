"""Statistics, bloom filters and the record index are built, kept in each commit, and taken out where they cannot be."""

import math
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.formats.hudi.codec.metadata_keys import file_hash, hash_of, partition_hash
from lakebed.formats.hudi.codec.metadata_records import decode_records
from lakebed.formats.hudi.index.build import build_indexes
from lakebed.formats.hudi.metadata_table.entries import entries_of
from lakebed.formats.hudi.metadata_table.named import PARTITIONS
from lakebed.formats.hudi.metadata_table.opened import MetadataTable
from lakebed.formats.hudi.metadata_table.record_index import RecordIndex
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS, PARTITION_STATS, read_statistics
from lakebed.formats.hudi.read.pruning import Pruning
from lakebed.formats.hudi.slices import live_slices
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.kernel.files import open_store
from lakebed.kernel.predicates.where import parse_where
from tests.golden import unpack
from tests.tables.hudi.listing import listed, walked

INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("part", pa.string()), ("price", pa.decimal128(8, 2))])


def rows(numbers: range, add: int = 0) -> pa.Table:
    values = [{"id": f"k{n:02d}", "n": n + add, "part": "ab"[n % 2], "price": n} for n in numbers]
    return pa.Table.from_pylist(values, SCHEMA)


def parts(location: str) -> set[str]:
    return set(HudiTable(open_store(location), {}).state().config.properties[PARTITIONS].split(","))


def check(location: str) -> MetadataTable:
    """The record index has each key where its row is, and statistics leave every row to be found."""
    table = HudiTable(open_store(location), {})
    state = table.state()
    opened = state.metadata_table
    assert opened is not None and state.indexed_files is not None
    found = table.read().read_all()
    if "record_index" in parts(location):
        places = RecordIndex(opened).locate(found["_hoodie_record_key"].combine_chunks()).to_pylist()
        for row, place in zip(found.to_pylist(), places, strict=True):
            assert place["partition"] == row["part"] and row["_hoodie_file_name"].startswith(place["file_id"])
    if "partition_stats" in parts(location):
        check_partitions(location, "n")
    view, schema = state.view(), state.schema()
    slices = [
        each
        for path, files in state.indexed_files.items()
        for each in live_slices(path, files, view, state.written(view), state.was_replaced)
    ]
    for where in ("n < 3", "n > 100", "id = 'k05'", "price = 7"):
        kept = Pruning(state, view, parse_where(where, schema), schema, few=0).slices(slices)
        assert (found["part"].to_pylist() and kept) or not table.read(where=where).read_all().num_rows
        names = {each.file_id for each in kept}
        for name in table.read(where=where).read_all()["_hoodie_file_name"].to_pylist():
            assert any(name.startswith(each) for each in names)
    return opened


def check_partitions(location: str, column: str) -> None:
    """The statistics of each partition are those of the files in its newest slices."""
    table = HudiTable(open_store(location), {})
    state = table.state()
    opened, view, field = state.metadata_table, state.view(), state.schema().field(column)
    assert opened is not None and state.indexed_files is not None
    paths = sorted(state.indexed_files)

    def ends_of(part: str) -> dict[bytes, tuple[Any, Any]]:
        found = read_statistics(opened, part, field, paths)
        assert found is not None
        rows = zip(found.keys.to_pylist(), found.lower.to_pylist(), found.upper.to_pylist(), strict=True)
        return {key: (low, high) for key, low, high in rows}

    bounds, found = ends_of(COLUMN_STATS), ends_of(PARTITION_STATS)
    wanted = {}
    for path, files in state.indexed_files.items():
        head = hash_of(column) + partition_hash(path)
        slices = live_slices(path, files, view, state.written(view), state.was_replaced)
        ends = [bounds[head + file_hash(name)] for each in slices for name in each.names]
        ends = [end for end in ends if end[0] is not None]
        if ends:
            wanted[head] = min(end[0] for end in ends), max(end[1] for end in ends)
    assert {key: each for key, each in found.items() if each[0] is not None} == wanted


@pytest.mark.parametrize(("kind", "version"), [("MERGE_ON_READ", 9), ("COPY_ON_WRITE", 6)])
def test_a_life_with_all_indexes(kind: str, version: int, tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    options = {"hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": version}
    table = lakebed.create(location, "hudi", SCHEMA, ["id"], ["part"], options=options)
    table.write(rows(range(12)), options=INDEXES)
    every = {"files", "column_stats", "bloom_filters", "record_index"} | ({"partition_stats"} if version > 6 else set())
    assert parts(location) == every
    check(location)
    table.write(rows(range(4, 16), 200), mode="upsert", options=INDEXES)
    check(location)
    assert not table.write(rows(range(2)), mode="delete").notes
    gone = RecordIndex(check(location)).locate(pa.array(["k00", "k01", "k02"]))
    assert [place is None for place in gone["file_id"].to_pylist()] == [True, True, False]
    for add in range(2):  # the metadata table is compacted meanwhile
        table.write(rows(range(20 + add, 22 + add), add), mode="upsert", options=INDEXES)
        check(location)
    if kind == "MERGE_ON_READ":
        table.rewrite()
        check(location)
    assert parts(location) == every
    assert not table.write(rows(range(5)), mode="overwrite").notes
    opened = check(location)
    places = RecordIndex(opened).locate(pa.array([f"k{n:02d}" for n in range(30)]))
    assert [place is not None for place in places["file_id"].to_pylist()] == [n < 5 for n in range(30)]
    table.write(rows(range(30, 32)), options=INDEXES)
    assert parts(location) == every
    check(location)


def test_the_record_index_stays_right_where_file_groups_are_replaced(tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.table.ordering.fields": "n"}
    table = lakebed.create(location, "hudi", SCHEMA, ["id"], ["part"], options=options)
    table.write(rows(range(12), 100), options=INDEXES)
    gone = rows(range(4), 200).append_column("_row_kind", pa.array(["-D"] * 4))
    table.write(gone, mode="upsert")  # deletes that may lose stay in the index

    def found() -> set[str]:
        places = RecordIndex(check(location)).locate(pa.array([f"k{n:02d}" for n in range(20)]))
        return {f"k{n:02d}" for n, place in enumerate(places["file_id"].to_pylist()) if place is not None}

    assert found() == {f"k{n:02d}" for n in range(12)}
    sorting = {"hoodie.clustering.plan.strategy.sort.columns": "id"}
    result = table.rewrite(options={"lakebed.rewrite.what": "clustering", **sorting})
    assert result.groups == 2 and not any("index" in note for note in result.notes)
    assert found() == {f"k{n:02d}" for n in range(4, 12)}
    table.write(rows(range(14, 16)), mode="upsert")
    assert not table.write(
        rows(range(0)),
        mode="delete",
        options={
            "hoodie.datasource.write.partitions.to.delete": "b",
            "hoodie.datasource.write.operation": "delete_partition",
        },
    ).notes
    assert found() == {"k04", "k06", "k08", "k10", "k14"}


def test_statistics_are_those_of_the_footers(tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    table = lakebed.create(location, "hudi", SCHEMA, ["id"], ["part"])
    options = {**INDEXES, "hoodie.metadata.index.column.stats.column.list": "n,price"}
    table.write(rows(range(6)), options=options)
    table.write(rows(range(6, 10)), mode="upsert", options=options)
    opened = check(location)
    for name in ("n", "price"):
        found = read_statistics(opened, COLUMN_STATS, SCHEMA.field(name), ["a", "b"])
        assert found is not None
        bounds = {(low.as_py(), high.as_py()) for low, high in zip(found.lower, found.upper, strict=True)}
        files = [pq.read_table(path)[name].to_pylist() for path in Path(location).glob("?/*.parquet")]
        assert bounds == {(min(values), max(values)) for values in files}
    assert read_statistics(opened, COLUMN_STATS, SCHEMA.field("part"), ["a", "b"]) is None


def test_indexes_of_hudi_are_kept(tmp_path: Path) -> None:
    location = str(shutil.copytree(unpack("hudi", "mor_mdt_v9"), tmp_path / "mor_mdt_v9"))
    table = lakebed.open(location)
    changed = table.read(where="i > 20").read_all()
    names = [name for name in changed.column_names if not name.startswith("_hoodie")]
    assert not table.write(changed.select(names), mode="upsert").notes
    assert parts(location) == {"files", "column_stats", "partition_stats", "record_index"}
    check_partitions(location, "i")
    check_keys = RecordIndex(HudiTable(open_store(location), {}).state().metadata_table).locate(pa.array(["k0002"]))
    assert check_keys["partition"].to_pylist() == ["c"]


def test_statistics_of_partitions_have_all_digits_of_a_decimal(tmp_path: Path) -> None:
    """Python's decimals round to 28 digits in most of what is done to them."""
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("amount", pa.decimal128(38, 18))])
    most = Decimal("99999999999999999999.999999999999999999")
    least = most.copy_negate()
    location = str(tmp_path / "table")
    table = lakebed.create(location, "hudi", schema, ["id"], ["part"])
    for key, amount in (("a", least), ("b", most)):
        data = pa.table({"id": [key], "part": ["p"], "amount": [amount]}, schema)
        table.write(data, mode="upsert", options=INDEXES)
    check_partitions(location, "amount")
    for key, amount in (("a", least), ("b", most)):
        assert table.read(["id"], where=f"amount = {amount}").read_all()["id"].to_pylist() == [key]


def test_statistics_of_partitions_are_those_that_hudi_writes(tmp_path: Path) -> None:
    location = str(shutil.copytree(unpack("hudi", "mor_mdt_v9"), tmp_path / "mor_mdt_v9"))

    def newest() -> dict[bytes, Any]:
        opened = HudiTable(open_store(location), {}).state().metadata_table
        found: dict[bytes, Any] = {}
        assert opened is not None
        for entries in entries_of(opened, PARTITION_STATS):
            for key, record in zip(
                entries.keys.to_pylist(), decode_records(entries.schema, entries.values), strict=True
            ):
                found[key] = record
        return found

    theirs = newest()
    update_properties(open_store(location), {PARTITIONS: "files,column_stats,record_index"})
    table = HudiTable(open_store(location), {})
    context = table._context(table.state().config, {"hoodie.metadata.index.column.stats.enable": "true"})
    assert not build_indexes(context, table.state)
    assert newest() == theirs and len(theirs) == 21


def test_a_key_twice_makes_no_record_index(tmp_path: Path) -> None:
    table = lakebed.create(str(tmp_path / "table"), "hudi", SCHEMA, ["id"], ["part"])
    table.write(rows(range(3)))
    result = table.write(rows(range(3)), options={"hoodie.metadata.record.index.enable": "true"})
    assert any("several rows have the same key" in note for note in result.notes)
    assert parts(str(tmp_path / "table")) == {"files"}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(("version", "built"), [(9, True), (9, False), (6, True)])
def test_a_file_has_statistics_of_all_columns_or_none(kind: str, version: int, built: bool, tmp_path: Path) -> None:
    """Hudi's readers take a column that a file has no statistics of for one that is all null, and leave files out whose
    greatest float is NaN."""
    location = str(tmp_path / "table")
    schema = pa.schema([("id", pa.string()), ("f", pa.float64()), ("x", pa.string()), ("b", pa.binary())])
    of_table = {"hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": version}
    table = lakebed.create(location, "hudi", schema, ["id"], options=of_table)
    options = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.column.stats.column.list": "id,f,x,b",
    }
    long = "x" * 5000
    table.write(pa.table([["a", "b"], [1.5, 2.5], ["y", long], [b"1", b"2"]], schema=schema), options=options)
    if built:  # the first write builds the part; the next ones add to it
        table.write(pa.table([["a"], [-2.5], ["z"], [None]], schema=schema), mode="upsert", options=options)
    found = ranges_by_file(location)
    files = {path.name: pq.read_table(path) for path in Path(location).glob("*.parquet")}
    assert len(found) == 1 + built
    for name, ranges in found.items():
        assert {"id", "f", "x", "b"} <= {*ranges}
        rows = files[name].to_pylist() if name in files else [{"f": -2.5, "x": "z"}]
        numbers = [row["f"] for row in rows]
        assert ranges["f"] == (min(numbers), max(numbers))
        least, greatest = ranges["x"]
        assert all(str(least) <= row["x"] <= str(greatest) for row in rows)
    table.write(pa.table([["b"], [math.nan], ["z"], [None]], schema=schema), mode="upsert", options=options)
    assert len(ranges_by_file(location)) == len(found)


def test_a_part_that_is_built_leaves_files_with_nan_out(tmp_path: Path) -> None:
    location, schema = str(tmp_path / "table"), pa.schema([("id", pa.string()), ("f", pa.float32())])
    table = lakebed.create(location, "hudi", schema, ["id"])
    table.write(pa.table([["a", "b"], [1.5, math.nan]], schema=schema))
    table.write(pa.table([["c"], [2.5]], schema=schema), mode="overwrite")
    small = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.index.column.stats.enable": "true"}
    table.write(pa.table([["d"], [math.nan]], schema=schema), options=small)
    assert [ranges["f"] for ranges in ranges_by_file(location).values()] == [(2.5, 2.5)]


def ranges_by_file(location: str) -> dict[str, dict[str, tuple[object, object]]]:
    """The bounds that the metadata table has of each column of each file."""
    opened = HudiTable(open_store(location), {}).state().metadata_table
    assert opened is not None
    found: dict[str, dict[str, tuple[object, object]]] = {}
    for entries in entries_of(opened, COLUMN_STATS):
        for record in decode_records(entries.schema, entries.values) if entries.values is not None else ():
            each = record["ColumnStatsMetadata"]
            least, greatest = (end and end["value"] for end in (each["minValue"], each["maxValue"]))
            found.setdefault(each["fileName"], {})[each["columnName"]] = (least, greatest)
    return found


@pytest.mark.parametrize(
    ("kind", "version", "compacted"),
    [("MERGE_ON_READ", 9, False), ("MERGE_ON_READ", 6, False), ("COPY_ON_WRITE", 8, True)],
)
def test_a_restore_takes_the_metadata_table_back(kind: str, version: int, compacted: bool, tmp_path: Path) -> None:
    location = str(tmp_path / "table")
    options = {"hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": version}
    table = lakebed.create(location, "hudi", SCHEMA, ["id"], ["part"], options=options)
    every = {**INDEXES, "hoodie.metadata.compact.max.delta.commits": "2" if compacted else "20"}
    table.write(rows(range(12)), options=every)
    to = table.write(rows(range(4), 100), mode="upsert", options=every)
    before, named = table.read().read_all().sort_by("id"), parts(location)
    for add in range(3):
        table.write(rows(range(2, 15 + add), add), mode="upsert", options=every)
    result = table.rollback(to.instant)
    assert not any("no longer" in note for note in result.notes), result.notes
    assert table.read().read_all().sort_by("id").equals(before)
    assert parts(location) == named
    check(location)
    assert listed(lakebed.open(location)) == walked(lakebed.open(location))
    table.write(rows(range(8, 20), 7), mode="upsert", options=every)
    check(location)
    assert listed(lakebed.open(location)) == walked(lakebed.open(location))
