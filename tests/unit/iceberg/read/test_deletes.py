"""Which deletes apply, by sequence number, partition, path and field id, in bounded memory."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType

from lakebed.errors import CorruptError, DataCleanedError
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import (
    Content,
    DataFile,
    DeleteFile,
    distinct_partitions,
    in_places,
    partition_key,
)
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.read import deletes
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.key_sets import KeySet
from lakebed.formats.iceberg.read.task import Selection, read_task
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg import commits
from tests.tables.iceberg.evolving import evolve
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "p", StringType()),
    NestedField(4, "in", StructType(NestedField(5, "x", IntegerType()))),
)  # fmt: skip


def row(number: int | None, name: str | None = "n", p: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name, "p": p, "in": None if number is None else {"x": number}}


def ids(table: IcebergTable, **how: Any) -> list[Any]:
    return sorted(table.read(["id"], **how).read_all()["id"].to_pylist(), key=str)


# ---- which deletes apply ---------------------------------------------------------------------------------------------


def data(path: str = "d", sequence: int = 5, spec: int = 1, partition: Any = ("a",)) -> DataFile:
    return DataFile(path, "PARQUET", spec, partition, 10, 100, sequence)


def delete(content: Content, sequence: int, spec: int = 1, partition: Any = ("a",), **more: Any) -> DeleteFile:
    path = f"{content.name}-{sequence}-{spec}-{partition}"
    return DeleteFile(path, more.pop("format", "PARQUET"), content, spec, partition, 1, 1, sequence, **more)


EQUALITY, POSITION = Content.EQUALITY_DELETES, Content.POSITION_DELETES


@pytest.mark.parametrize(
    ("one", "applies"),
    [
        (delete(EQUALITY, 5), False), (delete(EQUALITY, 6), True), (delete(EQUALITY, 6, partition=("b",)), False),
        (delete(EQUALITY, 6, spec=0, partition=()), True), (delete(EQUALITY, 5, spec=0, partition=()), False),
        (delete(EQUALITY, 6, spec=2), False), (delete(POSITION, 4), False), (delete(POSITION, 5), True),
        (delete(POSITION, 6, partition=("b",)), False), (delete(POSITION, 6, spec=0, partition=()), False),
        (delete(POSITION, 6, spec=0, partition=(), referenced_data_file="d"), True),
        (delete(POSITION, 4, referenced_data_file="d"), False), (delete(POSITION, 6, referenced_data_file="e"), False),
    ],
    ids=lambda v: v.path if isinstance(v, DeleteFile) else str(v),
)  # fmt: skip
def test_which_deletes_apply(one: DeleteFile, applies: bool) -> None:
    assert DeleteIndex([one], {0}).applying(data()) == ((one,) if applies else ())


def test_a_vector_stands_for_all_position_deletes() -> None:
    vector = delete(POSITION, 6, format="PUFFIN", referenced_data_file="d")
    equality = delete(EQUALITY, 7)
    index = DeleteIndex([delete(POSITION, 6), vector, equality], {0})
    assert index.applying(data()) == (equality, vector)
    with pytest.raises(CorruptError, match="too"):
        DeleteIndex([vector, vector], {0})
    with pytest.raises(CorruptError, match="names no data file"):
        DeleteIndex([delete(POSITION, 6, format="PUFFIN")], {0})


def test_nan_is_one_partition_and_zeros_are_two() -> None:
    nan = float("nan")
    assert partition_key((nan,)) == partition_key((float("nan"),))
    assert partition_key((0.0,)) != partition_key((-0.0,))
    one = delete(EQUALITY, 6, partition=(nan,))
    assert DeleteIndex([one], {0}).applying(data(partition=(float("nan"),))) == (one,)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_null_equals_null_and_later_rows_stay(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", SCHEMA)
    lake.append([row(1), row(2), row(None), row(4)])
    lake.delete_equal([{"id": None}, {"id": 2}])
    lake.append([row(None), row(2)])
    assert ids(lake.table) == [1, 2, 4, None]
    assert ids(lake.table, where="id is null") == [None]
    lake.delete_equal([{"id": 4, "name": None}, {"id": 1, "name": "n"}])
    assert ids(lake.table) == [2, 4, None]


def test_keys_are_found_by_id_after_renames_and_drops(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", SCHEMA)
    lake.append([row(1, "x"), row(2, "y"), row(3, "z")])
    lake.delete_equal([{"name": "y"}])
    lake.delete_equal([{"id": 3}])
    evolve(lake.table, Schema(NestedField(1, "number", LongType()), NestedField(7, "name", StringType())))
    assert lake.table.read().read_all().to_pylist() == [{"number": 1, "name": None}]
    assert lake.table.changes().read_all().num_rows == 1


def test_a_key_widened_between_deletes_and_reads(tmp_path: Path) -> None:
    """The cached keys of a delete file have the type that the column had at the time."""
    lake = Lake(tmp_path / "t", Schema(NestedField(1, "id", IntegerType())))
    lake.append([{"id": n} for n in range(4)])
    lake.delete_equal([{"id": 0}])
    assert ids(lake.table) == [1, 2, 3]
    evolve(lake.table, Schema(NestedField(1, "id", LongType())))
    assert ids(lake.table) == [1, 2, 3]
    lake.delete_equal([{"id": 1}])
    assert ids(lake.table) == [2, 3]


def test_a_key_added_later_is_its_default_in_older_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", SCHEMA, version=3)
    lake.append([row(1), row(2)])
    fields = [*SCHEMA.fields, NestedField(8, "new", IntegerType(), initial_default=7)]
    evolve(lake.table, Schema(*fields))
    lake.delete_equal([{"new": 7, "id": 1}])
    assert ids(lake.table) == [2]


def test_a_key_inside_a_struct(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", SCHEMA)
    lake.append([row(1), row(2), row(None)])
    context = ReadContext.of(lake.table.table_metadata)
    key = context.key(5)
    assert key.depth == 1 and key.root.name == "in"
    assert key.inner(pa.array([{"x": 3}, None])).to_pylist() == [3, None]
    with pytest.raises(CorruptError, match="no schema"):
        context.key(99)


def test_partitions_bound_equality_deletes(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", SCHEMA, partition_by=[("p", "identity")])
    lake.append([row(1), row(2)], ("a",))
    lake.append([row(1, p="b"), row(2, p="b")], ("b",))
    lake.delete_equal([{"id": 1}], ("a",))
    found = lake.table.read(["id", "p"]).read_all().to_pylist()
    assert sorted((r["id"], r["p"]) for r in found) == [(1, "b"), (2, "a"), (2, "b")]


def many(tmp_path: Path, rows: int, files: int, keys: int) -> Lake:
    lake = Lake(tmp_path / "t", SCHEMA)
    numbers = np.arange(rows)
    table = pa.table(
        {
            "id": numbers, "name": pa.array([f"n{n % 7}" for n in numbers]), "p": pa.array(["a"] * rows),
            "in": pa.array([{"x": int(n)} for n in numbers], pa.struct([("x", pa.int32())])),
        },
        schema=lake.table.schema,
    )  # fmt: skip
    lake.append(table)
    made = []
    for number in range(files):
        some = [{"id": int(n)} for n in range(number * keys, number * keys + keys)]
        made.append(_equality(lake, some, number))
    commits.row_delta(lake.table.operations, (), made)
    return lake


def _equality(lake: Lake, keys: list[dict[str, int]], number: int) -> DeleteFile:
    path = lake.folder / "data" / f"equality-{number}.parquet"
    fields = [lake.table.table_metadata.schema.fields[0]]
    pq.write_table(pa.Table.from_pylist(keys, arrow_schema(fields, ids=True)), path)
    return DeleteFile(
        str(path), "PARQUET", EQUALITY, 0, (), len(keys), path.stat().st_size, equality_ids=(1,)
    )  # fmt: skip


@pytest.mark.slow
def test_many_small_delete_files(tmp_path: Path) -> None:
    """One file of 100,000 rows, 500 delete files of 10 keys: each delete file is read once, however many splits."""
    lake = many(tmp_path, 100_000, 500, 10)
    (task,) = lake.tasks
    assert len(task.deletes) == 500
    assert ids(lake.table)[:1] == [10_000] and lake.table.read([]).read_all().num_rows == 95_000


@pytest.mark.slow
@pytest.mark.parametrize("memory", [1 << 10, 1 << 16, 1 << 28])
def test_a_set_larger_than_its_memory_is_tried_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(deletes, "INLINE_ROWS", 100)
    lake = many(tmp_path, 20_000, 20, 500)
    (task,) = lake.tasks
    context = ReadContext.of(lake.table.table_metadata, delete_memory=memory)
    (group,) = deletes.equality_groups(context, task)
    sets = list(deletes.key_sets(lake.table.operations.files, context, group))
    assert sum(one.rows for one in sets) >= 10_000 and (len(sets) > 1) == (memory < 1 << 20)
    assert all(one.nbytes <= max(memory, 16_000) for one in sets)
    found = pa.Table.from_batches(read_task(lake.table.operations.files, context, task, Selection(["id"])))
    assert found["id"].to_pylist() == list(range(10_000, 20_000))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_delete_files(tmp_path: Path) -> None:
    lake = many(tmp_path, 1000, 40, 20_000)
    context = ReadContext.of(lake.table.table_metadata, delete_memory=1 << 20)
    (task,) = lake.tasks
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    most = 0
    for batch in read_task(lake.table.operations.files, context, task):
        most = max(most, pa.total_allocated_bytes() - before)
        assert batch.num_rows == 0
    tracemalloc.stop()
    assert most < 16 << 20


def test_floats_and_several_columns() -> None:
    nan = float("nan")
    keys = KeySet.of([pa.array([1.5, nan, None, 2.5]), pa.array(["a", "b", None, "c"])])
    rows = [pa.array([1.5, nan, None, 2.5, 2.5, 9.0]), pa.array(["a", "b", None, "a", "c", "c"])]
    assert keys.contains(rows).tolist() == [True, True, True, False, True, False]
    assert keys.rows == 4 and keys.contains([rows[0][:0], rows[1][:0]]).tolist() == []
    empty = KeySet.of([pa.array([], pa.int64())])
    assert empty.contains([pa.array([1, None])]).tolist() == [False, False]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", Schema(NestedField(1, "id", DoubleType())))
    (made,) = lake.append([{"id": 1.0}])
    Path(made.path).unlink()
    with pytest.raises(DataCleanedError, match="gone"):
        lake.table.read().read_all()
    Path(made.path).write_bytes(b"PAR1 no file PAR1")
    with pytest.raises(CorruptError):
        lake.table.read().read_all()


def test_partitions_are_numbered_as_iceberg_tells_them_apart() -> None:
    kind = pa.struct([("p", pa.float64()), ("q", pa.int32())])
    nan = float("nan")
    values = [(0.0, 1), (-0.0, 1), (nan, 1), (nan, 1), (None, 1), (0.0, None), (0.0, 1)]
    column = pa.chunked_array([[dict(zip("pq", one, strict=True)) for one in values]], kind)
    codes, partitions = distinct_partitions(column)
    assert codes[2] == codes[3] and codes[0] == codes[6]
    assert len(partitions) == len(set(codes.tolist())) == 5
    assert [partition_key(partitions[code]) for code in codes] == [partition_key(one) for one in values]


def test_the_one_partition_of_an_unpartitioned_table_and_of_no_entry_at_all() -> None:
    nothing = pa.struct([])
    assert distinct_partitions(pa.array([{}, {}], nothing))[1] == [()]
    assert distinct_partitions(pa.array([], nothing))[1] == []
    entries = pa.table({"spec_id": pa.array([], pa.int32()), "partition": pa.array([], pa.struct([("p", pa.int32())]))})
    assert in_places(entries, {(0, (1,))}).tolist() == []
