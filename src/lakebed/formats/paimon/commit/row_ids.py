"""Row ids and sequence numbers of the files of a commit, in tables with `row-tracking.enabled`.

Rules: Paimon's RowTrackingCommitUtils. The rows of new files get the next free ids. Compacted files carry the ids of
their rows, and files that hold some columns of older rows keep the ids of these. Files of large values (`.blob`) number
the rows of the data file before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.manifest import ADD, SOURCE_COMPACT, DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.types import ROW_ID


def with_row_ids(
    entries: Iterable[ManifestEntry], snapshot_id: int, next_row: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """The entries of a snapshot with their ids and sequence numbers, and the next free row id.

    CorruptError for large values without a data file before them.
    """
    numbered: list[ManifestEntry] = []
    blobs: dict[str, int] = {}
    begin = next_row
    for entry in entries:
        file = _of_snapshot(entry.file, snapshot_id)
        if entry.kind == ADD and _gets_ids(file):
            if file.is_blob:
                column = (file.write_cols or ("",))[0]
                first = blobs.get(column, begin)
                if first + file.row_count > next_row:
                    raise CorruptError(
                        "a file of large values has more rows than the data file before it", file=file.file_name
                    )
                blobs[column] = first + file.row_count
            else:
                first = begin = next_row
                next_row += file.row_count
                blobs = {}
            file = replace(file, first_row_id=first)
        numbered.append(replace(entry, file=file))
    return tuple(numbered), next_row


def _gets_ids(file: DataFileMeta) -> bool:
    carries = file.write_cols is not None and ROW_ID in file.write_cols
    return file.first_row_id is None and file.file_source != SOURCE_COMPACT and not carries


def _of_snapshot(file: DataFileMeta, snapshot_id: int) -> DataFileMeta:
    """The file with the snapshot's id as the sequence number of its new rows; 0 says that there are some."""
    if file.min_sequence_number == 0:
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    if file.max_sequence_number == 0:
        return replace(file, max_sequence_number=snapshot_id)
    return file
