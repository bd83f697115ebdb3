"""What is committed, as of when: the schemas, snapshots and tags of one branch of a table.

Rules: Paimon's SnapshotManager, SchemaManager and TagManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Protocol

from lakebed.errors import CorruptError, NotInHistoryError, RetryableError, TableNotFoundError
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema, schema_from_json
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json
from lakebed.formats.paimon.instants import iso_time, milliseconds
from lakebed.formats.paimon.layout import MAIN_BRANCH, TableName, branch_prefix, named, numbered, schema_path, tag_path
from lakebed.formats.paimon.snapshot_files import EARLIEST, LATEST, SnapshotFiles
from lakebed.kernel.again import LOOKS
from lakebed.kernel.decoding import RESTORE, decoding
from lakebed.kernel.files import Listing, PutOutcome, Store
from lakebed.kernel.options import is_number
from lakebed.model.instant import Instant

_COMMITTED = 64
"""So many snapshots are remembered as committed."""
_LOOKS_AT_ONCE = 15
"""The most snapshots that are read at once in the search for a time."""

Position = str | int | Instant | None


class Publisher(Protocol):
    """What commits a snapshot in place of the table's folder: a catalog. Picklable."""

    def __call__(
        self, branch: str, snapshot: Snapshot, entries: Sequence[ManifestEntry], schema: TableSchema
    ) -> PutOutcome:
        """Commit a snapshot, whose manifests are written, if its id is free. `entries` are those of its delta."""
        ...


class Reporter(Protocol):
    """Tells a catalog about a committed snapshot. Picklable."""

    def __call__(self, entries: Sequence[ManifestEntry], schema: TableSchema) -> None:
        """Report the entries of a snapshot's delta."""
        ...

    def dropped(self, partitions: Iterable[bytes], schema: TableSchema) -> None:
        """Report partitions that are in no branch any more."""
        ...


Lock = Callable[[], AbstractContextManager[None]]
"""Takes a catalog's lock of the table, and gives it back. Picklable. NotWrittenError when it is not granted."""


class History:
    """The schemas, snapshots and tags of a branch.

    Schemas never change, so they are kept once read. Everything else is read again by each call. What is known of the
    newest snapshot's id only says where to look first.
    """

    def __init__(self, store: Store, branch: str = MAIN_BRANCH) -> None:
        self.store, self.branch = store, branch
        self.name = TableName.of_folder(store.location)
        self.publisher: Publisher | None = None
        self.lock: Lock = nullcontext
        self.reporter: Reporter | None = None
        self._schemas: dict[int, TableSchema] = {}
        self._expected: int | None = None
        self._committed: tuple[str, ...] = ()
        self.removed: int | None = None
        """The snapshot that LATEST named when `latest` looked last, where it is not there and no later one is."""
        self._files = SnapshotFiles(store, branch)

    def on_branch(self, branch: str) -> History:
        """The history of another branch."""
        other = History(self.store, branch)
        other.publisher, other.lock, other.reporter = self.publisher, self.lock, self.reporter
        other.name = self.name
        return other

    # ---- schemas ----

    def schema(self, schema_id: int) -> TableSchema:
        """One version of the schema. Raises CorruptError when its file is missing."""
        if schema_id not in self._schemas:
            path = schema_path(self.branch, schema_id)
            try:
                with decoding("a schema file cannot be read", table=self.store.location, file=path):
                    self._schemas[schema_id] = schema_from_json(self.store.read(path))
            except FileNotFoundError as error:
                raise CorruptError("a schema file is missing", table=self.store.location, file=path) from error
        return self._schemas[schema_id]

    def read_schemas(self, ids: Iterable[int]) -> None:
        """Read several versions of the schema together, for `schema`."""
        self.store.together(self.schema, [number for number in ids if number not in self._schemas])

    def schema_ids(self) -> list[int]:
        """All schema ids, ascending."""
        return self._numbers("schema")

    def latest_schema(self, listing: Listing | None = None) -> TableSchema:
        """The newest schema; `listing` is that of its folder, where the caller has it.

        Raises TableNotFoundError when there is none, as for a branch that does not exist.
        """
        ids = self.schema_ids() if listing is None else numbered(listing.names, "schema")
        if not ids:
            where = "" if self.branch == MAIN_BRANCH else f" branch {self.branch!r} of this"
            raise TableNotFoundError(
                f"there is no{where} table",
                table=self.store.location,
                why="it has no schema file",
                todo=f"Branches: {', '.join(self.branches()) or 'none'}" if where else "",
            )
        return self.schema(ids[-1])

    def schema_and_hints(self, earliest: bool = True) -> TableSchema:
        """The newest schema. A remote store is asked for the hint LATEST at the same time, and for EARLIEST unless
        that is not needed. The next `latest` and `earliest` begin there."""
        if self.store.at_once == 1:
            return self.latest_schema()
        hints = (LATEST, EARLIEST) if earliest else (LATEST,)
        looks: list[Callable[[], Any]] = [partial(self.store.list, f"{branch_prefix(self.branch)}schema")]
        looks += [partial(self._files.read_hint, name) for name in hints]
        if self._expected is not None:
            looks.append(partial(self._read_if_there, self._expected))
            self._expected = None
        return self.latest_schema(self.store.together(lambda look: look(), looks)[0])

    def forget_schemas(self) -> None:
        """Read the schemas again, since the table may have been dropped and made again since they were read. A remote
        store is asked for the newest one that was known while it lists them."""
        self._expected = max(self._schemas, default=None)
        self._schemas.clear()

    def _read_if_there(self, schema_id: int) -> None:
        with suppress(CorruptError):  # the listing decides
            self.schema(schema_id)

    def branches(self) -> list[str]:
        """The names of all branches but main."""
        return named(self.store.list("branch").folders, "branch")

    # ---- snapshots ----

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """One snapshot. Raises NotInHistoryError when it is not in the history."""
        snapshot = self.find(snapshot_id)
        if snapshot is None:
            ids = self.snapshot_ids()
            span = f"Snapshots: {ids[0]} to {ids[-1]}" if ids else "The table has no snapshot yet"
            raise NotInHistoryError(
                f"snapshot {snapshot_id} is not in the history",
                table=self.store.location,
                instant=str(snapshot_id),
                todo=span,
            )
        return snapshot

    def find(self, snapshot_id: int) -> Snapshot | None:
        """One snapshot, None when it is not there."""
        return self._files.find(snapshot_id)

    def snapshot_ids(self) -> list[int]:
        """All snapshot ids, ascending."""
        return self._numbers("snapshot")

    def latest_id(self) -> int | None:
        """The id of the newest snapshot, None for a table without one."""
        latest = self.latest()
        return latest.id if latest is not None else None

    def latest(self) -> Snapshot | None:
        """The newest snapshot, None for a table without one. `removed` says whether a later one was taken away."""
        self.removed = None
        for _ in range(LOOKS):
            snapshot, ids = self._newest_and_ids()
            if snapshot is not None:
                return snapshot
            self._files.seemed_empty = not ids
            snapshot = self.find(ids[-1]) if ids else None
            if not ids or snapshot is not None:
                newest = ids[-1] if ids else 0
                self.removed = self.removed_after(newest) if self._files.said_later(newest) else None
                return snapshot  # otherwise it expired or was rolled back in between
        raise self._expiring()

    def removed_after(self, newest: int) -> int | None:
        """The snapshot that LATEST names, where it is later than the newest one and not there: its file was removed."""
        return self._files.names_later(newest)

    def latest_now(self) -> Snapshot | None:
        """As `latest`, when hints that were read ahead may be old by now."""
        self._files.forget_hint()
        return self.latest()

    def _newest_and_ids(self) -> tuple[Snapshot | None, Sequence[int]]:
        """The newest snapshot by the hints; where they lead to none, the ids of all, for which the folder is listed.
        Of a table that seemed empty a remote store is asked for both at once."""
        if not self._files.seemed_empty:
            snapshot = self._files.newest()
            return snapshot, () if snapshot is not None else self.snapshot_ids()
        looks: tuple[Callable[[], Any], ...] = self._files.newest, self.snapshot_ids
        snapshot, ids = self.store.together(lambda look: look(), looks)
        return snapshot, ids

    @property
    def seemed_empty(self) -> bool:
        """Whether no snapshot was there at the last look."""
        return self._files.seemed_empty

    def committed(self, snapshot: Snapshot) -> None:
        """Remember a snapshot that was committed: `latest` begins there."""
        self._files.was_seen(snapshot.id)
        self._committed = (*self._committed[1 - _COMMITTED :], snapshot.delta_manifest_list)

    def has_committed(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is one of the last that were passed to `committed`."""
        return snapshot.delta_manifest_list in self._committed

    def earliest(self) -> Snapshot | None:
        """The oldest snapshot, None for a table without one."""
        hint = self._files.earliest_hint()
        snapshot = self.find(hint) if hint is not None else None
        for _ in range(LOOKS):
            if snapshot is not None:
                return snapshot
            ids = self.snapshot_ids()
            if not ids:
                return None
            snapshot = self.find(ids[0])
        raise self._expiring()

    def ends(self) -> tuple[Snapshot, Snapshot] | None:
        """The oldest and the newest snapshot, which are looked for together; None for a table without one."""
        looks = self.earliest, self.latest
        earliest, latest = self.store.together(lambda look: look(), looks)
        return None if earliest is None or latest is None else (earliest, latest)

    def find_many(self, ids: Iterable[int]) -> Sequence[Snapshot | None]:
        """As `find`, for several snapshots, which are read together."""
        return self.store.together(self.find, ids)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, oldest first. A snapshot that expires during the call is left out."""
        for _ in range(LOOKS):
            ids = self.snapshot_ids()
            snapshots = [snapshot for snapshot in self.find_many(ids) if snapshot is not None]
            if not ids or (snapshots and snapshots[-1].id == ids[-1]):
                return snapshots  # otherwise there are newer ones, since the newest never expires
        raise self._expiring()

    def backwards(self, until: int = 0, newest: Snapshot | None = None) -> Iterator[Snapshot]:
        """The existing snapshots with an id above `until`, from `newest` (None: from the newest of all), newest
        first."""
        newest = newest or self.latest()
        if newest is None or newest.id <= until:
            return
        yield newest
        for snapshot_id, snapshot in self._files.in_waves(range(newest.id - 1, until, -1)):
            if snapshot is None:  # it expired, and only a listing shows whether older ones exist
                older = [number for number in self.snapshot_ids() if until < number < snapshot_id]
                yield from (each for _, each in self._files.in_waves(older[::-1]) if each is not None)
                return
            yield snapshot

    def since(self, after: int, newest: Snapshot | None) -> Iterator[Snapshot]:
        """Every snapshot from `newest` (None: the table has none) down to those with an id above `after`, without gaps.

        Raises NotInHistoryError when one of them is gone, or when the newest is older than `after`, since the table was
        rolled back.
        """
        if newest is not None and newest.id > after:
            yield newest
            for snapshot_id, snapshot in self._files.in_waves(range(newest.id - 1, after, -1)):
                if snapshot is None:
                    raise NotInHistoryError(
                        f"snapshot {snapshot_id} is not in the history",
                        table=self.store.location,
                        instant=str(snapshot_id),
                        why="it has expired, or the table was rolled back",
                    )
                yield snapshot
        newest_id = newest.id if newest is not None else 0
        if newest_id < after:
            raise NotInHistoryError(
                f"snapshot {after} is not in the history",
                table=self.store.location,
                instant=str(after),
                why=f"the newest is {newest_id}, so the table was rolled back",
            )

    def at(self, position: Position) -> Snapshot | None:
        """The snapshot at a position. The position None is the newest snapshot; None is returned for an empty table.

        A time means the newest snapshot that was made at or before it. Raises NotInHistoryError when there is no such
        snapshot.
        """
        if position is None:
            return self.latest()
        if isinstance(position, Instant):
            position = position.time
        if isinstance(position, str) and position.startswith("tag:"):
            return self.tag(position.removeprefix("tag:"))
        if isinstance(position, str) and not is_number(position.removeprefix("-")):
            return self.at_text(position)
        return self.snapshot(int(position))

    def at_time(self, millis: int) -> Snapshot:
        """The newest snapshot made at or before a time in milliseconds since 1970.

        Raises NotInHistoryError when all are newer.
        """
        for _ in range(LOOKS):
            ids = self.snapshot_ids()
            visited: dict[int, Snapshot] = {}
            low, high = 0, len(ids)
            while low < high:  # times grow with ids
                parts = min(self.store.at_once, _LOOKS_AT_ONCE) + 1
                places = sorted({low + (high - low) * part // parts for part in range(1, parts)})
                seen = [snapshot for snapshot in self.find_many(ids[place] for place in places) if snapshot]
                if len(seen) < len(places):
                    break
                visited.update(zip(places, seen, strict=True))
                older = [place for place in places if visited[place].time_millis <= millis]
                low = older[-1] + 1 if older else low
                high = min((place for place in places if place >= low), default=high)
            if low < high:
                continue  # a snapshot expired meanwhile
            if low:
                return visited[low - 1]
            oldest = f"The oldest is {iso_time(visited[0].time_millis)}" if ids else "The table has no snapshot yet"
            raise NotInHistoryError(
                "no snapshot is that old", table=self.store.location, instant=iso_time(millis), todo=oldest
            )
        raise self._expiring()

    def at_text(self, moment: str) -> Snapshot:
        """As `at_time`, for an ISO timestamp. It is in UTC unless it has an offset."""
        return self.at_time(milliseconds(moment, self.store.location))

    # ---- tags ----

    def tag(self, name: str) -> Snapshot:
        """The snapshot that a tag names. NotInHistoryError when there is no such tag, CorruptError when it cannot be
        read: which files it holds is not known then, so nothing expires, as in Paimon's TagManager."""
        path = tag_path(self.branch, name)
        todo = f"{RESTORE}, or delete tag {name!r}: while it is there, its files cannot be told from others"
        try:
            with decoding("a tag cannot be read", table=self.store.location, file=path, todo=todo):
                return snapshot_from_json(self.store.read(path))
        except FileNotFoundError as error:
            raise NotInHistoryError(
                f"there is no tag {name!r}",
                table=self.store.location,
                instant=f"tag:{name}",
                todo=f"Tags: {', '.join(self.tags()) or 'none'}",
            ) from error

    def tagged(self) -> dict[str, Snapshot]:
        """The snapshots of all tags by name. Raises NotInHistoryError for a tag that goes meanwhile."""
        names = self.tags()
        return dict(zip(names, self.store.together(self.tag, names), strict=True))

    def tags(self) -> list[str]:
        """The names of all tags."""
        return named(self.store.list(f"{branch_prefix(self.branch)}tag").names, "tag")

    # ---- helpers ----

    def _numbers(self, kind: str) -> list[int]:
        return numbered(self.store.list(f"{branch_prefix(self.branch)}{kind}").names, kind)

    def _expiring(self) -> RetryableError:
        return RetryableError(
            "snapshots expire faster than lakebed can read them", table=self.store.location, todo="Try again"
        )
