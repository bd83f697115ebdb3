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

Path: TypeAlias = str | Sequence[str]
"""A column, or a field inside one."""
NewType: TypeAlias = pa.DataType | str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column. Rows that are there have null in it, also where it has a `default`, which is for new rows."""

    name: Path
    type: NewType
    nullable: bool = True
    default: object = None
    comment: str = ""
    after: str | None = None
    first: bool = False


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
    """A column's new place: after another one, or before all others."""

    name: Path
    after: str | None = None
    first: bool = False


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


Change = (
    AddColumn
    | DropColumn
    | RenameColumn
    | RetypeColumn
    | MoveColumn
    | SetNullable
    | SetDefault
    | SetComment
    | SetOption
    | RemoveOption
)


@dataclass(frozen=True, slots=True)
class AlterResult:
    """What an alteration did, or would do after a dry run.

    `changes` has one line for each change, `notes` what follows from them, and `schema` is how the table reads then.
    `version` is the schema's id in the table; it is the old one where nothing changed.
    """

    changes: tuple[str, ...]
    schema: pa.Schema
    version: str
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def add_column(
    name: Path,
    type: NewType,
    nullable: bool = True,
    default: object = None,
    comment: str = "",
    after: str | None = None,
    first: bool = False,
) -> AddColumn:
    """Add a column, at the end, `after` another one, or as the `first`.

        table.alter(lakebed.add_column("price", "DECIMAL(10, 2)", default="0.00", after="amount"))

    Rows that are there have null in it. `default` is for new rows.
    """
    return AddColumn(name, type, nullable, default, comment, after, first)


def drop_column(name: Path) -> DropColumn:
    """Drop a column, or a field of a nested one."""
    return DropColumn(name)


def rename_column(name: Path, to: str) -> RenameColumn:
    """Rename a column, or a field of a nested one: `rename_column("address.zip", "postcode")`."""
    return RenameColumn(name, to)


def widen(name: Path, type: NewType) -> RetypeColumn:
    """Give a column another type. Formats differ in which changes they allow."""
    return RetypeColumn(name, type)


def move_column(name: Path, after: str | None = None, first: bool = False) -> MoveColumn:
    """Move a column `after` another one, or to the front."""
    return MoveColumn(name, after, first)


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
