"""The file slices of a file group with all their files, and which of them nothing retained needs.

Rules: Hudi's `CleanPlanner`. Hudi compares the requested times of slices with the earliest commit that is retained. A
compaction that was requested before that commit can have completed after it, and a reader of that commit then still
needs the slice before the compaction. So here slices go that are older than the newest slice before everything that is
retained, by positions. That slice itself stays, since changes of the earliest retained commit are told against it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakebed.formats.hudi.slices import FileGroup, WrittenFiles
from lakebed.formats.hudi.timeline.active import View


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """One file slice: its base instant, that instant's position in ranges, and the names of its files."""

    instant: str
    position: str
    names: tuple[str, ...]
    has_base: bool


@dataclass(frozen=True, slots=True)
class Retained:
    """What a policy retains. `earliest` is the requested time of the earliest retained commit and `position` the least
    position of a retained commit; both are "" for the policy that counts file versions, which retains `versions`."""

    earliest: str
    position: str
    versions: int = 0


def slices_of(group: FileGroup, view: View, written: WrittenFiles) -> list[SliceFiles]:
    """The committed slices of a file group, newest first. Files of writes that are pending or failed are in none."""
    names: dict[str, list[str]] = {}
    positions: dict[str, str] = {}
    bases: set[str] = set()
    for base in group.bases:
        position = view.order(base.instant)
        if position is not None and written.named(base.instant, base.name):
            names.setdefault(base.instant, []).append(base.name)
            positions[base.instant] = position
            bases.add(base.instant)
    if view.timeline.completion_times:
        _add_logs_by_completion(group, view, names, positions)
    else:
        for log in group.logs:
            names.setdefault(log.instant, []).append(log.name)
            positions.setdefault(log.instant, log.instant)
    return [
        SliceFiles(instant, positions[instant], tuple(sorted(names[instant])), instant in bases)
        for instant in sorted(names, reverse=True)
    ]


def unused_slices(
    slices: Sequence[SliceFiles], retained: Retained, taken: bool, savepointed: Collection[str]
) -> list[SliceFiles]:
    """The slices that no retained commit needs. `slices` come newest first; the newest one always stays.

    `taken` says that a pending service takes the file group: the slice that it reads counts as none of the versions. A
    pending write holds the earliest retained commit, so by commits that slice stays anyway. `savepointed` are the names
    of files that savepoints keep.
    """
    if retained.versions:
        based = [place for place, part in enumerate(slices) if part.has_base]
        kept = retained.versions + taken
        last = based[kept - 1] if len(based) >= kept else len(slices)
        old = slices[last + 1 :]
    else:
        based = [at for at, part in enumerate(slices) if part.has_base and part.position < retained.position]
        old = [part for part in slices[based[0] + 1 :] if part.instant < retained.earliest] if based else []
    return [part for part in old if not savepointed or not set(part.names) & set(savepointed)]


def _add_logs_by_completion(
    group: FileGroup, view: View, names: dict[str, list[str]], positions: dict[str, str]
) -> None:
    """Table version 8 and later: a log file belongs to the newest base file that it completed after; before the first
    base file all log files are one slice, which is named by the first of them."""
    starts = sorted(names)
    early: list[tuple[str, str, str]] = []
    for log in group.logs:
        position = view.order(log.instant)
        if position is None:
            continue
        begun = [start for start in starts if start <= position]
        if begun:
            names[begun[-1]].append(log.name)
        else:
            early.append((log.instant, position, log.name))
    if early:
        instant, position, _ = min(early)
        names[instant] = [name for _, _, name in early]
        positions[instant] = position
