"""Full changes in the columns of Hudi's Spark source (`hoodie.datasource.query.incremental.format=cdc`): op, ts_ms,
before and after, the rows as JSON text.

Hudi's own texts depend on where it found a row: a row from a change log is Avro's text without meta columns, a row from
a data file has them. Here every row is one JSON object of the user's columns, nulls included. Dates, times and
timestamps are ISO 8601 text, decimals are numbers, binary is base64, NaN and infinities are text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.layout import COMMIT_TIME
from lakebed.formats.hudi.read.cdc_task import RowChanges
from lakebed.formats.hudi.read.split import HudiSplit
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep

CDC_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("op", "ts_ms", "before", "after")])
"""The columns. `op` is i, u or d, `ts_ms` the instant of the change; `before` and `after` are null where there is no
row."""


@dataclass(frozen=True, slots=True)
class CdcRows:
    """Reads the changes of a split in these columns, one row per change."""

    changes: RowChanges
    schema: pa.Schema
    predicate: Node | None

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The rows of each commit, in the order of commits."""
        for _, changed in self.changes(split):
            rows = changed.after if changed.after is not None else changed.before
            assert rows is not None
            op = "i" if changed.before is None else "d" if changed.after is None else "u"
            batch = pa.RecordBatch.from_arrays(
                [
                    pa.repeat(pa.scalar(op), rows.num_rows),
                    rows.column(COMMIT_TIME),
                    self._texts(changed.before, rows.num_rows),
                    self._texts(changed.after, rows.num_rows),
                ],
                schema=CDC_SCHEMA,
            )
            if self.predicate is not None:
                batch = keep(batch, self.predicate)
            if batch.num_rows:
                yield batch.select(self.schema.names)

    def _texts(self, rows: pa.RecordBatch | None, count: int) -> pa.Array:
        if rows is None:
            return pa.nulls(count, pa.string())
        user = rows.select([name for name in rows.schema.names if name != COMMIT_TIME])
        return json_texts(pa.StructArray.from_arrays(user.columns, fields=list(user.schema)))


def json_texts(values: pa.Array) -> pa.Array:
    """Each value as JSON text; null becomes the text `null`."""
    return pc.fill_null(_texts(values), "null")


def _texts(values: pa.Array) -> pa.Array:
    """Each value as JSON text; null stays null."""
    kind = values.type
    if pa.types.is_struct(kind):
        parts = [
            pc.binary_join_element_wise(_quoted(pa.array([field.name]))[0], json_texts(inner), ": ")
            for field, inner in zip(kind, values.flatten(), strict=True)
        ]
        return _masked(_wrapped("{", pc.binary_join_element_wise(*parts, ", "), "}") if parts else None, values, "{}")
    if pa.types.is_map(kind):
        keys = values.keys if pa.types.is_string(values.keys.type) else values.keys.cast(pa.string())
        pairs = pc.binary_join_element_wise(_quoted(keys), json_texts(values.items), ": ")
        return _masked(_wrapped("{", _joined(values, pairs), "}"), values, "{}")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _masked(_wrapped("[", _joined(values, json_texts(values.values)), "]"), values, "[]")
    if pa.types.is_floating(kind):
        plain = pc.is_finite(values)
        return pc.if_else(plain, values.cast(pa.string()), _quoted(values.cast(pa.string())))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return _quoted(pc.strftime(values, "%Y-%m-%dT%H:%M:%S" + ("Z" if kind.tz else "")))
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _base64(values)
    return _quoted(values.cast(pa.string()))


def _joined(values: pa.Array, texts: pa.Array) -> pa.Array:
    """For each list or map the texts of its elements as one text, with commas between."""
    if not len(values):
        return pa.array([], pa.string())
    lists = pa.ListArray.from_arrays(values.offsets.cast(pa.int32()), texts)
    return pc.binary_join(lists, ", ")


def _wrapped(left: str, texts: pa.Array, right: str) -> pa.Array:
    return pc.binary_join_element_wise(left, texts, right, "")


def _masked(texts: pa.Array | None, values: pa.Array, empty: str) -> pa.Array:
    if texts is None:
        texts = pa.repeat(pa.scalar(empty), len(values))
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def _quoted(texts: pa.Array) -> pa.Array:
    """JSON strings."""
    for plain, escaped in _ESCAPES:
        texts = pc.replace_substring(texts, plain, escaped)
    if pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]")).as_py():
        for code in range(0x20):
            texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    return pc.binary_join_element_wise('"', texts, '"', "")


def _base64(values: pa.Array) -> pa.Array:
    """Binary values as base64 text.

    Neither Arrow nor numpy has a kernel for this, so each distinct value is encoded once in Python.
    """
    encoded = values.dictionary_encode()
    words = [base64.b64encode(value).decode() for value in encoded.dictionary.to_pylist()]
    return _quoted(pa.DictionaryArray.from_arrays(encoded.indices, pa.array(words, pa.string())).cast(pa.string()))
