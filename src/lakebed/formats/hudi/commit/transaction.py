"""One instant of a writer: requested, inflight, completed, or rolled back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakebed.errors import CommitConflictError, LakebedError
from lakebed.formats.hudi.codec.commit_metadata import FileStat, encode_commit
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.markers import DirectMarkers, marker_folder
from lakebed.formats.hudi.commit.rollback import roll_back, roll_back_failed
from lakebed.formats.hudi.metadata_table.change import MetadataChange, WrittenFile
from lakebed.formats.hudi.metadata_table.update import update
from lakebed.formats.hudi.timeline.active import Entry
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

    def __init__(self, context: WriteContext, action: str, operation: str, instant: str) -> None:
        self.context, self.action, self.operation, self.instant = context, action, operation, instant
        self.markers = DirectMarkers(context.store, instant)

    @classmethod
    def begin(
        cls, context: WriteContext, action: str, operation: str, *, plan: bytes = b"", instant: str | None = None
    ) -> Transaction:
        """Request a new instant. Failed writes are taken back first, and rollbacks that were cut off carried on."""
        roll_back_failed(context)
        instant = instant or new_instant(context.config, context.timeline())
        request(context.store, context.config, instant, action, plan)
        return cls(context, action, operation, instant)

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
        inflight(self.context.store, self.context.config, self.instant, self.action, content)

    def commit(
        self,
        written: Sequence[WrittenFile],
        *,
        schema: str,
        replaced: Mapping[str, tuple[str, ...]] = {},
        extra: Mapping[str, str] = {},
        change: MetadataChange | None = None,
    ) -> Committed:
        """Complete the instant."""
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
        self._check_still_there()
        notes = update(
            context,
            self.instant,
            change or MetadataChange(self.action, tuple(written), replaced=replaced, schema=schema),
        )
        completed = new_instant(config, context.timeline(), self.instant)
        complete(context.store, config, self.instant, completed, self.action, data)
        with suppress(LakebedError, OSError):
            context.store.delete_folder(marker_folder(self.instant))
        return Committed(self.instant, notes)

    def abort(self) -> None:
        """Take the instant back: its files go, and it leaves the timeline with a rollback that says so."""
        entry = self._entry()
        if entry is not None and not entry.done:
            roll_back(self.context, entry)

    def _entry(self) -> Entry | None:
        return self.context.timeline().by_time.get(self.instant)

    def _check_still_there(self) -> None:
        """CommitConflictError where another writer has taken the instant back."""
        entry = self._entry()
        if entry is None or entry.state != "inflight":
            raise CommitConflictError(
                "another writer took this write back",
                table=self.context.store.location,
                instant=self.instant,
                why="a single writer at a time takes every pending write for one that failed",
                todo="Write again; let writers that run at once share a lock",
            )
