"""The system tables of a table's history and settings: `snapshots`, `schemas`, `options`, `tags`, `branches`,
`consumers` and `aggregation_fields`.

Rule: SnapshotsTable, SchemasTable, OptionsTable, TagsTable, BranchesTable, ConsumersTable and AggregationFieldsTable of
Paimon. Times have no zone there: Paimon gives them in the zone of its JVM, we give them in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakebed.formats.paimon.codec.tag_json import Tag, tag_from_json
from lakebed.formats.paimon.codec.types import DataType, field_to_json
from lakebed.formats.paimon.layout import schema_path, tag_path
from lakebed.formats.paimon.read.consumers import consumers as consumers_of
from lakebed.formats.paimon.snapshot import History
from lakebed.verbs.system_tables import SystemTable, of_rows

TIME = pa.timestamp("ms")

_SNAPSHOTS = pa.schema([
    pa.field("snapshot_id", pa.int64(), False), pa.field("schema_id", pa.int64(), False),
    pa.field("commit_user", pa.string(), False), pa.field("commit_identifier", pa.int64(), False),
    pa.field("commit_kind", pa.string(), False), pa.field("commit_time", TIME, False),
    pa.field("base_manifest_list", pa.string(), False), pa.field("delta_manifest_list", pa.string(), False),
    pa.field("changelog_manifest_list", pa.string()), pa.field("total_record_count", pa.int64()),
    pa.field("delta_record_count", pa.int64()), pa.field("changelog_record_count", pa.int64()),
    pa.field("watermark", pa.int64()),
])  # fmt: skip
_SCHEMAS = pa.schema([
    pa.field("schema_id", pa.int64(), False), pa.field("fields", pa.string(), False),
    pa.field("partition_keys", pa.string(), False), pa.field("primary_keys", pa.string(), False),
    pa.field("options", pa.string(), False), pa.field("comment", pa.string()),
    pa.field("update_time", TIME, False),
])  # fmt: skip
_OPTIONS = pa.schema([pa.field("key", pa.string(), False), pa.field("value", pa.string(), False)])
_TAGS = pa.schema([
    pa.field("tag_name", pa.string(), False), pa.field("snapshot_id", pa.int64(), False),
    pa.field("schema_id", pa.int64(), False), pa.field("commit_time", TIME, False),
    pa.field("record_count", pa.int64()), pa.field("create_time", TIME), pa.field("time_retained", pa.string()),
])  # fmt: skip
_BRANCHES = pa.schema([pa.field("branch_name", pa.string(), False), pa.field("create_time", TIME, False)])
_CONSUMERS = pa.schema([
    pa.field("consumer_id", pa.string(), False), pa.field("next_snapshot_id", pa.int64(), False),
])  # fmt: skip
_AGGREGATIONS = pa.schema([
    pa.field("field_name", pa.string(), False), pa.field("field_type", pa.string(), False),
    pa.field("function", pa.string()), pa.field("function_options", pa.string()), pa.field("comment", pa.string()),
])  # fmt: skip


def snapshots(history: History) -> SystemTable:
    """One row per snapshot of the branch, oldest first."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for snapshot in history.snapshots():
            yield (
                snapshot.id, snapshot.schema_id, snapshot.commit_user, snapshot.commit_identifier,
                str(snapshot.commit_kind), snapshot.time_millis, snapshot.base_manifest_list,
                snapshot.delta_manifest_list, snapshot.changelog_manifest_list, snapshot.total_record_count,
                snapshot.delta_record_count, snapshot.changelog_record_count, snapshot.watermark,
            )  # fmt: skip

    return of_rows(_SNAPSHOTS, rows)


def schemas(history: History) -> SystemTable:
    """One row per version of the schema of the branch. Fields, keys and options are JSON."""

    def rows() -> Iterator[tuple[Any, ...]]:
        ids = history.schema_ids()
        history.read_schemas(ids)
        for schema in map(history.schema, ids):
            yield (
                schema.id, _json([field_to_json(field) for field in schema.fields]), _json(schema.partition_keys),
                _json(schema.primary_keys), _json(dict(schema.options)), schema.comment, schema.time_millis,
            )  # fmt: skip

    return of_rows(_SCHEMAS, rows)


def options(history: History) -> SystemTable:
    """One row per option of the newest schema."""
    return of_rows(_OPTIONS, lambda: history.latest_schema().options.items())


def tags(history: History) -> SystemTable:
    """One row per tag of the branch, by name. A tag that goes meanwhile is left out."""

    def read(name: str) -> Tag | None:
        try:
            return tag_from_json(history.store.read(tag_path(history.branch, name)))
        except FileNotFoundError:
            return None

    def rows() -> Iterator[tuple[Any, ...]]:
        names = sorted(history.tags())
        for name, tag in zip(names, history.store.together(read, names), strict=True):
            if tag is None:
                continue
            snapshot, retained = tag.snapshot, tag.retained
            yield (
                name, snapshot.id, snapshot.schema_id, snapshot.time_millis, snapshot.total_record_count, tag.created,
                None if retained is None else _duration(retained.total_seconds()),
            )  # fmt: skip

    return of_rows(_TAGS, rows)


def branches(history: History) -> SystemTable:
    """One row per branch but main. `create_time` is the time of its oldest schema file, since stores have no folders
    with a time."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for name in sorted(history.branches()):
            ids = history.on_branch(name).schema_ids()
            if ids:
                yield name, int(history.store.modified(schema_path(name, ids[0])) * 1000)

    return of_rows(_BRANCHES, rows)


def consumers(history: History) -> SystemTable:
    """One row per consumer, with the snapshot that it reads next."""
    return of_rows(_CONSUMERS, lambda: consumers_of(history).items())


def aggregation_fields(history: History) -> SystemTable:
    """One row per column, with the aggregate functions and their options as the table's options name them."""

    def rows() -> Iterator[tuple[Any, ...]]:
        schema = history.latest_schema()
        for field in schema.fields:
            own = [(key, value) for key, value in schema.options.items() if _is_of(key, field.name)]
            functions, keys = _listed([value for _, value in own]), _listed([key for key, _ in own])
            yield field.name, _type_text(field.type), functions, keys, field.description

    return of_rows(_AGGREGATIONS, rows)


def _type_text(kind: DataType) -> str:
    """A type as SQL spells it: names of fields inside are quoted."""
    end = "" if kind.nullable else " NOT NULL"
    if kind.root == "ROW":
        return f"ROW<{', '.join(f'`{field.name}` {_type_text(field.type)}' for field in kind.fields)}>{end}"
    if kind.root in ("ARRAY", "MULTISET", "MAP"):
        inner = [_type_text(each) for each in (kind.key, kind.element) if each is not None]
        return f"{kind.root}<{', '.join(inner)}>{end}"
    return str(kind)


def _is_of(key: str, column: str) -> bool:
    parts = key.split(".")
    return len(parts) > 2 and parts[0] == "fields" and parts[1] == column


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _duration(seconds: float) -> str:
    """A time span as Java's Duration prints it: PT25H, PT1M30.5S."""
    whole, fraction = divmod(round(seconds * 10**9), 10**9)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    tail = f".{fraction:09d}".rstrip("0") if fraction else ""
    text = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    text += f"{secs}{tail}S" if secs or fraction else ""
    return f"PT{text or '0S'}"
