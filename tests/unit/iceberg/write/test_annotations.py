"""Columns of types that Arrow does not have: variants, geometries and geographies, and those of type unknown."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.catalog.table import HadoopTable
from lakebed.formats.iceberg.codec.schema import LAST_UPDATED, ROW_ID, VariantType
from lakebed.formats.iceberg.data_files import DataFile, Metrics
from lakebed.formats.iceberg.definition import new_metadata
from lakebed.formats.iceberg.parquet.annotate import AnnotatedFile, variant
from lakebed.kernel.files import open_store
from lakebed.kernel.parquet.thrift import decode, of_binary
from tests.tables.iceberg import commits
from tests.tables.iceberg.lake import Lake

ONE, TWO = ({"metadata": b"\x01\0\0", "value": bytes([0x0C, number])} for number in (1, 2))
POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
EVERYWHERE = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "inside", StructType(NestedField(4, "x", DoubleType()), NestedField(5, "v", VariantType()))),
    NestedField(6, "many", ListType(7, VariantType(), element_required=False)),
    NestedField(8, "named", MapType(9, StringType(), 10, VariantType(), value_required=False)),
    NestedField(11, "later", UnknownType()),
    NestedField(12, "place", GeometryType("srid:3857")),
    NestedField(13, "globe", GeographyType("OGC:CRS84", "karney")),
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "v": ONE, "inside": {"x": 1.5, "v": TWO}, "many": [ONE, None, TWO], "named": {"a": ONE, "b": None},
        "later": None, "place": POINT, "globe": POINT,
    },
    {"id": 2, "v": None, "inside": {"x": None, "v": None}, "many": [], "named": {}, "place": None, "globe": None},
    {"id": 3, "v": TWO, "inside": None, "many": None, "named": None, "later": None, "place": POINT, "globe": None},
]  # fmt: skip


def annotations(path: str) -> dict[int, tuple[int, bytes]]:
    """Field id -> number and content of the logical type, for types that Arrow does not have."""
    data = Path(path.removeprefix("file:")).read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer, _ = decode(data, start, {2: {9: None, 10: {16: {}, 17: {}, 18: {2: None}}}})
    found = {}
    for element in footer[2][1]:
        for number, (_, content) in element.get(10, (0, {}))[1].items():
            if number >= 16:
                found[element[9][1]] = number, content
    return found


def lake(folder: Path, schema: Schema = EVERYWHERE) -> Lake:
    """pyiceberg does not write metadata with variants."""
    store = open_store(folder)
    HadoopTable(store).create(new_metadata(str(folder), schema, PartitionSpec(), 3, {}))
    return Lake.at(str(folder))


def rows(table: Any) -> list[Any]:
    found: list[Any] = table.read().read_all().sort_by("id").to_pylist()
    return found


def whole(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with every column, null where it is missing, and with maps as pairs."""
    return [{**one, "later": None, "named": None if one["named"] is None else [*one["named"].items()]} for one in found]


def test_parquet_says_what_each_column_is(tmp_path: Path) -> None:
    made = lake(tmp_path / "t")
    (file,) = made.append(ROWS)
    found = annotations(file.path)
    assert {id: number for id, (number, _) in found.items()} == {2: 16, 5: 16, 7: 16, 10: 16, 12: 17, 13: 18}
    assert found[2][1] == {1: (3, b"\x01")}
    assert found[12][1][1][1] == of_binary(b"srid:3857")
    assert found[13][1][1][1] == of_binary(b"OGC:CRS84") and found[13][1][2][1] == 4
    read = pq.ParquetFile(file.path.removeprefix("file:"))
    assert "later" not in read.schema_arrow.names
    variants = [read.schema_arrow.field(name).type for name in ("v",)]
    assert [[kind.field(n).nullable for n in (0, 1)] for kind in variants] == [[False, False]]
    assert rows(made.table) == whole(ROWS)


def test_counts_without_bounds(tmp_path: Path) -> None:
    (file,) = lake(tmp_path / "t").append(ROWS)
    assert file.metrics is not None
    assert {id: file.metrics.value_counts[id] for id in (1, 2, 4, 5, 12)} == dict.fromkeys((1, 2, 4, 5, 12), 3)
    assert {id: file.metrics.null_value_counts.get(id) for id in (1, 2, 4, 5)} == {1: 0, 2: 1, 4: 2, 5: 2}
    assert not {2, 5, 7, 10, 12, 13} & {*file.metrics.lower_bounds, *file.metrics.upper_bounds}
    group = pq.read_metadata(file.path.removeprefix("file:")).row_group(0)
    found = [group.column(n) for n in range(group.num_columns)]
    spatial = [one for one in found if one.path_in_schema in ("place", "globe")]
    assert len(spatial) == 2 and all(one.statistics is None for one in spatial)
    assert {one.path_in_schema for one in found if one.statistics is None} == {"place", "globe"}


@pytest.mark.slow
@pytest.mark.parametrize("least", [1, 1 << 40])
def test_a_rewrite_keeps_them(least: int, tmp_path: Path) -> None:
    """The first rewrite encodes the rows, which puts row ids into the files. The next one joins or encodes them
    again."""
    made = lake(tmp_path / "t")
    table, encode = made.table, {"rewrite-all": True, "lakebed.rewrite.concat-min-row-group-bytes": 1 << 40}
    ids: list[Any] = []
    for start in (0, 10):
        made.append([{**row, "id": row["id"] + start} for row in ROWS], files=3)
        table.rewrite(where=f"id > {start}", options=encode)
    ids = table.read(columns=["id", "_row_id"]).read_all().sort_by("id").to_pylist()
    before = rows(table)
    assert len(made.tasks) == 2
    done = table.rewrite(options={"rewrite-all": True, "lakebed.rewrite.concat-min-row-group-bytes": least})
    (task,) = made.tasks
    assert any("joined without decoding" in note for note in done.notes) is (least == 1), done.notes
    assert {id: number for id, (number, _) in annotations(task.data.path).items()} == {
        2: 16, 5: 16, 7: 16, 10: 16, 12: 17, 13: 18,
    }  # fmt: skip
    assert rows(table) == before and len(before) == 6
    assert table.read(columns=["id", "_row_id"]).read_all().sort_by("id").to_pylist() == ids


def test_a_variant_needs_both_parts(tmp_path: Path) -> None:
    made = lake(tmp_path / "t")
    with pytest.raises(UnsupportedError, match="metadata"):
        made.write([{**ROWS[0], "v": {"metadata": None, "value": b"\0"}}])


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_other_formats_do_not_hold_them(kind: str, tmp_path: Path) -> None:
    made = lake(tmp_path / "t")
    with pytest.raises(UnsupportedError, match="Parquet files only") as refused:
        made.write(ROWS, properties={"write.format.default": kind})
    assert "write.format.default=parquet" in refused.value.todo


def test_a_column_without_a_type_inside_another_one_is_refused(tmp_path: Path) -> None:
    nested = Schema(NestedField(1, "s", StructType(NestedField(2, "later", UnknownType()))))
    with pytest.raises(UnsupportedError, match="unknown inside"):
        lake(tmp_path / "t", nested).write([{"s": {"later": None}}])


def shredded(made: Lake, first: int) -> DataFile:
    """A data file as written by engines that store integers of a variant apart, with the row ids and last changes."""

    def column(name: str, kind: pa.DataType, id: int) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(id)})

    parts = pa.struct([pa.field("metadata", pa.binary(), False), ("value", pa.binary()), ("typed_value", pa.int64())])
    schema = pa.schema([
        column("id", pa.int64(), 1), column("v", parts, 2), column("_row_id", pa.int64(), ROW_ID.field_id),
        column("_last_updated_sequence_number", pa.int64(), LAST_UPDATED.field_id),
    ])  # fmt: skip
    values = [{"metadata": b"\x01\0\0", "value": None, "typed_value": number} for number in range(100)]
    ids = list(range(first, first + 100))
    path = f"{made.table.location}/data/{first}.parquet"
    with made.table.operations.files.open_output(path) as out:
        file = AnnotatedFile(out, {2: variant()})
        with pq.ParquetWriter(file, schema, store_schema=False, compression="zstd") as writer:
            writer.write_table(pa.table([ids, values, ids, [1] * 100], schema=schema))
            file.hold()
        file.finish()
    counts = dict.fromkeys((1, 2, ROW_ID.field_id, LAST_UPDATED.field_id), 100)
    metrics = Metrics({}, counts, dict.fromkeys(counts, 0), {}, {}, {})
    size = made.table.operations.files.size(path)
    return DataFile(path, "PARQUET", 0, (), 100, size, split_offsets=(4,), metrics=metrics)


def test_shredded_variants_are_joined_but_not_decoded(tmp_path: Path) -> None:
    """Bytes that are only copied need not be understood."""
    made = lake(tmp_path / "t", Schema(*EVERYWHERE.fields[:2]))
    commits.append(made.table.operations, [shredded(made, 0), shredded(made, 100)])
    with pytest.raises(UnsupportedError, match="shredded") as refused:
        made.table.rewrite(options={"rewrite-all": True, "lakebed.rewrite.concat-min-row-group-bytes": 1 << 40})
    assert "concat-min-row-group-bytes" in refused.value.todo
    assert len(made.tasks) == 2
    made.table.rewrite(options={"rewrite-all": True, "lakebed.rewrite.concat-min-row-group-bytes": 1})
    (task,) = made.tasks
    assert annotations(task.data.path)[2][0] == 16
    found = pq.read_table(task.data.path.removeprefix("file:"))
    assert [value["typed_value"] for value in found["v"].to_pylist()] == [*range(100), *range(100)]
    assert made.table.read(columns=["id"]).read_all()["id"].to_pylist() == list(range(200))


def test_the_end_of_a_file_is_held_back_alone() -> None:
    out = pa.BufferOutputStream()
    file = AnnotatedFile(out, {2: variant()})
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    writer = pq.ParquetWriter(file, schema, store_schema=False)
    writer.write_table(pa.table({"a": pa.array(range(1000))}, schema=schema))
    passed_on = out.tell()
    assert passed_on == file.tell() > 1000
    file.hold()
    writer.close()
    assert out.tell() == passed_on < file.tell()
    file.finish()
    plain = pa.BufferOutputStream()
    with pq.ParquetWriter(plain, schema, store_schema=False) as again:
        again.write_table(pa.table({"a": pa.array(range(1000))}, schema=schema))
    assert out.getvalue() == plain.getvalue()  # no column of that id: the very same file
