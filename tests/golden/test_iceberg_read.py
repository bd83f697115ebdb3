"""Every golden Iceberg table, and every snapshot, tag and branch of it, read as Spark reads it; its changes lead from
snapshot to snapshot."""

import datetime
import hashlib
import itertools
import json
import math
import uuid
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotInHistoryError
from lakebed.formats.iceberg.read.context import ReadRequest
from lakebed.formats.iceberg.read.plan import plan_snapshot
from lakebed.formats.iceberg.snapshot import ancestors, schema_at
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.verbs.read import run
from tests.golden import expected, names, opening, unpack
from tests.golden.compare import diff, load
from tests.pyspark_release import needs

TABLES = names("iceberg")
LINEAGE = [name for name in TABLES if (expected(unpack("iceberg", name)) / "rows_lineage.jsonl").exists()]
MOMENTS = [
    (name, found["snapshot_id"], found["rows_sha256"], found["row_count"])
    for name in TABLES
    for found in json.loads((expected(unpack("iceberg", name)) / "meta.json").read_text()).get("snapshots", ())
    if "rows_sha256" in found and name != "types_nested"  # it spells a decimal otherwise; `test_rows` compares it
]


def opened(name: str, **options: str) -> IcebergTable:
    folder = unpack("iceberg", name)
    table = lakebed.open(folder, {**opening(folder), **options})
    assert isinstance(table, IcebergTable)
    return table


def of_variant(value: Mapping[str, bytes]) -> Any:
    """A variant's value, as Spark decodes it."""
    needs("4.0", "the decoder of variants that these rows are compared with")
    from pyspark.sql.types import VariantVal

    return VariantVal(value["value"], value["metadata"]).toPython()


def with_variants(rows: pa.Table) -> pa.Table:
    """Variants as JSON text, their decimals as text, as the expected rows are read."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_struct(field.type) and [f.name for f in field.type] == ["metadata", "value"]:
            values = [v and of_variant(v) for v in rows[field.name].to_pylist()]
            texts = [None if v is None else json.dumps(v, default=str) for v in values]
            rows = rows.set_column(place, field.name, pa.array(texts, pa.string()))
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_rows(name: str) -> None:
    rows = opened(name).read().read_all()
    rows.validate(full=True)
    assert diff("iceberg", with_variants(rows), load(expected(unpack("iceberg", name)) / "rows.jsonl")) is None


@pytest.mark.parametrize("name", LINEAGE)
def test_lineage(name: str) -> None:
    table = opened(name)
    columns = [*table.schema.names, "_row_id", "_last_updated_sequence_number"]
    rows = with_variants(table.read(columns=columns).read_all())
    assert diff("iceberg", rows, load(expected(unpack("iceberg", name)) / "rows_lineage.jsonl")) is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "snapshot", "digest", "count"), MOMENTS, ids=lambda v: str(v)[:24])
def test_each_snapshot(name: str, snapshot: int, digest: str, count: int) -> None:
    table = opened(name)
    rows = table.read(as_of=snapshot).read_all()
    assert len(rows) == count == table.count(as_of=snapshot)
    assert _digest(rows) == digest
    assert _digest(opened(name, **{"snapshot-id": str(snapshot)}).read().read_all()) == digest


def test_there_are_many_snapshots() -> None:
    assert len(MOMENTS) > 80 and len(LINEAGE) == 5


@pytest.mark.slow
def test_branches_tags_and_times() -> None:
    table = opened("branches_tags")
    metadata = table.table_metadata
    for name, ref in metadata.refs.items():
        wanted = _bag(table.read(as_of=ref.snapshot_id).read_all().select(["id"]))
        if ref.is_branch:
            assert _bag(opened("branches_tags", branch=name).read(columns=["id"]).read_all()) == wanted
            assert _bag(table.read(columns=["id"], as_of=f"branch:{name}").read_all()) == wanted
        else:
            assert _bag(table.read(columns=["id"], as_of=f"tag:{name}").read_all()) == wanted
            assert _bag(opened("branches_tags", tag=name).read(columns=["id"]).read_all()) == wanted
    assert sum(not ref.is_branch for ref in metadata.refs.values()) and len(metadata.refs) > 2
    for time, snapshot in metadata.snapshot_log:
        moment = datetime.datetime.fromtimestamp(time / 1000, datetime.UTC).isoformat()
        wanted = _bag(table.read(as_of=snapshot).read_all())
        assert _bag(table.read(as_of=moment).read_all()) == wanted
        assert _bag(opened("branches_tags", **{"as-of-timestamp": str(time)}).read().read_all()) == wanted


def test_a_snapshot_has_the_schema_of_its_time() -> None:
    table = opened("schema_evolution")
    first = table.history()[0]
    assert table.read(as_of=first).schema.names != table.schema.names


@pytest.mark.parametrize("position", [99, "tag:nowhere", "1970-01-01", "next week", "branch:nowhere"])
def test_what_is_not_in_the_history(position: str | int) -> None:
    with pytest.raises(NotInHistoryError):
        opened("branches_tags").read(as_of=position)


def test_where_each_row_lies() -> None:
    table = opened("pos_deletes")
    rows = table.read(columns=["id", "_file", "_pos", "_spec_id"]).read_all().to_pylist()
    files = {str(path) for path in Path(table.location).glob("data/**/*.parquet")}
    assert {row["_file"].removeprefix("file:") for row in rows} <= files
    assert len({(row["_file"], row["_pos"]) for row in rows}) == len(rows) and {r["_spec_id"] for r in rows} == {0}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_changes_lead_from_snapshot_to_snapshot(name: str) -> None:
    table = opened(name)
    metadata = table.table_metadata
    head = metadata.head()
    line = [None, *[s.snapshot_id for s in ancestors(metadata, head)][::-1]] if head else [None]
    ranges = {*itertools.pairwise(line), *itertools.combinations(line[:: max(1, len(line) // 3)], 2)}
    for after, until in ranges:
        before: Counter[str] = Counter()
        if after is not None:
            context = table._context(metadata, schema_at(metadata, until))
            plan = plan_snapshot(table.operations.files, metadata, metadata.snapshot(after), ReadRequest(context))
            before = _bag(run(plan, 2).read_all())
        found = before.copy()
        for row in table.changes(after=after, until=until).read_all().to_pylist():
            kind = row.pop(ROW_KIND_COLUMN)
            found[repr(sorted(row.items()))] += 1 if kind in ("+I", "+U") else -1
        wanted = _bag(table.read(as_of=until).read_all())
        assert {key: n for key, n in found.items() if n} == wanted, f"({after}, {until}]"


@pytest.mark.slow
def test_a_rewrite_changes_nothing() -> None:
    for name in ("many_small_rewritten", "dv_v3_rewritten", "sorted_zorder", "pos_deletes_dangling"):
        table = opened(name)
        for snapshot in table.table_metadata.snapshots.values():
            if snapshot.operation == "replace":
                found = table.changes(after=snapshot.parent_id, until=snapshot.snapshot_id)
                assert found.read_all().num_rows == 0


def test_updates_are_told_by_row_ids() -> None:
    table = opened("dv_v3")
    kinds = Counter(table.changes(after=table.history()[0]).read_all()[ROW_KIND_COLUMN].to_pylist())
    assert kinds["-U"] == kinds["+U"] > 0 and kinds["-D"] and kinds["+I"]


def _bag(rows: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows.to_pylist())


def _digest(rows: pa.Table) -> str:
    columns = [[_json(value, field.type) for value in rows[field.name].to_pylist()] for field in rows.schema]
    lines = [
        json.dumps(dict(zip(rows.column_names, row, strict=True)), sort_keys=True, ensure_ascii=False)
        for row in zip(*columns, strict=True)
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _json(value: Any, kind: pa.DataType) -> Any:
    """A value as the expected files spell it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if [field.name for field in kind] == ["metadata", "value"]:
            found = of_variant(value)
            return {"$variant": float(found) if isinstance(found, Decimal) else found}
        return {field.name: _json(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = [[_json(k, kind.key_type), _json(v, kind.item_type)] for k, v in value]
        return {"$map": sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True))}
    if pa.types.is_list(kind):
        return [_json(item, kind.value_type) for item in value]
    match value:
        case Decimal():
            return {"$dec": str(value)}
        case datetime.datetime():
            return {"$ts": value.replace(tzinfo=None).isoformat()}
        case datetime.date():
            return {"$date": value.isoformat()}
        case datetime.time():
            return {"$time": value.isoformat()}
        case bytes():
            return {"$bin": value.hex()}
        case uuid.UUID():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
    return value
