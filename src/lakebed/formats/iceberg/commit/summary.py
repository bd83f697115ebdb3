"""The summary of a snapshot: counts of what it added and removed, and the totals after it.

Rule: the reference engine's SnapshotSummary. A count of 0 is left out. A total continues that of the parent snapshot,
where it has one, and starts at 0 in a table's first snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.partitioning import PartitionSpec

from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile, partition_key
from lakebed.formats.iceberg.layout import partition_path
from lakebed.kernel.options import is_number

_TOTALS = (
    ("total-records", ("added-records",), ("deleted-records",)),
    ("total-files-size", ("added-files-size",), ("removed-files-size",)),
    ("total-data-files", ("added-data-files",), ("deleted-data-files",)),
    ("total-delete-files", ("added-delete-files",), ("removed-delete-files",)),
    ("total-position-deletes", ("added-position-deletes",), ("removed-position-deletes",)),
    ("total-equality-deletes", ("added-equality-deletes",), ("removed-equality-deletes",)),
)


def counts(
    added: Sequence[DataFile | DeleteFile],
    removed: Sequence[DataFile | DeleteFile],
    specs: Mapping[int, PartitionSpec] = {},
    limit: int = 0,
) -> dict[str, str]:
    """The counts of one snapshot.

    It also has counts per partition, as `partitions.{path}`, when no more than `limit` partitions changed
    (`write.summary.partition-limit`).
    """
    partitions = {(file.spec_id, partition_key(file.partition)) for file in (*added, *removed)}
    summary = {key: str(value) for key, value in _summed(added, removed).items()}
    summary["changed-partition-count"] = str(len(partitions))
    if partitions and len(partitions) <= limit:
        summary |= {"partition-summaries-included": "true", **_of_partitions(added, removed, specs)}
    return summary


def _summed(added: Iterable[DataFile | DeleteFile], removed: Iterable[DataFile | DeleteFile]) -> dict[str, int]:
    """The counts that are above 0."""
    sums: dict[str, int] = {}
    for files, verb, data_verb in ((added, "added", "added"), (removed, "removed", "deleted")):
        for file in files:
            for key, value in _counts_of(file, verb, data_verb):
                sums[key] = sums.get(key, 0) + value
    return {key: value for key, value in sums.items() if value > 0}


def _of_partitions(
    added: Iterable[DataFile | DeleteFile], removed: Iterable[DataFile | DeleteFile], specs: Mapping[int, PartitionSpec]
) -> dict[str, str]:
    """The counts per partition path, as one text each. A table without partitions has none."""
    places: dict[str, tuple[list[DataFile | DeleteFile], list[DataFile | DeleteFile]]] = {}
    for side, files in enumerate((added, removed)):
        for file in files:
            path = partition_path(specs[file.spec_id], file.partition)
            places.setdefault(path, ([], []))[side].append(file)
    texts = {path: ",".join(f"{k}={v}" for k, v in _summed(*sides).items()) for path, sides in places.items()}
    return {f"partitions.{path}": text for path, text in texts.items() if path}


def with_totals(counts: Mapping[str, str], before: Mapping[str, str] | None) -> dict[str, str]:
    """The counts, and the totals after them. `before` is the parent's summary, None for a first snapshot."""
    totals = {}
    for total, plus, minus in _TOTALS:
        base = "0" if before is None else before.get(total, "")
        if is_number(base):  # as in the reference engine, what is no number has no total after it
            value = int(base) + _sum(counts, plus) - _sum(counts, minus)
            if value >= 0:
                totals[total] = str(value)
    return {**counts, **totals}


def _sum(counts: Mapping[str, str], keys: Sequence[str]) -> int:
    return sum(int(counts.get(key, 0)) for key in keys)


def _counts_of(file: DataFile | DeleteFile, verb: str, data_verb: str) -> list[tuple[str, int]]:
    if isinstance(file, DataFile):
        return [
            (f"{data_verb}-data-files", 1),
            (f"{data_verb}-records", file.record_count),
            (f"{verb}-files-size", file.size),
        ]
    size = file.content_size if file.is_vector and file.content_size is not None else file.size
    kind = "equality" if file.content is Content.EQUALITY_DELETES else "position"
    return [
        (f"{verb}-delete-files", 1),
        (f"{verb}-dvs" if file.is_vector else f"{verb}-{kind}-delete-files", 1),
        (f"{verb}-{kind}-deletes", file.record_count),
        (f"{verb}-files-size", size),
    ]
