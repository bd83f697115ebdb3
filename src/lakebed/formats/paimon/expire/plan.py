"""Which snapshots may go, and what holds the others.

Rules: Paimon's ExpireSnapshotsImpl.expire. The oldest snapshots go, without a gap and at most `snapshot.expire.limit`
at a time: those beyond `snapshot.num-retained.max` at once, others when they are older than `snapshot.time-retained`.
The newest `snapshot.num-retained.min` stay, and so do those that a consumer still has to read (ConsumerManager.expire:
until the consumer is `consumer.expiration-time` old).

Two rules are lakebed's own. The newest snapshot of each live stream stays, since a replayed batch is recognised by it,
and so do snapshots that a callback has not been called for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from lakebed.errors import CorruptError, StorageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
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


@dataclass(slots=True)
class RetentionPlanner:
    """Plans the expiry of one branch. It reads each snapshot once, however often it plans."""

    history: History
    options: Options
    _read: dict[int, Snapshot] = field(default_factory=dict)

    def plan(self, now: int) -> Retention | None:
        """What may go at the time `now`, in milliseconds since 1970; None for a table without snapshots.

        Raises OptionError for a `snapshot.num-retained.min` above `snapshot.num-retained.max`.
        """
        latest, earliest = self.history.latest_id(), self.history.earliest_id()
        if latest is None or earliest is None:
            return None
        least, most = self.options[opt.SNAPSHOTS_MIN], self.options[opt.SNAPSHOTS_MAX]
        if most is not None and most < least:
            raise opt.refuse(opt.SNAPSHOTS_MAX, most, f"{opt.SNAPSHOTS_MIN.key} is {least}")
        begin = max(latest - most + 1, earliest) if most is not None else earliest
        end = latest - least + 1
        holds = [Hold(max(end, earliest), f"{opt.SNAPSHOTS_MIN.key} is {least}")]
        if end <= earliest:
            return Retention(earliest, earliest, tuple(holds))
        for snapshot_id in range(begin, end):
            snapshot = self._snapshot(snapshot_id)
            if snapshot is not None and now - snapshot.time_millis < self.options[opt.SNAPSHOT_TIME]:
                holds.append(Hold(snapshot_id, f"younger than {opt.SNAPSHOT_TIME.key}"))
                end = snapshot_id
                break
        for limit, hold in self._limits(earliest, end, now):
            if limit < end:
                end = limit
            holds.append(hold)
        return Retention(earliest, max(earliest, end), tuple(holds))

    def _limits(self, earliest: int, end: int, now: int) -> Iterator[tuple[int, Hold]]:
        """What else holds snapshots of [earliest, end): each hold with the first snapshot that it holds."""
        if end <= earliest:
            return
        most = self.options[opt.EXPIRE_LIMIT]
        if earliest + most < end:
            yield earliest + most, Hold(earliest + most, f"{opt.EXPIRE_LIMIT.key} is {most}")
        stale = stale_consumers(self.history, self.options, now)
        for name, following in consumers(self.history, stale).items():
            if following < end:
                remedy = (
                    f"Let it read on, or remove consumer/consumer-{name} when nobody reads as this consumer any more"
                )
                yield following, Hold(following, f"consumer {name!r} still has to read them", remedy)
        for user, newest in self._stream_users(earliest, end).items():
            if now - newest.time_millis < self.options[opt.OWED_TIME]:
                why = f"the newest of the stream {user}, whose replays are recognised by it ({opt.OWED_TIME.key})"
                yield newest.id, Hold(newest.id, why, f"Start the stream again, or lower {opt.OWED_TIME.key}")
        for name, seen in ledgers(self.history.store).items():
            owed = self._snapshot(max(seen + 1, earliest)) if seen + 1 < end else None
            if owed is not None and now - owed.time_millis < self.options[opt.OWED_TIME]:
                why = f"callback {name} has not been called for them ({opt.OWED_TIME.key})"
                remedy = f"Commit with the callback, or remove .lakebed/callbacks/{name} when it is no longer in use"
                yield owed.id, Hold(owed.id, why, remedy)

    def _stream_users(self, earliest: int, end: int) -> dict[str, Snapshot]:
        """The newest snapshot of each stream that has none after [earliest, end)."""
        newest_of: dict[str, Snapshot] = {}
        for snapshot_id in range(earliest, end):
            snapshot = self._snapshot(snapshot_id)
            if snapshot is not None and snapshot.commit_identifier != BATCH_IDENTIFIER:
                newest_of[snapshot.commit_user] = snapshot
        newest = self.history.latest_id() or 0
        for snapshot_id in range(newest, end - 1, -1):
            if not newest_of:
                break
            snapshot = self._snapshot(snapshot_id)
            if snapshot is not None:
                newest_of.pop(snapshot.commit_user, None)
        return newest_of

    def _snapshot(self, snapshot_id: int) -> Snapshot | None:
        if snapshot_id not in self._read:
            snapshot = self.history.find(snapshot_id)
            if snapshot is None:
                return None
            self._read[snapshot_id] = snapshot
        return self._read[snapshot_id]


def stale_consumers(history: History, options: Options, now: int) -> tuple[str, ...]:
    """The files of consumers that have not moved for `consumer.expiration-time`; `now` in milliseconds since 1970. A
    file that was copied counts as moved, so it holds longer and never shorter."""
    longest = options[opt.CONSUMER_TIME]
    if longest is None:
        return ()
    files = [info.path for info in _consumer_files(history)]
    return tuple(older_than(history.store, files, (now - longest) / 1000))


def _consumer_files(history: History) -> list[FileInfo]:
    listing = history.store.list(f"{branch_prefix(history.branch)}consumer")
    return [info for info in listing.files if info.name.startswith("consumer-")]


def consumers(history: History, excluding: Collection[str] = ()) -> dict[str, int]:
    """The next snapshot of each consumer, by its name, without the consumer files at the paths `excluding`.
    CorruptError for a file that does not name it."""
    following: dict[str, int] = {}
    for info in _consumer_files(history):
        if info.path not in excluding:
            try:
                next_snapshot = json.loads(history.store.read(info.path))["nextSnapshot"]
                following[info.name.removeprefix("consumer-")] = int(next_snapshot)
            except (ValueError, KeyError, TypeError, StorageError) as error:
                raise CorruptError(
                    "a consumer file does not name the next snapshot",
                    table=history.store.location,
                    file=info.path,
                    why=str(error),
                    todo="Remove it when nobody reads as this consumer any more",
                ) from error
            except FileNotFoundError:
                continue
    return following
