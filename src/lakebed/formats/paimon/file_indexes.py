"""The file indexes that a table asks for, and building them while a data file is written.

Rules: Paimon's FileIndexOptions (`file-index.KIND.columns`, and `file-index.KIND.COLUMN.OPTION` for one column) and
DataFileIndexWriter. `column[key]` asks for an index of the values that a map column has under one key. An index goes
into the manifest entry of its data file if all indexes of the file take no more bytes than
`file-index.in-manifest-threshold`, else into a file beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError, known_columns
from lakebed.formats.paimon.codec.file_index.container import write_container
from lakebed.formats.paimon.codec.file_index.kinds import KINDS, BloomBuilder, IndexRule, RowsBuilder, takes
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataType
from lakebed.kernel.arrays import one_chunk

_PREFIX, _COLUMNS = "file-index.", ".columns"
_OWN = ("read", "in-manifest-threshold")
_OF_MAP = re.compile(r"([^\[]+)\[(.*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column, or one key of a map column, with the indexes that it gets. `type` is that of the indexed values."""

    column: str
    key: str | None
    type: DataType
    rules: tuple[IndexRule, ...]

    @property
    def name(self) -> str:
        """The column's name in index files."""
        return self.column if self.key is None else f"{self.column}[{self.key}]"

    def values(self, rows: pa.Table) -> pa.Array:
        """The values to index, one per row."""
        column = one_chunk(rows.column(self.column))
        return column if self.key is None else pc.map_lookup(column, pa.scalar(self.key), "first")


@dataclass(frozen=True, slots=True)
class FileIndexRules:
    """The indexes of a table's new data files. `in_manifest`: the bytes up to which they go into manifests."""

    columns: tuple[IndexedColumn, ...] = ()
    in_manifest: int = 0

    @classmethod
    def of(cls, schema: TableSchema, options: Mapping[str, str], in_manifest: int, table: str = "") -> FileIndexRules:
        """Read the options of a table. OptionError for a kind, a column or a value that there is not."""
        asked: dict[str, dict[str, dict[str, str]]] = {}
        others: list[tuple[str, str]] = []
        for key, value in options.items():
            rest = key[len(_PREFIX) :]
            if not key.lower().startswith(_PREFIX) or rest.lower().partition(".")[0] in _OWN:
                continue
            if not rest.lower().endswith(_COLUMNS):
                others.append((key, value))
                continue
            index = rest[: -len(_COLUMNS)].lower()
            if index not in KINDS:
                raise OptionError(
                    f"option {key!r} asks for an index of the kind {index!r}", key=key, table=table,
                    why=f"lakebed builds {', '.join(KINDS)}", todo="Leave the option out, or use another kind",
                )  # fmt: skip
            for name in value.split(","):
                if not name.strip():
                    raise OptionError(f"option {key!r} has a column without a name", key=key, table=table)
                asked.setdefault(name.strip(), {}).setdefault(index, {})
        for key, value in others:
            _give(asked, key, value, table)
        return cls(tuple(_column(schema, name, kinds, table) for name, kinds in asked.items()), in_manifest)

    def builder(self) -> FileIndexBuilder | None:
        """A builder of one file's indexes; None if the table asks for none."""
        return FileIndexBuilder(self.columns) if self.columns else None

    def names(self, column: str) -> bool:
        """Whether a column is indexed."""
        return any(indexed.column == column for indexed in self.columns)


class FileIndexBuilder:
    """The indexes of a data file that is being written."""

    def __init__(self, columns: Sequence[IndexedColumn]) -> None:
        self._columns: list[tuple[IndexedColumn, dict[str, BloomBuilder | RowsBuilder]]] = [
            (column, {rule.index: rule.builder(column.type) for rule in column.rules}) for column in columns
        ]

    def add(self, rows: pa.Table) -> None:
        """Take the next rows of the file."""
        for column, builders in self._columns:
            values = column.values(rows)
            for builder in builders.values():
                builder.add(values)

    def to_bytes(self) -> bytes:
        """The indexes of all rows taken."""
        return write_container(
            {
                column.name: {index: builder.to_bytes() for index, builder in builders.items()}
                for column, builders in self._columns
            }
        )


def indexed_columns(options: Mapping[str, str]) -> set[str]:
    """The columns that options name for an index."""
    keys = [key for key in options if key.lower().startswith(_PREFIX) and key.lower().endswith(_COLUMNS)]
    return {name.strip().partition("[")[0] for key in keys for name in options[key].split(",")}


def _give(asked: dict[str, dict[str, dict[str, str]]], key: str, value: str, table: str) -> None:
    """Give the option `file-index.KIND.COLUMN.OPTION` to the column, or to all keys of the map column."""
    parts = key[len(_PREFIX) :].split(".")
    if len(parts) != 3:
        return  # as Paimon, which does not expect it
    index, name, option = parts
    exact = [column for column in asked if column.lower() == name.lower() and index.lower() in asked[column]]
    keys = [column for column in asked if column.lower().startswith(f"{name.lower()}[") and index in asked[column]]
    if not exact and not keys:
        raise OptionError(
            f"option {key!r} is of a column without such an index", key=key, table=table,
            todo=f"Name the column in {_PREFIX}{index}{_COLUMNS}",
        )  # fmt: skip
    for column in exact:
        asked[column][index.lower()][option.lower()] = value
    for column in () if exact else keys:
        asked[column][index.lower()].setdefault(option.lower(), value)


def _column(schema: TableSchema, name: str, kinds: Mapping[str, Mapping[str, str]], table: str) -> IndexedColumn:
    match = _OF_MAP.fullmatch(name)
    column, map_key = (name, None) if match is None else (match[1], match[2])
    key = f"{_PREFIX}{next(iter(kinds))}{_COLUMNS}"
    if column not in schema.names:
        raise OptionError(
            f"option {key!r} names a column that the table does not have: {column!r}", key=key, table=table,
            todo=known_columns(column, schema.names),
        )  # fmt: skip
    kind = schema.field(column).type
    if map_key is not None:
        if kind.root != "MAP" or kind.key is None or kind.element is None or kind.key.root not in ("CHAR", "VARCHAR"):
            raise OptionError(
                f"option {key!r} names a key of {column!r}", key=key, table=table,
                why=f"the column is {kind}, and not a map with texts as keys",
            )  # fmt: skip
        kind = kind.element
    rules = []
    for index, given in kinds.items():
        rule = IndexRule(index, dict(given))
        if not takes(index, kind):
            key = f"{_PREFIX}{index}{_COLUMNS}"
            raise OptionError(
                f"option {key!r} names {name!r}",
                key=key,
                table=table,
                why=f"such an index takes no values of type {kind}",
            )
        try:
            rule.check()
        except (ValueError, KeyError) as error:
            values = ", ".join(f"{option}={value}" for option, value in given.items())
            raise OptionError(
                f"the {index} index of {name!r} cannot have {values}", key=f"{_PREFIX}{index}.{name}", table=table,
                why=str(error),
            ) from error  # fmt: skip
        rules.append(rule)
    return IndexedColumn(column, map_key, kind, tuple(rules))
