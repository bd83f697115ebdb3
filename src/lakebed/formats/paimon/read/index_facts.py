"""What the file indexes say of a column in each file.

Rules: Paimon's FileIndexPredicate and FileIndexEvaluator. An index has the columns of the schema that the file was
written with. It is asked only where that column has the type that is read; a kind, a version or a type that lakebed
does not know says nothing, and neither does an index that covers another number of rows than the file has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.codec.file_index.container import Blobs, read_container
from lakebed.formats.paimon.codec.file_index.keys import Key, KeyKind
from lakebed.formats.paimon.codec.file_index.kinds import read_index
from lakebed.formats.paimon.codec.file_index.relations import ColumnIndex, EmptyIndex
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_type
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.layout import INDEX_SUFFIX
from lakebed.formats.paimon.read.stats_facts import SchemaOf, source_field
from lakebed.kernel.arrays import Bools
from lakebed.kernel.decoding import decoding
from lakebed.kernel.predicates.facts import Facts

_NO_BLOBS: Blobs = {}
_TURN_OFF = "Read with file-index.read.enabled=false, which asks no index, and rewrite the file"


class FileIndexes:
    """The indexes of some files: those in their manifest entries, and those in `beside`, by the files' names."""

    def __init__(self, entries: Entries, table: str, beside: Mapping[str, bytes] = {}) -> None:
        self._entries, self._table = entries, table
        embedded = entries.table.column("embedded_index")
        self._names, self._blobs = [""], list[Blobs]()
        self._are_there = bool(beside) or embedded.null_count < len(entries)
        if self._are_there:
            self._names = entries.table.column("file_name").to_pylist()
            indexes = zip(self._names, embedded.to_pylist(), strict=True)
            self._blobs = [self._read(name, beside.get(name, data)) for name, data in indexes]

    def facts(self, field: DataField, schema: TableSchema, schema_of: SchemaOf) -> list[Facts]:
        """The facts of a column: one for each index that a file has of it, at the most."""
        kind = KeyKind.of(field.type)
        if kind is None or not self._are_there:
            return []
        by_kind: dict[str, list[ColumnIndex | None]] = {}
        numbers = zip(*(self._entries.numbers(name).tolist() for name in ("schema_id", "row_count")), strict=True)
        for place, (blobs, (schema_id, rows)) in enumerate(zip(self._blobs, numbers, strict=True)):
            if not blobs:
                continue
            source = source_field(field, schema if schema_id == schema.id else schema_of(schema_id))
            if source is None or source.type.required() != field.type.required():
                continue
            for name, blob in blobs.get(source.name, {}).items():
                index = self._index(self._names[place], name, source, blob, rows)
                by_kind.setdefault(name, [None] * len(self._blobs))[place] = index
        return [self._facts(indexes, field, kind) for indexes in by_kind.values()]

    def _facts(self, indexes: Sequence[ColumnIndex | None], field: DataField, kind: KeyKind) -> Facts:
        unknown = pa.nulls(len(indexes), arrow_type(field.type))
        nulls = np.array([index is None or index.may_have_nulls for index in indexes], np.bool_)
        values = np.array([index is None or index.may_have_values for index in indexes], np.bool_)
        nans = np.full(len(indexes), kind.is_float)

        def may_relate(relation: str, constants: pa.Array) -> Bools:
            keys = kind.literal_keys(constants)
            may = np.ones(len(indexes), np.bool_)
            for place, index in enumerate(indexes):
                if index is not None:
                    with self._reading(f"an index of {field.name!r}", self._names[place]):
                        may[place] = _may(index, relation, keys, kind.is_exact)
            return may

        return Facts(unknown, unknown, nulls, values, nans & values, may_relate=may_relate)

    def _reading(self, what: str, file: str) -> AbstractContextManager[None]:
        return decoding(f"{what} cannot be read", table=self._table, file=file, todo=_TURN_OFF)

    def _read(self, name: str, data: bytes | None) -> Blobs:
        if data is None:
            return _NO_BLOBS
        with self._reading("a file index", name):
            try:
                return read_container(data)
            except UnsupportedError:
                return _NO_BLOBS

    def _index(self, file: str, name: str, source: DataField, blob: bytes | None, rows: int) -> ColumnIndex | None:
        if blob is None:
            return EmptyIndex()
        with self._reading(f"the {name} index of {source.name!r}", file):
            index = read_index(name, source.type, blob)
        return index if index is None or index.rows in (None, rows) else None


def index_file(file: DataFileMeta, table: str) -> str | None:
    """The name of the index file beside a data file; None where it has none.

    CorruptError for several, and for a name that leads to another folder.
    """
    names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if not names:
        return None
    if len(names) > 1 or "/" in names[0]:
        raise CorruptError(
            "a data file has no index file of its own", table=table, file=file.file_name,
            why=f"its manifest entry names {', '.join(names)}", todo=_TURN_OFF,
        )  # fmt: skip
    return names[0]


def _may(index: ColumnIndex, relation: str, keys: Sequence[Key], exact: bool) -> bool:
    """Whether the index allows a row in a relation to one of the keys. Keys that stand for several values (inexact)
    only tell what is absent, or farther away than the key."""
    match relation:
        case "equal":
            return index.may_equal(keys)
        case "not_equal":
            return not exact or index.may_differ(keys)
        case "less" | "less_equal":
            inclusive = relation == "less_equal" or not exact
            return any(index.may_be_less(key, inclusive) for key in keys)
        case _:
            inclusive = relation == "greater_equal" or not exact
            return any(index.may_be_greater(key, inclusive) for key in keys)
