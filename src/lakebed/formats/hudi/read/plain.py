"""Which base files any reader of Parquet reads as Hudi does: those of slices without log files, in tables without a
column that marks deletes."""

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
from lakebed.kernel.parquet.stored import StoredFile
from lakebed.verbs.plain_files import Piece, PlainColumn, PlainFile, PlainReads
from lakebed.verbs.read import ReadPlan


def plain_reads(plan: ReadPlan[Any]) -> PlainReads[Any] | None:
    """What is known of the plain files of a snapshot's plan; None for other plans."""
    task = plan.read
    if not isinstance(task, SnapshotTask):
        return None
    reader = task.reader
    if not {*marker_columns(reader.rules)}.isdisjoint(reader.table_schema.names):
        return None
    schema = pa.schema([reader.table_schema.field(name) for name in task.decoded])
    return PlainReads(schema, task.predicate, partial(_pieces, reader), partial(_columns, reader, schema))


def _pieces(reader: SliceReader, splits: Sequence[HudiSplit]) -> Iterator[Piece[HudiSplit]]:
    for split in splits:
        paths = split.slices[0] if len(split.slices) == 1 else None
        is_plain = paths is not None and not paths.logs and not paths.is_skeleton
        if paths is not None and is_plain and paths.base.endswith(".parquet"):
            yield Piece((split,), PlainFile(reader.store, paths.base, paths.base_size, None, paths))
        else:
            yield Piece((split,))


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
