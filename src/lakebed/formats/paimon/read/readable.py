"""The snapshots whose changes can still be read: those of the history, and expired ones whose changelog was kept.

Rules: Paimon's NextSnapshotFetcher and ChangelogManager. A table whose changelogs outlive its snapshots
(`changelog.num-retained.*`, `changelog.time-retained`) keeps a copy of an expired snapshot as `changelog/changelog-N`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json
from lakebed.formats.paimon.layout import branch_prefix, changelog_path, numbered
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.decoding import decoding


@dataclass(frozen=True, slots=True)
class ReadableSnapshots:
    """Reads the snapshots of a branch, and those of which only the changelog is left."""

    history: History

    def all_of(self, ids: Sequence[int]) -> list[Snapshot]:
        """Every snapshot of these ids. DataCleanedError names what can still be read when one is gone."""
        readable = [*self.history.find_many(ids)]
        missing = [place for place, snapshot in enumerate(readable) if snapshot is None]
        if missing:
            kept = self.history.store.together(self._changelog, [ids[place] for place in missing])
            for place, snapshot in zip(missing, kept, strict=True):
                readable[place] = snapshot
        snapshots = [snapshot for snapshot in readable if snapshot is not None]
        if len(snapshots) < len(readable):
            raise self.gone(next(number for number, one in zip(ids, readable, strict=True) if one is None))
        return snapshots

    def oldest(self) -> int | None:
        """The oldest id that can be read, None for a table without snapshots."""
        kept = self._changelog_ids()
        if kept:
            return kept[0]
        oldest = self.history.earliest()
        return None if oldest is None else oldest.id

    def gone(self, snapshot_id: int) -> DataCleanedError:
        """The error for a snapshot that is no longer there."""
        ids = sorted({*self.history.snapshot_ids(), *self._changelog_ids()})
        return DataCleanedError(
            f"snapshot {snapshot_id} has expired before its changes were read",
            table=self.history.store.location,
            instant=str(snapshot_id),
            why=f"snapshots {ids[0]} to {ids[-1]} can still be read" if ids else "no snapshot can be read any more",
            todo="Start again from one of them, and keep snapshots longer, or give the stream a consumer-id, which "
            "holds them",
        )

    def _changelog_ids(self) -> list[int]:
        return numbered(self.history.store.list(f"{branch_prefix(self.history.branch)}changelog").names, "changelog")

    def _changelog(self, snapshot_id: int) -> Snapshot | None:
        store, path = self.history.store, changelog_path(self.history.branch, snapshot_id)
        try:
            data = store.read(path)
        except FileNotFoundError:
            return None
        with decoding("a changelog cannot be read", table=store.location, file=path):
            return snapshot_from_json(data)
