"""Whether the files of a state are still there.

The cleaner keeps what the newest state and some older ones need. A state from before them has file groups whose base or
log files are gone. The cleans in the timeline, and the metadata of commits that are read anyway, tell which files there
were. Of the newest state no file may be gone: one that a commit names and that the state needs was lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import CorruptError, DataCleanedError
from lakebed.formats.hudi.codec.metadata import WriteStat
from lakebed.formats.hudi.layout import HASHING_METADATA, file_path, parse_base_name, parse_log_name
from lakebed.formats.hudi.options import FALLBACK
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileGroup, FileSlice, WrittenFiles
from lakebed.formats.hudi.timeline.active import View


@dataclass(frozen=True)
class Completeness:
    """Detects files that a view needs and that are gone."""

    state: TableState
    view: View

    def check(
        self,
        partition: str,
        group: FileGroup,
        file_slice: FileSlice | None,
        stats: Iterable[tuple[str, WriteStat]] = (),
    ) -> None:
        """Raise DataCleanedError when the group's slice in the view is not whole.

        `stats` are files that commits of the view wrote to the group: (instant, file).
        """
        base = file_slice.base.instant if file_slice and file_slice.base else ""
        listed = {log.name for log in group.logs}
        for time, stat in stats:
            if not stat.is_log:
                if time > base:
                    raise self.error(stat.path)
                continue
            for name in {stat.name, *stat.logs} - listed:
                if self._in_slice(name, base):
                    raise self.error(file_path(partition, name))
        for name in self.state.deleted_files(partition, group.file_id, self.view.bound):
            parsed = parse_base_name(name)
            if parsed is not None:
                gone = parsed[1].instant > base and self.view.order(parsed[1].instant) is not None
            else:
                gone = name not in listed and self._in_slice(name, base)
            if gone:
                raise self.error(file_path(partition, name))

    def vanished(self, partition: str, listed: Iterable[str]) -> set[str]:
        """File groups of a partition of which cleans removed every file; `listed` are those that still have files."""
        return set(self.state.cleaned_groups(self.view.bound).get(partition, ())) - set(listed)

    def was_begun(self, partition: str, file_id: str) -> bool:
        """Whether there were files of a group that a commit of the table replaced. Under consistent hashing such a
        commit names the groups of all buckets, of those too that no row had come to; others name what was there."""
        rings = self.state.store.list(HASHING_METADATA)
        if not (rings.folders or rings.files):
            return True
        archived = (one.commit for one in self.state.archived.commits("", self.view.bound))
        commits = (*self.state.commits(self.view).values(), *archived)
        wrote = any((stat.partition, stat.file_id) == (partition, file_id) for one in commits for stat in one.stats)
        return wrote or bool(self.state.deleted_files(partition, file_id, self.view.bound))

    def is_older(self, file_slice: FileSlice, stats: Iterable[tuple[str, WriteStat]]) -> bool:
        """Whether the view once had a newer base file than the slice has."""
        base = file_slice.base.instant if file_slice.base else ""
        names = {
            *self.state.deleted_files(file_slice.partition, file_slice.file_id, self.view.bound),
            *(stat.name for _, stat in stats),
        }
        instants = {parsed[1].instant for name in names if (parsed := parse_base_name(name)) is not None}
        return any(instant > base and self.view.order(instant) is not None for instant in instants)

    def error(self, path: str, instant: str = "") -> DataCleanedError:
        """The error for a file or file group that is gone."""
        earliest = self.state.earliest_readable()
        return DataCleanedError(
            "files that this read needs were cleaned",
            table=self.state.store.location,
            file=path,
            instant=instant,
            why=f"the earliest instant that can still be read is {earliest}"
            if earliest
            else "the cleaner removed them",
            todo=f"Read from {earliest or 'a later instant'} on; in changes {FALLBACK.key} = full-scan gives the rest",
        )

    def lacks(self, file_slice: FileSlice | None, time: str, stat: WriteStat, logs: bool) -> bool:
        """Whether a file that a commit of the view wrote belongs to its group's slice and is not in it.

        Without `logs` this is false of log files.
        """
        base = file_slice.base.instant if file_slice and file_slice.base else ""
        if not stat.is_log:
            return time > base
        names = [log.name for log in file_slice.logs] if file_slice else []
        return logs and stat.name not in names and self._in_slice(stat.name, base)

    def _in_slice(self, name: str, base: str) -> bool:
        """Whether a log file belongs to the slice of the view that starts at the base instant `base`."""
        parsed = parse_log_name(name)
        if parsed is None or parsed[1].cdc:
            return False
        instant = parsed[1].instant
        is_active = instant in self.view.timeline.by_time
        if (is_active or not base) and self.view.is_second_copy(instant):
            return False
        if not self.state.config.completion_times:
            if not is_active and instant >= self.view.timeline.start:
                return False  # a restore took the slice away
            return instant >= base and not (self.view.bound and instant > self.view.bound)
        order = self.view.order(instant)
        return order is not None and order >= base


def check_lost(
    state: TableState,
    view: View,
    written: WrittenFiles,
    partitions: Collection[str],
    slices: Sequence[FileSlice],
    logs: bool,
) -> None:
    """Raise when a file is gone that a commit of the active timeline wrote and that its slice in the view needs.

    `slices` are all slices of `partitions` in the view. `written` is what the view's commits wrote and replaced.
    Without `logs` only base files are checked. Files that archived commits wrote are not checked. Raises CorruptError
    for the newest state, DataCleanedError for an older one, and CorruptError for a log file that was cut short.
    """
    if logs:
        check_cut(state, view, {(part.partition, log.name): log.size for part in slices for log in part.logs})
    names = [s.base.name for s in slices if s.base is not None]
    names += [log.name for s in slices for log in s.logs]
    present = frozenset(names)
    if len(present) < len(names):  # file ids with a fixed ending: partitions can hold files of one name
        present = frozenset()
    commits, start = state.commits(view), state.timeline.start
    # Before the start lie commits that savepoints kept: archived commits can have replaced what they wrote.
    suspect = [time for time in commits if time >= start and not written.by_instant.get(time, present) <= present]
    if not suspect:
        return
    complete, wanted = Completeness(state, view), set(partitions)
    by_group = {(s.partition, s.file_id): s for s in slices}
    for time in reversed(suspect):
        for stat in commits[time].stats:
            key = stat.partition, stat.file_id
            if stat.partition not in wanted or stat.file_id in written.replaced.get(stat.partition, ()):
                continue
            if complete.lacks(by_group.get(key), time, stat, logs):
                raise complete.error(stat.path, time) if view.bound else _lost(state, stat.path, time)


def check_cut(state: TableState, view: View, sizes: Mapping[tuple[str, str], int]) -> None:
    """Raise CorruptError for a log file that has fewer bytes than a commit of the active timeline says. `sizes` has the
    bytes of log files by partition and name.

    Base files need no such check: one that was cut short has no footer, so opening it fails.
    """
    if not sizes:
        return
    for time, commit in state.commits(view).items():
        for stat in commit.stats:
            size = sizes.get((stat.partition, stat.name), stat.size)
            if size < stat.size:
                raise CorruptError(
                    "a log file was cut short after its commit",
                    table=state.store.location,
                    file=stat.path,
                    instant=time,
                    why=f"it has {size} bytes, and had {stat.size} when the commit {time} wrote it",
                    todo="Restore the file from a copy, or take that commit and those after it back with "
                    "table.rollback: rows of the commit are lost then",
                )


def _lost(state: TableState, path: str, instant: str) -> CorruptError:
    return CorruptError(
        "a file that the table's newest state needs is gone",
        table=state.store.location,
        file=path,
        instant=instant,
        why=f"commit {instant} wrote it, and no later commit took its place",
        todo="Read again: a cleaner may have run. If the file is still missing, restore it from a copy, or restore "
        "the table to before that commit with Hudi's own engine",
    )
