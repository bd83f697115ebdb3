"""The fast strategy of a rewrite: Parquet files joined byte for byte, with metrics merged from the manifests.

Nothing is decoded, so rows, columns and encoding must stay as they are: Parquet files of one partition and spec, no
deletes, no sort, and in format version 3 files that hold their row lineage themselves. Row groups stay as small as they
are; `lakebed.rewrite.concat-min-row-group-bytes` says which are worth keeping.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.errors import CorruptError, counted
from lakebed.formats.iceberg.codec.schema import LAST_UPDATED, ROW_ID
from lakebed.formats.iceberg.data_files import DataFile, FileTask, Metrics
from lakebed.formats.iceberg.parquet.join import ParquetJoin
from lakebed.formats.iceberg.write.files import WriteTarget
from lakebed.formats.iceberg.write.statistics.metrics import merged


def may_join(tasks: Sequence[FileTask], least_row_group: int, greatest: int, lineage: bool) -> bool:
    """Whether the files of a group can be joined and their row groups are worth keeping, as far as manifests tell.

    Row groups need at least `least_row_group` bytes on average. No file may be larger than `greatest` bytes, since none
    is split. With `lineage` files must hold the ids of their rows.
    """
    files = [task.data for task in tasks]
    if len(files) < 2 or any(task.deletes for task in tasks):
        return False
    if any(file.format != "PARQUET" or file.key_metadata or file.size > greatest for file in files):
        return False
    row_groups = sum(max(1, len(file.split_offsets)) for file in files)
    if sum(file.size for file in files) < least_row_group * row_groups:
        return False
    return not lineage or all(_holds_lineage(file.metrics) for file in files)


def _holds_lineage(metrics: Metrics | None) -> bool:
    """Whether a file holds the id and last change of each of its rows."""
    return metrics is not None and all(
        metrics.value_counts.get(id) and metrics.null_value_counts.get(id) == 0
        for id in (ROW_ID.field_id, LAST_UPDATED.field_id)
    )


def join_files(target: WriteTarget, name: str, files: Sequence[DataFile]) -> tuple[tuple[DataFile, ...], int]:
    """Join files into one. Returns it with its number of rows.

    NotJoinable when the files turn out to differ, CorruptError when they have other rows than the manifests say. After
    an error no file is left.
    """
    partition, spec_id = files[0].partition, files[0].spec_id
    url = target.url(partition, f"{name}-0")
    record_count = sum(file.record_count for file in files)
    with target.files.open_output(url) as out:
        join = ParquetJoin(out, target.layout.codec)
        for file in files:
            with target.files.open_input(file.path, file.size) as source:
                join.add(source)
        size = join.finish()
        if join.rows != record_count:
            raise CorruptError(
                f"files to be joined hold {counted(join.rows, 'row')}, their manifest entries say {record_count}",
                file=files[0].path,
                todo="Nothing was committed. Compare the files with the manifests",
            )
    types = {leaf.id: leaf.type for leaf in target.columns.leaves if leaf.has_bounds}
    parts = [file.metrics for file in files if file.metrics is not None]
    metrics = merged(parts, types) if len(parts) == len(files) else None
    joined = DataFile(
        url, "PARQUET", spec_id, partition, join.rows, size, split_offsets=tuple(join.split_offsets), metrics=metrics
    )
    return (joined,), join.rows
