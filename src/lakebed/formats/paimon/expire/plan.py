"""Which snapshots may go, and what holds the others.

Rules: Paimon's ExpireSnapshotsImpl.expire. The oldest snapshots go, without a gap and at most `snapshot.expire.limit`
at a time: those beyond `snapshot.num-retained.max` at once, others when they are older than `snapshot.time-retained`.
The newest `snapshot.num-retained.min` stay, and so do those that a consumer still has to read (ConsumerManager.expire:
until the consumer is `consumer.expiration-time` old). With `consumer.changelog-only` those go too where their
changelogs outlive them (CoreOptions.consumerChangelogOnly).

Three rules are lakebed's own. The newest snapshot of each live stream stays, since a replayed batch is recognised by
it, and so do snapshots that a callback has not been called for. Where a consumer reads an overwrite next, and the table
has `streaming-read-overwrite`, the snapshot before it stays too: it has the rows that the overwrite removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import CorruptError, StorageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.expire.changelogs import ChangelogRetention
from lakebed.formats.paimon.layout import branch_prefix
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.commit.callbacks import ledgers
from lakebed.kernel.files import FileInfo
from lakebed.kernel.files.age import older_than
from lakebed.kernel.options import Options
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.model.upkeep import Skipped


@dataclass(frozen=True, slots=True)
class Hold:
    """What holds the snapshots from `first` on. Where it is not a rule of the retention, `remedy` says how to end
    it."""

    first: int
    reason: str
    remedy: str = ""

    @property
    def skipped(self) -> Skipped:
        """The hold as an entry of a result."""
        return Skipped(f"snapshots from {self.first} on", self.reason)


@dataclass(frozen=True, slots=True)
class Retention:
    """Snapshots in `[earliest, end)` may go; `holds` say what holds the rest."""

    earliest: int
    end: int
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Readers:
    """Who still has to see snapshots: the next one of each consumer, and the newest that each callback has seen.

    `stale` are the paths of consumer files that hold nothing any more.
    """

    consumers: Mapping[str, int]
    ledgers: Mapping[str, int]
    stale: tuple[str, ...] = ()


Ends = tuple[Snapshot, Snapshot]
"""The oldest and the newest snapshot of a branch."""


@dataclass(slots=True)
class RetentionPlanner:
    """Plans the expiry of one branch. It reads each snapshot once, however often it plans."""

    history: History
    options: Options
    _known: dict[int, Snapshot] = field(default_factory=dict)
    _fresh: dict[int, Snapshot] = field(default_factory=dict)

    def plan(self, now: int, ends: Ends | None, look: Callable[[], Readers]) -> Retention | None:
        """What may go at the time `now`, in milliseconds since 1970; None for a table without snapshots.

        `look` gives the readers, and is called when something is old enough to go. Raises OptionError for a
        `snapshot.num-retained.min` above `snapshot.num-retained.max`.
        """
        self._known |= self._fresh
        self._fresh = {snapshot.id: snapshot for snapshot in ends or ()}
        if ends is None:
            return None
        self._known = {number: snapshot for number, snapshot in self._known.items() if number > ends[0].id}
        earliest, latest = ends[0].id, ends[1].id
        least, most = self.options[opt.SNAPSHOTS_MIN], self.options[opt.SNAPSHOTS_MAX]
        if most is not None and most < least:
            raise opt.refuse(opt.SNAPSHOTS_MAX, most, f"{opt.SNAPSHOTS_MIN.key} is {least}")
        begin = max(latest - most + 1, earliest) if most is not None else earliest
        end = latest - least + 1
        holds = [Hold(max(end, earliest), f"{opt.SNAPSHOTS_MIN.key} is {least}")]
        if end <= earliest:
            return Retention(earliest, earliest, tuple(holds))
        if begin == earliest and self._is_young(ends[0], now):
            holds.append(Hold(earliest, f"younger than {opt.SNAPSHOT_TIME.key}"))
            return Retention(earliest, earliest, tuple(holds))
        limit = self.options[opt.EXPIRE_LIMIT]
        bound = min(end, earliest + limit)

        def first_young() -> int | None:
            # Those before `begin` may go whatever their age, but are read for their users, and `bound` as the next one.
            candidates = (snapshot for snapshot in self._ascending(earliest, bound + 1) if begin <= snapshot.id < bound)
            return next((snapshot.id for snapshot in candidates if self._is_young(snapshot, now)), None)

        looks: tuple[Callable[[], Any], ...] = first_young, look
        young, readers = self.history.store.together(lambda act: act(), looks)
        if young is not None:
            holds.append(Hold(young, f"younger than {opt.SNAPSHOT_TIME.key}"))
        elif bound < end:
            holds.append(Hold(bound, f"{opt.EXPIRE_LIMIT.key} is {limit}"))
        end = bound if young is None else young
        for first, hold in self._limits(earliest, end, now, readers):
            end = min(first, end)
            holds.append(hold)
        return Retention(earliest, max(earliest, end), tuple(holds))

    def exactly(self, ids: Sequence[int]) -> list[Snapshot]:
        """The snapshots of these ids that are there, as they were read since the last `plan` began."""
        missing = [number for number in ids if number not in self._fresh]
        self._fresh |= {snapshot.id: snapshot for snapshot in self.history.find_many(missing) if snapshot is not None}
        return [self._fresh[number] for number in ids if number in self._fresh]

    def _is_young(self, snapshot: Snapshot, now: int) -> bool:
        return bool(now - snapshot.time_millis < self.options[opt.SNAPSHOT_TIME])

    def _limits(self, earliest: int, end: int, now: int, readers: Readers) -> Iterator[tuple[int, Hold]]:
        """What else holds snapshots of [earliest, end): each hold with the first snapshot that it holds."""
        if end <= earliest:
            return
        for name, following in self._holding(readers):
            first = following - (following <= end and self._tells_removed_rows(following))
            if first < end:
                remedy = (
                    f"Let it read on, or remove consumer/consumer-{name} when nobody reads as this consumer any more"
                )
                yield first, Hold(first, f"consumer {name!r} still has to read them", remedy)
        for user, newest in self._stream_users(earliest, end).items():
            if now - newest.time_millis < self.options[opt.OWED_TIME]:
                why = f"the newest of the stream {user}, whose replays are recognised by it ({opt.OWED_TIME.key})"
                yield newest.id, Hold(newest.id, why, f"Start the stream again, or lower {opt.OWED_TIME.key}")
        for name, seen in readers.ledgers.items():
            first = max(seen + 1, earliest)
            owed = next(self._ascending(first, first + 1), None) if seen + 1 < end else None
            if owed is not None and now - owed.time_millis < self.options[opt.OWED_TIME]:
                why = f"callback {name} has not been called for them ({opt.OWED_TIME.key})"
                remedy = f"Commit with the callback, or remove .lakebed/callbacks/{name} when it is no longer in use"
                yield owed.id, Hold(owed.id, why, remedy)

    def _holding(self, readers: Readers) -> Iterable[tuple[str, int]]:
        """The consumers that hold snapshots, each with its next one."""
        only_changelogs = self.options[opt.CONSUMER_CHANGELOGS_ONLY] and ChangelogRetention.of(self.options) is not None
        return () if only_changelogs else readers.consumers.items()

    def _tells_removed_rows(self, following: int) -> bool:
        """Whether a stream that reads the snapshot `following` next needs the files that it removed."""
        if not self.options[opt.STREAM_OVERWRITES]:
            return False
        return any(one.commit_kind is CommitKind.OVERWRITE for one in self._ascending(following, following + 1))

    def _stream_users(self, earliest: int, end: int) -> dict[str, Snapshot]:
        """The newest snapshot of each stream that has none after [earliest, end)."""
        newest_of: dict[str, Snapshot] = {}
        for snapshot in self._ascending(earliest, end):
            if snapshot.commit_identifier != BATCH_IDENTIFIER:
                newest_of[snapshot.commit_user] = snapshot
        newest = max(self._fresh)
        for snapshot in self._in_order(range(newest, end - 1, -1)):
            newest_of.pop(snapshot.commit_user, None)
            if not newest_of:
                break
        return newest_of

    def _ascending(self, start: int, end: int) -> Iterator[Snapshot]:
        """The snapshots with an id in [start, end)."""
        return self._in_order(range(start, end))

    def _in_order(self, ids: Sequence[int]) -> Iterator[Snapshot]:
        """The snapshots of these ids that are there, in order. The first one is read alone, the others together."""
        start, wave = 0, 1
        while start < len(ids):
            end = start + wave
            missing = [number for number in ids[start:end] if number not in self._known and number not in self._fresh]
            self._fresh |= {each.id: each for each in self.history.find_many(missing) if each is not None}
            for number in ids[start:end]:
                snapshot = self._fresh.get(number) or self._known.get(number)
                if snapshot is not None:
                    yield snapshot
            start, wave = end, self.history.store.at_once


def readers(history: History, options: Options, now: int) -> Readers:
    """Who still has to see snapshots at the time `now`, in milliseconds since 1970.

    A consumer is stale when its file has not moved for `consumer.expiration-time`. A file that was copied counts as
    moved, so it holds longer and never shorter. Raises CorruptError for a file that does not name the next snapshot.
    """
    store, longest = history.store, options[opt.CONSUMER_TIME]
    looks: tuple[Callable[[], Any], ...] = (
        lambda: store.list(f"{branch_prefix(history.branch)}consumer").files,
        lambda: ledgers(store),
    )
    listed, seen = store.together(lambda look: look(), looks)
    files: list[FileInfo] = [info for info in listed if info.name.startswith("consumer-")]
    paths = [info.path for info in files]
    stale = () if longest is None else tuple(older_than(store, paths, (now - longest) / 1000))
    alive = [info for info in files if info.path not in stale]
    following = store.together(lambda info: _next_snapshot(history, info), alive)
    names = [info.name.removeprefix("consumer-") for info in alive]
    return Readers({n: f for n, f in zip(names, following, strict=True) if f is not None}, seen, stale)


def _next_snapshot(history: History, info: FileInfo) -> int | None:
    """The next snapshot of a consumer; None when its file is gone."""
    try:
        return int(json.loads(history.store.read(info.path))["nextSnapshot"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, StorageError) as error:
        raise CorruptError(
            "a consumer file does not name the next snapshot",
            table=history.store.location,
            file=info.path,
            why=str(error),
            todo="Remove it when nobody reads as this consumer any more",
        ) from error
