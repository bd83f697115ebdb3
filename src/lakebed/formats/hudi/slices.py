"""File groups and file slices: which base file and log files make up each file group in one view of the table.

Rules: Hudi's `HoodieFileGroup` and `AbstractTableFileSystemView` (`getLatestMergedFileSlicesBeforeOrOn`, replaced file
groups) in table version 6, and `CompletionTimeQueryView` from version 8 on:

- A base file counts when its instant does and its commit names it. Files of retried tasks are not in the commit's
  metadata.
- Version 6 and older: a log file's name has the base instant of its slice, or that of a compaction that was pending
  when it was written. A snapshot reads the newest base file with all log files of its instant or later ones, however
  many slices without a base file follow it. The instants of the log blocks say which of the blocks count.
- A file group without a base file begins with log files of its own only where a completed write named them: the delta
  commit that began the group, or the clustering that made it. In a table with consistent hashing, writers keep a second
  copy of their rows in the file groups that a pending clustering will make, in log files named by its instant. Until it
  completes, these are not rows of the table.
- Version 8 and later: a log file's name has the delta commit that wrote it. It belongs to the newest base file whose
  instant is not after the log's completion, and it is read when that delta commit counts. The second copies of
  consistent hashing have the clustering's instant here too: they count when it does, and of their blocks those count
  whose own delta commits do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.formats.hudi.codec.metadata import CommitMetadata, WriteStat
from lakebed.formats.hudi.layout import BaseFile, LogFile, parse_base_name, parse_log_name, write_attempt
from lakebed.formats.hudi.timeline.active import View
from lakebed.kernel.files import FileInfo


class FileGroup(NamedTuple):
    """All files of one file group, of whatever instant."""

    file_id: str
    bases: list[BaseFile]
    logs: list[LogFile]


class FileSlice(NamedTuple):
    """The part of a file group that a snapshot reads: a base file or None, and log files in the order of merging."""

    partition: str
    file_id: str
    base: BaseFile | None
    logs: tuple[LogFile, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all its files."""
        return (*([self.base.name] if self.base else ()), *(log.name for log in self.logs))

    @property
    def size(self) -> int:
        """The bytes of all its files."""
        return (self.base.size if self.base else 0) + sum(log.size for log in self.logs)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """What the known commits wrote.

    `by_instant` has the file names that each commit wrote, `replaced` the file ids by partition that replace commits
    took out of use. `clusterings` are clustering commits: other writers may have named log files by their instants.
    """

    by_instant: Mapping[str, frozenset[str]]
    replaced: Mapping[str, frozenset[str]]
    clusterings: frozenset[str]

    @classmethod
    def of(cls, commits: Mapping[str, CommitMetadata]) -> WrittenFiles:
        """From commit metadata by instant."""
        by_instant = {time: commit.file_names for time, commit in commits.items() if commit.stats}
        replaced: dict[str, set[str]] = {}
        for commit in commits.values():
            for partition, ids in commit.replaced.items():
                replaced.setdefault(partition, set()).update(ids)
        clusterings = frozenset(time for time, commit in commits.items() if commit.operation == "CLUSTER")
        return cls(by_instant, {partition: frozenset(ids) for partition, ids in replaced.items()}, clusterings)

    def named(self, instant: str, name: str) -> bool:
        """Whether the commit of that instant names the file. True for a commit whose files are not known."""
        names = self.by_instant.get(instant)
        return names is None or name in names


def file_groups(files: Iterable[FileInfo]) -> dict[str, FileGroup]:
    """The file groups in one partition's listing, by file id. Files that are neither base nor log files are skipped."""
    groups: dict[str, FileGroup] = {}
    for info in files:
        name = info.path.rpartition("/")[2]
        is_log = name[0] == "."
        parsed: tuple[str, BaseFile | LogFile] | None
        parsed = parse_log_name(name, info.size) if is_log else parse_base_name(name, info.size)
        if parsed is None:
            continue
        file_id, file = parsed
        group = groups.get(file_id)
        if group is None:
            group = groups[file_id] = FileGroup(file_id, [], [])
        if isinstance(file, LogFile):
            group.logs.append(file)
        else:
            group.bases.append(file)
    return groups


def slice_of(partition: str, group: FileGroup, view: View, written: WrittenFiles) -> FileSlice | None:
    """The slice of a file group that a snapshot of the view reads, None where the view has nothing of it."""
    base = newest_base(group, view, written)
    logs = (_logs_by_completion if view.timeline.completion_times else _logs_by_slice)(group, base, view, written)
    return FileSlice(partition, group.file_id, base, logs) if base or logs else None


def newest_base(group: FileGroup, view: View, written: WrittenFiles) -> BaseFile | None:
    """The newest base file that counts; of two attempts that nothing distinguishes, the later one."""
    bases = [b for b in group.bases if view.order(b.instant) is not None and written.named(b.instant, b.name)]
    if len(bases) < 2:
        return bases[0] if bases else None
    return max(bases, key=lambda base: (base.instant, write_attempt(base.token)))


def live_slices(
    partition: str,
    files: Iterable[FileInfo],
    view: View,
    written: WrittenFiles,
    was_replaced: Callable[[str, FileGroup, View], bool],
) -> list[FileSlice]:
    """The slices of a partition in one view, without replaced file groups.

    `was_replaced` says whether a commit replaced a group that is no longer among the view's commits.
    """
    replaced = written.replaced.get(partition, frozenset())
    groups = [group for group in file_groups(files).values() if group.file_id not in replaced]
    slices = ((group, slice_of(partition, group, view, written)) for group in groups)
    return [s for group, s in slices if s is not None and not was_replaced(partition, group, view)]


def by_older_base(stat: WriteStat, wrote: str, base: str, completed: str | None) -> bool:
    """Whether the rows of a log were routed by an older base file than that of the instant `base`.

    `wrote` is the instant of the log's delta commit, `completed` the time when that of the base file was completed,
    None where the table has no such times. A log's statistics name the base file that its writer saw. Hudi leaves the
    name out while a compaction is pending, and from table version 8 on in most writes: then the times tell, since a
    writer that began after the completion saw the newer base file.
    """
    seen = parse_base_name(stat.base)
    if seen is not None:
        return seen[1].instant < base
    return completed is None or wrote < completed


def _logs_by_slice(group: FileGroup, base: BaseFile | None, view: View, written: WrittenFiles) -> tuple[LogFile, ...]:
    """Table version 6 and older: log files of the base file's slice and later ones, by (slice, version, token)."""
    least = base.instant if base else _first_slice(group, view)
    if least is None:
        return ()
    logs = [log for log in group.logs if log.instant >= least and not log.cdc]
    if len(logs) < 2:
        return tuple(logs)
    return tuple(sorted(logs, key=lambda log: (log.instant, log.version, write_attempt(log.token))))


def _first_slice(group: FileGroup, view: View) -> str | None:
    """The instant from which on the logs of a group without a base file are its own, None where no completed write made
    the group.

    A delta commit or clustering of the active timeline that named a log file and wrote no base file beside it began the
    group: older log files do not belong to it. Of archived instants this is not known, so all of their log files count.
    """
    instants = sorted({log.instant for log in group.logs if not log.cdc}, reverse=True)
    rewrote = {base.instant for base in group.bases}
    began = [instant for instant in instants if instant not in rewrote and view.begins_groups(instant)]
    if began:
        return next((instant for instant in began if view.order(instant) is not None), None)
    return "" if any(view.order(instant) is not None for instant in instants) else None


def _logs_by_completion(
    group: FileGroup, base: BaseFile | None, view: View, written: WrittenFiles
) -> tuple[LogFile, ...]:
    """Table version 8 and later: log files of delta commits that completed at or after the base file's instant, by
    (completion, version, token)."""
    least = base.instant if base else ""
    if not group.logs:
        return ()
    logs = []
    for log in group.logs:
        order = view.order(log.instant)
        named = log.instant in written.clusterings or written.named(log.instant, log.name)
        if order is not None and order >= least and not log.cdc and named:
            logs.append((order, log.version, write_attempt(log.token), log))
    return tuple(entry[3] for entry in sorted(logs))
