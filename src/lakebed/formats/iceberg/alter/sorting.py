"""The sort order that a text names, such as `bucket(4, id) desc nulls last`.

Rules: the specification's "Sort Orders", and how Spark's `WRITE ORDERED BY` reads: ascending with nulls first unless it
says otherwise, descending with nulls last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform

from lakebed.errors import SchemaError, UsageError
from lakebed.formats.iceberg.alter import columns
from lakebed.formats.iceberg.alter.partitioning import check_source, source_of
from lakebed.formats.iceberg.codec.sort_order import SortField, SortOrder
from lakebed.formats.iceberg.definition import parsed_transform

_END = re.compile(r"^(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*$", re.IGNORECASE | re.DOTALL)


def sort_fields(texts: Sequence[str], schema: Schema, table: str) -> tuple[SortField, ...]:
    """The sort fields of texts. UsageError for a text that is none, SchemaError for one that does not fit columns."""
    fields: list[SortField] = []
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"a sort order has a {type(text).__name__}", todo='Give texts, such as "amount desc"')
        match = _END.match(text.strip())
        assert match is not None
        _, transform, column = parsed_transform(match[1], "the sort order", table)
        source, _ = source_of(column, schema)
        if isinstance(transform, VoidTransform):
            raise SchemaError(f"{text!r} sorts nothing", todo="Leave it out")
        check_source(transform, source, text)
        descending = (match[2] or "").lower() == "desc"
        first = match[3].lower() == "first" if match[3] else not descending
        fields.append(SortField(source.field_id, transform, descending, first))
    return tuple(fields)


def check_order(order: SortOrder, schema: Schema, table: str) -> None:
    """Raise SchemaError for a sort order that does not fit the columns."""
    by_id = {field.field_id: field for _, field in columns.all_fields(schema.fields)}
    for field in order.fields:
        if field.source_id not in by_id:
            raise SchemaError(
                "a column is dropped that rows are sorted by",
                table=table,
                why=f"the table's sort order has {field.transform} of the field {field.source_id}",
                todo="Set another sort order first, with lakebed.set_sort_order",
            )
        check_source(field.transform, by_id[field.source_id], str(field.transform))
