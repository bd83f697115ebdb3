"""Statistics of an Iceberg table, for query planners: different values of columns, figures of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.errors import SchemaError
from lakebed.formats.iceberg.face.reads import Reads
from lakebed.formats.iceberg.snapshot import schema_at, snapshot_at
from lakebed.verbs.arguments import Position, checked_position

if TYPE_CHECKING:
    from lakebed.kernel.engine import Engine
    from lakebed.model.upkeep import PartitionStatsResult, TableStatsResult


class Statistics(Reads):
    """The verbs that compute statistics of rows and store them beside snapshots."""

    def compute_table_stats(
        self, columns: Sequence[str] | None = None, snapshot: Position = None, dry_run: bool = False,
        engine: Engine | None = None,
    ) -> TableStatsResult:  # fmt: skip
        """Count the different values of columns in a snapshot, and commit the figures as its statistics file.

        `columns` are names, also of fields in structs (`address.city`); default: all primitive columns. `snapshot` is
        what `as_of` of `read` takes; default: the head of the branch. Counts are exact up to 4096 and estimates beyond.
        Raises SchemaError, NotInHistoryError, CommitConflictError when the snapshot expires meanwhile.
        """
        from lakebed.formats.iceberg.statistics.columns import chosen, columns_named, compute_table_stats
        from lakebed.model.upkeep import TableStatsResult

        names = columns_named(columns)
        loaded = self.operations.load()
        if not dry_run:
            self.operations.refuse_changes(loaded)
        head = snapshot_at(loaded.metadata, checked_position(snapshot), self.branch_name)
        if head is None:
            return TableStatsResult("", "", (), dry_run, ("the table has no snapshot yet",))
        of = head.snapshot_id
        wanted = chosen(schema_at(loaded.metadata, of, self.branch_name), names, self.operations.name)
        if not wanted:
            raise SchemaError("there is no column to count", table=self.operations.name, todo="Name primitive columns")
        plan = self.plan_read(list(dict.fromkeys(column.path[0] for column in wanted)), None, of)
        return compute_table_stats(self.operations, loaded, head, wanted, plan, dry_run, engine)

    def compute_partition_stats(self, snapshot: Position = None, dry_run: bool = False) -> PartitionStatsResult:
        """Sum up the files, rows and bytes of each partition of a snapshot, and commit the figures as its partition
        statistics file.

        Where an ancestor has such a file, only what changed since is read. `snapshot` is what `as_of` of `read` takes;
        default: the head of the branch. Raises UsageError for a table without partitions, NotInHistoryError,
        CommitConflictError when the snapshot expires meanwhile.
        """
        from lakebed.formats.iceberg.statistics.partitions import compute_partition_stats

        position, branch = checked_position(snapshot), self.branch_name
        return compute_partition_stats(self.operations, lambda now: snapshot_at(now, position, branch), dry_run)
