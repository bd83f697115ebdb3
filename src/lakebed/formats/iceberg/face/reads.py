"""Reads of an Iceberg table: rows, changes, streams, metadata as tables, the history and the health report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from lakebed.errors import ReadWarning
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.face.opened import OpenedTable
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import loaded_with_list
from lakebed.formats.iceberg.snapshot import history, schema_at, snapshot_at
from lakebed.kernel.again import looks_again
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.instant import Instant
from lakebed.model.notebooks import ShownList
from lakebed.verbs.arguments import Position
from lakebed.verbs.read import ReadPlan

if TYPE_CHECKING:
    from lakebed.formats.iceberg.read.context import ReadContext
    from lakebed.formats.iceberg.read.stream import IcebergStream
    from lakebed.model.report import TableReport
    from lakebed.verbs.system_tables import SystemTable


class Reads(OpenedTable):
    """The verbs that read a table and change nothing."""

    def history(self, archived: bool = False) -> list[Instant]:
        """All snapshots of all branches, oldest first. `summary["refs"]` names the branches and tags at a snapshot."""
        return ShownList(history(self.table_metadata))

    def newest(self) -> Instant | None:
        """The head of the branch, to be read with the schema that the table has now. None for an empty table, and where
        options name the snapshot to read."""
        from lakebed.formats.iceberg.read.snapshot_options import newest_instant

        if any(map(self._parsed.given, opt.POSITIONS)):
            return None
        metadata = self.table_metadata
        head = metadata.head(self.branch_name)
        if head is None:
            return None
        return newest_instant(head, metadata.current_schema_id)

    def _system_tables(self) -> Mapping[str, Callable[[], SystemTable]]:
        from lakebed.formats.iceberg.system_tables.names import system_tables

        loaded = self.operations.load()
        return system_tables(loaded, self.operations.files, self.branch_name)

    @looks_again
    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None
    ) -> ReadPlan[Any]:
        """Plan a read with one split per data file of the snapshot, or several splits for a large file.

        A read as of a snapshot, time or tag has the schema of that time. Metadata columns (`_file`, `_pos`, `_spec_id`,
        `_row_id`, `_last_updated_sequence_number`) come when `columns` names them. With the options `start-snapshot-id`
        and `end-snapshot-id` the rows are those of appends between two snapshots.
        """
        from lakebed.formats.iceberg.read.appends import plan_appends
        from lakebed.formats.iceberg.read.context import ReadRequest
        from lakebed.formats.iceberg.read.plan import plan_snapshot
        from lakebed.formats.iceberg.read.snapshot_options import append_range, given_position, is_newest
        from lakebed.formats.iceberg.read.task import predicate_schema

        metadata, files = self._to_read(self.branch_name if as_of is None or is_newest(as_of) else None)
        options = self._parsed
        split_size = opt.SPLIT_SIZE.read(metadata.properties.get(opt.SPLIT_SIZE.key, str(opt.SPLIT_SIZE.default)))
        if options.given(opt.SPLIT_SIZE):
            split_size = options[opt.SPLIT_SIZE]
        if options.given(opt.START_SNAPSHOT) or options.given(opt.END_SNAPSHOT):
            start, until = append_range(options, as_of)
            end, schema = self._at(metadata, until)[0], metadata.schema
        else:
            end, schema = self._at(metadata, as_of if as_of is not None else given_position(options))
            start = None
        context = self._context(metadata, schema)
        request = ReadRequest(context, columns, parse_where(where, predicate_schema(context)), split_size)
        planner = self.operations.planner
        if planner is not None and start is None:
            from lakebed.formats.iceberg.read.served_plan import plan_served

            return plan_served(planner, metadata, end, request, self.operations.name)
        if start is not None:
            return plan_appends(files, metadata, start, end, request)
        return plan_snapshot(files, metadata, end, request)

    @looks_again
    def plan_changes(
        self, columns: Sequence[str] | None = None, where: Where = None, after: Position = None, until: Position = None
    ) -> ReadPlan[Any]:
        """Plan a read of the net difference between the snapshots `after` and `until`: rows removed and rows added.

        In format version 3 row ids identify updates (-U, +U). NotInHistoryError when one of the snapshots has expired.
        """
        from lakebed.formats.iceberg.read.changes import plan_difference, range_of
        from lakebed.formats.iceberg.read.context import ReadRequest
        from lakebed.formats.iceberg.read.task import predicate_schema

        opt.refuse_positions(self._parsed, "changes", "Give after= and until=")
        metadata, files = self._to_read()
        start, end = range_of(metadata, after, until, self.branch_name)
        context = self._context(metadata, schema_at(metadata, until, self.branch_name))
        request = ReadRequest(context, columns, parse_where(where, predicate_schema(context)))
        return plan_difference(files, metadata, start, end, request)

    def stream(
        self, columns: Sequence[str] | None = None, where: Where = None, appends_only: bool = False
    ) -> IcebergStream:
        """A stream of changes. It starts where `read.start-commit` says, by default with the newest snapshot.

        With `appends_only` it is the stream of Iceberg's own Spark source: the rows of appends, from the oldest
        snapshot on. It refuses deletes and overwrites. It keeps the names of the columns that it began with.
        """
        from lakebed.formats.iceberg.read.stream import IcebergStream

        metadata, _ = self._to_read()
        options = self._parsed
        names = tuple(field.name for field in metadata.schema.fields) if columns is None else tuple(columns)
        opt.refuse_positions(options, "a stream", f"Start it with {opt.START_COMMIT.key} or {opt.STREAM_FROM.key}")
        return IcebergStream(
            self.operations.files, lambda: self.table_metadata, options, self.branch_name, names, where, appends_only
        )

    @looks_again
    def inspect(self, options: Mapping[str, object] = {}) -> TableReport:
        """Report the health of the branch: snapshots, branches and tags, small files, deletes, manifests, metadata.

        `options` are those of `expire`, and table properties that a writer sets for itself.
        """
        from lakebed.formats.iceberg.inspect import inspect

        return inspect(self.operations, self.branch_name, self._given(options))

    def _to_read(self, branch: str | None = None) -> tuple[TableMetadata, Files]:
        """The current metadata, and the files to read. A `branch` is given when its head is going to be read.

        It warns when the metadata says that the table lies elsewhere.
        """
        if branch is not None:
            loaded, files = loaded_with_list(self.operations, branch)
        else:
            loaded = self.operations.load()
            files = self.operations.files
        moved_from = self.operations.moved_from
        if moved_from:
            warnings.warn(
                ReadWarning(
                    f"the metadata of {self.location} says that the table lies at {moved_from}: it is a copy or was "
                    "moved. Files are read from where it was opened, and it cannot be changed there",
                    table=self.location,
                ),
                stacklevel=3,
            )
        return loaded.metadata, files

    def _at(self, metadata: TableMetadata, position: Position) -> tuple[Snapshot | None, Schema]:
        """The snapshot of a position, and the schema to read it with."""
        from lakebed.formats.iceberg.read.snapshot_options import is_newest, schema_id_of

        if is_newest(position):
            return metadata.snapshot(int(position.time)), metadata.schemas[schema_id_of(position)]
        return snapshot_at(metadata, position, self.branch_name), schema_at(metadata, position, self.branch_name)

    def _context(self, metadata: TableMetadata, schema: Schema) -> ReadContext:
        from lakebed.formats.iceberg.read.context import ReadContext

        return ReadContext.of(metadata, schema, self._parsed[opt.DELETE_MEMORY])
