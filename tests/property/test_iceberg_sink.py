"""Random writes into Iceberg tables against a list of rows: modes, row kinds, keys, transforms, format versions, by one
writer and by many tasks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import IdentityTransform, parse_transform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestampType

from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.engine import LocalEngine
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.verbs.write import Mode, finalize_and_commit
from tests.tables.iceberg.create import make_table

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "number", IntegerType()),
    identifier_field_ids=[1],
)
ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), False), ("part", pa.string()), ("day", pa.date32()), ("at", pa.timestamp("us")),
        ("number", pa.int32()),
    ]
)  # fmt: skip
SPECS: Sequence[Sequence[tuple[str, str]]] = (
    (),
    (("part", "identity"),),
    (("id", "bucket[3]"),),
    (("part", "truncate[1]"), ("day", "month")),
    (("at", "day"),),
    (("number", "truncate[10]"), ("at", "void")),
    (("day", "year"), ("at", "hour")),
)
ORDERS: Sequence[Sequence[SortField]] = (
    (),
    (SortField(5, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),),
)

Row = dict[str, Any]

rows = st.fixed_dictionaries(
    {
        "id": st.integers(0, 12),
        "part": st.none() | st.sampled_from(["a", "b", "éé", ""]),
        "day": st.none() | st.dates(),
        "at": st.none() | st.datetimes(allow_imaginary=False).map(lambda at: at.replace(fold=0)),
        "number": st.none() | st.integers(-20, 20),
    }
)
KINDS = ["+I", "-U", "+U", "-D"]
writes = st.one_of(
    st.tuples(st.just("append"), st.lists(rows, max_size=8), st.none()),
    st.tuples(st.just("upsert"), st.lists(rows, max_size=8), st.none()),
    st.tuples(st.just("delete"), st.lists(rows, max_size=4), st.none()),
    st.tuples(st.just("changes"), st.lists(rows, max_size=8), st.lists(st.sampled_from(KINDS), min_size=8, max_size=8)),
    st.tuples(st.just("overwrite"), st.lists(rows, max_size=5), st.none()),
    st.tuples(st.just("filter"), st.just([]), st.integers(0, 12)),
)


@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=st.sampled_from(SPECS), order=st.sampled_from(ORDERS), steps=st.lists(writes, min_size=1, max_size=5),
    tasks=st.integers(1, 3), granularity=st.sampled_from(["file", "partition"]),
)  # fmt: skip
def test_a_table_is_a_list_of_rows(
    version: int, spec: Any, order: Any, steps: list[Any], tasks: int, granularity: str
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        properties = {"write.delete.granularity": granularity}
        table = make_table(folder / "t", SCHEMA, spec, version, properties, order)
        model: list[Row] = []
        for mode, given_rows, more in steps:
            model = after(model, mode, given_rows, more, partition_of(spec))
            write(table, mode, given_rows, more, tasks)
            assert bag(table.read().read_all().to_pylist()) == bag(model)
        assert not [path for path in folder.rglob("*") if "staging" in path.name]
    finally:
        shutil.rmtree(folder)


def after(model: list[Row], mode: str, given_rows: list[Row], more: Any, partition: Callable[[Row], Any]) -> list[Row]:
    """The rows that a table shall hold after a write."""
    if mode == "append":
        return model + given_rows
    if mode == "overwrite":
        replaced = {partition(row) for row in given_rows}
        return [row for row in model if partition(row) not in replaced] + given_rows
    if mode == "filter":
        return [row for row in model if row["id"] != more]
    kinds = more or [{"upsert": "+I", "delete": "-D"}[mode]] * len(given_rows)
    last = {row["id"]: (row, kind) for row, kind in zip(given_rows, kinds, strict=False)}
    kept = [row for row in model if row["id"] not in last]
    return kept + [row for row, kind in last.values() if kind in ("+I", "+U")]


def write(table: IcebergTable, mode: str, given_rows: list[Row], more: Any, tasks: int) -> None:
    """Through `table.write`, or as so many tasks of a job."""
    data = pa.Table.from_pylist(given_rows, ARROW)
    options: dict[str, str] = {}
    if mode == "changes":
        data = data.append_column("_row_kind", pa.array(more[: len(data)], pa.string()))
        mode = "append"
    elif mode == "filter":
        mode, options = "overwrite", {"overwrite-filter": f"id = {more}"}
    if tasks == 1:
        table.write(data, mode, options)
        return
    sink = table.sink(Mode.parse(mode), options=options)
    plan = sink.plan(tasks)
    messages: list[Any] = []
    size = max(1, -(-len(data) // tasks))
    for start in range(0, len(data), size):
        writer = plan.task_writer()
        for batch in data.slice(start, size).to_batches(max_chunksize=2):
            writer.write(batch)
        messages += writer.finish()
    finalize_and_commit(sink, plan, messages, LocalEngine(2), BATCH_IDENTIFIER)


def partition_of(spec: Sequence[tuple[str, str]]) -> Callable[[Row], Any]:
    makers = []
    for column, transform in spec:
        made = parse_transform(transform).transform(SCHEMA.find_field(column).field_type)
        makers.append((column, made))
    return lambda row: tuple(make(_number(row[column])) for column, make in makers)


def _number(value: Any) -> Any:
    """What pyiceberg's transforms take: days and microseconds."""
    if value is None or isinstance(value, str | int):
        return value
    plain = pa.scalar(value, pa.date32() if not hasattr(value, "hour") else pa.timestamp("us"))
    return plain.value


def bag(found: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in found)
