"""The orders in which a rewrite can write rows: a sort order, a z-order, or by the partitions of a new spec.

Rules: the reference engine's SortOrderParser as the SQL procedure uses it, ZOrderByteUtils, and the specification's
"Sorting". `kernel/sorting.py` sorts rows in bounded memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from lakebed.errors import OptionError
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.sort_order import SortField, SortOrder
from lakebed.formats.iceberg.rewrite.options import SORT_ORDER
from lakebed.formats.iceberg.write.routing import Router, Sorter, derived, source_path
from lakebed.kernel.sort_keys import Direction, comparable
from lakebed.kernel.sorting import Keys
from lakebed.kernel.space_curves import interleaved, ordered_bytes


@dataclass(frozen=True, slots=True)
class ZOrder:
    """A z-order: the bits of columns are interleaved, so all weigh the same. Of a text or binary value `width` bytes
    count."""

    schema: Schema
    columns: tuple[int, ...]
    width: int = 8

    def keys(self, rows: pa.Table) -> pa.Table:
        """The sort keys of rows: one column of bytes."""
        name = "a z-order"
        parts = [derived(rows, self.schema, column, IdentityTransform(), name) for column in self.columns]
        return comparable([interleaved([ordered_bytes(part, self.width) for part in parts])], [Direction()])


@dataclass(frozen=True, slots=True)
class ByPartition:
    """Sorts by the partition first, then by other keys: for rows that go into several partitions."""

    router: Router
    inner: Keys | None

    def keys(self, rows: pa.Table) -> pa.Table:
        """The sort keys of rows: the partition's fields, then the inner keys."""
        spec, schema = self.router.spec, self.router.schema
        fields = [derived(rows, schema, f.source_id, f.transform, f"partition field {f.name!r}") for f in spec.fields]
        keys = comparable(fields, [Direction()] * len(fields))
        keys = keys.rename_columns([f"{name[0]}p{name[1:]}" for name in keys.column_names])
        if self.inner is not None:
            inner = self.inner.keys(rows)
            for name in inner.column_names:
                keys = keys.append_column(name, inner.column(name))
        return keys


# ---- which order -----------------------------------------------------------------------------------------------------

_ZORDER = re.compile(r"\s*zorder\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_TERM = re.compile(r"\s*([^\s]+|`[^`]+`|\"[^\"]+\")(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Order:
    """A sort order.

    `first` is the field id of its first column. `id` is that of the table's sort order with the same fields, 0 for
    none. `columns` are the names of the top-level columns that it needs.
    """

    keys: Keys
    first: int
    id: int
    columns: tuple[str, ...]


def order_of(metadata: TableMetadata, strategy: str, text: str, width: int = 8) -> Order | None:
    """The order that the options of a call ask for; None for a bin-pack. OptionError for an impossible order."""
    match = _ZORDER.fullmatch(text)
    if match or strategy == "zorder":
        names = [_unquoted(name) for name in (match[1] if match else text).split(",") if name.strip()]
        if not names:
            raise OptionError.ill_typed(SORT_ORDER.key, text, "zorder(a, b) with the columns to interleave")
        columns = tuple(_column(metadata.schema, name) for name in names)
        return Order(ZOrder(metadata.schema, columns, width), columns[0], 0, _top_level(metadata.schema, columns))
    if text.strip():
        if strategy == "binpack":
            raise OptionError.ill_typed(SORT_ORDER.key, text, "no order with strategy=binpack")
        return _sorted(metadata, SortOrder(tuple(_fields(metadata.schema, text))))
    if strategy != "sort":
        return None
    order = table_order(metadata)
    if order is None:
        raise OptionError.ill_typed(SORT_ORDER.key, text, "an order, since the table has none of its own")
    return order


def table_order(metadata: TableMetadata) -> Order | None:
    """The sort order of the table, None when it has none."""
    order = metadata.sort_orders.get(metadata.default_sort_order_id)
    return _sorted(metadata, order) if order is not None and order.fields else None


def _sorted(metadata: TableMetadata, order: SortOrder) -> Order:
    ids = (id for id, other in metadata.sort_orders.items() if id and list(other.fields) == list(order.fields))
    columns = [field.source_id for field in order.fields]
    return Order(Sorter(metadata.schema, order), columns[0], next(ids, 0), _top_level(metadata.schema, columns))


def _top_level(schema: Schema, columns: Iterable[int]) -> tuple[str, ...]:
    """The names of the top-level columns that these are or lie in. Dropped columns are left out: the sort refuses
    them."""
    paths = [source_path(schema, id) for id in columns]
    return tuple(dict.fromkeys(path[0][0] for path in paths if path is not None))


def _fields(schema: Schema, text: str) -> Iterator[SortField]:
    for term in text.split(","):
        match = _TERM.fullmatch(term)
        if match is None:
            raise OptionError.ill_typed(SORT_ORDER.key, text, "columns as `a desc nulls last, b`, or zorder(a, b)")
        down = (match[2] or "asc").lower() == "desc"
        nulls = (match[3] or ("last" if down else "first")).lower()
        yield SortField(
            source_id=_column(schema, _unquoted(match[1])),
            transform=IdentityTransform(),
            descending=down,
            nulls_first=nulls == "first",
        )


def _unquoted(name: str) -> str:
    return name.strip().strip('`"')


def _column(schema: Schema, name: str) -> int:
    for exact in (True, False):
        with suppress(ValueError):
            field = schema.find_field(name, case_sensitive=exact)
            if not field.field_type.is_primitive:
                raise OptionError.ill_typed(SORT_ORDER.key, name, "a column that is not a struct, list or map")
            return field.field_id
    raise OptionError.unknown(name, [field.name for field in schema.fields], where="the columns to sort by")
