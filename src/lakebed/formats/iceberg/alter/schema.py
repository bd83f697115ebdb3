"""What changes of columns make of a schema, one after the other, without I/O.

Rules: the reference engine's SchemaUpdate and Schema.validateIdentifierField. Field ids are never used again. Values of
files that are there are found by field id, so that no data file is rewritten.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from pyiceberg import types as T
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from lakebed.errors import SchemaError, UsageError
from lakebed.formats.iceberg.alter import columns
from lakebed.formats.iceberg.alter.columns import Edit, Fields, altered_field, changed, edited, names_of
from lakebed.formats.iceberg.alter.values import check_promotion, default_of, type_of, widened_default
from lakebed.formats.iceberg.codec.schema import METADATA_COLUMNS
from lakebed.kernel import column_paths
from lakebed.model import alter
from lakebed.model.rowkind import ROW_KIND_COLUMN


@dataclass(slots=True)
class SchemaDraft:
    """The columns of a table while changes are applied to them.

    `has_rows`: whether the table has a snapshot. `last_column_id` is the highest field id that was ever assigned.
    """

    fields: Fields
    identifiers: frozenset[int]
    last_column_id: int
    version: int
    has_rows: bool
    table: str
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    needs_empty: bool = False
    """Whether a change holds only while the table has no row."""
    new_ids: set[int] = field(default_factory=set)

    def apply(self, change: alter.ColumnChange | alter.SetIdentifierFields) -> None:
        """Make one change. SchemaError for one that Iceberg refuses."""
        match change:
            case alter.AddColumn():
                self._add(change)
            case alter.DropColumn():
                self._drop(change)
            case alter.RenameColumn():
                self._rename(change)
            case alter.RetypeColumn():
                self._retype(change)
            case alter.MoveColumn():
                self._move(change)
            case alter.SetNullable():
                self._set_nullable(change)
            case alter.SetDefault():
                self._set_default(change)
            case alter.SetComment():
                self._set_comment(change)
            case alter.SetIdentifierFields():
                self._set_identifiers(change)

    def schema(self, schema_id: int) -> Schema:
        """The schema after the changes. SchemaError when a column that identifies rows cannot do so any more."""
        self._check_identifiers()
        names = [_dotted(path) for path in columns.paths(self.fields).values()]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise SchemaError(f"two columns would be called {double[0]!r}", table=self.table, todo="Rename one of them")
        return Schema(*self.fields, schema_id=schema_id, identifier_field_ids=sorted(self.identifiers))

    # ---- changes ----

    def _add(self, change: alter.AddColumn) -> None:
        path = column_paths.path_of(change.name, names_of(self.fields))
        word = _dotted(path)
        counter = itertools.count(self.last_column_id + 1)
        number = next(counter)
        kind = type_of(change.type, word, counter, self.version, self.table)
        default = default_of(change.default, kind, self.version, word)
        if not change.nullable and default is None and self.has_rows:
            raise SchemaError(
                f"a new column {word!r} needs a default value to be required",
                why="existing rows have no value in it",
                todo="Give default= (format version 3), or add it as nullable",
            )
        self.needs_empty |= not change.nullable and default is None
        added = NestedField(
            number, path[-1], kind, not change.nullable, change.comment or None, initial_default=default,
            write_default=default,
        )  # fmt: skip
        self._check_name(path)

        def inserted(fields: Fields, name: str) -> Fields:
            place = column_paths.new_place(name, names_of(fields), change.after, change.first, change.before)
            place = len(fields) if place is None else place
            self._warn_of_case(name, fields)
            return (*fields[:place], added, *fields[place:])

        self._edit(path, inserted)
        self.last_column_id = next(counter) - 1
        self.new_ids.add(number)
        shown = "" if default is None else f" default {default}"
        required = "" if change.nullable else " not null"
        self.lines.append(f"add column {word} {kind}{required}{shown}{alter.place_words(change)}")

    def _drop(self, change: alter.DropColumn) -> None:
        path = self._path(change.name)
        gone = columns.field_at(self.fields, path)
        ids = {one.field_id for _, one in columns.all_fields([gone])}
        if ids & self.identifiers:
            raise SchemaError(
                f"column {_dotted(path)!r} identifies rows",
                why="it is an identifier field of the table, or holds one",
                todo="Set other identifier fields first, with lakebed.set_identifier_fields",
            )

        def without(fields: Fields, name: str) -> Fields:
            if len(fields) == 1:
                raise SchemaError(f"column {_dotted(path)!r} is the only one", todo="Add another one first")
            place = column_paths.place_of(name, names_of(fields))
            return (*fields[:place], *fields[place + 1 :])

        self._edit(path, without)
        self.lines.append(f"drop column {_dotted(path)} {gone.field_type}")
        self.notes.append("values of a dropped column stay in its files, and only older snapshots show them")

    def _rename(self, change: alter.RenameColumn) -> None:
        path = self._path(change.name)
        if not isinstance(change.to, str) or not change.to:
            raise SchemaError(f"column {_dotted(path)!r} cannot be called {change.to!r}", todo="Give a text")
        self._check_name((*path[:-1], change.to))

        def renamed(fields: Fields, name: str) -> Fields:
            place = column_paths.place_of(name, names_of(fields))
            if change.to in names_of(fields) and fields[place].name != change.to:
                raise SchemaError(f"there is already a column {change.to!r}", todo="Choose another name")
            self._warn_of_case(change.to, (*fields[:place], *fields[place + 1 :]))
            return columns.with_field(fields, place, altered_field(fields[place], name=change.to))

        self._edit(path, renamed)
        self.lines.append(f"rename column {_dotted(path)} to {change.to}")

    def _retype(self, change: alter.RetypeColumn) -> None:
        path = self._path(change.name)
        counter = itertools.count(self.last_column_id + 1)
        kind = type_of(change.type, _dotted(path), counter, self.version, self.table)
        old = columns.field_at(self.fields, path).field_type
        if not isinstance(old, T.PrimitiveType) or not isinstance(kind, T.PrimitiveType):
            raise SchemaError(
                f"column {_dotted(path)!r} cannot change from {old} to {kind}",
                why="only plain types can be widened",
                todo="Change the fields inside it, by their paths",
            )
        check_promotion(old, kind, self.version, _dotted(path))

        def widened(one: NestedField) -> NestedField:
            return altered_field(
                one, field_type=kind, initial_default=widened_default(one.initial_default, kind),
                write_default=widened_default(one.write_default, kind),
            )  # fmt: skip

        self.fields = changed(self.fields, path, widened)
        self.lines.append(f"column {_dotted(path)}: {old} becomes {kind}")
        if isinstance(old, T.DateType | T.UnknownType) and old != kind:
            self.notes.append(f"not every engine reads a column that was {old} and is {kind} now: Iceberg's own up to "
                              "1.12 does not make this change")  # fmt: skip

    def _move(self, change: alter.MoveColumn) -> None:
        path = self._path(change.name)
        moved = columns.field_at(self.fields, path)

        def placed(fields: Fields, name: str) -> Fields:
            others = tuple(other for other in fields if other.field_id != moved.field_id)
            place = column_paths.new_place(moved.name, names_of(others), change.after, change.first, change.before)
            if place is None:
                raise SchemaError(
                    f"column {_dotted(path)!r} needs a place to move to", todo="Give after=, before= or first=True"
                )
            return (*others[:place], moved, *others[place:])

        self._edit(path, placed)
        self.lines.append(f"move column {_dotted(path)}{alter.place_words(change)}")

    def _set_nullable(self, change: alter.SetNullable) -> None:
        path = self._path(change.name)
        column = columns.field_at(self.fields, path)
        required = not change.nullable
        if required and not column.required and self.has_rows:
            if column.field_id not in self.new_ids or column.initial_default is None:
                raise SchemaError(
                    f"column {_dotted(path)!r} cannot become required",
                    why="existing rows may have null in it",
                    todo="Add a new column with a default value, or check for nulls where you write",
                )
        elif required and not column.required:
            self.needs_empty = True
        self.fields = changed(self.fields, path, lambda one: altered_field(one, required=required))
        self.lines.append(f"column {_dotted(path)} {'may be null' if change.nullable else 'is required'}")

    def _set_default(self, change: alter.SetDefault) -> None:
        path = self._path(change.name)
        column = columns.field_at(self.fields, path)
        default = default_of(change.default, column.field_type, self.version, _dotted(path))
        if default is None and column.required and column.write_default is not None:
            raise SchemaError(
                f"column {_dotted(path)!r} needs its default value",
                why="it is required, and writers may leave it out",
                todo="Let it be null first, with lakebed.set_nullable",
            )
        self.fields = changed(self.fields, path, lambda one: altered_field(one, write_default=default))
        text = "no default value" if default is None else f"default value {default}"
        self.lines.append(f"column {_dotted(path)}: {text}")
        if default is not None:
            self.notes.append("a default that is set later is for new rows; those that are there keep their values")

    def _set_comment(self, change: alter.SetComment) -> None:
        if not isinstance(change.comment, str):
            raise UsageError(f"a comment is a {type(change.comment).__name__}", todo="Give a text")
        assert change.name is not None
        path = self._path(change.name)
        self.fields = changed(self.fields, path, lambda one: altered_field(one, doc=change.comment or None))
        self.lines.append(f"column {_dotted(path)}: comment {change.comment!r}")

    def _set_identifiers(self, change: alter.SetIdentifierFields) -> None:
        names = [self._path(name) for name in change.names]
        self.identifiers = frozenset(columns.field_at(self.fields, path).field_id for path in names)
        self.lines.append(f"identifier fields: {', '.join(map(_dotted, names)) or 'none'}")

    # ---- checks ----

    def _check_identifiers(self) -> None:
        by_id = {one.field_id: (parent, one) for parent, one in columns.all_fields(self.fields)}
        where = columns.paths(self.fields)
        for identifier in sorted(self.identifiers):
            parent, one = by_id[identifier]
            why = ""
            kind = one.field_type
            if not isinstance(kind, T.PrimitiveType) or isinstance(kind, T.FloatType | T.DoubleType):
                why = f"it is a {one.field_type}"
            elif not one.required:
                why = "it may be null"
            while parent != columns.ROOT and not why:
                parent, holder = by_id[parent]
                if not isinstance(holder.field_type, T.StructType):
                    why = f"it is inside {holder.name!r}, which is a list or a map"
                elif not holder.required:
                    why = f"it is inside {holder.name!r}, which may be null"
            if why:
                raise SchemaError(
                    f"column {_dotted(where[identifier])!r} cannot identify rows", table=self.table, why=why,
                    todo="Choose required columns of other types than float and double",
                )  # fmt: skip

    def _check_name(self, path: tuple[str, ...]) -> None:
        """Refuse a new name that rows have metadata under, and warn of one that Spark cannot tell from another."""
        if len(path) == 1 and (path[0] in METADATA_COLUMNS or path[0] == ROW_KIND_COLUMN):
            raise SchemaError(
                f"the column name {path[0]!r} is reserved for metadata of rows", todo="Choose another name"
            )

    def _warn_of_case(self, name: str, siblings: Fields) -> None:
        near = [one.name for one in siblings if one.name != name and one.name.lower() == name.lower()]
        if near:
            self.notes.append(f"columns {near[0]!r} and {name!r} differ in case alone: Spark cannot tell them apart")

    def _edit(self, path: tuple[str, ...], edit: Edit) -> None:
        self.fields = edited(self.fields, path, edit)

    def _path(self, name: alter.Path) -> tuple[str, ...]:
        """The path of a column that there is, as the schema spells it."""
        path = column_paths.path_of(name, names_of(self.fields))
        field = columns.field_at(self.fields, path)
        return columns.paths(self.fields)[field.field_id]


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)
