"""Which snapshots may go, and what keeps the others.

Rules: Paimon's ExpireSnapshotsImpl.expire. The oldest snapshots go, without a gap: those beyond
`snapshot.num-retained.max` at once, others once they are older than `snapshot.time-retained`, never one of the newest
`snapshot.num-retained.min`, none that a consumer still has to read (ConsumerManager.expire: until it is
`consumer.expiration-time` old), `snapshot.expire.limit` of them at a time. Beyond
that, the newest snapshot of each live stream stays, for a replayed batch is known by it, and so do snapshots that a
callback was not called for yet.
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
    """What keeps the snapshots from `first` on. With a `remedy` it is no rule of the
    retention, and that frees it."""

    first: int
    reason: str
    remedy: str = ""

    @property
    def skipped(self) -> Skipped:
        """As an entry of a result."""
        return Skipped(f"snapshots from {self.first} on", self.reason)


@dataclass(frozen=True, slots=True)
class Retention:
    """`[earliest, end)` may go; `holds` say what keeps the rest."""

    earliest: int
    end: int
    holds: tuple[Hold, ...] = ()


@dataclass(slots=True)
class RetentionPlanner:
    """Looks at the history of one branch; snapshots looked at once are not read again."""

    history: History
    options: Options
    _known: dict[int, Snapshot] = field(default_factory=dict)

    def plan(self, now: int) -> Retention | None:
        """What may go at a time in milliseconds since 1970; None for a table without snapshots.

        Raises OptionError for a `snapshot.num-retained.min` above the `max`.
        """
        latest, earliest = self.history.latest_id(), self.history.earliest_id()
        if latest is None or earliest is None:
            return None
        least, most = self.options[opt.SNAPSHOTS_MIN], self.options[opt.SNAPSHOTS_MAX]
        if most is not None and most < least:
            raise opt.refuse(opt.SNAPSHOTS_MAX, most, f"{opt.SNAPSHOTS_MIN.key} is {least}")
        begin = max(latest - most + 1, earliest) if most is not None else earliest
        end, holds = (
            latest - least + 1,
            [Hold(max(latest - least + 1, earliest), f"{opt.SNAPSHOTS_MIN.key} is {least}")],
        )
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
        if end <= earliest:
            return
        most = self.options[opt.EXPIRE_LIMIT]
        if earliest + most < end:
            yield earliest + most, Hold(earliest + most, f"{opt.EXPIRE_LIMIT.key} is {most}")
        stale = stale_consumers(self.history, self.options, now)
        for name, following in consumers(self.history, stale).items():
            if following < end:
                remedy = f"Let it read on, or remove consumer/consumer-{name} when nobody reads as it any more"
                yield following, Hold(following, f"consumer {name!r} has still to read them", remedy)
        for user, newest in self._stream_users(earliest, end).items():
            if now - newest.time_millis < self.options[opt.OWED_TIME]:
                why = f"the newest of the stream {user}, whose replays are known by it ({opt.OWED_TIME.key})"
                yield newest.id, Hold(newest.id, why, f"Start the stream again, or lower {opt.OWED_TIME.key}")
        for name, seen in ledgers(self.history.store).items():
            owed = self._snapshot(max(seen + 1, earliest)) if seen + 1 < end else None
            if owed is not None and now - owed.time_millis < self.options[opt.OWED_TIME]:
                why = f"callback {name} was not called for them yet ({opt.OWED_TIME.key})"
                remedy = f"Commit with the callback, or remove .lakebed/callbacks/{name} when it is not in use any more"
                yield owed.id, Hold(owed.id, why, remedy)

    def _stream_users(self, earliest: int, end: int) -> dict[str, Snapshot]:
        """The streams whose newest snapshot is in [earliest, end)."""
        found: dict[str, Snapshot] = {}
        for snapshot_id in range(earliest, end):
            snapshot = self._snapshot(snapshot_id)
            if snapshot is not None and snapshot.commit_identifier != BATCH_IDENTIFIER:
                found[snapshot.commit_user] = snapshot
        newest = self.history.latest_id() or 0
        for snapshot_id in range(newest, end - 1, -1):
            if not found:
                break
            snapshot = self._snapshot(snapshot_id)
            if snapshot is not None:
                found.pop(snapshot.commit_user, None)
        return found

    def _snapshot(self, snapshot_id: int) -> Snapshot | None:
        if snapshot_id not in self._known:
            found = self.history.find(snapshot_id)
            if found is None:
                return None
            self._known[snapshot_id] = found
        return self._known[snapshot_id]


def stale_consumers(history: History, options: Options, now: int) -> tuple[str, ...]:
    """The files of consumers that did not move for `consumer.expiration-time`. A file that was copied counts as moved:
    it holds longer, not shorter."""
    longest = options[opt.CONSUMER_TIME]
    if longest is None:
        return ()
    files = [info.path for info in _consumer_files(history)]
    return tuple(older_than(history.store, files, (now - longest) / 1000))


def _consumer_files(history: History) -> list[FileInfo]:
    listing = history.store.list(f"{branch_prefix(history.branch)}consumer")
    return [info for info in listing.files if info.name.startswith("consumer-")]


def consumers(history: History, without: Collection[str] = ()) -> dict[str, int]:
    """The next snapshot that each consumer reads, but those of some files. CorruptError for a consumer file that does
    not say."""
    found: dict[str, int] = {}
    for info in _consumer_files(history):
        if info.path not in without:
            try:
                found[info.name.removeprefix("consumer-")] = int(
                    json.loads(history.store.read(info.path))["nextSnapshot"]
                )
            except (ValueError, KeyError, TypeError, StorageError) as error:
                raise CorruptError(
                    "a consumer file does not say where the consumer is", table=history.store.location, file=info.path,
                    why=str(error), todo="Remove it when nobody reads as this consumer any more",
                ) from error  # fmt: skip
            except FileNotFoundError:
                continue
    return found
