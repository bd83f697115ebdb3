"""The pictures of a table's report: sizes of files, buckets, ages of deletes, snapshots over time, and the growth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.snapshot import History
from lakebed.model.pictures import Mark, Picture, State, Unit, by_age, file_sizes, growth, largest, timeline

SNAPSHOTS = 24
"""Of so many snapshots, spread over all, the timeline and the growth are drawn."""


def pictures_of_files(
    buckets: Mapping[str, Sequence[ManifestEntry]], target: int, least: int, has_key: bool, now: int
) -> Iterator[Picture | None]:
    """The pictures of the live files by bucket. Files of fewer than `least` bytes are small."""
    files = [entry.file for entries in buckets.values() for entry in entries]
    yield file_sizes(Counter(max(file.file_size, 1).bit_length() - 1 for file in files), target, least, "data files")
    sizes = {folder: sum(entry.file.file_size for entry in entries) for folder, entries in buckets.items()}
    yield largest("Buckets by size", sizes, {folder: len(entries) for folder, entries in buckets.items()}, "buckets")
    deleted = [(now - (file.creation_time or 0), file.delete_row_count or 0) for file in files]
    yield by_age("Deletes by age", "rows of files that delete older rows, until a full compaction", Unit.ROWS, deleted)
    if has_key:
        level_0 = [(now - (file.creation_time or 0), 1) for file in files if file.level == 0]
        yield by_age("Files of level 0 by age", "each read merges them; a compaction ends that", Unit.FILES, level_0)


@dataclass(frozen=True, slots=True)
class SnapshotPictures:
    """The pictures of a table's history, for which snapshots are read when they are asked for: most who inspect a table
    look at no picture. `ids` are those of its snapshots, `held` what holds the ones from an id on."""

    history: History
    ids: tuple[int, ...]
    held: Mapping[int, str]

    def __call__(self) -> tuple[Picture, ...]:
        """The pictures of those snapshots that are there then."""
        drawn = self.history.find_many(_spread(self.ids))
        snapshots = [snapshot for snapshot in drawn if snapshot is not None]
        return tuple(filter(None, pictures_of_snapshots(snapshots, self.held)))


def pictures_of_snapshots(snapshots: Sequence[Snapshot], held: Mapping[int, str]) -> Iterator[Picture | None]:
    """Some snapshots over time, with what holds the ones from an id on; and the growth."""
    marks = []
    for snapshot in snapshots:
        lane = str(snapshot.commit_kind).lower()
        label, state = f"{lane} {snapshot.id}", State.DONE
        if snapshot.id in held:
            label, state = f"{label}: {held[snapshot.id]}", State.HELD
        marks.append(Mark(snapshot.time_millis, lane, state, label))
    yield timeline("Snapshots", marks, [*dict.fromkeys(held.values())])
    points = [(snapshot.time_millis, snapshot.total_record_count) for snapshot in snapshots]
    yield growth("Rows in the table's files", "before they are merged, as its snapshots say", Unit.ROWS, points)


def _spread(ids: Sequence[int]) -> list[int]:
    """At most `SNAPSHOTS` of some ids, the first and the last among them, at even distances."""
    if len(ids) <= SNAPSHOTS:
        return [*ids]
    return [ids[n * (len(ids) - 1) // (SNAPSHOTS - 1)] for n in range(SNAPSHOTS)]
