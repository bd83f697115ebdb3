"""Branches and tags of an Iceberg table, and what puts a branch at another snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.face.opened import OpenedTable
from lakebed.formats.iceberg.snapshot import snapshot_at
from lakebed.verbs.arguments import Position, Span, checked_name, checked_position, checked_span, checked_target

if TYPE_CHECKING:
    from lakebed.model.refs import Ref, RefResult
    from lakebed.model.upkeep import RollbackResult


class BranchesAndTags(OpenedTable):
    """The verbs that create, move and delete branches and tags."""

    def refs(self) -> list[Ref]:
        """The branches and tags of the table."""
        from lakebed.formats.iceberg.commit.branches_and_tags import list_refs

        return list_refs(self.table_metadata)

    def tag(
        self, name: str, snapshot: Position = None, time_retained: Span = None, *, replace: bool = False,
        dry_run: bool = False,
    ) -> RefResult:  # fmt: skip
        """Tag a snapshot. Default: the newest of the branch. An expiry removes the tag when its snapshot is older than
        `time_retained`. With `replace` a tag of that name moves. UsageError for a name that is taken, NotInHistoryError
        when there is no such snapshot."""
        from lakebed.formats.iceberg.commit.branches_and_tags import Wanted, put_ref
        from lakebed.formats.iceberg.commit.retention import MAX_REF_AGE

        age = checked_span(time_retained)
        kept = {} if age is None else {MAX_REF_AGE.key: max(1, age // datetime.timedelta(milliseconds=1))}
        position = checked_position(snapshot)
        wanted = Wanted(checked_name(name, "tag"), False, position, self._target, kept, replace)
        return put_ref(self.operations, wanted, dry_run)

    def delete_tag(self, name: str, *, dry_run: bool = False) -> RefResult:
        """Delete a tag. NotInHistoryError when there is none of that name."""
        from lakebed.formats.iceberg.commit.branches_and_tags import delete_ref

        return delete_ref(self.operations, checked_name(name, "tag"), is_branch=False, dry_run=dry_run)

    def branch(
        self, name: str, at: Position = None, *, replace: bool = False, dry_run: bool = False,
        options: Mapping[str, object] = {},
    ) -> RefResult:  # fmt: skip
        """Create a branch at a snapshot. Default: the newest of this branch. The option `branch` opens it.

        With `replace` a branch of that name moves there. `options` are its `min-snapshots-to-keep`,
        `max-snapshot-age-ms` and `max-ref-age-ms`. UsageError for a name that is taken, NotInHistoryError when there is
        no such snapshot.
        """
        from lakebed.formats.iceberg.commit.branches_and_tags import Wanted, put_ref

        wanted = Wanted(checked_name(name, "branch"), True, checked_position(at), self._target, options, replace)
        return put_ref(self.operations, wanted, dry_run)

    def retain(self, name: str, options: Mapping[str, object], dry_run: bool = False) -> RefResult:
        """Change how long a branch or tag keeps snapshots and lives: `min-snapshots-to-keep` and `max-snapshot-age-ms`
        of a branch, `max-ref-age-ms` of either. NotInHistoryError when there is none of that name."""
        from lakebed.formats.iceberg.commit.branches_and_tags import retain

        return retain(self.operations, checked_name(name, "branch or tag"), options, dry_run)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> RefResult:
        """Delete a branch. Its snapshots stay until they expire. NotInHistoryError when there is none of that name."""
        from lakebed.formats.iceberg.commit.branches_and_tags import delete_ref

        return delete_ref(self.operations, checked_name(name, "branch"), is_branch=True, dry_run=dry_run)

    def fast_forward(self, name: str, *, dry_run: bool = False) -> RefResult:
        """Put the branch that is open at the snapshot of the branch or tag `name`, which must come after its own head.
        UsageError where it does not."""
        from lakebed.formats.iceberg.commit.branches_and_tags import fast_forward

        return fast_forward(self.operations, self._target, checked_name(name, "branch"), dry_run)

    def cherry_pick(self, snapshot: Position, dry_run: bool = False) -> RefResult:
        """Put the changes of one snapshot on top of the branch that is open: of an append, of a dynamic overwrite whose
        partitions have not changed since, or of any snapshot that was made on top of the branch's head.

        Raises UsageError for a snapshot that the branch has already or that cannot be picked, CommitConflictError,
        NotInHistoryError.
        """
        from lakebed.formats.iceberg.commit.cherry_pick import cherry_pick

        position = checked_target(snapshot, "a cherry-pick needs a snapshot")

        def choose(metadata: TableMetadata) -> Snapshot:
            picked = snapshot_at(metadata, position, self._target)
            assert picked is not None
            return picked

        return cherry_pick(self.operations, self._target, choose, self._properties, dry_run)

    def publish(self, wap_id: str, dry_run: bool = False) -> RefResult:
        """Make a write visible that was staged with the option `wap.id`, as a cherry-pick of its snapshot.

        Raises what `cherry_pick` raises.
        """
        from lakebed.formats.iceberg.commit.cherry_pick import cherry_pick, staged_as

        choose = staged_as(checked_name(wap_id, "staged write"), self._target)
        return cherry_pick(self.operations, self._target, choose, self._properties, dry_run)

    def rollback(
        self, to: Position | datetime.date, dry_run: bool = False, any_snapshot: bool = False
    ) -> RollbackResult:
        """Make an ancestor of the branch's head its head. The later snapshots stay in the metadata until they expire.

        A time means the newest ancestor of that time or before it. With `any_snapshot` the head becomes whichever
        snapshot is named, of another branch or in none. Raises NotInHistoryError when there is no such snapshot,
        UsageError for one that is no ancestor, CommitConflictError.
        """
        from lakebed.formats.iceberg.rollback import roll_back

        return roll_back(self.operations, self._target, checked_target(to), dry_run, any_snapshot)
