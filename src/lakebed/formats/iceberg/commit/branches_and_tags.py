"""Branches and tags: names of snapshots in the table's metadata.

Rules: the reference engine's UpdateSnapshotReferencesOperation, and its SQL (`CREATE`, `REPLACE` and `DROP BRANCH` and
`TAG`, `fast_forward`). All of them change the metadata alone: no snapshot goes before it expires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.metadata import MAIN, Document, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Ref as StoredRef
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.codec.updates import MetadataChange, TableUpdate, ref_is, ref_update
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.loop import Produced, change_metadata, commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.commit.retention import retaining
from lakebed.formats.iceberg.commit.summary import counts
from lakebed.formats.iceberg.snapshot import Position, iso_time, snapshot_at
from lakebed.model.refs import Ref, RefResult


@dataclass(frozen=True, slots=True)
class Decision:
    """A change of the metadata, and what becomes of a branch or tag by it: it is like `after`, None for none."""

    change: MetadataChange
    after: StoredRef | None
    result: RefResult


@dataclass(frozen=True, slots=True)
class Wanted:
    """A branch or tag as it shall be: at the snapshot of `position` (None: the head of the branch `of`), with the
    retention that `retention` gives it. With `replaces` it may be there already."""

    name: str
    is_branch: bool
    position: Position
    of: str
    retention: Mapping[str, object]
    replaces: bool = False

    @property
    def kind(self) -> str:
        """branch or tag."""
        return _kind(self.is_branch)


def list_refs(metadata: TableMetadata) -> list[Ref]:
    """The branches and tags of a table."""
    refs: list[Ref] = []
    for ref in metadata.refs.values():
        snapshot = metadata.snapshots.get(ref.snapshot_id)
        age = ref.max_ref_age_ms if ref.name != MAIN else None
        ends = "" if snapshot is None or age is None else iso_time(snapshot.timestamp_ms + age)
        refs.append(Ref(ref.name, _kind(ref.is_branch), str(ref.snapshot_id), ends))
    return sorted(refs, key=lambda ref: (ref.kind, ref.name))


def put_ref(operations: TableOperations, wanted: Wanted, dry_run: bool = False) -> RefResult:
    """Create a branch or tag, or with `replaces` put it elsewhere: then its retention stays where none is given.

    A branch of an empty table begins with a snapshot without rows. UsageError for a name that is taken, or that the
    other kind has; NotInHistoryError when there is no such snapshot; OptionError for a wrong retention.
    """
    first = wanted.is_branch and wanted.position is None
    if first and operations.load().metadata.parent_on(wanted.of) is None and wanted.name != MAIN:
        return _begin_branch(operations, wanted, dry_run)

    def decide(metadata: TableMetadata) -> Decision:
        before = _existing(metadata, wanted, operations.name)
        snapshot = snapshot_at(metadata, wanted.position, wanted.of)
        if snapshot is None:
            raise NotInHistoryError(
                f"there is no snapshot to {wanted.kind}", table=operations.name, todo="Commit something first"
            )
        plain = StoredRef(wanted.name, snapshot.snapshot_id, wanted.is_branch)
        base = plain if before is None else replace(before, snapshot_id=snapshot.snapshot_id)
        after = retaining(base, wanted.retention)
        return _from_to(metadata, wanted.name, before, after)

    return decided(operations, decide, dry_run)


def retain(operations: TableOperations, name: str, retention: Mapping[str, object], dry_run: bool = False) -> RefResult:
    """Change how long a branch or tag keeps snapshots and lives. NotInHistoryError when there is none, OptionError."""

    def decide(metadata: TableMetadata) -> Decision:
        before = _named(metadata, name, operations.name)
        return _from_to(metadata, name, before, retaining(before, retention))

    return decided(operations, decide, dry_run)


def delete_ref(operations: TableOperations, name: str, is_branch: bool, dry_run: bool = False) -> RefResult:
    """Delete a tag or a branch. NotInHistoryError when there is none, UsageError for the branch `main`."""
    word = _kind(is_branch)
    if name == MAIN:
        raise UsageError("the branch 'main' cannot be deleted", table=operations.name)

    def decide(metadata: TableMetadata) -> Decision:
        ref = metadata.refs.get(name)
        if ref is None or ref.is_branch != is_branch:
            names = ", ".join(sorted(r.name for r in metadata.refs.values() if r.is_branch == is_branch)) or "none"
            raise NotInHistoryError(
                f"there is no {word} {name!r}",
                table=operations.name,
                instant=f"{word}:{name}",
                todo=f"There are: {names}",
            )
        change = [ref_is(name, ref.snapshot_id)], [{"action": "remove-snapshot-ref", "ref-name": name}]
        return Decision(change, None, _result(metadata, name, ref, None))

    return decided(operations, decide, dry_run)


def fast_forward(operations: TableOperations, branch: str, to: str, dry_run: bool = False) -> RefResult:
    """Put a branch at the snapshot of another branch or a tag. UsageError unless its own head is an ancestor of
    that, NotInHistoryError when there is no branch or tag of that name."""

    def decide(metadata: TableMetadata) -> Decision:
        if to == MAIN and to not in metadata.refs:
            raise NotInHistoryError(f"branch {to!r} has no snapshot", table=operations.name, todo="Commit to it first")
        target = metadata.snapshot(_named(metadata, to, operations.name).snapshot_id)
        head = metadata.head(branch)
        if head is not None and head.snapshot_id not in metadata.line(target.snapshot_id):
            raise UsageError(
                f"branch {branch!r} has snapshots that {to!r} does not have",
                table=operations.name,
                todo=f"Roll {branch!r} back to a snapshot of {to!r} first, or replace it: "
                f"table.branch({branch!r}, at={to!r}, replace=True)",
            )
        before = metadata.refs.get(branch)
        after = StoredRef(branch, target.snapshot_id, True)
        after = after if before is None else replace(before, snapshot_id=target.snapshot_id)
        decision = _from_to(metadata, branch, before, after)
        requirements, updates = decision.change
        return replace(decision, change=([*requirements, ref_is(to, target.snapshot_id)], updates))

    return decided(operations, decide, dry_run)


def branch_moved(metadata: TableMetadata, branch: str, to: Snapshot) -> Decision:
    """The change that puts a branch at a snapshot, wherever it is."""
    before = metadata.refs.get(branch)
    after = StoredRef(branch, to.snapshot_id, True)
    return _from_to(metadata, branch, before, after if before is None else replace(before, snapshot_id=to.snapshot_id))


def _begin_branch(operations: TableOperations, wanted: Wanted, dry_run: bool) -> RefResult:
    """Create a branch of a table without a snapshot."""
    ref = retaining(StoredRef(wanted.name, 0, True), wanted.retention)
    note = "the table is empty, so the branch begins with a snapshot without rows"

    def produce(attempt: Attempt) -> Produced:
        _existing(attempt.metadata, wanted, operations.name)
        return Produced("append", attempt.existing, counts((), ()))

    def retained(metadata: TableMetadata, snapshot: Document) -> Sequence[TableUpdate]:
        return [ref_update(replace(ref, snapshot_id=snapshot["snapshot-id"]))]

    if dry_run:
        loaded = operations.load()
        operations.refuse_changes(loaded)
        _existing(loaded.metadata, wanted, operations.name)
        return RefResult(wanted.name, "branch", "", "", dry_run=True, notes=(note,))
    done = commit_snapshot(operations, produce, CommitOptions(wanted.name, also=retained, start=wanted.of))
    return RefResult(wanted.name, "branch", "", done.instant, notes=(note,))


def decided(
    operations: TableOperations, decide: Callable[[TableMetadata], Decision], dry_run: bool, base: Loaded | None = None
) -> RefResult:
    """Make a change of the metadata, in a dry run only its decision. The first attempt is made on `base`, where the
    caller has just loaded it."""
    if dry_run:
        loaded = base or operations.load()
        operations.refuse_changes(loaded)
        return replace(decide(loaded.metadata).result, dry_run=True)
    tried: list[Decision] = []

    def change(metadata: TableMetadata) -> MetadataChange:
        if tried and metadata.refs.get(tried[0].result.name) == tried[0].after:
            return [], []  # it landed, though the catalog called the race lost
        tried[:] = [decide(metadata)]
        return tried[0].change

    change_metadata(operations, change, base=base)
    return tried[0].result


def _from_to(metadata: TableMetadata, name: str, before: StoredRef | None, after: StoredRef) -> Decision:
    """The change from one state of a branch or tag to another; no change where they are the same."""
    requirements = [ref_is(name, before.snapshot_id if before is not None else None)]
    updates = [] if before == after else [ref_update(after)]
    return Decision((requirements, updates), after, _result(metadata, name, before, after))


def _result(metadata: TableMetadata, name: str, before: StoredRef | None, after: StoredRef | None) -> RefResult:
    """What becomes of a branch or tag. Snapshots that nothing else has in its history are noted, if some leave it. The
    line of a new branch or tag does not count as added, that of a deleted one counts where no other has it."""
    old, new = (metadata.line(ref.snapshot_id if ref is not None else None) for ref in (before, after))
    stays, was = set(new), set(old)
    removed = [id for id in old if id not in stays]
    held = _held(metadata, name) if removed else set()
    free = [id for id in removed if id not in held and id not in stays]
    notes = []
    if free:
        notes.append(f"no other branch or tag has snapshots {', '.join(map(str, free[:10]))}"
                     f"{f' and {len(free) - 10} more' if len(free) > 10 else ''}: they expire by age")  # fmt: skip
    added = [id for id in new if id not in was] if before is not None or name == MAIN else []
    either = after or before
    assert either is not None
    return RefResult(
        name,
        _kind(either.is_branch),
        str(before.snapshot_id) if before is not None else "",
        str(after.snapshot_id) if after is not None else "",
        tuple(map(str, added)),
        tuple(map(str, removed if after is not None else free)),
        notes=tuple(notes),
    )


def _held(metadata: TableMetadata, but: str) -> set[int]:
    """The ids of the snapshots in the history of any branch or tag but one."""
    held: set[int] = set()
    for ref in metadata.refs.values():
        if ref.name != but and ref.snapshot_id not in held:
            held.update(metadata.line(ref.snapshot_id))
    return held


def _existing(metadata: TableMetadata, wanted: Wanted, table: str) -> StoredRef | None:
    """The branch or tag that is to be replaced. UsageError where none may be there, or one of the other kind is."""
    ref = metadata.refs.get(wanted.name)
    if ref is None:
        return None
    kind = _kind(ref.is_branch)
    if not wanted.replaces:
        todo = "Delete it first" + (", or give replace=True" if ref.is_branch == wanted.is_branch else "")
        raise UsageError(f"there is already a {kind} {wanted.name!r}", table=table, todo=todo)
    if ref.is_branch != wanted.is_branch:
        raise UsageError(f"{wanted.name!r} is a {kind}, not a {wanted.kind}", table=table, todo="Delete it first")
    return ref


def _named(metadata: TableMetadata, name: str, table: str) -> StoredRef:
    ref = metadata.refs.get(name)
    if ref is None:
        names = ", ".join(sorted(metadata.refs)) or "none"
        raise NotInHistoryError(f"there is no branch or tag {name!r}", table=table, todo=f"There are: {names}")
    return ref


def _kind(is_branch: bool) -> str:
    return "branch" if is_branch else "tag"
