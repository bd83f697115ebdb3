"""Orphan files: files that no state of the table has, and that nothing pending can want.

They are what a failed attempt left whose instant is gone: data files of instants that are not on the timeline and were
never archived, base files that the commit of their instant does not name, staged rows, and heartbeats and names of runs
that no pending instant has, of processes that died before they requested theirs or took the name away. So are files
that tell what became of an instant that the timeline has no more. A log file in table version 6 and older holds blocks
of several instants, so it counts only where its whole slice is of no commit.

Hudi has no such service: its cleaner looks at file groups of commits alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakebed.errors import counted
from lakebed.formats.hudi.archive.lock import LEASES
from lakebed.formats.hudi.commit.plan_run import RUNS
from lakebed.formats.hudi.expire.options import ORPHANS_AGE
from lakebed.formats.hudi.expire.plan import savepointed_files
from lakebed.formats.hudi.layout import HEARTBEATS, WRITES, outcome_instant, parse_base_name, parse_log_name
from lakebed.formats.hudi.read.partitions import list_partitions
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import WrittenFiles
from lakebed.formats.hudi.timeline.active import View
from lakebed.formats.hudi.timeline.writing import greatest
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.files.age import certain_now, older_than
from lakebed.kernel.options import Options, is_number
from lakebed.model.upkeep import ExpireResult, Skipped

_STAGED = "lakebed-"
"""How the folders of staged rows begin."""


def remove_orphans(state: TableState, options: Options, dry_run: bool) -> ExpireResult:
    """Delete orphan files that are older than the option says; younger ones are named in `kept`."""
    store = state.store
    undoing = next((e for e in state.timeline.entries if e.action in ("rollback", "restore") and not e.done), None)
    if undoing is not None:
        why = f"{undoing.action} {undoing.time} was cut off: lakebed.expire.what = failed-writes carries it on"
        return ExpireResult((), (), (Skipped("all files", why),), dry_run)
    orphans = [*orphan_files(state), *_staged_rows(store), *_marks(state), *_outcomes(state)]
    age = options[ORPHANS_AGE]
    old = {*older_than(store, orphans, certain_now(store, LEASES) - age / 1000)} if orphans else set()
    why = f"it is younger than {counted(age / 3_600_000, 'hour')} ({ORPHANS_AGE.key})"
    kept = tuple(Skipped(path, why) for path in orphans if path not in old)
    going = tuple(path for path in orphans if path in old)
    if not dry_run:
        store.delete_many(going)
    return ExpireResult((), going, kept, dry_run)


def orphan_files(state: TableState) -> list[str]:
    """The paths of data files that no state of the table has, of any age. The folders of all partitions are listed,
    after the timeline."""
    view = state.view()
    commits = state.commits(view)
    named = {stat.partition for commit in commits.values() for stat in commit.stats}
    saved = savepointed_files(state)
    rule = _Rule(state, view, state.written(view))
    return [
        info.path
        for partition, files in sorted(list_partitions(state.store, named).items())
        for info in rule.orphans(files)
        if info.name not in saved.get(partition, ())
    ]


class _Rule:
    """Which files of a partition are orphans, by the timeline as one listing showed it."""

    def __init__(self, state: TableState, view: View, written: WrittenFiles) -> None:
        self._view, self._written = view, written
        self._names = frozenset(name for names in written.by_instant.values() for name in names)
        self._cdc = frozenset(
            path.rpartition("/")[2]
            for commit in state.commits(view).values()
            for stat in commit.stats
            for path in stat.cdc
        )
        self._entries = {entry.time for entry in state.timeline.entries}
        self._logs_tell = state.config.completion_times or not state.timeline.pending
        self._newest = greatest(state.timeline)

    def orphans(self, files: Iterable[FileInfo]) -> Iterator[FileInfo]:
        for info in files:
            if info.name not in self._names and info.name not in self._cdc and self._is_orphan(info.name):
                yield info

    def _is_orphan(self, name: str) -> bool:
        """Whether nothing wants a file that no commit of the timeline names."""
        log = parse_log_name(name)
        if log is not None:
            return self._logs_tell and self._is_gone(log[1].instant)
        base = parse_base_name(name)
        if base is None:
            return False
        instant = base[1].instant
        return not self._written.named(instant, name) if instant in self._view.committed else self._is_gone(instant)

    def _is_gone(self, instant: str) -> bool:
        """Whether an instant is none of the timeline, and none that was archived."""
        known = instant in self._entries or instant > self._newest
        return not known and self._view.order(instant) is None


def _staged_rows(store: Store) -> list[str]:
    """Rows that writes staged in the table's storage."""
    folders = [name for name in store.list(LEASES).folders if name.startswith(_STAGED)]
    return [info.path for name in folders for info in store.walk(f"{LEASES}/{name}")]


def _marks(state: TableState) -> list[str]:
    """Heartbeats of writes that are not pending, and names of their runs. A writer's first heartbeat comes before its
    instant, so age decides. A savepoint has the instant of its write, which was done before."""
    pending = {entry.time for entry in state.timeline.entries if not entry.done and entry.action in WRITES}
    return [
        info.path
        for folder in (HEARTBEATS, RUNS)
        for info in state.store.list(folder).files
        if is_number(info.name) and info.name not in pending
    ]


def _outcomes(state: TableState) -> list[str]:
    """What became of instants that the timeline has no more: archived ones, and such as were withdrawn and rolled back.
    A put of the withdrawn one may still land, so age decides."""
    known = {entry.time for entry in state.timeline.entries}
    return [
        info.path
        for info in state.store.list(state.timeline.folder).files
        if is_number(instant := outcome_instant(info.name)) and instant not in known
    ]
