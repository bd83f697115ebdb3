"""The public face of an Iceberg table, over the format's own modules."""

from __future__ import annotations

import datetime
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.schema import Schema

from lakebed.errors import (
    CommitUnknownError,
    OptionError,
    ReadWarning,
    TableExistsError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.add_files.run import add_files
from lakebed.formats.iceberg.alter.run import alter_table
from lakebed.formats.iceberg.alter.union import sink_of
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import (
    Loaded,
    LostRaceError,
    OutcomeUnknownError,
    TableOperations,
    refuse_writing,
)
from lakebed.formats.iceberg.catalog.table import CatalogTable, parse_identifier
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.commit.branches_and_tags import (
    Wanted,
    delete_ref,
    fast_forward,
    list_refs,
    put_ref,
    retain,
)
from lakebed.formats.iceberg.commit.callbacks import excluding_callbacks, named_callbacks, report_rewrite
from lakebed.formats.iceberg.commit.cherry_pick import cherry_pick, staged_as
from lakebed.formats.iceberg.commit.retention import MAX_REF_AGE
from lakebed.formats.iceberg.definition import new_metadata, new_schema, new_spec, table_properties
from lakebed.formats.iceberg.expire.options import parsed
from lakebed.formats.iceberg.expire.steps import expire_by_steps
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.inspect import inspect
from lakebed.formats.iceberg.layout import places_of
from lakebed.formats.iceberg.manifests import loaded_with_list
from lakebed.formats.iceberg.read.appends import plan_appends
from lakebed.formats.iceberg.read.changes import plan_difference, range_of
from lakebed.formats.iceberg.read.context import ReadContext, ReadRequest
from lakebed.formats.iceberg.read.plan import plan_snapshot
from lakebed.formats.iceberg.read.snapshot_options import (
    append_range,
    given_position,
    is_newest,
    newest_instant,
    schema_id_of,
)
from lakebed.formats.iceberg.read.stream import IcebergStream
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.relocate.copy import rewrite_table_path
from lakebed.formats.iceberg.relocate.run import relocate
from lakebed.formats.iceberg.repair.run import repair
from lakebed.formats.iceberg.rewrite.choose import rewrite
from lakebed.formats.iceberg.rollback import roll_back
from lakebed.formats.iceberg.snapshot import history, schema_at, snapshot_at
from lakebed.formats.iceberg.system_tables.names import system_tables
from lakebed.formats.iceberg.write.options import OPTIONS as WRITE_OPTIONS
from lakebed.formats.iceberg.write.options import WAP_ID
from lakebed.formats.iceberg.write.sink import IcebergSink
from lakebed.kernel.again import looks_again
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store
from lakebed.kernel.options import option_texts
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.alter import AlterResult, Change
from lakebed.model.commit import CommitResult
from lakebed.model.instant import Instant
from lakebed.model.refs import Ref, RefResult
from lakebed.model.report import TableReport
from lakebed.model.upkeep import (
    AddFilesResult,
    ExpireResult,
    RelocateResult,
    RepairResult,
    RewriteResult,
    RollbackResult,
    TablePathResult,
)
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.system_tables import SystemTable
from lakebed.verbs.table import Position, Span, Table, checked_name, checked_position, checked_span, checked_target
from lakebed.verbs.two_phase import TableWriter
from lakebed.verbs.write import Mode

_OPTIONS = opt.OPTIONS + WRITE_OPTIONS
"""The options of opening a table. They include those of reads and of writes."""


class IcebergTable(Table):
    """An Iceberg table, opened by its path or from a catalog. The option `branch` chooses a branch."""

    format: ClassVar[str] = "iceberg"
    unknown_to_format: ClassVar[Mapping[str, str]] = {"archive": "Bound its history by expiring snapshots"}

    def __init__(
        self, store: Store, options: Mapping[str, str] = {}, operations: TableOperations | None = None
    ) -> None:
        super().__init__(store, options)
        parsed = _OPTIONS.parse(options)
        self.operations = operations or HadoopTable(store, options)
        self._wap_branch, self._target = parsed[opt.WAP_BRANCH], parsed[opt.WAP_BRANCH] or parsed[opt.BRANCH]
        metadata = self.table_metadata
        if not self._wap_branch:
            metadata.head(self._target)
            return
        opt.refuse_without_audit(metadata.properties, options, opt.WAP_BRANCH.key, self.operations.name)
        if parsed.given(opt.BRANCH):
            raise OptionError(
                f"{opt.BRANCH.key} and {opt.WAP_BRANCH.key} are given", key=opt.WAP_BRANCH.key,
                table=self.operations.name, todo="Give one of them",
            )  # fmt: skip
        metadata.parent_on(self._target)

    @classmethod
    def of_catalog(cls, name: str, options: Mapping[str, str] = {}) -> IcebergTable:
        """Open the table `catalog:namespace.table` of one of pyiceberg's catalogs.

        Options `lakebed.catalog.*` are properties of the catalog. They take precedence over pyiceberg's configuration.
        """
        _OPTIONS.parse(options)
        operations = CatalogTable(parse_identifier(name), options)
        return cls(operations.files.home, options, operations)

    @classmethod
    def create(
        cls, store: Store, schema: pa.Schema, primary_key: Sequence[str] = (), partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> IcebergTable:  # fmt: skip
        """Create a table at a path, without a snapshot. Options are table properties, and `format-version` (2).

        Raises SchemaError, UsageError and OptionError for a definition that Iceberg does not allow, TableExistsError
        when there is already a table, CommitUnknownError when the store does not say whether it was created.
        """
        version, properties = table_properties(options)
        columns = new_schema(schema, primary_key, version, store.location)
        spec = new_spec(columns, partition_by, store.location)
        operations = HadoopTable(store, options, places_of(properties))  # the caller names these places in this call
        try:
            operations.create(new_metadata(store.location, columns, spec, version, properties))
        except LostRaceError as error:
            raise TableExistsError(
                "there is already an iceberg table", table=store.location, todo="Open it with lakebed.open"
            ) from error
        except OutcomeUnknownError as error:
            raise CommitUnknownError(
                "the store does not say whether the table was created",
                table=store.location,
                todo="Try to open it with lakebed.open before you create it again",
            ) from error
        return cls(store, _opening(options), operations)

    @classmethod
    def create_in_catalog(
        cls, name: str, schema: pa.Schema, primary_key: Sequence[str] = (), partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> IcebergTable:  # fmt: skip
        """Create the table `catalog:namespace.table`. The catalog chooses its location.

        Raises what `create` raises.
        """
        version, properties = table_properties(options)
        columns = new_schema(schema, primary_key, version, name)
        operations = CatalogTable(parse_identifier(name), options)
        operations.create(columns, new_spec(columns, partition_by, name), version, properties)
        return cls(operations.files.home, _opening(options), operations)

    def leave_catalog(self) -> None:
        """Remove the table from its catalog, if it has one. Its files stay."""
        if isinstance(self.operations, CatalogTable):
            self.operations.drop()

    @property
    def branch_name(self) -> str:
        """The branch to read: that of the option `branch`, or of `wap.branch` once it exists, else `main`."""
        return self._target if not self._wap_branch or self._wap_branch in self.table_metadata.refs else MAIN

    @property
    def table_metadata(self) -> TableMetadata:
        """The current metadata, read at each call."""
        return self.operations.load().metadata

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as Arrow has them."""
        return arrow_schema(self.table_metadata.schema)

    def _system_tables(self) -> Mapping[str, Callable[[], SystemTable]]:
        loaded = self.operations.load()
        return system_tables(loaded, self.operations.files, self.branch_name)

    def history(self, archived: bool = False) -> list[Instant]:
        """All snapshots of all branches, oldest first. `summary["refs"]` names the branches and tags at a snapshot."""
        return history(self.table_metadata)

    def refs(self) -> list[Ref]:
        """The branches and tags of the table."""
        return list_refs(self.table_metadata)

    def tag(
        self, name: str, snapshot: Position = None, time_retained: Span = None, *, replace: bool = False,
        dry_run: bool = False,
    ) -> RefResult:  # fmt: skip
        """Tag a snapshot. Default: the newest of the branch. An expiry removes the tag when its snapshot is older than
        `time_retained`. With `replace` a tag of that name moves. UsageError for a name that is taken, NotInHistoryError
        when there is no such snapshot."""
        age = checked_span(time_retained)
        kept = {} if age is None else {MAX_REF_AGE.key: max(1, age // datetime.timedelta(milliseconds=1))}
        position = checked_position(snapshot)
        wanted = Wanted(checked_name(name, "tag"), False, position, self._target, kept, replace)
        return put_ref(self.operations, wanted, dry_run)

    def delete_tag(self, name: str, *, dry_run: bool = False) -> RefResult:
        """Delete a tag. NotInHistoryError when there is none of that name."""
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
        wanted = Wanted(checked_name(name, "branch"), True, checked_position(at), self._target, options, replace)
        return put_ref(self.operations, wanted, dry_run)

    def retain(self, name: str, options: Mapping[str, object], dry_run: bool = False) -> RefResult:
        """Change how long a branch or tag keeps snapshots and lives: `min-snapshots-to-keep` and `max-snapshot-age-ms`
        of a branch, `max-ref-age-ms` of either. NotInHistoryError when there is none of that name."""
        return retain(self.operations, checked_name(name, "branch or tag"), options, dry_run)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> RefResult:
        """Delete a branch. Its snapshots stay until they expire. NotInHistoryError when there is none of that name."""
        return delete_ref(self.operations, checked_name(name, "branch"), is_branch=True, dry_run=dry_run)

    def fast_forward(self, name: str, *, dry_run: bool = False) -> RefResult:
        """Put the branch that is open at the snapshot of the branch or tag `name`, which must come after its own head.
        UsageError where it does not."""
        return fast_forward(self.operations, self._target, checked_name(name, "branch"), dry_run)

    def cherry_pick(self, snapshot: Position, dry_run: bool = False) -> RefResult:
        """Put the changes of one snapshot on top of the branch that is open: of an append, of a dynamic overwrite whose
        partitions have not changed since, or of any snapshot that was made on top of the branch's head.

        Raises UsageError for a snapshot that the branch has already or that cannot be picked, CommitConflictError,
        NotInHistoryError.
        """
        position = checked_target(snapshot, "a cherry-pick needs a snapshot")

        def choose(metadata: TableMetadata) -> Snapshot:
            picked = snapshot_at(metadata, position, self._target)
            assert picked is not None
            return picked

        return cherry_pick(self.operations, self._target, choose, _properties(self.options), dry_run)

    def publish(self, wap_id: str, dry_run: bool = False) -> RefResult:
        """Make a write visible that was staged with the option `wap.id`, as a cherry-pick of its snapshot.

        Raises what `cherry_pick` raises.
        """
        choose = staged_as(checked_name(wap_id, "staged write"), self._target)
        return cherry_pick(self.operations, self._target, choose, _properties(self.options), dry_run)

    @looks_again
    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None
    ) -> ReadPlan[Any]:
        """Plan a read with one split per data file of the snapshot, or several splits for a large file.

        A read as of a snapshot, time or tag has the schema of that time. Metadata columns (`_file`, `_pos`, `_spec_id`,
        `_row_id`, `_last_updated_sequence_number`) come when `columns` names them. With the options `start-snapshot-id`
        and `end-snapshot-id` the rows are those of appends between two snapshots.
        """
        metadata, files = self._to_read(self.branch_name if as_of is None or is_newest(as_of) else None)
        options = _OPTIONS.parse(self.options)
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
        opt.refuse_positions(_OPTIONS.parse(self.options), "changes", "Give after= and until=")
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
        metadata, _ = self._to_read()
        options = _OPTIONS.parse(self.options)
        names = tuple(field.name for field in metadata.schema.fields) if columns is None else tuple(columns)
        opt.refuse_positions(options, "a stream", f"Start it with {opt.START_COMMIT.key} or {opt.STREAM_FROM.key}")
        return IcebergStream(
            self.operations.files, lambda: self.table_metadata, options, self.branch_name, names, where, appends_only
        )

    def sink(
        self,
        mode: Mode = Mode.APPEND,
        commit_user: str | None = None,
        callbacks: Sequence[Any] = (),
        options: Mapping[str, object] = {},
    ) -> IcebergSink:
        """The table as the target of a write by many tasks.

        Raises OptionError, UsageError when the mode needs a key and there is none, UnsupportedError for a table that
        lakebed does not write.
        """
        return self._sink(mode, commit_user, callbacks, options)

    def sink_for(self, rows: pa.Schema, mode: Mode = Mode.APPEND, commit_user: str | None = None) -> IcebergSink:
        """The table as the target of rows with these columns. With the option `merge-schema` it is altered first, where
        it does not have them."""
        return self._sink(mode, commit_user, rows=rows)

    def _sink(
        self,
        mode: Mode,
        commit_user: str | None = None,
        callbacks: Sequence[Any] = (),
        options: Mapping[str, object] = {},
        rows: pa.Schema | None = None,
    ) -> IcebergSink:
        loaded = self._to_write()
        given = {**self.options, **option_texts(options)}
        return sink_of(self.operations, loaded, given, mode, self._target, commit_user, callbacks, rows)

    def write(self, data: Any, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
        """Write rows as one commit: append, overwrite, upsert or delete by key (docs/iceberg-sink.md).

        Raises SchemaError when rows do not fit. When the write fails, nothing is visible and no file stays.
        """
        rows = data.schema if isinstance(getattr(data, "schema", None), pa.Schema) else None
        if rows is None and hasattr(data, "__arrow_c_stream__"):
            data = pa.RecordBatchReader.from_stream(data)
            rows = data.schema
        with TableWriter(self._sink(Mode.parse(mode), options=options, rows=rows)) as writer:
            writer.write(data)
            writer.prepare_commit()
        return writer.commit_for_good()

    def writer(self, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> TableWriter:
        """A writer whose caller decides when to commit. It appends rows; rows with a `_row_kind` are changes by key."""
        return TableWriter(self.sink(commit_user=commit_user, callbacks=callbacks))

    def rewrite(
        self,
        where: Where = None,
        dry_run: bool = False,
        engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> RewriteResult:
        """Bin-pack, sort or z-order data files into files of the target size, in one REPLACE snapshot. Deletes are
        applied.

        `where` chooses files that may hold a matching row. A dry run says what would be rewritten and why, and what
        would not, and predicts files and bytes. Options are those of Iceberg's `rewrite_data_files`, and
        `lakebed.rewrite.*`. With `lakebed.rewrite.what` = position-deletes or manifests these are rewritten instead.
        Raises CommitConflictError when others changed the same files meanwhile; no new file stays then.
        """
        given = option_texts(options)
        callbacks = named_callbacks({**self.options, **given}).made
        commit = {k: v for k, v in _properties(self.options).items() if k.startswith("commit.")}
        memory = _OPTIONS.parse(self.options)[opt.DELETE_MEMORY]
        chosen = excluding_callbacks(given)
        if WAP_ID.key in {key.lower() for key in (*self.options, *given)}:
            raise OptionError(
                f"a rewrite cannot be staged by {WAP_ID.key}", key=WAP_ID.key, table=self.operations.name,
                todo="Rewrite a branch, with the option branch",
            )  # fmt: skip
        done = rewrite(self.operations, self._target, where, chosen, commit, memory, dry_run, engine)
        return report_rewrite(done, self.operations.name, () if dry_run else callbacks)

    def expire(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ExpireResult:
        """Expire old snapshots of all branches, and remove the files that only they have.

        With `remove-orphan-files`, files that no snapshot knows go as well, once they are old enough. Options are the
        arguments of Iceberg's procedures (docs/iceberg-upkeep.md). Raises UnsupportedError where `gc.enabled` is false.
        """
        given = parsed({**_properties(self.options), **option_texts(options)})
        return expire_by_steps(self.operations, given, dry_run)

    def alter(self, changes: Change | Sequence[Change], dry_run: bool = False) -> AlterResult:
        """Change columns, identifier fields, partition fields, sort order, properties and format version
        (docs/iceberg-alter.md).

        `version` of the result is the schema's id. Raises SchemaError and OptionError for what Iceberg refuses,
        CommitConflictError when another alteration was faster.
        """
        return alter_table(self.operations, changes, dry_run)

    def rollback(
        self, to: Position | datetime.date, dry_run: bool = False, any_snapshot: bool = False
    ) -> RollbackResult:
        """Make an ancestor of the branch's head its head. The later snapshots stay in the metadata until they expire.

        A time means the newest ancestor of that time or before it. With `any_snapshot` the head becomes whichever
        snapshot is named, of another branch or in none. Raises NotInHistoryError when there is no such snapshot,
        UsageError for one that is no ancestor, CommitConflictError.
        """
        return roll_back(self.operations, self._target, checked_target(to), dry_run, any_snapshot)

    def add_files(
        self, paths: str | Sequence[str], dry_run: bool = False, engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> AddFilesResult:  # fmt: skip
        """Add Parquet, ORC and Avro files, or all those of folders, in one append. They stay where they are, and belong
        to the table then.

        Partition values come from paths (`dt=2026-11-01/`), else from the files' metrics where they leave one value.
        Raises UsageError for files that the table has already, SchemaError for those that do not fit it, and
        UnsupportedError for a place that the table may not touch (docs/iceberg-add-files.md).
        """
        locations = [paths] if isinstance(paths, str | os.PathLike) else paths
        if not isinstance(locations, Sequence) or not all(isinstance(one, str | os.PathLike) for one in locations):
            raise UsageError(f"paths is a {type(paths).__name__}", todo="Give a location, or a list of locations")
        given = {**_properties(self.options), **option_texts(options)}
        urls = [os.fspath(one) for one in locations]
        return add_files(self.operations, self._target, urls, given, dry_run, engine)

    def repair(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> RepairResult:
        """Check the files of the branch's head, and commit a snapshot without those that are gone or damaged.

        Options are `lakebed.repair.*` (docs/iceberg-repair.md). Raises CorruptError where the caller must decide: lost
        deletes, whose rows would come back, a lost manifest list, more than half of the files lost. StorageError when
        the store does not answer: a file is lost only if the store says so. CommitConflictError, CommitUnknownError.
        """
        given = {**_properties(self.options), **option_texts(options)}
        return repair(self.operations, self._target, given, dry_run, engine)

    def relocate(self, dry_run: bool = False) -> RelocateResult:
        """After the table was moved or copied: make its metadata name the folder where it was opened.

        Manifests, manifest lists and position delete files of all snapshots are rewritten with the paths of this
        folder, and the next metadata version names them. UnsupportedError for a catalog's table, and where files are
        missing here; CommitConflictError when another change was faster.
        """
        if not isinstance(self.operations, HadoopTable):
            raise UnsupportedError(
                "the catalog decides where this table lies",
                table=self.operations.name,
                todo="Register the metadata file of the new location with the catalog",
            )
        return relocate(self.operations, dry_run)

    def rewrite_table_path(self, target: str, staging: str, since: str = "", dry_run: bool = False) -> TablePathResult:
        """Write the metadata of a copy of the table at `target` to the folder `staging`, and list the files to copy.

        The table is only read: it may be a backup that no catalog knows, or a table that was moved. With `since`, the
        name of an older metadata file, data files that an earlier copy has are left out. Copy each pair of `copies`
        (also in `staging`/file-list.csv), then register `metadata`, or open the target by its path. Raises
        UnsupportedError for a table with files outside its folder, UsageError for folders inside one another.
        """
        return rewrite_table_path(
            self.operations, checked_name(target, "target"), checked_name(staging, "staging folder"), since, dry_run
        )

    @looks_again
    def inspect(self, options: Mapping[str, object] = {}) -> TableReport:
        """Report the health of the branch: snapshots, branches and tags, small files, deletes, manifests, metadata.

        `options` are those of `expire`, and table properties that a writer sets for itself.
        """
        return inspect(self.operations, self.branch_name, {**_properties(self.options), **option_texts(options)})

    def newest(self) -> Instant | None:
        """The head of the branch, to be read with the schema that the table has now. None for an empty table, and where
        options name the snapshot to read."""
        if any(map(_OPTIONS.parse(self.options).given, opt.POSITIONS)):
            return None
        metadata = self.table_metadata
        head = metadata.head(self.branch_name)
        if head is None:
            return None
        return newest_instant(head, metadata.current_schema_id)

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

    def _to_write(self) -> Loaded:
        """The current metadata, for a write. Raises what `refuse_writing` raises."""
        loaded = self.operations.load()
        refuse_writing(self.operations, loaded)
        return loaded

    def _at(self, metadata: TableMetadata, position: Position) -> tuple[Snapshot | None, Schema]:
        """The snapshot of a position, and the schema to read it with."""
        if is_newest(position):
            return metadata.snapshot(int(position.time)), metadata.schemas[schema_id_of(position)]
        return snapshot_at(metadata, position, self.branch_name), schema_at(metadata, position, self.branch_name)

    def _context(self, metadata: TableMetadata, schema: Schema) -> ReadContext:
        return ReadContext.of(metadata, schema, _OPTIONS.parse(self.options)[opt.DELETE_MEMORY])


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    """The options of `open` that take precedence over table properties."""
    return {key: value for key, value in options.items() if opt.known_property(key)}


def _opening(options: Mapping[str, str]) -> dict[str, str]:
    """The options of `create` that say how to open the table."""
    return {key: value for key, value in options.items() if opt.OPENING.knows(key)}
