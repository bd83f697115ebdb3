"""What may not happen between the plan of a commit and its snapshot.

Rules: Paimon's FileStoreCommitImpl.noConflictsOrFail. COMPACT and OVERWRITE are always checked against the live files,
APPEND when asked to. Other checks look at the snapshots that came meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np

from lakebed.errors import CommitConflictError, DataCleanedError, NotInHistoryError, counted
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import ADD, DELETION_VECTORS, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.kinds import WRITES, AssignmentBase, Changes, NewSnapshot
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.overwrite import ReplacedPartitions
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.manifests import delta_list, entries_of, manifest_metas
from lakebed.formats.paimon.snapshot import History


def check_meanwhile(history: History, new: NewSnapshot, latest: Snapshot | None) -> None:
    """Raise CommitConflictError if a newer snapshot conflicts, or can no longer be seen."""
    if new.assigned_on is not None:
        _check_assignment(history, new, new.assigned_on, latest)
    if new.rows_since is not None and latest is not None:
        for snapshot in _since(history, new.rows_since, latest, "the rows with these ids were read"):
            check_rows(_delta(history, snapshot), new.changes.entries, snapshot.id, history.store.location)
    if new.last_safe is not None and new.last_safe >= 0:
        _check_strictly(history, new, new.last_safe, latest)


def check_conflicts(
    live: Sequence[ManifestEntry], ours: Sequence[ManifestEntry], kind: CommitKind, schema: TableSchema, table: str
) -> None:
    """Raise CommitConflictError unless `ours` can follow the `live` files of the partitions it touches.

    Of many live files, only those that `ours` names become values.
    """
    named = live.named({entry.file.file_name for entry in ours}) if isinstance(live, Entries) else live
    state = {entry.identity: entry for entry in named}
    for entry in ours:
        if entry.kind == ADD:
            if entry.identity in state:
                raise _conflict(f"the file {entry.file.file_name} is in the table already", table)
        elif state.pop(entry.identity, None) is None:
            raise _conflict(
                f"the file {entry.file.file_name}, which this commit replaces, is gone: another writer "
                f"compacted or deleted it",
                table,
            )
    added = [entry for entry in ours if entry.kind == ADD]
    rest: Sequence[ManifestEntry] = [*state.values()]
    if isinstance(live, Entries):
        rest = live.without(Entries.of([entry for entry in ours if entry.kind != ADD]))
    if kind is not CommitKind.OVERWRITE:
        _check_bucket_counts(rest, added, table)
    if schema.primary_keys:
        _check_levels(chain(_key_ranges(rest), _key_ranges(added)), schema, table)


def check_columns(history: History, messages: Iterable[PaimonMessage]) -> None:
    """Raise CommitConflictError when files are replaced that have columns, or types, which the schema of the new files
    does not have yet: somebody altered the table meanwhile and wrote to it, and what they wrote would be lost."""
    for message in messages:
        pairs = (message.deleted_files, message.new_files), (message.compact_before, message.compact_after)
        for before, after in pairs:
            names = {file.file_name for file in before}
            oldest = min((file.schema_id for file in after if file.file_name not in names), default=None)
            for newer in sorted({file.schema_id for file in before if oldest is not None and file.schema_id > oldest}):
                known = {(item.id, item.type) for item in history.schema(oldest or 0).fields}
                lost = [item.name for item in history.schema(newer).fields if (item.id, item.type) not in known]
                if lost:
                    raise _conflict(
                        f"files with the columns {', '.join(lost)} of schema {newer} would be replaced by ones of "
                        f"schema {oldest}: the table was altered meanwhile",
                        history.store.location,
                    )


def check_routes(history: History, new: NewSnapshot, schema: TableSchema, latest: Snapshot | None) -> bool:
    """Raise CommitConflictError where the rows of an append's partitions have moved into another number of buckets
    since its own got theirs: one key would be in two buckets. Whether all that came meanwhile could be seen.

    Who appends by the same definition of the table gives rows the same number, so such a snapshot is not read.
    """
    if new.routed_on is None or latest is None:
        return True
    try:
        for snapshot in history.since(new.routed_on, latest):
            if snapshot.commit_kind is not CommitKind.APPEND or snapshot.schema_id != schema.id:
                theirs = [entry for entry in _delta(history, snapshot) if entry.kind == ADD]
                _check_bucket_counts(theirs, new.changes.entries, history.store.location)
    except (NotInHistoryError, DataCleanedError):
        return False
    return True


def buckets_of_others(history: History, new: NewSnapshot, schema: TableSchema, latest: Snapshot | None) -> int | None:
    """How many buckets the table has by the definition that others have written with meanwhile, where an append's rows
    got theirs by an older one with another number."""
    if new.routed_on is None or latest is None or latest.schema_id <= schema.id:
        return None
    buckets: int = opt.table_options(history.schema(latest.schema_id).options)[opt.BUCKET]
    others = buckets > 0 and any(entry.total_buckets not in (buckets, 0) for entry in new.changes.entries)
    return buckets if others else None


def check_new_partitions(
    live: Sequence[ManifestEntry], ours: Sequence[ManifestEntry], buckets: int, table: str
) -> None:
    """Raise CommitConflictError where an append would begin a partition with another number of buckets than the table
    has now. Its snapshot has the newer schema, so that those who route rows by that one would not look at it."""
    begun = {entry.partition for entry in live}
    for entry in ours:
        if entry.total_buckets > 0 and entry.total_buckets != buckets and entry.partition not in begun:
            now = counted(buckets, "bucket")
            raise _conflict(
                f"a new partition has {now} now, but this commit was written for {entry.total_buckets}", table
            )


def check_vectors(indexes: Sequence[IndexManifestEntry], changes: Changes, table: str) -> None:
    """Raise CommitConflictError when a bucket whose files are replaced has deletion vectors that the replacement was
    not made from."""
    replaced = {(entry.partition, entry.bucket) for entry in changes.entries if entry.kind != ADD}
    known = {entry.file_name for entry in changes.removed_indexes}
    for entry in indexes:
        place = (entry.partition, entry.bucket)
        if entry.index_type != DELETION_VECTORS or place not in replaced:
            continue
        if entry.file_name not in known and entry.file_name not in changes.known.get(place, ()):
            raise _conflict(f"rows of bucket {entry.bucket} were marked as deleted meanwhile", table)


def check_known(live: Sequence[ManifestEntry], known: Mapping[tuple[bytes, int], frozenset[str]], table: str) -> None:
    """Raise CommitConflictError when a bucket has files above level 0 that its compaction did not see: keys in them had
    other values before than the changelog and the deletion vectors of the compaction take for granted."""
    if isinstance(live, Entries):
        live = live.in_buckets(
            lambda *buckets: np.array([place in known for place in zip(*buckets, strict=True)], bool)
        )
    for entry in live:
        seen = known.get((entry.partition, entry.bucket))
        if seen is not None and entry.file.level > 0 and entry.file.file_name not in seen:
            raise _conflict(f"bucket {entry.bucket} was compacted meanwhile", table)


def check_age(dropped: Sequence[ManifestEntry], replaced: ReplacedPartitions, table: str) -> None:
    """Raise CommitConflictError when a file that goes with its partition is too young for that."""
    for entry in dropped:
        if replaced.older is not None and (entry.file.creation_time or 0) >= replaced.older:
            raise _conflict(f"a partition got the file {entry.file.file_name} meanwhile", table)


def check_rows(theirs: Sequence[ManifestEntry], ours: Sequence[ManifestEntry], snapshot: int, table: str) -> None:
    """Raise CommitConflictError when `theirs`, entries of another snapshot, have row ids that `ours` have too."""
    mine = [(entry.file.first_row_id, entry.file.row_count) for entry in ours if entry.file.first_row_id is not None]
    for entry in theirs:
        begin = entry.file.first_row_id
        if begin is None:
            continue
        end = begin + entry.file.row_count
        if any(first < end and begin < first + count for first, count in mine):
            raise _conflict(f"snapshot {snapshot} changed the rows with the ids {begin} to {end - 1} too", table)


def _check_bucket_counts(live: Sequence[ManifestEntry], added: Sequence[ManifestEntry], table: str) -> None:
    counts: dict[bytes, int]
    if isinstance(live, Entries):
        counts = {partition: total for partition, total in live.bucket_counts() if total > 0}
    else:
        counts = {entry.partition: entry.total_buckets for entry in live if entry.total_buckets > 0}
    for entry in added:
        known = counts.get(entry.partition)
        if known is not None and entry.total_buckets > 0 and known != entry.total_buckets:
            now = counted(known, "bucket")
            raise _conflict(f"a partition has {now} now, but this commit was written for {entry.total_buckets}", table)


def _key_ranges(entries: Sequence[ManifestEntry]) -> Iterator[tuple[tuple[bytes, int, int], tuple[bytes, bytes]]]:
    """The place (partition, bucket and level) and the key range of each file above level 0."""
    if isinstance(entries, Entries):
        yield from entries.kept(entries.numbers("level") > 0).key_ranges()
        return
    for entry in entries:
        if entry.file.level > 0:
            yield (entry.partition, entry.bucket, entry.file.level), (entry.file.min_key, entry.file.max_key)


def _check_levels(
    files: Iterable[tuple[tuple[bytes, int, int], tuple[bytes, bytes]]], schema: TableSchema, table: str
) -> None:
    """Raise CommitConflictError where key ranges of one level above 0 overlap."""
    types = [field.type for field in schema.project(schema.trimmed_primary_keys)]
    levels: dict[tuple[bytes, int, int], list[tuple[bytes, bytes]]] = {}
    for place, keys in files:
        levels.setdefault(place, []).append(keys)
    for (_, bucket, level), of_level in levels.items():
        if len(of_level) < 2:
            continue
        ranges = sorted(
            (decode_row(without_arity(low), types), decode_row(without_arity(high), types)) for low, high in of_level
        )
        if any(after[0] <= before[1] for before, after in pairwise(ranges)):
            raise _conflict(f"another compaction filled level {level} of bucket {bucket} with the same keys", table)


def _check_assignment(history: History, new: NewSnapshot, base: AssignmentBase, latest: Snapshot | None) -> None:
    """Dynamic buckets stand only while no other writer has added rows since they were assigned: its keys may be ours.
    So may those of another writer of the same user."""
    for snapshot in _since(history, base.snapshot, latest, "the dynamic buckets were assigned"):
        if snapshot.commit_kind is CommitKind.COMPACT or (snapshot.commit_user == new.user and _knows(base, snapshot)):
            continue
        if _may_assign(base, _delta(history, snapshot)):
            other = "writer of this user" if snapshot.commit_user == new.user else "job"
            raise CommitConflictError(
                f"another {other} wrote to the same dynamic buckets",
                table=history.store.location,
                instant=str(snapshot.id),
                why="both may have put one key into different buckets",
                todo="Nothing of this commit is visible. Write the rows again; let one job at a time write this table",
            )


def _may_assign(base: AssignmentBase, entries: Sequence[ManifestEntry]) -> bool:
    """Whether the entries of a snapshot may put keys into other buckets than this commit does, or take them out of the
    hash index that its buckets come from. Where keys move between partitions there is no such index, so only added rows
    can: no empty commit of a stream, and no removal of old partitions."""
    if base.partitions is None:
        return any(entry.kind == ADD for entry in entries)
    return any(entry.partition in base.partitions for entry in entries)


def _knows(base: AssignmentBase, snapshot: Snapshot) -> bool:
    """Whether the write that assigned these dynamic buckets assigned those of a snapshot of its user too."""
    writes = dict(snapshot.properties).get(WRITES, "").split(",")
    return not base.writes or not base.writes.isdisjoint(writes)


def _check_strictly(history: History, new: NewSnapshot, last_safe: int, latest: Snapshot | None) -> None:
    """`commit.strict-mode.last-safe-snapshot`: since then no other user compacted, overwrote, or wrote to real
    buckets."""
    for snapshot in _since(history, last_safe, latest, f"the last safe one of {opt.LAST_SAFE_SNAPSHOT.key}"):
        if snapshot.commit_user == new.user:
            continue
        appends = snapshot.commit_kind is CommitKind.APPEND
        if not appends or any(entry.bucket >= 0 for entry in _delta(history, snapshot)):
            raise CommitConflictError(
                "another job has changed the table",
                table=history.store.location,
                instant=str(snapshot.id),
                why=f"it made a snapshot of kind {snapshot.commit_kind} after snapshot {last_safe}, the last safe one "
                f"of {opt.LAST_SAFE_SNAPSHOT.key}",
                todo="Nothing of this commit is visible. See what the other job did, then write again",
            )


def _since(history: History, snapshot: int, latest: Snapshot | None, what: str) -> Iterator[Snapshot]:
    """The snapshots after one, up to `latest`, newest first. CommitConflictError when one of them cannot be seen any
    more: what it changed may be what this commit changes."""
    try:
        yield from history.since(snapshot, latest)
    except NotInHistoryError as error:
        raise CommitConflictError(
            "what other jobs committed meanwhile cannot be checked",
            table=history.store.location,
            instant=error.instant,
            why=f"{error.what}, and it came after snapshot {snapshot} ({what}): {error.why}",
            todo="Nothing of this commit is visible. Write the rows again, and keep snapshots longer than a write "
            f"takes ({opt.SNAPSHOT_TIME.key})",
        ) from error


def _delta(history: History, snapshot: Snapshot) -> Sequence[ManifestEntry]:
    """The entries that a snapshot added."""
    return entries_of(history.store, manifest_metas(history.store, delta_list(snapshot)))


def _conflict(why: str, table: str) -> CommitConflictError:
    return CommitConflictError(
        "another writer's commit stands in the way",
        table=table,
        why=why,
        todo="Nothing of this commit is visible. Plan it again on the table as it is now",
    )
