"""Which base files any reader of Parquet reads as Hudi does: those of slices without log files, in tables without a
column that marks deletes.

In a read of all columns a base file with a small log is one, too, less the rows that the log replaces or deletes, where
a row of the log is the whole new row: the slice's rows are then those of the base file that are left, and those of the
log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lakebed.errors import LakebedError
from lakebed.formats.hudi.codec.timestamps import mislabels
from lakebed.formats.hudi.layout import parse_base_name
from lakebed.formats.hudi.read.delete_markers import marker_columns
from lakebed.formats.hudi.read.plan import SnapshotTask
from lakebed.formats.hudi.read.split import HudiSplit, SlicePaths
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.parquet.stored import StoredFile
from lakebed.verbs.plain_files import NotPlainError, Piece, PlainColumn, PlainFile, PlainReads, Search
from lakebed.verbs.read import ReadPlan

_LARGER_BASE = 2
"""A base file has at least so many times the bytes of its log, or all of its rows are merged by tasks."""


def plain_reads(plan: ReadPlan[Any]) -> PlainReads[Any] | None:
    """What is known of the plain files of a snapshot's plan; None for other plans."""
    task = plan.read
    if not isinstance(task, SnapshotTask):
        return None
    reader = task.reader
    if not {*marker_columns(reader.rules)}.isdisjoint(reader.table_schema.names):
        return None
    schema = pa.schema([reader.table_schema.field(name) for name in task.decoded])
    # Where columns are named, it costs less to merge these alone than to find the base rows that stay first.
    overlays = {*reader.table_schema.names} <= {*task.decoded}
    return PlainReads(schema, task.predicate, partial(_pieces, reader, overlays), partial(_columns, reader, schema))


def _pieces(reader: SliceReader, overlays: bool, splits: Sequence[HudiSplit]) -> Iterator[Piece[HudiSplit]]:
    for split in splits:
        paths = split.slices[0] if len(split.slices) == 1 else None
        if paths is None or paths.is_skeleton or not paths.base.endswith(".parquet"):
            yield Piece((split,))
        elif not paths.logs:
            yield Piece((split,), (_file(reader, paths),))
        elif overlays and _is_overlay(reader, paths):
            log_bytes, base_bytes = sum(paths.sizes[:-1]), paths.sizes[-1]
            log = HudiSplit(split.group, log_bytes, (paths.without_base(),))
            search = Search(base_bytes, partial(_replaced, reader, paths))
            yield Piece((split,), (_file(reader, paths),), (log,), search)
        else:
            yield Piece((split,))


def _file(reader: SliceReader, paths: SlicePaths) -> PlainFile:
    return PlainFile(reader.store, paths.base, paths.base_size, None, paths)


def _is_overlay(reader: SliceReader, paths: SlicePaths) -> bool:
    """Whether rows of the log can stand beside those of the base file that it leaves: the log is small, and no value of
    an older version shows through a newer one."""
    if paths.base_size is None or not reader.merge or not reader.combine or reader.rules.fills:
        return False
    return sum(paths.sizes[:-1]) * _LARGER_BASE <= paths.base_size


def _replaced(reader: SliceReader, paths: SlicePaths) -> Sequence[Int64s]:
    """The positions of base rows whose key has a newer version in the log. NotPlainError where a base row is the newer
    one, or one of both versions."""
    positions = reader.replaced(paths)
    if positions is None:
        raise NotPlainError
    return (positions,)


def _columns(
    reader: SliceReader, schema: pa.Schema, file: PlainFile, stored: StoredFile
) -> tuple[PlainColumn, ...] | None:
    """Columns are found as `read/conform.py` finds them. A file with a wrongly labelled timestamp, or with renames
    inside a column, is not plain."""
    paths = file.about
    assert isinstance(paths, SlicePaths)
    name = parse_base_name(paths.base.rpartition("/")[2])
    if name is None or mislabels(stored.arrow, reader.schemas.units):
        return None
    renames = reader.schemas.renames(name[1].instant)
    if any(len(path) > 1 and path[0] in schema.names for path in renames):
        return None
    try:
        constants = reader.partitions.constants(paths.partition, schema)
    except LakebedError:  # raised where the file is read
        return None
    columns = []
    for field in schema:
        written = renames.get((field.name,), field.name)
        if written is not None and stored.column(written) is not None:
            columns.append(PlainColumn(written))
        else:
            constant = constants.get(field.name)
            columns.append(PlainColumn(constant=pa.scalar(None, field.type) if constant is None else constant))
    return tuple(columns)
