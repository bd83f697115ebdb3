"""What changes of partition fields make of the partition spec that writers use, without I/O.

Rules: the reference engine's BaseUpdatePartitionSpec, PartitionSpec.Builder and checkCompatibility. Ids of partition
fields are never used for another field: from version 2 on, a field that an earlier spec had gets its id back. Version 1
keeps a dropped field as a void transform, since its readers find partition values by their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg import types as T
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)

from lakebed.errors import SchemaError, UnsupportedError, UsageError
from lakebed.formats.iceberg.alter import columns
from lakebed.formats.iceberg.codec.schema import VariantType
from lakebed.formats.iceberg.definition import parsed_transform
from lakebed.kernel import column_paths
from lakebed.model import alter

_TIMES = (YearTransform, MonthTransform, DayTransform, HourTransform)
_NO_SOURCES = (VariantType, T.GeometryType, T.GeographyType, T.UnknownType)


@dataclass(slots=True)
class SpecDraft:
    """The partition fields of a table while changes are applied to them.

    `history` are the fields of all specs, `last_id` the highest id of a partition field that was ever assigned.
    """

    fields: tuple[PartitionField, ...]
    history: Sequence[PartitionField]
    last_id: int
    version: int
    table: str
    lines: list[str] = field(default_factory=list)
    _at_first: tuple[PartitionField, ...] = ()
    _added_times: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._at_first = self.fields
        unknown = [one.name for one in self.fields if isinstance(one.transform, UnknownTransform)]
        if unknown:
            raise UnsupportedError(
                f"partition field {unknown[0]!r} has a transform that lakebed does not know",
                table=self.table,
                todo="Change the partition spec with the engine that made it",
            )

    def apply(self, change: alter.PartitionChange, schema: Schema) -> None:
        """Make one change of a table with these columns. SchemaError for one that Iceberg refuses, UsageError for a
        text that is no transform."""
        match change:
            case alter.AddPartitionField():
                self._add(change.transform, change.name, schema)
            case alter.DropPartitionField():
                self._drop(change.field, schema)
            case alter.ReplacePartitionField():
                self._drop(change.field, schema)
                self._add(change.transform, change.name, schema)
            case alter.RenamePartitionField():
                self._rename(change.field, change.to, schema)

    def _add(self, text: str, name: str, schema: Schema) -> None:
        names = [field.name for field in schema.fields]
        suffix, transform, column = parsed_transform(_text(text), "a new partition field", self.table, names)
        source, path = source_of(column, schema)
        same = [one for one in self.fields if one.source_id == source.field_id and _same(one.transform, transform)]
        if same:
            raise SchemaError(
                f"{text!r} is partition field {same[0].name!r} already", todo="Rename it, or add another transform"
            )
        check_source(transform, source, text)
        wanted = name or _default_name(path, suffix, transform)
        if isinstance(transform, _TIMES):
            if source.field_id in self._added_times:
                other = self._added_times[source.field_id]
                raise SchemaError(f"{text!r} and {other!r} are both added", why="one holds the other", todo="Add one")
            self._added_times[source.field_id] = text
        added = self._known(source.field_id, transform, name)
        if added is None:
            self.last_id += 1
            added = PartitionField(source.field_id, self.last_id, transform, wanted)
        elif not name and added.name in {one.name for one in self.fields}:
            added = PartitionField(source.field_id, added.field_id, transform, wanted)
        self._make_room(added.name)
        revived = [n for n, one in enumerate(self.fields) if one.field_id == added.field_id]
        if revived:  # version 1 kept it as a void transform
            self.fields = (*self.fields[: revived[0]], added, *self.fields[revived[0] + 1 :])
        else:
            self.fields = (*self.fields, added)
        self.lines.append(f"add partition field {added.name}: {transform} of {'.'.join(path)}")

    def _known(self, source_id: int, transform: Transform[Any, Any], name: str) -> PartitionField | None:
        """The field that the table has, or had, for a transform: one that was dropped in the same change, or from
        version 2 on one of an earlier spec."""
        dropped = [partition_field for partition_field in self._at_first if partition_field not in self.fields]
        for partition_field in (*dropped, *(self.history if self.version > 1 else ())):
            if partition_field.source_id == source_id and _same(partition_field.transform, transform):
                if partition_field in dropped and name:
                    return PartitionField(source_id, partition_field.field_id, transform, name)
                if not name or partition_field.name == name:
                    return partition_field
        return None

    def _make_room(self, name: str) -> None:
        """Give a dropped field of version 1 another name where a new one takes its name. SchemaError where a field
        that is not dropped has the name."""
        for place, partition_field in enumerate(self.fields):
            if partition_field.name == name:
                if not isinstance(partition_field.transform, VoidTransform):
                    raise SchemaError(f"there is already a partition field {name!r}", todo="Give another name")
                renamed = PartitionField(
                    partition_field.source_id,
                    partition_field.field_id,
                    partition_field.transform,
                    f"{name}_{partition_field.field_id}",
                )
                self.fields = (*self.fields[:place], renamed, *self.fields[place + 1 :])

    def _drop(self, named: str, schema: Schema) -> None:
        place = self._place(named, schema)
        partition_field = self.fields[place]
        void = PartitionField(
            partition_field.source_id, partition_field.field_id, VoidTransform(), partition_field.name
        )
        kept = (void,) if self.version == 1 else ()
        self.fields = (*self.fields[:place], *kept, *self.fields[place + 1 :])
        self.lines.append(f"drop partition field {partition_field.name}")

    def _rename(self, named: str, to: str, schema: Schema) -> None:
        place = self._place(named, schema)
        partition_field = self.fields[place]
        if not isinstance(to, str) or not to:
            raise SchemaError(f"partition field {partition_field.name!r} cannot be called {to!r}", todo="Give a text")
        if partition_field.name != to:
            self._make_room(to)
        renamed = PartitionField(partition_field.source_id, partition_field.field_id, partition_field.transform, to)
        self.fields = (*self.fields[:place], renamed, *self.fields[place + 1 :])
        self.lines.append(f"rename partition field {partition_field.name} to {to}")

    def _place(self, named: str, schema: Schema) -> int:
        """The position of the field with a name or transform. SchemaError if there is none."""
        names = [
            partition_field.name
            for partition_field in self.fields
            if not isinstance(partition_field.transform, VoidTransform)
        ]
        if _text(named) in names:
            return [partition_field.name for partition_field in self.fields].index(named)
        try:
            _, transform, column = parsed_transform(named, "a partition field", self.table)
            source, _ = source_of(column, schema)
        except (UsageError, SchemaError):
            source = None
        for place, partition_field in enumerate(self.fields):
            if (
                source is not None
                and partition_field.source_id == source.field_id
                and _same(partition_field.transform, transform)
            ):
                return place
        raise SchemaError(f"there is no partition field {named!r}", todo=f"Fields: {', '.join(names) or 'none'}")


def source_of(column: str, schema: Schema) -> tuple[T.NestedField, tuple[str, ...]]:
    """The field that a transform of a column takes its values from, and its path. SchemaError where there is none, and
    for one inside a list or a map."""
    path = column_paths.path_of(column, columns.names_of(schema.fields))
    field = columns.field_at(schema.fields, path)
    for place in range(1, len(path)):
        if not isinstance(columns.field_at(schema.fields, path[:place]).field_type, T.StructType):
            raise SchemaError(f"{column!r} is inside a list or a map", todo="Name a column, or a field of a struct")
    return field, columns.paths(schema.fields)[field.field_id]


def check_source(transform: Transform[Any, Any], source: T.NestedField, text: str) -> None:
    """Raise SchemaError for a transform that does not apply to a column's type."""
    kind = source.field_type
    if isinstance(kind, _NO_SOURCES) or not (isinstance(kind, T.PrimitiveType) and transform.can_transform(kind)):
        raise SchemaError(f"{text!r} does not apply to a column of type {kind}", todo="Choose another transform")


def check_spec(spec: PartitionSpec, schema: Schema, table: str) -> None:
    """Raise SchemaError for a spec whose sources are gone, or of a type that its transforms do not take, and for a name
    that occurs twice."""
    seen: set[str] = set()
    by_id = {partition_field.field_id: partition_field for _, partition_field in columns.all_fields(schema.fields)}
    for partition_field in spec.fields:
        if partition_field.name in seen:
            raise SchemaError(f"two partition fields would have the name {partition_field.name!r}", table=table)
        seen.add(partition_field.name)
        if isinstance(partition_field.transform, VoidTransform):
            continue
        if partition_field.source_id not in by_id:
            raise SchemaError(
                f"a column is dropped that partition field {partition_field.name!r} comes from",
                table=table,
                why="the partition spec that writers use has this field",
                todo="Drop the partition field first, with lakebed.drop_partition_field",
            )
        check_source(partition_field.transform, by_id[partition_field.source_id], str(partition_field.transform))


def check_partition_values(specs: Iterable[PartitionSpec], before: Schema, after: Schema, table: str) -> None:
    """Raise SchemaError for a date that becomes a timestamp while a spec, the current or an earlier one, has partition
    values that would be others then."""
    old = {one.field_id: one for _, one in columns.all_fields(before.fields)}
    dates = {
        one.field_id: one.name
        for _, one in columns.all_fields(after.fields)
        if one.field_id in old
        and isinstance(old[one.field_id].field_type, T.DateType)
        and not isinstance(one.field_type, T.DateType)
    }
    for spec in specs:
        for part in spec.fields:
            if part.source_id in dates and isinstance(part.transform, IdentityTransform | BucketTransform):
                raise SchemaError(
                    f"column {dates[part.source_id]!r} stays a date",
                    table=table,
                    why=f"files are partitioned by {part.transform} of it, and a timestamp has other such values",
                    todo="Add another column, and fill it",
                )


def shared_names(spec: PartitionSpec, schema: Schema) -> set[str]:
    """Names that a partition field shares with a column, other than those of plain values of that very column."""
    names = {".".join(path): number for number, path in columns.paths(schema.fields).items()}
    plain = (IdentityTransform, VoidTransform)
    return {
        one.name
        for one in spec.fields
        if one.name in names and not (names[one.name] == one.source_id and isinstance(one.transform, plain))
    }


def _text(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise UsageError(f"{given!r} names no partition field", todo="Give a name, or a transform such as day(ts)")
    return given


def _same(one: Transform[Any, Any], other: Transform[Any, Any]) -> bool:
    return str(one) == str(other)


def _default_name(path: tuple[str, ...], suffix: str, transform: Transform[Any, Any]) -> str:
    """The name that the reference engine gives a field that is added without one: with the number of a transform."""
    number = ""
    if isinstance(transform, BucketTransform):
        number = f"_{transform.num_buckets}"
    elif isinstance(transform, TruncateTransform):
        number = f"_{transform.width}"
    return ".".join(path) + (f"_{suffix}" if suffix else "") + number
