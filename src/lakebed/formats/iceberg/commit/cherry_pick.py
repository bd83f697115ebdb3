"""Cherry-pick: the changes of one snapshot, on top of a branch. Publishing a staged write is one by its `wap.id`.

Rules: the reference engine's CherryPickOperation and WapUtil, and its procedures `cherrypick_snapshot` and
`publish_changes`. A snapshot whose parent is the branch's head becomes the head itself. Otherwise an append is
repeated, and a dynamic overwrite where its partitions have not changed since. Other snapshots cannot be picked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CommitConflictError, NotInHistoryError, UsageError, counted
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.manifest import ADDED, DELETED
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Ref, Snapshot
from lakebed.formats.iceberg.codec.updates import TableUpdate, ref_update
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.branches_and_tags import Decision, branch_moved, decided
from lakebed.formats.iceberg.commit.change import Change
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.data_files import DataFile, Partition, data_files, in_places, partition_key
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS, manifests_of, read_entries
from lakebed.formats.iceberg.snapshot import ancestors, between
from lakebed.model.refs import RefResult

STAGED = "wap.id"
"""In the summary of a staged snapshot: the name under which it can be published."""
PUBLISHED = "published-wap-id"
"""In the summary of a snapshot that repeats a staged one: the staged one's name."""
SOURCE = "source-snapshot-id"
"""In the summary of a snapshot that repeats another one: the other one's id."""

Choose = Callable[[TableMetadata], Snapshot]
"""Says which snapshot of the table to pick. Raises NotInHistoryError, UsageError."""


def cherry_pick(
    operations: TableOperations, branch: str, choose: Choose, properties: Mapping[str, str], dry_run: bool
) -> RefResult:
    """Put the changes of a snapshot on top of a branch.

    UsageError for a snapshot that the branch has already, or that cannot be picked; CommitConflictError where other
    commits changed what it replaces; NotInHistoryError when there is none, also when it expires meanwhile.
    """
    base = operations.load()
    operations.refuse_changes(base)
    picked = choose(base.metadata)
    _check(base.metadata, branch, picked)
    if _follows(base.metadata, branch, picked):
        if dry_run:
            return replace(branch_moved(base.metadata, branch, picked).result, dry_run=True)
        moved = _fast_forward(operations, base, branch, picked)
        if moved is not None:
            return moved
        base = operations.load()
    elif dry_run:
        return _planned(operations, base, branch, picked)
    before = base.metadata.parent_on(branch)
    commit_options = CommitOptions(branch, properties=properties, also=lambda *_: _still_there(picked))
    done = commit_snapshot(operations, _Pick(branch, picked.snapshot_id), commit_options, base)
    named = str(before.snapshot_id) if before is not None else ""
    note = f"it repeats snapshot {picked.snapshot_id}, which stays where it is until it expires"
    return RefResult(branch, "branch", named, done.instant, (done.instant,), notes=(note,))


def staged_as(wap_id: str, branch: str) -> Choose:
    """Chooses the snapshot that was staged under a `wap.id`. NotInHistoryError when there is none, UsageError when
    there are several."""

    def choose(metadata: TableMetadata) -> Snapshot:
        staged = [snapshot for snapshot in metadata.snapshots.values() if snapshot.summary.get(STAGED) == wap_id]
        if not staged:
            raise NotInHistoryError(
                f"no snapshot is staged as {wap_id!r}",
                table=metadata.location,
                todo=f"There are: {', '.join(_staged_names(metadata)) or 'none'}",
            )
        if len(staged) > 1 and not _published(metadata, metadata.head(branch), wap_id):
            raise UsageError(
                f"{counted(len(staged), 'snapshot is', 'snapshots are')} staged as {wap_id!r}",
                table=metadata.location,
                why=f"they are {', '.join(str(snapshot.snapshot_id) for snapshot in staged)}",
                todo="Publish the one that you want with table.cherry_pick(snapshot id)",
            )
        return staged[0]

    return choose


@dataclass(frozen=True, slots=True)
class _Pick:
    """Makes the snapshot that repeats another one, in each attempt anew."""

    branch: str
    snapshot_id: int

    def __call__(self, attempt: Attempt) -> Produced:
        metadata = attempt.metadata
        picked = metadata.snapshot(self.snapshot_id)
        _check(metadata, self.branch, picked)
        _refuse_unpickable(metadata, self.branch, picked)
        added, removed = _changed_files(attempt.files, metadata, picked)
        if picked.operation != "append":
            _check_partitions(attempt.files, metadata, attempt.head, picked, added)
        produced = Change(tuple(added), removed=tuple(removed)).produce(attempt, picked.operation)
        wap_id = picked.summary.get(STAGED)
        links = {SOURCE: str(picked.snapshot_id), **({PUBLISHED: wap_id} if wap_id else {})}
        return replace(produced, summary={**links, **produced.summary})


def _still_there(picked: Snapshot) -> Sequence[TableUpdate]:
    """Updates that change nothing, and that a REST catalog refuses where a snapshot has expired: it has no requirement
    that says so, and the files that the new snapshot repeats would be gone."""
    name = f"lakebed-picks-{picked.snapshot_id}"
    return ref_update(Ref(name, picked.snapshot_id, False)), {"action": "remove-snapshot-ref", "ref-name": name}


class _OvertakenError(Exception):
    """The picked snapshot no longer follows the branch's head."""


def _fast_forward(operations: TableOperations, base: Loaded, branch: str, picked: Snapshot) -> RefResult | None:
    """Make the picked snapshot the branch's head; None when another commit came in between."""

    def decide(metadata: TableMetadata) -> Decision:
        now = metadata.snapshot(picked.snapshot_id)
        if not _follows(metadata, branch, now):
            raise _OvertakenError
        return branch_moved(metadata, branch, now)

    try:
        return decided(operations, decide, False, base)
    except _OvertakenError:
        return None


def _planned(operations: TableOperations, base: Loaded, branch: str, picked: Snapshot) -> RefResult:
    """The dry run of a pick that makes a new snapshot. Raises the errors of the pick."""
    metadata, head = base.metadata, base.metadata.parent_on(branch)
    _refuse_unpickable(metadata, branch, picked)
    added, removed = _changed_files(operations.files, metadata, picked)
    if picked.operation != "append":
        _check_partitions(operations.files, metadata, head, picked, added)
    rows = sum(file.record_count for file in added)
    adds = f"{counted(len(added), 'data file')} with {counted(rows, 'row')}"
    note = f"a new snapshot would add {adds} and remove {counted(len(removed), 'data file')}"
    named = str(head.snapshot_id) if head is not None else ""
    return RefResult(branch, "branch", named, "", dry_run=True, notes=(note,))


def _follows(metadata: TableMetadata, branch: str, picked: Snapshot) -> bool:
    """Whether the branch's head is the parent of the snapshot, so that it can become the head itself."""
    head = metadata.head(branch)
    return picked.parent_id == (head.snapshot_id if head is not None else None)


def _check(metadata: TableMetadata, branch: str, picked: Snapshot) -> None:
    """UsageError for changes that the branch has already: the snapshot itself, one that repeats it, or one that was
    staged or published under the same `wap.id`."""
    head = metadata.head(branch)
    if head is not None and picked.snapshot_id in metadata.line(head.snapshot_id):
        raise UsageError(
            f"branch {branch!r} has snapshot {picked.snapshot_id} already", table=metadata.location,
            todo="Nothing is left to do: it is an ancestor of the head",
        )  # fmt: skip
    wap_id, source = picked.summary.get(STAGED), str(picked.snapshot_id)
    for snapshot in ancestors(metadata, head) if head is not None else ():
        if snapshot.summary.get(SOURCE) == source:
            raise UsageError(
                f"branch {branch!r} has the changes of snapshot {source} already",
                table=metadata.location,
                why=f"snapshot {snapshot.snapshot_id} repeats it",
                todo="Nothing is left to do",
            )
        if wap_id and wap_id in (snapshot.summary.get(STAGED), snapshot.summary.get(PUBLISHED)):
            raise UsageError(
                f"{wap_id!r} was published already",
                table=metadata.location,
                why=f"snapshot {snapshot.snapshot_id} of branch {branch!r} has it",
                todo="Stage each write under a wap.id of its own",
            )


def _refuse_unpickable(metadata: TableMetadata, branch: str, picked: Snapshot) -> None:
    """UsageError for a snapshot that can only become a head, on top of its own parent."""
    dynamic = picked.operation == "overwrite" and picked.summary.get("replace-partitions", "").lower() == "true"
    if picked.operation == "append" or dynamic:
        return
    raise UsageError(
        f"snapshot {picked.snapshot_id} cannot be picked: it is neither an append nor a dynamic overwrite",
        table=metadata.location,
        instant=str(picked.snapshot_id),
        why=f"its operation is {picked.operation or 'unknown'}, made on top of snapshot {picked.parent_id}, and branch "
        f"{branch!r} has moved on",
        todo="Repeat the write on the branch, or roll the branch back to that snapshot first",
    )


def _changed_files(files: Files, metadata: TableMetadata, snapshot: Snapshot) -> tuple[list[DataFile], list[DataFile]]:
    """The data files that a snapshot added, and those that it removed."""
    added: list[DataFile] = []
    removed: list[DataFile] = []
    for entries in _entries_of(files, metadata, snapshot):
        status = entries["status"]
        added += data_files(entries.filter(pc.equal(status, ADDED)))
        removed += data_files(entries.filter(pc.equal(status, DELETED)))
    return added, removed


def _check_partitions(
    files: Files, metadata: TableMetadata, head: Snapshot | None, picked: Snapshot, added: Sequence[DataFile]
) -> None:
    """CommitConflictError when a partition that a dynamic overwrite replaces has got files since its parent, or when
    its parent is not in the branch's history."""
    if head is None:
        return
    try:
        since = between(metadata, picked.parent_id, head)
    except NotInHistoryError as error:
        raise CommitConflictError(
            f"overwrite {picked.snapshot_id} was not made from the history of the branch",
            table=metadata.location,
            why=error.why or str(error),
            todo="Repeat the overwrite on the branch",
        ) from error
    replaced: set[tuple[int, Partition]] = {(file.spec_id, partition_key(file.partition)) for file in added}
    for snapshot in since:
        for entries in _entries_of(files, metadata, snapshot):
            new = entries.filter(pc.equal(entries["status"], ADDED))
            if in_places(new, replaced).any():
                raise CommitConflictError(
                    f"a partition that overwrite {picked.snapshot_id} replaces has changed since",
                    table=metadata.location,
                    why=f"snapshot {snapshot.snapshot_id} added files to it",
                    todo="Repeat the overwrite on the branch",
                )


def _entries_of(files: Files, metadata: TableMetadata, snapshot: Snapshot) -> list[pa.Table]:
    """The entries that a snapshot wrote into data manifests, per spec, those of removed files too."""
    manifests = manifests_of(files, metadata, snapshot)
    own = [m for m in manifests if m.content == 0 and m.added_snapshot_id == snapshot.snapshot_id]
    specs = dict.fromkeys(manifest.spec_id for manifest in own)
    groups = [[manifest for manifest in own if manifest.spec_id == spec_id] for spec_id in specs]
    read = [read_entries(files, metadata, group, ALL_COLUMNS, live_only=False) for group in groups]
    return [entries.filter(pc.equal(entries["snapshot_id"], snapshot.snapshot_id)) for entries in read]


def _published(metadata: TableMetadata, head: Snapshot | None, wap_id: str) -> bool:
    line = ancestors(metadata, head) if head is not None else ()
    return any(wap_id in (snapshot.summary.get(STAGED), snapshot.summary.get(PUBLISHED)) for snapshot in line)


def _staged_names(metadata: TableMetadata) -> list[str]:
    names = (snapshot.summary.get(STAGED) for snapshot in metadata.snapshots.values())
    return sorted({name for name in names if name})[:10]
