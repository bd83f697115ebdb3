"""Changes of a table's definition, as values: what `table.alter` takes, and what it returns.

A column is named by its dotted path (`address.zip`), or by a tuple of names where a name itself has a dot. Inside an
array the path goes on with `element`, inside a map with `value`. Types are pyarrow types, or texts: the name of a
plain pyarrow type (`int64`), or a type in the format's own spelling (`DECIMAL(10, 2)`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lakebed.model.notebooks import Shown

Path: TypeAlias = str | Sequence[str]
"""A column, or a field inside one."""
NewType: TypeAlias = pa.DataType | str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column. In Paimon, existing rows have null in it, also where it has a `default`, which is for new
    rows. In Iceberg they have the default, too."""

    name: Path
    type: NewType
    nullable: bool = True
    default: object = None
    comment: str = ""
    after: str | None = None
    first: bool = False
    before: str | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column that goes. A later column of that name does not get its values."""

    name: Path


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column's new name. `to` is one name, not a path."""

    name: Path
    to: str


@dataclass(frozen=True, slots=True)
class RetypeColumn:
    """A column's new type. Whether it may be null stays."""

    name: Path
    type: NewType


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """A column's new place: after another one, before it, or before all others."""

    name: Path
    after: str | None = None
    first: bool = False
    before: str | None = None


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Whether a column may be null."""

    name: Path
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class SetDefault:
    """The value that new rows get in place of null; None: none any more."""

    name: Path
    default: object


@dataclass(frozen=True, slots=True)
class SetComment:
    """What is said of a column, or of the table where `name` is None. An empty text removes it."""

    name: Path | None
    comment: str


@dataclass(frozen=True, slots=True)
class SetOption:
    """An option or property that the table keeps."""

    key: str
    value: object


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """An option or property that goes back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class SetIdentifierFields:
    """The columns that identify a row (Iceberg). None of them: nothing identifies a row any more."""

    names: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """A partition field (Iceberg): a transform such as `day(ts)`, by a name of its own where `name` is not empty."""

    transform: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class DropPartitionField:
    """A partition field that goes (Iceberg), by its name or its transform. Files that are there keep their layout."""

    field: str


@dataclass(frozen=True, slots=True)
class ReplacePartitionField:
    """A partition field, by its name or its transform, that goes, and the one in its place (Iceberg)."""

    field: str
    transform: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class RenamePartitionField:
    """A partition field's new name (Iceberg)."""

    field: str
    to: str


@dataclass(frozen=True, slots=True)
class SetSortOrder:
    """The order in which writers sort rows (Iceberg), such as `("dt", "amount desc nulls last")`. Empty: none."""

    order: tuple[str, ...]


ColumnChange = AddColumn | DropColumn | RenameColumn | RetypeColumn | MoveColumn | SetNullable | SetDefault | SetComment
"""Changes that every format with evolution has; SetComment with None as its name describes the table."""
OptionChange = SetOption | RemoveOption
PartitionChange = AddPartitionField | DropPartitionField | ReplacePartitionField | RenamePartitionField
Change = ColumnChange | OptionChange | SetIdentifierFields | PartitionChange | SetSortOrder


@dataclass(frozen=True, slots=True, repr=False)
class AlterResult(Shown):
    """What an alteration did, or would do after a dry run.

    `changes` has one line for each change, `notes` what follows from them, and `schema` is how the table reads then.
    `version` is the schema's id in the table; it is the old one where nothing changed.
    """

    changes: tuple[str, ...]
    schema: pa.Schema
    version: str
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def what(change: Change) -> str:
    """The part of a table that a change is about, in words."""
    return {
        SetIdentifierFields: "identifier fields", AddPartitionField: "new partition fields",
        DropPartitionField: "partition fields to drop", ReplacePartitionField: "partition fields to replace",
        RenamePartitionField: "partition fields to rename",
        SetSortOrder: "sort order",
    }.get(type(change), "such change")  # fmt: skip


def place_words(change: AddColumn | MoveColumn) -> str:
    """Where a column goes, as the end of a line; "" where the change does not say it."""
    if change.first:
        return " to the front"
    return f" after {change.after}" if change.after is not None else f" before {change.before}" if change.before else ""


def add_column(
    name: Path,
    type: NewType,
    nullable: bool = True,
    default: object = None,
    comment: str = "",
    after: str | None = None,
    first: bool = False,
    before: str | None = None,
) -> AddColumn:
    """Add a column, at the end, `after` or `before` another one, or as the `first`.

        table.alter(lakebed.add_column("price", "DECIMAL(10, 2)", default="0.00", after="amount"))

    In Paimon, `default` is for new rows only. In Iceberg (format version 3), rows that are there have it, too.
    """
    return AddColumn(name, type, nullable, default, comment, after, first, before)


def drop_column(name: Path) -> DropColumn:
    """Drop a column, or a field of a nested one."""
    return DropColumn(name)


def rename_column(name: Path, to: str) -> RenameColumn:
    """Rename a column, or a field of a nested one: `rename_column("address.zip", "postcode")`."""
    return RenameColumn(name, to)


def widen(name: Path, type: NewType) -> RetypeColumn:
    """Give a column another type. Formats differ in which changes they allow."""
    return RetypeColumn(name, type)


def move_column(name: Path, after: str | None = None, first: bool = False, before: str | None = None) -> MoveColumn:
    """Move a column `after` or `before` another one, or to the front."""
    return MoveColumn(name, after, first, before)


def set_nullable(name: Path, nullable: bool = True) -> SetNullable:
    """Let a column be null, or not."""
    return SetNullable(name, nullable)


def set_default(name: Path, default: object) -> SetDefault:
    """Set the value that new rows get where they have none. None removes it."""
    return SetDefault(name, default)


def set_comment(name: Path | None, comment: str) -> SetComment:
    """Describe a column, or with `None` the table."""
    return SetComment(name, comment)


def set_option(key: str, value: object) -> SetOption:
    """Keep an option in the table."""
    return SetOption(key, value)


def remove_option(key: str) -> RemoveOption:
    """Forget an option that the table keeps."""
    return RemoveOption(key)


def set_identifier_fields(*names: Path) -> SetIdentifierFields:
    """Say which columns identify a row of an Iceberg table; none: nothing does any more."""
    return SetIdentifierFields(names)


def add_partition_field(transform: str, name: str = "") -> AddPartitionField:
    """Partition new rows of an Iceberg table by one more transform: `add_partition_field("bucket(16, id)")`."""
    return AddPartitionField(transform, name)


def drop_partition_field(field: str) -> DropPartitionField:
    """Partition new rows of an Iceberg table no longer by a field, which its name or its transform says."""
    return DropPartitionField(field)


def replace_partition_field(field: str, transform: str, name: str = "") -> ReplacePartitionField:
    """Partition new rows of an Iceberg table by another transform in place of a field.

    table.alter(lakebed.replace_partition_field("ts_day", "hour(ts)"))
    """
    return ReplacePartitionField(field, transform, name)


def rename_partition_field(field: str, to: str) -> RenamePartitionField:
    """Rename a partition field of an Iceberg table."""
    return RenamePartitionField(field, to)


def set_sort_order(*order: str) -> SetSortOrder:
    """Sort new rows of an Iceberg table: `set_sort_order("dt", "amount desc nulls last")`. Without an argument they are
    not sorted."""
    return SetSortOrder(order)
