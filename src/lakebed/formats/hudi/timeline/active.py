"""The active timeline: which instants there are, and which of them count for a reader at one moment.

Instant times compare as text, so an old time of 14 digits comes before those of 17 digits in the same second. File
modification times decide nothing.

Rules: Hudi's `HoodieActiveTimeline` (layouts 1 and 2), `BaseHoodieTimeline.containsOrBeforeTimelineStarts` (an instant
older than the timeline's start was committed and archived), `CompletionTimeQueryView` (table version 8 and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from lakebed.formats.hudi.codec.metadata import (
    CleanMetadata,
    CommitMetadata,
    parse_clean,
    parse_commit,
)
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import COMPLETES_AS, WRITES, parse_state_name, withdrawn_instants
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import FileInfo, Listing, Store
from lakebed.model.instant import Instant

_READ_TOGETHER = 64
"""How many state files are held in memory at once."""
_STATES = ("requested", "inflight", "completed")
_REMEMBERED = 4096
"""How many decoded commits a table remembers."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One instant of the active timeline in its newest state.

    `action` is the word in the name of its newest state file: a completed compaction is a commit. `completed` is the
    completion time, in tables without these the requested time, "" while pending. `file` is the path of the newest
    state file, `requested` that of the plan, "" where it is missing.
    """

    time: str
    completed: str
    action: str
    state: str
    file: str
    requested: str = ""

    @property
    def done(self) -> bool:
        """Whether the instant is completed."""
        return self.state == "completed"

    @property
    def writes(self) -> bool:
        """Whether the instant adds or replaces data files."""
        return self.action in WRITES


@dataclass(frozen=True)
class Timeline:
    """The active timeline as one listing showed it, oldest instant first."""

    entries: tuple[Entry, ...]
    folder: str
    completion_times: bool
    stray: tuple[str, ...] = field(default=())
    """Completed state files that do not count: empty ones, as a crash leaves them, and those that came after their
    instant was withdrawn (`outcomes.py`). Their instants count as inflight."""
    empty: tuple[str, ...] = field(default=())
    """The empty ones of writes among them."""

    @cached_property
    def commits(self) -> tuple[Entry, ...]:
        """Completed instants that added or replaced data files, in order of requested time."""
        return tuple(entry for entry in self.entries if entry.done and entry.writes)

    @cached_property
    def by_time(self) -> Mapping[str, Entry]:
        """Writing instants of any state by requested time."""
        return {entry.time: entry for entry in self.entries if entry.writes}

    @cached_property
    def pending(self) -> tuple[Entry, ...]:
        """Writing instants that are requested or inflight."""
        return tuple(entry for entry in self.entries if entry.writes and not entry.done)

    @cached_property
    def savepointed(self) -> frozenset[str]:
        """Instants that a completed savepoint keeps."""
        return frozenset(entry.time for entry in self.entries if entry.action == "savepoint" and entry.done)

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """Instants that a completed savepoint keeps and that are not there as completed, ascending: their completed
        files were removed or emptied, since neither a rollback nor archival takes a savepointed instant."""
        done = {entry.time for entry in self.commits}
        return tuple(sorted(self.savepointed - done))

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """What a reader should know, a sentence each: instants that are left out and that were completed once, as it
        seems."""
        sentences = [
            f"the completed file {path} is empty, so its instant does not count, nor what it wrote: a crash leaves"
            " such files"
            for path in self.empty
        ]
        if self.lost:
            sentences.append(
                f"savepoint {self.lost[0]} names an instant that is not there as completed, so its rows are left out:"
                f" its completed file in {self.folder} was removed or emptied; restore it from a copy"
            )
        return tuple(sentences)

    @cached_property
    def start(self) -> str:
        """The instant before which everything was archived: the oldest one that no savepoint kept back, "" for an empty
        timeline.

        Archival past a savepoint leaves the savepointed instants behind as islands; what lies between them and this
        instant is in the archive. Instants whose completed file a crash left empty do not count either, since archival
        in lenient mode skips them.
        """
        writes = [entry for entry in self.entries if entry.writes and entry.file not in self.stray]
        free = [entry.time for entry in writes if not (entry.done and entry.time in self.savepointed)]
        return min(free, default="") or (max((e.time for e in writes), default=""))

    def order(self, entry: Entry) -> str:
        """The position of an instant in ranges: its completion time from table version 8 on, before that its requested
        time."""
        return entry.completed if self.completion_times else entry.time


def timeline_from(listing: Listing, config: TableConfig) -> Timeline:
    """The active timeline, from the listing of its folder. Those of the last short listings are kept."""
    of_files = _of_files if len(listing.files) <= _KEPT_FILES else _of_files.__wrapped__
    return of_files(listing.files, config.timeline_folder, config.completion_times)


_KEPT_FILES = 512


@lru_cache(16)
def _of_files(files: tuple[FileInfo, ...], folder: str, completion_times: bool) -> Timeline:
    newest: dict[tuple[str, str], Entry] = {}
    stray: list[str] = []
    empty: list[str] = []
    alone: dict[tuple[str, str], Entry] = {}
    withdrawn = withdrawn_instants(files)
    for info in files:
        state_file = parse_state_name(info.name)
        if state_file is None:
            continue
        state = state_file.state
        key = (state_file.time, COMPLETES_AS.get(state_file.action, state_file.action))
        late = state_file.time in withdrawn and state_file.action in WRITES
        if state == "completed" and (info.size == 0 or late):
            stray.append(info.path)
            if not late:
                empty.append(info.path)
            alone.setdefault(key, Entry(state_file.time, "", state_file.action, "inflight", info.path))
            continue
        before = newest.get(key)
        completed = (state_file.completed or state_file.time) if state == "completed" else ""
        requested = info.path if state == "requested" else before.requested if before else ""
        if before is None or _STATES.index(state) > _STATES.index(before.state):
            newest[key] = Entry(state_file.time, completed, state_file.action, state, info.path, requested)
        elif requested != before.requested:
            newest[key] = Entry(before.time, before.completed, before.action, before.state, before.file, requested)
    for key, entry in alone.items():
        known = newest.get(key, entry)  # its other states tell which service it is
        if known.state != "completed":
            newest[key] = replace(known, state="inflight", file=entry.file)
    entries = tuple(sorted(newest.values(), key=lambda entry: (entry.time, entry.action)))
    named = {entry.file for entry in entries if entry.action in ("commit", "deltacommit", "replacecommit")}
    return Timeline(entries, folder, completion_times, tuple(stray), tuple(path for path in empty if path in named))


class MetadataFiles:
    """Decoded state files of one table. Completed instants never change, so each is read once, and a bounded number is
    remembered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._commits: dict[str, CommitMetadata] = {}

    def commits(self, entries: Iterable[Entry]) -> dict[str, CommitMetadata]:
        """Metadata of completed writing instants by requested time."""
        wanted = list(entries)
        missing = [entry for entry in wanted if entry.file not in self._commits]
        for at in range(0, len(missing), _READ_TOGETHER):
            batch = missing[at : at + _READ_TOGETHER]
            for entry, content in zip(batch, self._store.read_many([entry.file for entry in batch]), strict=True):
                self._commits[entry.file] = self._parsed(entry, content)
        commits = {entry.time: self._commits[entry.file] for entry in wanted}
        while len(self._commits) > _REMEMBERED:
            del self._commits[next(iter(self._commits))]
        return commits

    def cleans(self, timeline: Timeline) -> list[CleanMetadata]:
        """The completed cleans of the active timeline, oldest first."""
        entries = [entry for entry in timeline.entries if entry.action == "clean" and entry.done]
        cleans: list[CleanMetadata] = []
        for entry, data in zip(entries, self._store.read_many([entry.file for entry in entries]), strict=True):
            with self._decoding(entry, entry.file):
                cleans.append(parse_clean(data))
        return cleans

    def _parsed(self, entry: Entry, content: bytes) -> CommitMetadata:
        with self._decoding(entry, entry.file):
            return parse_commit(content)

    def _decoding(self, entry: Entry, file: str) -> AbstractContextManager[None]:
        todo = "Roll the instant back with Hudi's own engine, or restore the file from a copy"
        location = self._store.location
        return decoding("a timeline file cannot be read", table=location, file=file, instant=entry.time, todo=todo)


def instant_of(entry: Entry, completion_times: bool, archived: bool = False) -> Instant:
    """The public value of an instant. `completed` is "" where the table records no completion times."""
    completed = entry.completed if completion_times and entry.done else ""
    return Instant(entry.time, completed, entry.action, entry.state, archived)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which instants' log blocks count for a reader: all that a task needs of the timeline, small and picklable."""

    committed: frozenset[str]
    known: frozenset[str]
    start: str
    bound: str
    until: str = ""

    def counts(self, instant: str) -> bool:
        """Whether the blocks of an instant are committed, within the reader's bound, and not after `until`."""
        if self.until and instant > self.until:
            return False
        if instant in self.known:
            return instant in self.committed
        return instant < self.start and (not self.bound or instant <= self.bound)


@dataclass(frozen=True)
class View:
    """The table at one moment: which instants count, from the active timeline and, for older ones, from the archive.

    `committed` maps the completed instants of the active timeline inside the view to their positions in ranges (see
    `Timeline.order`). `archived` does the same for archived instants where the table has completion times. Where it is
    None, an instant before the timeline's start counts if it is not after `bound`, and is not one of those that are
    known to be `undone`.
    """

    timeline: Timeline
    committed: Mapping[str, str]
    bound: str = ""
    archived: Mapping[str, str] | None = None
    undone: frozenset[str] = frozenset()

    def order(self, instant: str) -> str | None:
        """The position in ranges of an instant that counts, None for an instant that does not."""
        order = self.committed.get(instant)
        if order is not None:
            return order
        if instant in self.timeline.by_time:
            return None
        if self.archived and instant >= self._oldest_archived:
            completed = self.archived.get(instant)
            return completed if completed is not None and (not self.bound or completed <= self.bound) else None
        if instant in self.undone:
            return None
        if instant < self.timeline.start and (not self.bound or instant <= self.bound):
            return instant
        return None

    def begins_groups(self, instant: str) -> bool:
        """Whether log files named by an instant began their file group with it.

        That is so for completed delta commits and replace commits of the active timeline, inside the view or not. Log
        files named by a compaction can belong to older groups.
        """
        entry = self.timeline.by_time.get(instant)
        return entry is not None and entry.done and entry.action in ("deltacommit", "replacecommit")

    def is_second_copy(self, instant: str) -> bool:
        """Whether log files named by an instant hold rows a second time: for the file groups of a clustering that does
        not count yet, or that was taken back."""
        entry = self.timeline.by_time.get(instant)
        if entry is None:
            return self.order(instant) is None
        return instant not in self.committed and entry.action in ("replacecommit", "clustering")

    @cached_property
    def _oldest_archived(self) -> str:
        return min(self.archived or (), default="")

    def blocks(self) -> Blocks:
        """Which log blocks count in this view. With completion times whole files are chosen already, so for archived
        instants only their age matters."""
        return Blocks(
            frozenset(self.committed),
            frozenset(self.timeline.by_time),
            self.timeline.start,
            "" if self.timeline.completion_times else self.bound,
        )

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The completed writing instants of the active timeline inside the view."""
        return tuple(entry for entry in self.timeline.commits if entry.time in self.committed)


def view_of(
    timeline: Timeline,
    bound: str = "",
    left_out: frozenset[str] = frozenset(),
    archived: Mapping[str, str] | None = None,
    undone: frozenset[str] = frozenset(),
) -> View:
    """The table as of a position in ranges ("" for now), without the instants in `left_out`."""
    committed = {
        entry.time: timeline.order(entry)
        for entry in timeline.commits
        if (not bound or timeline.order(entry) <= bound) and entry.time not in left_out
    }
    return View(timeline, committed, bound, archived, undone)
