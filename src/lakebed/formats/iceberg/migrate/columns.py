"""The columns of a new table from the footers of its files, merged over all of them.

Rule: the specification's "Schema Evolution": a column may be narrower in some files, and files may lack it. Columns
come in the order in which files have them, partition columns last. Every column may be null, since a file may lack
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import SchemaError, known_columns
from lakebed.formats.iceberg.add_files.footer import arrow_schema_of, fits
from lakebed.formats.iceberg.add_files.paths import Candidate
from lakebed.formats.iceberg.codec.name_mapping import NameMapping
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.conform import is_list
from lakebed.formats.iceberg.read.formats import opened
from lakebed.kernel.decoding import Stated
from lakebed.kernel.predicates.where import find_column
from lakebed.kernel.rows.columns import schema_of

_UNMAPPED = NameMapping()


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads the columns of files. Picklable."""

    files: Files

    def __call__(self, candidates: Sequence[Candidate]) -> list[tuple[str, pa.Schema]]:
        """The different schemas of these files, each with the first file that has it."""
        seen: dict[pa.Schema, str] = {}
        with self.files.fetching((each.path, each.size) for each in candidates):
            for each in candidates:
                seen.setdefault(self._schema(each), each.path)
        return [(path, schema) for schema, path in seen.items()]

    def _schema(self, candidate: Candidate) -> pa.Schema:
        path, stated = candidate.path, Stated(candidate.size)
        with opened(self.files, path, candidate.format, _UNMAPPED, stated=stated) as file:
            if any(field.has_ids for field in file.fields):
                raise SchemaError(
                    "a file has field ids of its own", file=path,
                    why="it was written for an Iceberg table, and names say nothing of its columns",
                    todo="Create a table with its columns and take in the file with table.add_files, or register that "
                    "table's metadata with lakebed.register",
                )  # fmt: skip
            return pa.schema([pa.field(field.name, _plain(field.type)) for field in arrow_schema_of(file)])


def merged(schemas: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """The columns of all files. SchemaError names two files whose columns do not go together."""
    columns: dict[str, tuple[pa.DataType, str]] = {}
    for path, schema in schemas:
        for field in schema:
            if field.name not in columns:
                other = find_column(field.name, [*columns])
                if other is not None:
                    raise SchemaError(
                        f"the columns {other!r} and {field.name!r} differ only in case", file=path,
                        why=f"the first is in {columns[other][1]}", todo="Rename one of them",
                    )  # fmt: skip
                columns[field.name] = field.type, path
                continue
            known, first = columns[field.name]
            kind = _wider(known, field.type)
            if kind is None:
                raise SchemaError(
                    f"the column {field.name!r} is a {field.type} in one file and a {known} in another", file=path,
                    why=f"the other is {first}", todo="Write the rows of one of them with table.write",
                )  # fmt: skip
            columns[field.name] = kind, first if kind == known else path
    return pa.schema([pa.field(name, kind) for name, (kind, _) in columns.items()])


def with_given(
    found: pa.Schema, partitions: Mapping[str, pa.DataType], given: pa.Schema | Mapping[str, pa.DataType | str] | None
) -> pa.Schema:
    """The columns of files and of folders' names, with the types that the caller gave. SchemaError for a type of a
    column that is in no file and no folder."""
    for folder in partitions:
        other = find_column(folder, found.names)
        if other not in (None, folder):
            raise SchemaError(
                f"the column {other!r} of files and {folder!r} of folders' names differ only in case",
                todo="Rename the folders",
            )
    names = [*found.names, *(name for name in partitions if name not in found.names)]
    kinds = {**partitions, **{field.name: field.type for field in found}}
    for field in schema_of(given if given is not None else {}):
        name = find_column(field.name, names)
        if name is None:
            raise SchemaError(
                f"the type of an unknown column {field.name!r} is given",
                why="neither the files nor the names of their folders have it", todo=known_columns(field.name, names),
            )  # fmt: skip
        kinds[name] = field.type
    unknown = [name for name in names if pa.types.is_null(kinds[name])]
    if unknown:
        raise SchemaError(
            f"the files do not say which type the column {unknown[0]!r} has", why="it has no value in them",
            todo="Give its type in columns",
        )  # fmt: skip
    return pa.schema([pa.field(name, kinds[name]) for name in names])


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without what only says how its values are stored."""
    return _plain(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that both types can be read as, None for none."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _struct(left, right)
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = _wider(left.key_type, right.key_type), _wider(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if is_list(left) and is_list(right):
        value = _wider(left.value_type, right.value_type)
        return None if value is None else pa.list_(value)
    if fits(right, left):
        return left
    return right if fits(left, right) else None


def _struct(left: pa.StructType, right: pa.StructType) -> pa.DataType | None:
    fields = {field.name: field.type for field in _fields(left)}
    for field in _fields(right):
        kind = _wider(fields[field.name], field.type) if field.name in fields else field.type
        if kind is None:
            return None
        fields[field.name] = kind
    return pa.struct([*fields.items()])


def _fields(kind: pa.StructType) -> Iterator[pa.Field]:
    return (kind.field(n) for n in range(kind.num_fields))
