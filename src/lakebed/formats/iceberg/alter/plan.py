"""What changes make of a table's definition, without I/O: its next schema, spec, sort order, properties and version, as
updates of the metadata, and a line for each change. This is the dry run.

Rules: the specification's "Schema Evolution" and "Partition Evolution", and for ids the reference engine's
TableMetadata.Builder: a schema, spec or sort order that the table had before gets its id back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakebed.errors import OptionError, SchemaError
from lakebed.formats.iceberg.alter import settings
from lakebed.formats.iceberg.alter.partitioning import SpecDraft, check_partition_values, check_spec, shared_names
from lakebed.formats.iceberg.alter.schema import SchemaDraft
from lakebed.formats.iceberg.alter.sorting import check_order, sort_fields
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.sort_order import SortOrder
from lakebed.formats.iceberg.codec.updates import TableRequirement, TableUpdate, is_still, ref_is
from lakebed.formats.iceberg.definition import FORMAT_VERSION
from lakebed.model import alter
from lakebed.redaction import shown
from lakebed.verbs.alter import apply_each

COMMENT = "comment"
"""The property that describes the table, as Spark and Flink have it."""


@dataclass(frozen=True, slots=True)
class Altered:
    """What an alteration makes: requirements and updates of the metadata, the schema after it, a line for each change,
    and what follows from them. Without updates nothing changes."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    schema: Schema
    lines: tuple[str, ...]
    notes: tuple[str, ...]


def altered(metadata: TableMetadata, changes: Sequence[alter.Change], table: str) -> Altered:
    """What the changes make of a table, one after the other.

    Raises SchemaError, OptionError and UsageError for what Iceberg refuses, UnsupportedError for what lakebed does not
    serve.
    """
    draft = _Draft(metadata, table)
    apply_each(changes, draft.apply, table)
    return draft.checked()


@dataclass(slots=True)
class _Draft:
    """A table's definition while changes are applied to it."""

    metadata: TableMetadata
    table: str
    columns: SchemaDraft = field(init=False)
    partitions: SpecDraft = field(init=False)
    order: SortOrder = field(init=False)
    properties: dict[str, str] = field(init=False)
    version: int = field(init=False)
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        metadata, schema = self.metadata, self.metadata.schema
        self.version = metadata.format_version
        self.columns = SchemaDraft(
            schema.fields, frozenset(schema.identifier_field_ids), _last_column_id(metadata), self.version,
            bool(metadata.snapshots), self.table, self.lines, self.notes,
        )  # fmt: skip
        self.partitions = SpecDraft(
            metadata.spec.fields, [one for spec in metadata.specs.values() for one in spec.fields],
            metadata.last_partition_id, self.version, self.table, self.lines,
        )  # fmt: skip
        self.order = metadata.sort_orders[metadata.default_sort_order_id]
        self.properties = dict(metadata.properties)

    def apply(self, change: alter.Change) -> None:
        match change:
            case alter.SetComment(name=None):
                if change.comment:
                    self._set_option(alter.SetOption(COMMENT, change.comment))
                else:
                    self._remove(COMMENT)
            case alter.SetOption():
                self._set_option(change)
            case alter.RemoveOption():
                self._remove(settings.checked_key(change.key, self.table))
            case alter.SetSortOrder():
                fields = sort_fields(change.order, self._schema(), self.table)
                self.order = SortOrder(fields)
                self.lines.append(f"sort order: {', '.join(change.order) or 'none'}")
            case _ if isinstance(change, alter.PartitionChange):
                self.partitions.apply(change, self._schema())
            case _:
                assert isinstance(change, alter.ColumnChange | alter.SetIdentifierFields)
                self.columns.apply(change)

    def _schema(self) -> Schema:
        """The columns as they are now."""
        return Schema(*self.columns.fields)

    def _set_option(self, change: alter.SetOption) -> None:
        if change.key == FORMAT_VERSION:
            self.version = settings.new_version(change.value, self.version, self.table)
            self.columns.version = self.partitions.version = self.version
            self.lines.append(f"format version {self.version} (was {self.metadata.format_version})")
            return
        key = settings.checked_key(change.key, self.table)
        value, old = settings.checked_property(key, change.value, self.table), self.properties.get(key)
        self.properties[key] = value
        self.lines.append(f"property {key}: {value}" + ("" if old is None else f" (was {shown(key, old)})"))

    def _remove(self, key: str) -> None:
        if key == FORMAT_VERSION:
            raise OptionError("a table always has a format version", key=key, table=self.table, todo="Set another one")
        if key not in self.properties:
            self.notes.append(settings.nearest_note(key, self.properties))
        self.properties.pop(key, None)
        self.lines.append(f"no property {key}")

    # ---- the outcome ----

    def checked(self) -> Altered:
        metadata = self.metadata
        schema, schema_updates = self._next_schema()
        spec_updates = self._next_spec(schema)
        order_updates = self._next_order(schema)
        properties, note = settings.followed(self.properties, metadata.schema, schema)
        if note:
            self.notes.append(note)
        updates: list[TableUpdate] = []
        requirements: list[TableRequirement] = []
        if self.version != metadata.format_version:
            updates.append({"action": "upgrade-format-version", "format-version": self.version})
        if schema_updates:
            requirements += is_still(metadata, "assert-last-assigned-field-id")
        if spec_updates:
            requirements += is_still(metadata, "assert-default-spec-id", "assert-last-assigned-partition-id")
        if order_updates:
            requirements += is_still(metadata, "assert-default-sort-order-id")
        if schema_updates or spec_updates or order_updates:
            requirements += is_still(metadata, "assert-current-schema-id")
        if self.columns.needs_empty:
            requirements.append(ref_is("main", None))
        updates += [*schema_updates, *spec_updates, *order_updates, *_property_updates(metadata.properties, properties)]
        return Altered(tuple(requirements), tuple(updates), schema, tuple(self.lines), tuple(dict.fromkeys(self.notes)))

    def _next_schema(self) -> tuple[Schema, list[TableUpdate]]:
        metadata, draft = self.metadata, self.columns
        schema = draft.schema(max(metadata.schemas) + 1)
        if same_schema(schema, metadata.schema):
            return metadata.schema, []
        known = [each for each in metadata.schemas.values() if same_schema(each, schema)]
        if known:
            return known[-1], [{"action": "set-current-schema", "schema-id": known[-1].schema_id}]
        document = schema.model_dump(by_alias=True, mode="json", exclude_none=True)
        if not document.get("identifier-field-ids"):
            document.pop("identifier-field-ids", None)
        added = {"action": "add-schema", "schema": document, "last-column-id": draft.last_column_id}
        return schema, [added, {"action": "set-current-schema", "schema-id": -1}]

    def _next_spec(self, schema: Schema) -> list[TableUpdate]:
        metadata, fields = self.metadata, self.partitions.fields
        check_partition_values(metadata.specs.values(), metadata.schema, schema, self.table)
        spec = PartitionSpec(*fields, spec_id=max(metadata.specs) + 1)
        check_spec(spec, schema, self.table)
        shared = shared_names(spec, schema) - shared_names(metadata.spec, metadata.schema)
        if shared:
            raise SchemaError(
                f"a column and a partition field would both have the name {min(shared)!r}",
                table=self.table,
                todo="Choose another name, or rename the partition field first",
            )
        if spec_key(spec) == spec_key(metadata.spec):
            return []
        known = [each for each in metadata.specs.values() if spec_key(each) == spec_key(spec)]
        if known:
            return [{"action": "set-default-spec", "spec-id": known[-1].spec_id}]
        document = {
            "spec-id": spec.spec_id,
            "fields": [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in fields],
        }
        return [{"action": "add-spec", "spec": document}, {"action": "set-default-spec", "spec-id": -1}]

    def _next_order(self, schema: Schema) -> list[TableUpdate]:
        metadata, fields = self.metadata, list(self.order.fields)
        check_order(self.order, schema, self.table)
        if fields == list(metadata.sort_orders[metadata.default_sort_order_id].fields):
            return []
        known = [id for id, each in metadata.sort_orders.items() if list(each.fields) == fields]
        if known or not fields:
            return [{"action": "set-default-sort-order", "sort-order-id": known[-1] if known else 0}]
        document = {
            "order-id": max(max(metadata.sort_orders), 0) + 1, "fields": [one.to_json() for one in fields],
        }  # fmt: skip
        return [
            {"action": "add-sort-order", "sort-order": document},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]


def _last_column_id(metadata: TableMetadata) -> int:
    """The highest field id that was ever assigned, also where the metadata counts less than its schemas have."""
    return max(metadata.last_column_id, *(schema.highest_field_id for schema in metadata.schemas.values()))


def same_schema(one: Schema, other: Schema) -> bool:
    """Whether two schemas have the same columns and identifier fields."""
    return one.fields == other.fields and {*one.identifier_field_ids} == {*other.identifier_field_ids}


def spec_key(spec: PartitionSpec) -> list[tuple[Any, ...]]:
    """The identity of a spec: its fields, without its own id."""
    return [(one.source_id, one.field_id, str(one.transform), one.name) for one in spec.fields]


def _property_updates(before: Mapping[str, str], after: Mapping[str, str]) -> list[TableUpdate]:
    put = {key: value for key, value in after.items() if before.get(key) != value}
    gone = [key for key in before if key not in after]
    updates: list[TableUpdate] = [{"action": "set-properties", "updates": put}] if put else []
    return [*updates, *([{"action": "remove-properties", "removals": gone}] if gone else [])]
