"""One instant of a writer: requested, inflight, completed, or rolled back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.codec.commit_metadata import FileStat, encode_commit
from lakebed.formats.hudi.commit.conflicts import changed_groups
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.exclusive import exclusive
from lakebed.formats.hudi.commit.markers import DirectMarkers, remove_markers
from lakebed.formats.hudi.commit.restore import end_restores
from lakebed.formats.hudi.commit.rollback import cut_off_rollbacks, planned_rollback, roll_back, roll_back_failed
from lakebed.formats.hudi.metadata_table.change import MetadataChange, WrittenFile
from lakebed.formats.hudi.metadata_table.update import update
from lakebed.formats.hudi.timeline.active import Entry
from lakebed.formats.hudi.timeline.pending_services import pending_services
from lakebed.formats.hudi.timeline.writing import (
    complete,
    inflight,
    new_instant,
    request,
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A completed instant, and notes for whoever wrote."""

    instant: str
    notes: tuple[str, ...] = ()


class Transaction:
    """One instant, from its request on."""

    def __init__(
        self,
        context: WriteContext,
        action: str,
        operation: str,
        instant: str,
        seen: frozenset[str] | None = None,
        pending: frozenset[str] = frozenset(),
    ) -> None:
        self._seen, self._pending = seen, pending
        self.context, self.action, self.operation, self.instant = context, action, operation, instant
        self.markers = DirectMarkers(context.store, instant)

    @classmethod
    def begin(
        cls, context: WriteContext, action: str, operation: str, *, plan: bytes = b"", instant: str | None = None
    ) -> Transaction:
        """Request a new instant. Failed writes are taken back first, and rollbacks and restores that were cut off
        carried on."""
        with exclusive(context.store) as held:
            end_restores(context, held)
            roll_back_failed(context, held)
            timeline = context.timeline()
            instant = instant or new_instant(context.config, timeline)
            held()
            request(context.store, context.config, instant, action, plan)
        seen = frozenset(entry.time for entry in timeline.commits)
        return cls(context, action, operation, instant, seen, frozenset(entry.time for entry in timeline.pending))

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
        with exclusive(self.context.store):
            if self._entry() is None:  # the inflight file alone would bring back what another writer took back
                raise self._conflict("another writer took this write back")
            inflight(self.context.store, self.context.config, self.instant, self.action, content)

    def commit(
        self,
        written: Sequence[WrittenFile],
        *,
        schema: str,
        replaced: Mapping[str, tuple[str, ...]] = {},
        extra: Mapping[str, str] = {},
        change: MetadataChange | None = None,
        check: Callable[[], None] | None = None,
    ) -> Committed:
        """Complete the instant. `check` may raise a CommitConflictError: nothing else completes meanwhile."""
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
        with exclusive(context.store) as held:
            self._check(written, replaced)
            if check is not None:
                check()
            notes = update(
                context,
                self.instant,
                change or MetadataChange(self.action, tuple(written), replaced=replaced, schema=schema),
            )
            completed = new_instant(config, context.timeline(), self.instant)
            held()
            complete(context.store, config, self.instant, completed, self.action, data)
        remove_markers(context.store, self.instant)
        return Committed(self.instant, notes)

    def abort(self) -> None:
        """Take the instant back: its files go, and it leaves the timeline with a rollback that says so.

        CommitConflictError where another writer has done that: whatever went wrong, went wrong for it.
        """
        with exclusive(self.context.store):
            entry = self._entry()
            if entry is not None:
                if not entry.done:
                    roll_back(self.context, entry)
                return
            # Another writer took it back, perhaps before the last files were made.
            self.context.store.delete_many(self.markers.noted)
            remove_markers(self.context.store, self.instant)
        raise self._conflict("another writer took this write back")

    def _entry(self) -> Entry | None:
        return self.context.timeline().by_time.get(self.instant)

    def _check(self, written: Sequence[WrittenFile], replaced: Mapping[str, tuple[str, ...]]) -> None:
        """CommitConflictError where another writer has taken the instant back, or has changed the same file groups
        since it was requested."""
        timeline = self.context.timeline()
        entry = timeline.by_time.get(self.instant)
        begun = (planned_rollback(self.context, other).instant_to_rollback for other in cut_off_rollbacks(timeline))
        undone = any(info is not None and info.commit_time == self.instant for info in begun)
        if undone or entry is None or entry.state != "inflight":
            raise self._conflict("another writer took this write back")
        if self._seen is None:
            return
        groups = {(file.partition, file.file_id) for file in written}
        groups |= {(partition, file_id) for partition, ids in replaced.items() for file_id in ids}
        others = [each for each in timeline.commits if each.time not in self._seen]
        for time, changed in changed_groups(self.context, others).items():
            if groups & changed:
                raise self._conflict(f"the commit {time} changed the same file groups")
        services = pending_services(self.context.store, timeline)
        # Logs that complete after a compaction was planned are of the next slice, where completion times decide that.
        stays = self.context.config.completion_times
        based = {(f.partition, f.file_id) for f in written if not (stays and f.is_log)} | (
            groups - {(f.partition, f.file_id) for f in written}
        )
        for taken, mine in (
            (services.clustering, groups),
            (services.compacting, based),
            (services.log_compacting, based),
        ):
            for group in mine & taken.keys():
                if taken[group] not in self._pending:
                    raise self._conflict(f"the table service {taken[group]} was planned for the same file groups")

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(
            what,
            table=self.context.store.location,
            instant=self.instant,
            why="nothing of this write is visible",
            todo="Write again; hoodie.write.num.retries.on.conflict.failures does so by itself",
        )
