"""The columns of a Parquet file that get a dictionary, and the text columns that are read by theirs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.kernel.arrays import Int64s, UInt32s, from_numpy

_SAMPLE = 512
_DICTIONARY_BYTES = 3
"""A chunk with a dictionary throughout has at most so many bytes per value, the dictionary included."""
_SHUFFLED = 64 << 10
"""Up to so many rows no position is drawn twice."""


def repeating_columns(table: pa.Table) -> list[str]:
    """The columns whose values repeat, judged by a sample of about 512 rows. For others a dictionary only costs.

    A column counts as repeating when at most nine in ten of the sampled values, nulls left out, are distinct: about
    2,500 distinct values are the limit. Nested columns and those that have a dictionary count as repeating, booleans do
    not.
    """
    sample = table.take(from_numpy(_sampled(len(table))))
    paths = []
    for field in table.schema:
        column = sample.column(field.name)
        if pa.types.is_nested(field.type):
            paths += leaf_paths(field.name, field.type)
        elif pa.types.is_boolean(field.type):
            continue
        elif (
            isinstance(field.type, pa.BaseExtensionType)
            or pa.types.is_null(field.type)
            or pa.types.is_dictionary(field.type)
            or pc.count_distinct(column, mode="only_valid").as_py() <= (len(sample) - column.null_count) * 9 // 10
        ):
            paths.append(field.name)
    return paths


def _sampled(rows: int) -> Int64s:
    """About 512 positions, ascending, that look random but are the same in each process, so that the same rows always
    become the same file. At equal distances, values that come in turns (1, 2, 3, 1, 2, 3, ...) would seem all equal or
    all distinct."""
    if rows <= _SAMPLE:
        return np.arange(rows)
    if rows <= _SHUFFLED:
        chosen: Int64s = np.argpartition(_mixed(np.arange(rows, dtype=np.uint32)), _SAMPLE)[:_SAMPLE]
    else:  # few come twice
        chosen = _mixed(np.arange(_SAMPLE, dtype=np.uint32)) * rows >> 32
    return np.unique(chosen)


def _mixed(numbers: UInt32s) -> Int64s:
    """Numbers of 32 bits that look random: the finalizer of MurmurHash3."""
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        numbers = (numbers ^ (numbers >> np.uint32(shift))) * np.uint32(factor)
    mixed: Int64s = (numbers ^ (numbers >> np.uint32(16))).astype(np.int64)
    return mixed


def dictionary_texts(metadata: pq.FileMetaData, schema: pa.Schema, names: Collection[str]) -> list[str]:
    """The named text columns that have a dictionary throughout. Arrow reads them in half the time as dictionaries
    (`read_dictionary`), which `plain_texts` turns into texts.

    A writer gives a dictionary up where it grows too large. Such a chunk has more bytes per value than the numbers of
    a dictionary's entries take: each plain text begins with four that say its length.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    texts = {field.name for field in schema if field.name in names and pa.types.is_string(field.type)}
    leaves = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    return [
        name
        for name in sorted(texts & leaves.keys())
        if groups
        and all(
            chunk.has_dictionary_page and chunk.total_uncompressed_size <= _DICTIONARY_BYTES * chunk.num_values
            for chunk in (group.column(leaves[name]) for group in groups)
        )
    ]


def plain_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with plain texts in place of dictionaries of texts."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type):
            texts = batch.column(place).cast(field.type.value_type)
            batch = batch.set_column(place, field.with_type(texts.type), texts)
    return batch


def leaf_paths(path: str, kind: pa.DataType) -> list[str]:
    """The paths of a column's leaves, in Parquet's names; its own path for a column that is not nested."""
    if pa.types.is_struct(kind):
        inner = [(f"{path}.{kind.field(n).name}", kind.field(n).type) for n in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inner = [(f"{path}.key_value.key", kind.key_type), (f"{path}.key_value.value", kind.item_type)]
    elif pa.types.is_nested(kind):
        inner = [(f"{path}.list.element", kind.value_type)]
    else:
        return [path]
    return [leaf for child, child_type in inner for leaf in leaf_paths(child, child_type)]
