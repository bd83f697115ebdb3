"""A table's public face, the same for every format.

A format overrides the methods that it serves. The others raise one clear UnsupportedError. Every verb that changes a
table plans first, and `dry_run` stops after the plan.
"""

from __future__ import annotations

import datetime
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Listing, Store
from lakebed.kernel.observers import observed
from lakebed.kernel.predicates.where import Where
from lakebed.model.alter import AlterResult, Change
from lakebed.model.commit import CommitResult
from lakebed.model.instant import Instant
from lakebed.model.refs import Ref, RefResult
from lakebed.model.upkeep import (
    AddFilesResult,
    ArchiveResult,
    ExpireResult,
    PartitionStatsResult,
    RelocateResult,
    RepairResult,
    RewriteResult,
    RollbackResult,
    TablePathResult,
    TableStatsResult,
)
from lakebed.verbs.arguments import Position, Span
from lakebed.verbs.rows import Rows
from lakebed.verbs.system_tables import SystemTable, lasting, named
from lakebed.verbs.write import Mode, Sink

if TYPE_CHECKING:
    from lakebed.model.report import TableReport

_OBSERVED = (
    "write", "rewrite", "expire", "archive", "tag", "rename_tag", "delete_tag", "branch", "delete_branch",
    "fast_forward", "retain", "cherry_pick", "publish", "rollback", "mark_partition_done", "alter", "add_files",
    "repair", "relocate", "rewrite_table_path", "compute_table_stats", "compute_partition_stats",
)  # fmt: skip
"""The verbs that may change a table: `lakebed.observe` tells of each call."""


class Table(Rows):
    """An open table. `lakebed.open` and `lakebed.create` give one.

        table = lakebed.open("s3://bucket/orders")
        table.read(columns=["id", "amount"], where="amount > 100").read_all()
        table.changes(after="2026-11-01").read_all()
        table.expire(dry_run=True).expired

    Each call reads the metadata again, so an open table never goes stale. `location` and `options` are those it was
    opened with.

    Every method may raise StorageError, CorruptError for damaged files, and UnsupportedError for what lakebed does not
    serve of the format. OptionError says that an option is unknown or has a wrong value.
    """

    history_holds: ClassVar[str] = "snapshots"
    """What the format calls the entries of its history."""
    own_folder: ClassVar[str] = ".lakebed"
    """The folder of lakebed's own files in a table. The format's own engines ignore it."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for verb in _OBSERVED:
            served = getattr(cls, verb)
            if served is not getattr(Table, verb) and getattr(served, "__observed__", "") != verb:
                setattr(cls, verb, observed(verb, served))
        if cls.writer is not Table.writer:
            cls.writer = _named(cls.writer)  # type: ignore[method-assign]

    @classmethod
    def opened(cls, store: Store, options: Mapping[str, str], metadata: Listing) -> Self:
        """Open a table whose format was just detected. `metadata` is the listing of the folder that showed it."""
        return cls(store, options)

    def reopened(self) -> Self:
        """This table as `lakebed.open` would give it now, for callers that keep it open for long. It forgets everything
        that would differ if somebody dropped the table and made another one of the same name. Its format is not
        detected again."""
        return self

    def newest(self) -> Instant | None:
        """The instant that `read` reads as of when it is given none.

        Hand it to `plan_read`, and plans that are made at different times read the same rows. None for an empty table,
        and where the table's options name the snapshot to read.
        """
        completed = [instant for instant in self.history() if instant.state == "completed"]
        return completed[-1] if completed else None

    def newest_commit(self) -> Instant | None:
        """The newest completed instant that changed rows or files, even if the table's options name an older one for
        reads. None if there is none."""
        return next((instant for instant in reversed(self.history()) if instant.state == "completed"), None)

    @abstractmethod
    def history(self, archived: bool = False) -> list[Instant]:
        """The table's instants or snapshots, oldest first.

        A Hudi table's active timeline has pending instants too. `archived` adds those of its archived timeline.
        """

    def metadata(self, name: str) -> pa.RecordBatchReader:
        """Read one of the table's metadata tables, or system tables, as a stream of Arrow batches.

            table.metadata("snapshots").read_all()
            table.metadata("files").read_all().select(["file_path", "record_count"])

        Names, columns and types are those of the format's own engine (docs/metadata.md); `metadata_names` lists them.
        UsageError for an unknown name says which is nearest.
        """
        return self.system_table(name).read()

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """The names that `metadata` knows, sorted."""
        return tuple(sorted(self._system_tables()))

    def system_table(self, name: str) -> SystemTable:
        """The metadata table that `metadata` reads: its schema, and its rows when they are asked for."""
        return lasting(lambda: named(name, self._system_tables(), self.location), self.location)

    def _system_tables(self) -> Mapping[str, Callable[[], SystemTable]]:
        raise self._lacks("metadata tables")

    def sink(self, mode: Mode = Mode.APPEND, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> Sink:
        """The table as the target of a write by many tasks."""
        raise self._lacks("writes")

    def sink_for(self, rows: pa.Schema, mode: Mode = Mode.APPEND, commit_user: str | None = None) -> Sink:
        """The table as the target of rows with these columns (case does not matter). If the format can change columns
        with a write, and the options ask for that, the table takes new columns."""
        return self.sink(mode, commit_user)

    def write(self, data: Any, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
        """Write rows as one commit.

            table.write(pyarrow.table({"id": [1, 2], "amount": [10, 20]}), mode="upsert")

        `data` is a pyarrow Table, RecordBatch or RecordBatchReader, or anything with `__arrow_c_stream__`. `mode` is
        "append", "overwrite", "upsert" (rows replace those of the same key; a column `_row_kind` makes them changes)
        or "delete" (rows name the keys to remove). `options` are table options for this write.

        Raises SchemaError when rows do not fit and CommitConflictError when another writer's commit conflicts. Nothing
        is visible after an error, except after CommitUnknownError, which says how to find out.
        """
        raise self._lacks("writes")

    def writer(self, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> Any:
        """A writer whose caller decides when to commit (`lakebed.verbs.two_phase.TableWriter`).

        `commit_user` identifies the caller over restarts: a user and an identifier are committed once. `callbacks` run
        after each commit (`lakebed.callbacks`).
        """
        raise self._lacks("two-phase writes")

    def rewrite(
        self,
        where: Where = None,
        dry_run: bool = False,
        engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> RewriteResult:
        """Rewrite data files: bin-pack, sort or compact them, as the format and its options say.

        `where` restricts the files. A dry run changes nothing and says which files would be rewritten, and why. Pass an
        engine, such as `lakebed.spark.SparkEngine(spark)`, to run the tasks elsewhere than in this process.
        """
        raise self._lacks("rewrite")

    def expire(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ExpireResult:
        """Remove old snapshots, and the files that only they need. A dry run says what would go, and what stays and
        why."""
        raise self._lacks("expire")

    def archive(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ArchiveResult:
        """Move old instants from a Hudi table's active timeline to its archived one.

        A dry run says what would move, what stays, and what holds it.
        """
        raise self._lacks("archive")

    def refs(self) -> list[Ref]:
        """The table's branches and tags, by kind and name."""
        raise self._lacks("tags")

    def tag(self, name: str, snapshot: Position = None, time_retained: Span = None) -> RefResult | None:
        """Give a snapshot a name, under which it is kept and can be read (`as_of="tag:NAME"`). Default: the newest.

        `time_retained` is how long the tag lives; None: as the table says."""
        raise self._lacks("tags")

    def rename_tag(self, name: str, to: str) -> RefResult | None:
        """Give a tag another name (Paimon)."""
        raise self._lacks("renamed tags")

    def delete_tag(self, name: str) -> RefResult | None:
        """Remove a tag. NotInHistoryError when there is none of that name."""
        raise self._lacks("tags")

    def branch(self, name: str, at: Position = None) -> RefResult | None:
        """Make a branch of the snapshot at a position; None: as the format says. Open it with the option `branch`."""
        raise self._lacks("branches")

    def delete_branch(self, name: str) -> RefResult | None:
        """Remove a branch. NotInHistoryError when there is none of that name."""
        raise self._lacks("branches")

    def fast_forward(self, name: str) -> RefResult | None:
        """Put the branch that is open where the branch `name` is."""
        raise self._lacks("branches")

    def retain(self, name: str, options: Mapping[str, object], dry_run: bool = False) -> RefResult:
        """Change how long a branch or tag keeps snapshots, and how long it lives itself (Iceberg)."""
        raise self._lacks("retention of branches")

    def cherry_pick(self, snapshot: Position, dry_run: bool = False) -> RefResult:
        """Put the changes of one snapshot on top of the branch that is open (Iceberg)."""
        raise self._lacks("cherry-pick")

    def publish(self, wap_id: str, dry_run: bool = False) -> RefResult:
        """Make a write visible that was staged under a name, its `wap.id` (Iceberg)."""
        raise self._lacks("staged writes")

    def rollback(self, to: Position | datetime.date, dry_run: bool = False) -> RollbackResult:
        """Put the table back to where it was at a tag, an instant, a snapshot or a time.

            table.rollback("tag:before-import", dry_run=True).removed      # what would go
            table.rollback("tag:before-import")

        What is newer goes, and can't be brought back where the format deletes its files (Hudi, Paimon). Stop the
        table's writers first: a commit that is under way builds on what goes. Raises NotInHistoryError when there is no
        such moment, and UsageError for one that the table cannot go back to.
        """
        raise self._lacks("rollback")

    def mark_partition_done(
        self, partitions: Sequence[Mapping[str, Any]], dry_run: bool = False, options: Mapping[str, object] = {}
    ) -> tuple[str, ...]:
        """Say that partitions are complete, each given by its values by column. Returns the paths of the files that say
        so; a dry run only names them."""
        raise self._lacks("marks of partitions")

    def alter(self, changes: Change | Sequence[Change], dry_run: bool = False) -> AlterResult:
        """Change the table's columns and options, in one step and in this order. No data file is rewritten.

            table.alter([lakebed.add_column("note", "string"), lakebed.widen("amount", "int64")], dry_run=True).changes

        A dry run says what would change. Raises SchemaError and OptionError for what the format refuses, and nothing of
        the changes is made then.
        """
        raise self._lacks("alter")

    def add_files(
        self, paths: str | Sequence[str], dry_run: bool = False, engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> AddFilesResult:  # fmt: skip
        """Add files that lie somewhere already to the table, as they are, in one commit.

            table.add_files("/lake/landing/orders")        # a folder in Hive's layout, or a list of files

        A dry run says what would be added to which partition.
        """
        raise self._lacks("adding of files")

    def repair(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> RepairResult:
        """Find files that the table names and that are gone or damaged, and commit a snapshot without them.

            table.repair(dry_run=True).lost        # which files, their rows, partitions and snapshots, and the remedy

        A dry run only checks. Pass an engine to check on other machines.
        """
        raise self._lacks("repair")

    def relocate(self, dry_run: bool = False) -> RelocateResult:
        """After a table was moved or copied: make its metadata name the folder where it was opened."""
        raise self._lacks("relocation")

    def rewrite_table_path(self, target: str, staging: str, since: str = "", dry_run: bool = False) -> TablePathResult:
        """Write the table's metadata for another place to a staging folder, and list the files to copy there."""
        raise self._lacks("rewrite of table paths")

    def compute_table_stats(
        self, columns: Sequence[str] | None = None, snapshot: Position = None, dry_run: bool = False,
        engine: Engine | None = None,
    ) -> TableStatsResult:  # fmt: skip
        """Count the different values of columns in a snapshot, and keep the figures beside it for query planners."""
        raise self._lacks("table statistics")

    def compute_partition_stats(self, snapshot: Position = None, dry_run: bool = False) -> PartitionStatsResult:
        """Sum up the files, rows and bytes of each partition of a snapshot, and keep the figures beside it."""
        raise self._lacks("partition statistics")

    def inspect(self, options: Mapping[str, object] = {}) -> TableReport:
        """Report the table's health: figures, findings with advice, and what holds maintenance back.

        `options` are the settings of the jobs that write and maintain the table, where these differ from the table's.
        """
        raise self._lacks("inspect")


def _named(writer: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that makes a writer, so that the writer knows its table."""

    @functools.wraps(writer)
    def made(self: Table, *given: Any, **named: Any) -> Any:
        writes = writer(self, *given, **named)
        writes.of = (self.format, self.location)
        return writes

    return made
