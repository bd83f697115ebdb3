"""What changes make of a schema, without I/O: the next version of it, and a line for each change. This is the dry run.

Rules: Paimon's SchemaManager.generateTableSchema, of release 1.3.1 and of the newest one. Field ids are never used
again. Rows of older files are read by id, through the casts of `lakebed.formats.paimon.casts`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lakebed.errors import SchemaError, UnsupportedError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.alter.casts import check_cast
from lakebed.formats.paimon.alter.columns import Edit, Fields, edited, inserted, path_of, place_of, retyped, with_field
from lakebed.formats.paimon.alter.settings import (
    check_removed,
    check_set,
    check_whole,
    options_naming,
    renamed_options,
    spelled_key,
)
from lakebed.formats.paimon.alter.values import text_of, type_of
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, DataType
from lakebed.formats.paimon.definition import check_definition
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.write.defaults import default_of
from lakebed.kernel.options import option_text
from lakebed.model import alter
from lakebed.redaction import shown
from lakebed.verbs.alter import apply_each


@dataclass(frozen=True, slots=True)
class Altered:
    """A schema after changes, a line for each of them, and what follows from them."""

    schema: TableSchema
    lines: tuple[str, ...]
    notes: tuple[str, ...]


def altered(schema: TableSchema, changes: Sequence[alter.Change], has_rows: bool, table: str) -> Altered:
    """The next version of a schema. `has_rows`: whether the branch has a snapshot.

    Raises SchemaError and OptionError for what Paimon refuses, UnsupportedError for what lakebed does not serve.
    """
    draft = _Draft(schema, has_rows, table)
    apply_each(changes, draft.apply, table)
    return draft.checked()


@dataclass(slots=True)
class _Draft:
    """A schema while changes are applied to it, one after the other."""

    schema: TableSchema
    has_rows: bool
    table: str
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    """The ids of columns whose default must fit their type."""

    def apply(self, change: alter.Change) -> None:
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
                self._set_default(self._path(change.name), change.default)
            case alter.SetComment():
                self._set_comment(change)
            case alter.SetOption():
                self._set_option(change)
            case alter.RemoveOption():
                self._remove_option(change)
            case _:
                raise UnsupportedError(f"Paimon tables have no {alter.what(change)}", table=self.table)

    def checked(self) -> Altered:
        schema = self.schema
        check_definition(schema, self.table)
        check_whole(schema, self.table)
        if schema.primary_keys:
            merge_function(schema, opt.table_options(schema.options))
        for column in schema.fields:
            if column.id in self.touched:
                default_of(column, self.table)
        return Altered(schema, tuple(self.lines), tuple(dict.fromkeys(self.notes)))

    # ---- columns ----

    def _add(self, change: alter.AddColumn) -> None:
        path = path_of(change.name, self.schema.fields)
        counter = itertools.count(self.schema.highest_field_id + 1)
        number = next(counter)
        highest = number

        def next_id() -> int:
            nonlocal highest
            highest = next(counter)
            return highest

        kind = type_of(change.type, _dotted(path), next_id)
        if not change.nullable or not kind.nullable:
            raise SchemaError(
                f"a new column {_dotted(path)!r} cannot be NOT NULL",
                why="existing rows have null in it",
                todo="Add it as nullable",
            )
        added = DataField(number, path[-1], kind, change.comment or None)
        end = self._before_partitions() if len(path) == 1 else None
        self._edit(path, lambda fields, _: inserted(fields, added, change.after, change.first, change.before, end))
        self.schema = replace(self.schema, highest_field_id=highest)
        self.lines.append(f"add column {_dotted(path)} {kind}{alter.place_words(change)}")
        if change.default is not None:
            self._set_default(path, change.default)

    def _before_partitions(self) -> int | None:
        """Where a new column goes by the option `add-column-before-partition`; None: at the end."""
        if self.schema.options.get("add-column-before-partition", "").strip().lower() != "true":
            return None
        places = [place for place, name in enumerate(self.schema.names) if name in self.schema.partition_keys]
        return min(places, default=None)

    def _drop(self, change: alter.DropColumn) -> None:
        path = self._path(change.name)
        if len(path) == 1:
            self._refuse_keys(path[0], "dropped", (*self.schema.partition_keys, *self.schema.primary_keys))
            named = list(options_naming(self.schema.options, path[0]))
            if named:
                raise SchemaError(
                    f"column {path[0]!r} cannot be dropped",
                    why=f"the table's option {named[0]!r} names it",
                    todo="Remove the option first, where that is possible",
                )

        def without(fields: Fields, name: str) -> Fields:
            place = place_of(fields, name)
            if len(fields) == 1:
                raise SchemaError(f"column {_dotted(path)!r} is the only one", todo="Add another one first")
            self.lines.append(f"drop column {_dotted(path)} {fields[place].type}")
            return (*fields[:place], *fields[place + 1 :])

        self._edit(path, without)
        self.notes.append("values of a dropped column stay in its files, and only older snapshots show them")

    def _rename(self, change: alter.RenameColumn) -> None:
        path = self._path(change.name)
        if not isinstance(change.to, str) or not change.to:
            raise SchemaError(f"column {_dotted(path)!r} needs a new name", todo="Give one name, as a text")
        if len(path) == 1:
            self._refuse_keys(path[0], "renamed", self.schema.partition_keys)

        def renamed(fields: Fields, name: str) -> Fields:
            place = place_of(fields, name)
            if any(other.name == change.to for other in fields):
                raise SchemaError(f"there is already a column {change.to!r}", todo="Choose another name")
            return with_field(fields, place, replace(fields[place], name=change.to))

        self._edit(path, renamed)
        if len(path) == 1:
            keys = tuple(change.to if name == path[0] else name for name in self.schema.primary_keys)
            options = renamed_options(self.schema.options, path[0], change.to)
            self.schema = replace(self.schema, primary_keys=keys, options=options)
        self.lines.append(f"rename column {_dotted(path)} to {change.to}")

    def _retype(self, change: alter.RetypeColumn) -> None:
        path = self._path(change.name)
        self._refuse_keys(path[0], "given another type", (*self.schema.partition_keys, *self.schema.primary_keys))
        if path[0] in self.schema.bucket_keys:
            raise SchemaError(
                f"column {path[0]!r} cannot be given another type", why="its hash chooses the bucket of a row"
            )
        explicit = self.schema.options.get("disable-explicit-type-casting", "").strip().lower() != "true"

        def changed(kind: DataType) -> DataType:
            wanted = type_of(change.type, _dotted(path), None)
            check_cast(kind, wanted, explicit, _dotted(path))
            self.lines.append(
                f"column {_dotted(path)}: {replace(kind, nullable=True)} becomes {replace(wanted, nullable=True)}"
            )
            return replace(wanted, nullable=kind.nullable)

        self._change_type(path, changed)
        self.notes.append("rows of older files are read through a cast to the new type")

    def _set_nullable(self, change: alter.SetNullable) -> None:
        path = self._path(change.name)
        if not isinstance(change.nullable, bool):
            raise UsageError(f"nullable is {change.nullable!r}", todo="Give True or False")
        if change.nullable:
            self._refuse_keys(path[0] if len(path) == 1 else "", "nullable", self.schema.primary_keys)
        strict = self.schema.options.get("alter-column-null-to-not-null.disabled", "true").strip().lower() != "false"

        def changed(kind: DataType) -> DataType:
            if kind.nullable and not change.nullable and strict:
                raise SchemaError(
                    f"column {_dotted(path)!r} cannot become NOT NULL",
                    why="existing rows may have null in it",
                    todo="Set the option alter-column-null-to-not-null.disabled to false first, if you are sure",
                )
            return replace(kind, nullable=change.nullable)

        self._change_type(path, changed)
        self.lines.append(f"column {_dotted(path)}: {'may be null' if change.nullable else 'NOT NULL'}")

    def _set_default(self, path: tuple[str, ...], default: object) -> None:
        if len(path) > 1:
            raise UnsupportedError(
                f"column {_dotted(path)!r} cannot have a default value",
                why="it is inside another column, where Paimon's writers use none",
            )
        text = None if default is None else text_of(default)
        place = place_of(self.schema.fields, path[0])
        column = replace(self.schema.fields[place], default=text)
        self.schema = replace(self.schema, fields=with_field(self.schema.fields, place, column))
        self.touched.add(column.id)
        self.lines.append(f"column {path[0]}: " + ("no default value" if text is None else f"default value {text!r}"))
        if text is not None:
            self.notes.append("a default value is for new rows; those that are there keep their nulls")

    def _set_comment(self, change: alter.SetComment) -> None:
        if not isinstance(change.comment, str):
            raise UsageError(f"a comment is a {type(change.comment).__name__}", todo="Give a text")
        comment = change.comment or None
        if change.name is None:
            self.schema = replace(self.schema, comment=comment)
            self.lines.append(f"comment of the table: {change.comment!r}")
            return
        path = self._path(change.name)

        def described(fields: Fields, name: str) -> Fields:
            place = place_of(fields, name)
            return with_field(fields, place, replace(fields[place], description=comment))

        self._edit(path, described)
        self.lines.append(f"column {_dotted(path)}: comment {change.comment!r}")

    def _move(self, change: alter.MoveColumn) -> None:
        path = self._path(change.name)
        if len(path) > 1:
            raise UnsupportedError(
                f"column {_dotted(path)!r} cannot move", why="Paimon moves columns, not fields inside them"
            )
        if change.after is None and change.before is None and not change.first:
            raise SchemaError(f"column {path[0]!r} needs one place to move to", todo="Give after=, or first=True")
        column = self.schema.field(path[0])
        others = tuple(other for other in self.schema.fields if other.id != column.id)
        fields = inserted(others, column, change.after, change.first, change.before)
        self.schema = replace(self.schema, fields=fields)
        self.lines.append(f"move column {path[0]}{alter.place_words(change)}")

    # ---- options ----

    def _set_option(self, change: alter.SetOption) -> None:
        if change.value is None:
            raise UsageError(f"option {change.key!r} is None", todo="Give a value, or use lakebed.remove_option")
        key, value = spelled_key(change.key, self.table), option_text(change.value)
        old = self.schema.options.get(key)
        if old != value:
            check_set(self.schema.options, key, value, self.has_rows, self.table)
            self.schema = replace(self.schema, options={**self.schema.options, key: value})
        self.lines.append(f"option {key}: {value}" + ("" if old is None else f" (was {shown(key, old)})"))
        if key == opt.BUCKET.key and self.has_rows and old != value:
            self.notes.append("a partition keeps its number of buckets until it is overwritten or rescaled")

    def _remove_option(self, change: alter.RemoveOption) -> None:
        key = change.key if change.key in self.schema.options else spelled_key(change.key, self.table)
        old = self.schema.options.get(key)
        if old is not None:
            check_removed(key, self.has_rows, self.table)
            rest = {name: value for name, value in self.schema.options.items() if name != key}
            self.schema = replace(self.schema, options=rest)
        self.lines.append(
            f"option {key}: " + (f"removed (was {shown(key, old)})" if old is not None else "was not set")
        )

    # ---- helpers ----

    def _path(self, name: alter.Path) -> tuple[str, ...]:
        """The path of a column, its first name in the table's spelling."""
        path = path_of(name, self.schema.fields)
        return (self.schema.fields[place_of(self.schema.fields, path[0])].name, *path[1:])

    def _edit(self, path: Sequence[str], edit: Edit) -> None:
        self.schema = replace(self.schema, fields=edited(self.schema.fields, path, edit))

    def _change_type(self, path: Sequence[str], change: Callable[[DataType], DataType]) -> None:
        self.schema = replace(self.schema, fields=retyped(self.schema.fields, path, change))
        self.touched.add(self.schema.field(path[0]).id)

    def _refuse_keys(self, name: str, what: str, keys: Sequence[str]) -> None:
        if name in keys:
            kind = "partition" if name in self.schema.partition_keys else "primary key"
            raise SchemaError(
                f"column {name!r} cannot be {what}",
                why=f"it is a {kind} column",
                todo="Create another table, and copy the rows",
            )


def _dotted(path: Sequence[str]) -> str:
    return ".".join(path)
