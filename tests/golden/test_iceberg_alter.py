"""The same changes leave the same metadata as Iceberg's own engine left, and its tables go on changing: the schemas,
specs and sort orders of golden tables against what `table.alter` makes of the tables that they began as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.golden import unpack

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
NAMED = [
    ("id", pa.int32()), ("a", pa.float32()), ("b", pa.string()), ("d", pa.decimal128(6, 2)), ("s", STRUCT),
    ("l", pa.list_(pa.struct([("e", pa.int32())]))), ("m", pa.map_(pa.string(), pa.struct([("q", pa.int32())]))),
]  # fmt: skip
CASES: dict[str, tuple[int, list[Any], list[str], list[Any]]] = {
    "schema_evolution": (2, NAMED, [], [
        lakebed.widen("id", "long"), lakebed.widen("a", "double"), lakebed.widen("d", "decimal(10, 2)"),
        lakebed.widen("s.x", "long"), lakebed.rename_column("b", "b_renamed"), lakebed.add_column("c", "int"),
        lakebed.add_column("s.z", "int"), lakebed.rename_column("s.y", "yy"),
        lakebed.add_column("l.element.f", "string"), lakebed.add_column("m.value.r", "string"),
        lakebed.move_column("c", after="id"), lakebed.drop_column("b_renamed"), lakebed.add_column("b", "string"),
        lakebed.drop_column("s.x"), lakebed.add_column("s.x", "string", first=True),
    ]),
    "spec_evolution": (2, [("id", pa.int32()), ("ts", pa.timestamp("us")), ("cat", pa.string())], ["day(ts)"], [
        lakebed.replace_partition_field("days(ts)", "hours(ts)"), lakebed.add_partition_field("bucket(2, cat)"),
        lakebed.drop_partition_field("hours(ts)"), lakebed.add_partition_field("truncate(1, cat)", "cat_t"),
    ]),
    "column_defaults_v3": (3, [("id", pa.int32())], [], [
        [lakebed.add_column("d_int", "int", default=5), lakebed.add_column("d_str", "string", default="dflt"),
         lakebed.add_column("d_req", "long", nullable=False, default=77)],
        lakebed.set_default("d_int", 6),
    ]),
    "sorted_zorder": (2, [("a", pa.int32()), ("b", pa.int32()), ("c", pa.string())], [], [
        lakebed.set_sort_order("a desc nulls last", "c"),
    ]),
    "years_and_void_v1": (1, [("id", pa.int32()), ("d", pa.date32()), ("cat", pa.string())], ["year(d)", "cat"], [
        lakebed.drop_partition_field("cat"),
    ]),
}  # fmt: skip
"""By golden table: its format version, columns and partitions, and the changes that its script makes."""
KEYS = (
    "schemas", "current-schema-id", "last-column-id", "partition-specs", "default-spec-id", "last-partition-id",
    "sort-orders", "default-sort-order-id", "format-version",
)  # fmt: skip


def definition(table: IcebergTable) -> dict[str, Any]:
    """What changes make of a table's metadata. Decimals are spelled with a blank or without one."""
    document = {key: table.table_metadata.document.get(key) for key in KEYS}
    return dict(json.loads(json.dumps(document).replace(", 2)", ",2)")))


@pytest.mark.parametrize("name", CASES)
def test_the_same_changes_leave_the_same_metadata(tmp_path: Path, name: str) -> None:
    version, columns, partitions, changes = CASES[name]
    table = lakebed.create(
        tmp_path / "t", "iceberg", pa.schema(columns), (), partitions, {"format-version": str(version)}
    )
    assert isinstance(table, IcebergTable)
    for change in changes:
        table.alter(change)
    golden = lakebed.open(unpack("iceberg", name))
    assert isinstance(golden, IcebergTable)
    theirs, ours = definition(golden), definition(table)
    for key in KEYS:
        assert ours[key] == theirs[key], key


@pytest.mark.parametrize("name", CASES)
def test_a_table_of_iceberg_goes_on_changing(tmp_path: Path, name: str) -> None:
    place = unpack("iceberg", name, into=tmp_path)
    settings = {"type": "sql", "uri": f"sqlite:///{place.parent}/catalog.db"}
    table = lakebed.open(f"ice:db.{name}", {f"lakebed.catalog.{key}": text for key, text in settings.items()})
    assert isinstance(table, IcebergTable)
    before = table.read().read_all()
    first = before.schema.names[0]
    spec = [field for field in table.table_metadata.spec.fields if str(field.transform) != "void"]
    table.alter([
        lakebed.set_sort_order(), *(lakebed.drop_partition_field(field.name) for field in spec),
        lakebed.rename_column(first, "renamed"), lakebed.add_column("more", "int", first=True),
        lakebed.add_partition_field("bucket(2, renamed)"),
    ])  # fmt: skip
    kept = table.read(columns=["renamed", *before.schema.names[1:]]).read_all().rename_columns(before.schema.names)
    assert rows(kept) == rows(before)
    table.rewrite(options={"rewrite-all": True})
    new = {"renamed": before.column(first).slice(0, 1), "more": pa.array([7], pa.int32())}
    needed = [field for field in table.schema if not field.nullable]
    table.write(pa.table({**new, **{field.name: pa.array([1], field.type) for field in needed}}))
    assert table.read(columns=["more"]).read_all()["more"].to_pylist().count(7) == 1
    assert table.read().read_all().num_rows == before.num_rows + 1


def rows(found: pa.Table) -> list[str]:
    return sorted(map(str, found.to_pylist()))
