"""The fast way of a rewrite: Parquet files joined byte for byte, their figures merged from the manifests.

Nothing is decoded, so it serves only where rows, columns and their encoding stay as they are: Parquet files of one
partition and spec, no deletes, no sort, and in format version 3 files that hold their row lineage themselves. It keeps
row groups as small as they are; `lakebed.rewrite.concat-min-row-group-bytes` says which are worth keeping.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.schema import LAST_UPDATED, ROW_ID
from lakebed.formats.iceberg.data_files import DataFile, FileTask, Metrics
from lakebed.formats.iceberg.parquet.join import ParquetJoin
from lakebed.formats.iceberg.write.files import WriteTarget
from lakebed.formats.iceberg.write.statistics.metrics import merged


def may_join(tasks: Sequence[FileTask], least_row_group: int, greatest: int, lineage: bool) -> bool:
    """Whether the files of a group can be joined, and their row groups are large enough to be worth keeping, as far
    as manifests tell. No file may be above `greatest` bytes, since none is split. With `lineage` files must hold the
    ids of their rows."""
    files = [one.data for one in tasks]
    if len(files) < 2 or any(one.deletes for one in tasks):
        return False
    if any(one.format != "PARQUET" or one.key_metadata or one.size > greatest for one in files):
        return False
    groups = sum(max(1, len(one.split_offsets)) for one in files)
    if sum(one.size for one in files) < least_row_group * groups:
        return False
    return not lineage or all(_holds_lineage(one.metrics) for one in files)


def _holds_lineage(metrics: Metrics | None) -> bool:
    """Whether a file holds the id and last change of each of its rows."""
    return metrics is not None and all(
        metrics.value_counts.get(id) and metrics.null_value_counts.get(id) == 0
        for id in (ROW_ID.field_id, LAST_UPDATED.field_id)
    )


def join_files(target: WriteTarget, name: str, files: Sequence[DataFile]) -> tuple[tuple[DataFile, ...], int]:
    """One file of the given ones, and its rows. Raises NotJoinable when they turn out to differ; nothing is left."""
    partition, spec_id = files[0].partition, files[0].spec_id
    url = target.url(partition, f"{name}-0")
    held = sum(one.record_count for one in files)
    with target.files.open_output(url) as out:
        join = ParquetJoin(out, target.layout.codec)
        for one in files:
            with target.files.open_input(one.path) as source:
                join.add(source)
        size = join.finish()
        if join.rows != held:
            raise CorruptError(
                f"files to be joined hold {join.rows} rows, their manifest entries say {held}", file=files[0].path,
                todo="Nothing was committed. Compare the files with the manifests",
            )  # fmt: skip
    types = {leaf.id: leaf.type for leaf in target.leaves if leaf.has_bounds}
    known = [one.metrics for one in files if one.metrics is not None]
    metrics = merged(known, types) if len(known) == len(files) else None
    made = DataFile(
        url, "PARQUET", spec_id, partition, join.rows, size, split_offsets=tuple(join.split_offsets), metrics=metrics
    )
    return (made,), join.rows
