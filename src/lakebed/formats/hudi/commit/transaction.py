"""One instant of a writer: requested, inflight, completed, or rolled back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError
from lakebed.formats.hudi.codec.commit_metadata import FileStat, encode_commit
from lakebed.formats.hudi.codec.metadata import SERVICE_OPERATIONS
from lakebed.formats.hudi.commit.conflicts import (
    Began,
    Changed,
    conflict_at_commit,
    conflict_early,
    rollback_of,
    second_of_bucket,
    slice_gone,
)
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.exclusive import Held
from lakebed.formats.hudi.commit.heartbeat import Heartbeat, stopped
from lakebed.formats.hudi.commit.markers import DirectMarkers, remove_markers
from lakebed.formats.hudi.commit.options import FailedWrites
from lakebed.formats.hudi.commit.plan_run import PlanRun
from lakebed.formats.hudi.commit.restore import end_restores
from lakebed.formats.hudi.commit.rollback import cut_off_rollbacks, roll_back, roll_back_failed
from lakebed.formats.hudi.metadata_table.change import MetadataChange, WrittenFile
from lakebed.formats.hudi.metadata_table.update import build_from, needs_building, update, walked
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.outcomes import decide, forget_outcome
from lakebed.formats.hudi.timeline.writing import (
    complete,
    inflight,
    inflight_file,
    new_instant,
    remove_strays,
    request,
    requested_file,
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A completed instant, and notes for the writer."""

    instant: str
    notes: tuple[str, ...] = ()


class Keys(Enum):
    """Where a key that a write adds was looked for: nowhere, in its partition, or in all partitions."""

    ANY = "any"
    IN_PARTITION = "in its partition"
    IN_TABLE = "in the table"


class Transaction:
    """One instant, from its request on. One that `begin` requested has a heartbeat until it is committed or aborted."""

    def __init__(
        self,
        context: WriteContext,
        action: str,
        operation: str,
        instant: str,
        began: Began | None = None,
        heartbeat: Heartbeat | None = None,
        keys: Keys = Keys.ANY,
        timeline: Timeline | None = None,
    ) -> None:
        self._began, self._heartbeat, self._keys = began, heartbeat, keys
        self.timeline = timeline
        """As it was right before `begin` requested the instant, None for one that was taken up."""
        self._run: PlanRun | None = None
        """The claim of the plan that is run; None for an instant that `begin` requested."""
        self._sent = False
        """Whether the completed file was sent, which may land late."""
        self.context, self.action, self.operation, self.instant = context, action, operation, instant
        self.markers = DirectMarkers(context.store, instant)

    @classmethod
    def begin(
        cls,
        context: WriteContext,
        action: str,
        operation: str,
        *,
        plan: bytes = b"",
        instant: str | None = None,
        keys: Keys = Keys.ANY,
    ) -> Transaction:
        """Request a new instant. `keys` says where no other writer may have added a key that this one adds.

        Restores that were cut off are carried on first. Where failed writes are taken back eagerly, that is done
        too, and so are rollbacks that were cut off. A table that has no metadata table gets one.
        """
        walk = walked(context) if needs_building(context) else None
        rules = context.concurrency
        heartbeat = Heartbeat(context.store, rules.beat)
        with heartbeat.stopped_by_failure(), context.locked(chooses=True) as held:
            timeline = end_restores(context, context.timeline(), held)
            if rules.failed_writes is FailedWrites.EAGER:
                rolled_back = roll_back_failed(context, timeline, held)
                timeline = context.timeline() if rolled_back or cut_off_rollbacks(timeline) else timeline
            if walk is not None:
                context.config = build_from(context, timeline, *walk, held)
            instant = instant or new_instant(context.config, timeline)
            held()
            heartbeat.start(instant)
            request(context.store, context.config, instant, action, plan)
            if held.is_over:  # others may have archived, or gone back, beyond it
                context.store.delete(requested_file(context.config, instant, action))
                held()
        seen = frozenset(entry.time for entry in timeline.commits)
        began = Began(instant, seen, frozenset(entry.time for entry in timeline.pending))
        return cls(context, action, operation, instant, began, heartbeat, keys, timeline)

    @classmethod
    def take(cls, context: WriteContext, action: str, operation: str, instant: str) -> Transaction:
        """Begin to run the plan of a table service that was requested.

        CommitConflictError where another process runs it and has a heartbeat, or has ended it meanwhile. A run that
        died is begun anew.
        """
        rules = context.concurrency
        heartbeat = Heartbeat(context.store, rules.beat)
        transaction = cls(context, action, operation, instant, heartbeat=heartbeat)
        with heartbeat.stopped_by_failure(), context.locked() as held:
            entry = context.timeline().by_time.get(instant)
            if entry is None or entry.done:
                raise transaction._conflict("another process has run this plan, or withdrawn it")
            if not stopped(context.store, instant, rules.patience):
                raise transaction._conflict("another process is running this plan")
            held()
            heartbeat.start(instant)
            transaction._run = PlanRun(context.store, instant)
            transaction._run.begin()
            held()  # another process that takes the plan up from now on sees the heartbeat, or writes over our name
            timeline = context.timeline()
            remove_strays(context.store, timeline, instant)
            forget_outcome(context.store, timeline.folder, instant)
            transaction._put_inflight(b"")
            held()
        return transaction

    def check_run(self) -> None:
        """CommitConflictError where another process has taken the plan up since, because this one seemed dead. What a
        look before this call found of the instant is of earlier runs, none of which can be committed any more."""
        if self._run is None or not self._run.is_last():
            raise self._conflict("another process has taken this plan up")

    def leave(self) -> None:
        """Stop the run of a plan, which stays inflight. Another run begins it anew."""
        self._stop()

    def inflight(self, stats: Sequence[FileStat] = ()) -> None:
        """Say what is planned, before the first file is made."""
        content = (
            encode_commit(
                stats,
                version=self.context.config.version,
                operation=self.operation,
                replaced={} if self.action == "replacecommit" else None,
            )
            if stats
            else b""
        )
        if not self.context.concurrency.shared_lock:
            self._put_inflight(content)
            return
        with self.context.locked():
            if self._began is not None and self.context.concurrency.early:
                groups = frozenset((stat.partition, stat.file_id) for stat in stats if stat.file_id)
                self._refuse(conflict_early(self.context, self.context.timeline(), self._began, groups))
            self._put_inflight(content)

    def _put_inflight(self, content: bytes) -> None:
        """Put the inflight file. This needs no lock, so no other writer waits for it.

        CommitConflictError if another writer has rolled the instant back: the file is then removed again, since it
        would bring the instant back. A process that rolls the instant back from now on removes the file too.
        """
        context = self.context
        inflight(context.store, context.config, self.instant, self.action, content)
        entry = context.timeline().by_time.get(self.instant)
        if entry is None or not entry.requested:
            context.store.delete(inflight_file(context.config, self.instant, self.action))
            raise self._conflict("another writer took this write back")

    def commit(
        self,
        written: Sequence[WrittenFile],
        *,
        schema: str,
        replaced: Mapping[str, tuple[str, ...]] = {},
        extra: Mapping[str, str] = {},
        change: MetadataChange | None = None,
        check: Callable[[], None] | None = None,
        replaced_keys: Callable[[], pa.Array] | None = None,
    ) -> Committed:
        """Complete the instant. `replaced_keys` reads the keys of the `replaced` file groups. `check` may raise a
        CommitConflictError: nothing else completes meanwhile."""
        context, config = self.context, self.context.config
        stats = [
            FileStat(
                f.partition,
                f.file_id,
                f.path,
                f.size,
                f.previous,
                f.writes,
                f.inserts,
                f.updates,
                f.deletes,
                f.is_log,
                f.base,
                f.log_version,
                f.log_offset,
                f.logs,
                f.changes or None,
                f.previous_base or None,
                log_stats=f.log_stats,
            )
            for f in written
        ]
        data = encode_commit(
            stats,
            version=config.version,
            operation=self.operation,
            extra={**extra, "schema": schema},
            replaced=replaced if self.action in ("replacecommit", "clustering") else None,
        )
        with context.locked(chooses=True, completes=self.instant) as held:
            timeline = self._check(written, replaced)
            if check is not None:
                check()
            notes = update(
                context,
                self.instant,
                change
                or MetadataChange(
                    self.action,
                    tuple(written),
                    replaced=replaced,
                    schema=schema,
                    service=self.operation if self.operation in SERVICE_OPERATIONS else "",
                    replaced_keys=replaced_keys,
                ),
            )
            completed = new_instant(config, timeline, self.instant)
            held()
            self._sent = True
            complete(context.store, config, self.instant, completed, self.action, data)
            self._check_in_time(held, timeline)
        remove_markers(context.store, self.instant)
        self._stop()
        return Committed(self.instant, (*notes, *context.concurrency.notes))

    def abort(self) -> None:
        """Take the instant back: its files go, and it leaves the timeline with a rollback that says so.

        CommitConflictError where another writer has done that: whatever went wrong, went wrong for it.
        """
        try:
            with self.context.locked(chooses=True) as held:
                timeline = self.context.timeline()
                if self._sent:
                    decide(self.context.store, timeline.folder, self.instant)
                    timeline = self.context.timeline()
                entry = timeline.by_time.get(self.instant)
                if entry is not None and not rollback_of(self.context, timeline, self.instant):
                    if not entry.done:
                        held()
                        roll_back(self.context, entry, held=held)
                    return
                # Another writer takes it back, or has, perhaps before the last files were made.
                self.context.store.delete_many(self.markers.noted)
                if entry is not None:
                    raise self._conflict("another writer takes this write back")
                remove_markers(self.context.store, self.instant)
        finally:
            self._stop()
        raise self._conflict("another writer took this write back")

    def _stop(self) -> None:
        run, self._run = self._run, None
        try:
            if run is not None:
                run.end()
        finally:
            if self._heartbeat is not None:
                self._heartbeat.stop()

    def _check(self, written: Sequence[WrittenFile], replaced: Mapping[str, tuple[str, ...]]) -> Timeline:
        """The timeline now. CommitConflictError where another writer has taken the instant back, or has changed the
        same file groups since it was requested."""
        timeline = self.context.timeline()
        entry = timeline.by_time.get(self.instant)
        undone = rollback_of(self.context, timeline, self.instant)
        if undone or entry is None or entry.state != "inflight":
            raise self._conflict("another writer took this write back")
        if self._began is None:
            self.check_run()
            return timeline
        if not self.context.config.completion_times:
            self._refuse(slice_gone(timeline, self.instant, [file.name for file in written if file.is_log]))
        files = frozenset((file.partition, file.file_id) for file in written)
        gone = frozenset((partition, file_id) for partition, ids in replaced.items() for file_id in ids)
        if self.context.concurrency.non_blocking and not gone and all(file.is_log for file in written):
            self._refuse(second_of_bucket(self.context, timeline, self._began, files))
            return timeline
        based = frozenset((f.partition, f.file_id) for f in written if not f.is_log) | (gone - files)
        mine = Changed(files | gone, based, self._closed(written, replaced), self._routed(written))
        self._refuse(conflict_at_commit(self.context, timeline, self._began, mine))
        return timeline

    def _check_in_time(self, held: Held, before: Timeline) -> None:
        """Check whether the instant still counts, if the put that completed it took longer than the lock may be held.

        CommitConflictError if another writer has withdrawn it: nothing of it is visible. CommitUnknownError if that
        can't be told, or if writers that do not know lakebed's lock may have left out its rows.
        """
        context = self.context
        if held.is_over:
            try:
                with held.going_on():
                    timeline = context.timeline()
            except (LakebedError, OSError) as error:
                raise self._unsure("it is not known whether the commit stands") from error
            entry = timeline.by_time.get(self.instant)
            if entry is None or not entry.done:
                raise self._conflict("the commit came too late: another writer has taken it back")
        if held.shared is not None:
            try:
                held.shared()
            except CommitConflictError:
                if self._others(before):
                    what = "the commit was made, but too late: others did not see it, and may have left out its rows"
                    raise self._unsure(what) from None

    def _others(self, before: Timeline) -> bool:
        """Whether others have changed the timeline since. Where the store does not tell, they may have."""
        known = {(entry.time, entry.action, entry.state) for entry in before.entries}
        try:
            now = self.context.timeline()
        except (LakebedError, OSError):
            return True
        return any(e.time != self.instant and (e.time, e.action, e.state) not in known for e in now.entries)

    def _unsure(self, what: str) -> CommitUnknownError:
        return CommitUnknownError(
            what,
            table=self.context.store.location,
            instant=self.instant,
            why="the store took longer to complete the instant than a writer may hold the lock",
            todo="Read the rows of this write, and write those again that are not there",
        )

    def _closed(self, written: Sequence[WrittenFile], replaced: Mapping[str, tuple[str, ...]]) -> frozenset[str] | None:
        if not self.context.concurrency.alone:
            return frozenset()
        if self.operation == "INSERT_OVERWRITE_TABLE":
            return None
        if self.action == "replacecommit":
            return frozenset(replaced) | frozenset(file.partition for file in written)
        added = frozenset(file.partition for file in written if file.inserts)
        if self._keys is Keys.IN_TABLE:
            return None if added else frozenset()
        return added if self._keys is Keys.IN_PARTITION else frozenset()

    def _routed(self, written: Sequence[WrittenFile]) -> frozenset[str] | None:
        if not self.context.concurrency.alone or self._keys is Keys.ANY:
            return frozenset()
        return None if self._keys is Keys.IN_TABLE else frozenset(file.partition for file in written if file.is_log)

    def _refuse(self, conflict: str) -> None:
        if conflict:
            raise self._conflict(conflict)

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(
            what,
            table=self.context.store.location,
            instant=self.instant,
            why="nothing of this write is visible",
            todo="Write again; hoodie.write.num.retries.on.conflict.failures does so by itself",
        )
