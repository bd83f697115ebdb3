"""Keys that only the logs of a file group have, though a lookup went by its base file.

A write finds a key in a base file, where a log may delete it, and adds its new version to a log of that group. Where a
compaction that was planned before then replaces the base file, the key is in that log alone: the delete has taken it
out of the new base file. Such logs are those whose rows were routed by an older base file than the one beneath them
now, and a lookup reads them too. Where no write ran between the plan and the end of a compaction there are none, and no
log is read.

Hudi's own lookups of `SIMPLE` and `BLOOM` read base files alone: there the next version of such a key is a second row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.metadata import CommitMetadata, WriteStat
from lakebed.formats.hudi.layout import LogFile
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.slices import FileSlice, by_older_base
from lakebed.formats.hudi.timeline.pending_services import Group
from lakebed.formats.hudi.write.stored_keys import StoredKeys
from lakebed.formats.hudi.write.table_files import TableFiles
from lakebed.kernel.arrays import Int64s, to_numpy


@dataclass(frozen=True, slots=True)
class KeysInLogs:
    """Finds keys in the logs of some file `groups`. Picklable."""

    reader: SliceReader
    groups: frozenset[Group]
    stored: StoredKeys

    def covers(self, file_slice: FileSlice) -> bool:
        """Whether keys may be in the logs of a slice alone."""
        return (file_slice.partition, file_slice.file_id) in self.groups

    def find(self, file_slice: FileSlice, keys: pa.StringArray) -> Int64s:
        """The places of those keys that have a row in the logs of a slice, when these are merged by themselves."""
        is_in_log = np.zeros(len(keys), bool)
        for batch in self.reader.open(SlicePaths.of(file_slice).without_base(), self.stored.columns).rows():
            is_in_log |= to_numpy(pc.is_in(keys, value_set=self.stored.keys(batch)))
        return np.flatnonzero(is_in_log)


def keys_in_logs(
    files: TableFiles, slices: Iterable[FileSlice], schema: pa.Schema, stored: StoredKeys
) -> KeysInLogs | None:
    """How keys are found in the logs of those slices whose base file does not tell them all; None where each does.

    `schema` are the columns of the table's files.
    """
    based = {(each.partition, each.file_id): each for each in slices if each.base is not None and each.logs}
    if not based:
        return None
    commits = files.state.commits(files.view)
    stats: dict[Group, list[tuple[str, WriteStat]]] = {}
    for time, commit in commits.items():
        for stat in commit.stats:
            group = (stat.partition, stat.file_id)
            if stat.is_log and group in based:
                stats.setdefault(group, []).append((time, stat))
    groups = {group for group, each in based.items() if _some_by_older_base(each, stats.get(group, ()), commits, files)}
    if not groups:
        return None
    return KeysInLogs(reader_of(files.state, READ.parse({}), schema, files.view), frozenset(groups), stored)


def _some_by_older_base(
    file_slice: FileSlice,
    stats: Iterable[tuple[str, WriteStat]],
    commits: dict[str, CommitMetadata],
    files: TableFiles,
) -> bool:
    """Whether a log of a slice has rows that were routed by an older base file, as far as that is known: where the
    commit of a log may have been archived, it may. Below table version 8 other logs that no commit names are what dead
    writers left, whose rows do not count."""
    assert file_slice.base is not None
    timed = files.state.config.completion_times
    base = file_slice.base.instant
    completed = (files.view.order(base) or base) if timed else None
    known = set()
    for time, stat in stats:
        for log in _logs_of(file_slice, time, stat, timed):
            known.add(log.name)
            # A log compaction merges logs of several writers: its own statistics tell nothing of theirs.
            if commits[time].operation == "LOG_COMPACT" or by_older_base(stat, time, base, completed):
                return True
    rest = (log for log in file_slice.logs if log.name not in known)
    return any(log.instant < (completed or files.state.timeline.start) for log in rest)


def _logs_of(file_slice: FileSlice, time: str, stat: WriteStat, timed: bool) -> Iterator[LogFile]:
    """The log files of a slice that statistics of a commit tell of."""
    for log in file_slice.logs:
        if log.name == stat.name or (timed and log.instant == time):
            yield log
