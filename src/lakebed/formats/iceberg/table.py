"""An Iceberg table: the face, over the format's own modules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeGuard

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
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import (
    LostRaceError,
    OutcomeUnknownError,
    TableOperations,
    refuse_writing,
)
from lakebed.formats.iceberg.catalog.table import CatalogTable, parse_identifier
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.commit.branches_and_tags import create_branch, create_tag, delete_ref
from lakebed.formats.iceberg.commit.callbacks import excluding_callbacks, named_callbacks, report_rewrite
from lakebed.formats.iceberg.definition import new_metadata, new_schema, new_spec, table_properties
from lakebed.formats.iceberg.expire.options import EXPIRE_SNAPSHOTS, REMOVE_ORPHANS, parsed
from lakebed.formats.iceberg.expire.orphans import remove_orphans
from lakebed.formats.iceberg.expire.run import expire
from lakebed.formats.iceberg.inspect import inspect
from lakebed.formats.iceberg.layout import places_of
from lakebed.formats.iceberg.read.appends import plan_appends
from lakebed.formats.iceberg.read.changes import plan_difference, range_of
from lakebed.formats.iceberg.read.context import ReadContext, ReadRequest
from lakebed.formats.iceberg.read.plan import plan_snapshot
from lakebed.formats.iceberg.read.stream import IcebergStream
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.relocate.run import relocate
from lakebed.formats.iceberg.rewrite.manifests import rewrite_manifests, rewrite_what
from lakebed.formats.iceberg.rewrite.position_deletes import PositionDeleteRewrite
from lakebed.formats.iceberg.rewrite.run import IcebergRewrite
from lakebed.formats.iceberg.snapshot import history, iso_time, schema_at, snapshot_at
from lakebed.formats.iceberg.write.options import OPTIONS as WRITE_OPTIONS
from lakebed.formats.iceberg.write.options import WriteOptions
from lakebed.formats.iceberg.write.sink import IcebergSink
from lakebed.kernel.again import looks_again
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options, option_texts
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.commit import BATCH_IDENTIFIER, CommitResult
from lakebed.model.instant import Instant
from lakebed.model.report import TableReport
from lakebed.model.upkeep import ExpireResult, RelocateResult, RewriteResult
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.table import Position, Table, checked_name, checked_position
from lakebed.verbs.two_phase import TableWriter
from lakebed.verbs.write import Mode

_OPTIONS = opt.OPTIONS + WRITE_OPTIONS
"""What opening a table takes: what reads and writes take too."""


class IcebergTable(Table):
    """An Iceberg table, by path or of a catalog; the option `branch` picks a branch."""

    format: ClassVar[str] = "iceberg"
    unknown_to_format: ClassVar[Mapping[str, str]] = {"archive": "Its history is bounded by expiring snapshots"}

    def __init__(
        self, store: Store, options: Mapping[str, str] = {}, operations: TableOperations | None = None
    ) -> None:
        super().__init__(store, options)
        self.branch = _OPTIONS.parse(options)[opt.BRANCH]
        self.operations = operations or HadoopTable(store, options)
        self.metadata.head(self.branch)

    @classmethod
    def of_catalog(cls, name: str, options: Mapping[str, str] = {}) -> IcebergTable:
        """The table `catalog:namespace.table` of one of pyiceberg's catalogs.

        Options `lakebed.catalog.*` are properties of the catalog, over pyiceberg's own configuration.
        """
        _OPTIONS.parse(options)
        operations = CatalogTable(parse_identifier(name), options)
        return cls(operations.files.home, options, operations)

    @classmethod
    def create(
        cls, store: Store, schema: pa.Schema, primary_key: Sequence[str] = (), partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> IcebergTable:  # fmt: skip
        """A new table at a path, without a snapshot. Options are table properties, and `format-version` (2).

        Raises SchemaError, UsageError and OptionError for a definition that Iceberg does not allow, TableExistsError
        when another one was faster.
        """
        version, properties = table_properties(options)
        columns = new_schema(schema, primary_key, version, store.location)
        spec = new_spec(columns, partition_by, store.location)
        operations = HadoopTable(store, options, places_of(properties))  # the caller names them, here and now
        try:
            operations.create(new_metadata(store.location, columns, spec, version, properties))
        except LostRaceError as error:
            raise TableExistsError(
                "an iceberg table is there already", table=store.location, todo="Open it with lakebed.open"
            ) from error
        except OutcomeUnknownError as error:
            raise CommitUnknownError(
                "the store does not say whether the table was made", table=store.location,
                todo="Look with lakebed.open, then try again",
            ) from error  # fmt: skip
        return cls(store, _opening(options), operations)

    @classmethod
    def create_in_catalog(
        cls, name: str, schema: pa.Schema, primary_key: Sequence[str] = (), partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> IcebergTable:  # fmt: skip
        """A new table `catalog:namespace.table`; its place is the catalog's choice."""
        version, properties = table_properties(options)
        columns = new_schema(schema, primary_key, version, name)
        operations = CatalogTable(parse_identifier(name), options)
        operations.create(columns, new_spec(columns, partition_by, name), version, properties)
        return cls(operations.files.home, _opening(options), operations)

    def leave_catalog(self) -> None:
        """Take the table out of its catalog, where it has one. Its files stay."""
        if isinstance(self.operations, CatalogTable):
            self.operations.drop()

    @property
    def metadata(self) -> TableMetadata:
        """The current metadata, read anew."""
        return self.operations.load().metadata

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return arrow_schema(self.metadata.schema)

    def history(self, archived: bool = False) -> list[Instant]:
        """All snapshots, oldest first, also those of other branches; `summary["refs"]` names branches and tags."""
        return history(self.metadata)

    def tag(self, name: str, snapshot: Position = None) -> None:
        """Name a snapshot, the newest of the branch when none is given. UsageError for a name that is taken,
        NotInHistoryError without a snapshot."""
        create_tag(self.operations, checked_name(name, "tag"), checked_position(snapshot), self.branch)

    def delete_tag(self, name: str) -> None:
        """Remove a tag; NotInHistoryError when there is none."""
        delete_ref(self.operations, checked_name(name, "tag"), is_branch=False)

    def branch_off(self, name: str, snapshot: Position = None) -> None:
        """Start a branch at a snapshot, the newest of this one when none is given; open it with the option `branch`."""
        create_branch(self.operations, checked_name(name, "branch"), checked_position(snapshot), self.branch)

    def delete_branch(self, name: str) -> None:
        """Remove a branch; its snapshots stay until they are expired."""
        delete_ref(self.operations, checked_name(name, "branch"), is_branch=True)

    @looks_again
    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None
    ) -> ReadPlan[Any]:
        """One split a data file of the snapshot, several for a large one.

        A read as of a snapshot, time or tag has the schema of that time. Metadata columns (`_file`, `_pos`, `_spec_id`,
        `_row_id`, `_last_updated_sequence_number`) come when they are asked for by name. The options
        `start-snapshot-id` and `end-snapshot-id` make it the rows of appends between two snapshots.
        """
        metadata, options = self._to_read(), _OPTIONS.parse(self.options)
        split_size = opt.SPLIT_SIZE.read(metadata.properties.get(opt.SPLIT_SIZE.key, str(opt.SPLIT_SIZE.default)))
        if options.given(opt.SPLIT_SIZE):
            split_size = options[opt.SPLIT_SIZE]
        if options.given(opt.START_SNAPSHOT) or options.given(opt.END_SNAPSHOT):
            start, until = _append_range(options, as_of)
            end, schema = self._at(metadata, until)[0], metadata.schema
        else:
            end, schema = self._at(metadata, as_of if as_of is not None else _given_position(options))
            start = None
        context = self._context(metadata, schema)
        request = ReadRequest(context, columns, parse_where(where, predicate_schema(context)), split_size)
        if start is not None:
            return plan_appends(self.operations.files, metadata, start, end, request)
        return plan_snapshot(self.operations.files, metadata, end, request)

    @looks_again
    def plan_changes(
        self, columns: Sequence[str] | None = None, where: Where = None, after: Position = None, until: Position = None
    ) -> ReadPlan[Any]:
        """What leads from the snapshot `after` to the snapshot `until`: rows taken away and added, net.

        Tables of format version 3 tell updates (-U, +U) by row ids. NotInHistoryError where an end is expired.
        """
        opt.refuse_positions(_OPTIONS.parse(self.options), "changes", "Give after= and until=")
        metadata = self._to_read()
        start, end = range_of(metadata, after, until, self.branch)
        context = self._context(metadata, schema_at(metadata, until, self.branch))
        request = ReadRequest(context, columns, parse_where(where, predicate_schema(context)))
        return plan_difference(self.operations.files, metadata, start, end, request)

    def stream(
        self, columns: Sequence[str] | None = None, where: Where = None, appends_only: bool = False
    ) -> IcebergStream:
        """A stream of changes, started where `read.start-commit` says; without it at the newest snapshot.

        With `appends_only` a stream as Iceberg's own Spark source has it: the rows of appends, from the oldest
        snapshot on; it refuses deletes and overwrites.
        """
        self._to_read()
        options, names = _OPTIONS.parse(self.options), None if columns is None else tuple(columns)
        opt.refuse_positions(options, "a stream", f"Start it with {opt.START_COMMIT.key} or {opt.STREAM_FROM.key}")
        return IcebergStream(
            self.operations.files, lambda: self.metadata, options, self.branch, names, where, appends_only
        )  # fmt: skip

    def sink(
        self, mode: Mode = Mode.APPEND, commit_user: str | None = None, callbacks: Sequence[Any] = (),
        options: Mapping[str, object] = {},
    ) -> IcebergSink:  # fmt: skip
        """The table as the target of writes by many tasks.

        Raises OptionError, UsageError when the mode wants a key that the table has not, UnsupportedError for a table
        that lakebed does not write.
        """
        metadata = self._to_write()
        given = {**self.options, **option_texts(options)}
        write = WriteOptions.of(metadata, given, mode, self.branch)
        return IcebergSink(self.operations, metadata, write, commit_user, callbacks)

    def write(self, data: Any, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
        """Write rows as one commit: append, overwrite, upsert or delete by key (see docs/iceberg-sink.md).

        Raises SchemaError when rows do not fit; nothing is visible, and no file stays, when the write fails.
        """
        with TableWriter(self.sink(Mode.parse(mode), options=options)) as writer:
            writer.write(data)
            messages = writer.prepare_commit()
        return writer.commit(BATCH_IDENTIFIER, messages)

    def writer(self, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> TableWriter:
        """The two-phase form of append, and of changes by key where rows have a `_row_kind`."""
        return TableWriter(self.sink(commit_user=commit_user, callbacks=callbacks))

    def rewrite(
        self, where: Where = None, dry_run: bool = False, engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> RewriteResult:  # fmt: skip
        """Bin-pack, sort or z-order data files into files of the target size, deletes applied, in one REPLACE snapshot.

        `where` chooses files that may hold a matching row. A dry run says what would be rewritten and why, what would
        not, and predicts files and bytes. Options are those of Iceberg's `rewrite_data_files` and `lakebed.rewrite.*`.
        `lakebed.rewrite.what` = position-deletes or manifests rewrites these instead. Raises CommitConflictError when
        others changed the same files meanwhile: nothing is left then.
        """
        given = option_texts(options)
        callbacks = named_callbacks({**self.options, **given})
        done = self._rewrite(where, dry_run, engine, excluding_callbacks(given))
        return report_rewrite(done, self.operations.name, () if dry_run else callbacks)

    def _rewrite(
        self, where: Where, dry_run: bool, engine: Engine | None, options: Mapping[str, object]
    ) -> RewriteResult:
        self._to_write()
        commit = {k: v for k, v in _properties(self.options).items() if k.startswith("commit.")}
        what, options = rewrite_what(options)
        if what == "manifests":
            if where is not None:
                raise UsageError("a rewrite of manifests takes no `where`", todo="Rewrite those of a spec with spec-id")
            return rewrite_manifests(self.operations, self.branch, {**commit, **options}, dry_run)
        if what == "position-deletes":
            rewrite = PositionDeleteRewrite.planned(self.operations, self.branch, where, options, commit)
            return rewrite.run(dry_run, engine)
        memory = _OPTIONS.parse(self.options)[opt.DELETE_MEMORY]
        return IcebergRewrite.planned(self.operations, self.branch, where, options, commit, memory).run(dry_run, engine)

    def expire(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ExpireResult:
        """Expire old snapshots of all branches, with the files that only they have.

        With `remove-orphan-files` files that no snapshot knows go as well, once they are old enough. Options are the
        arguments of Iceberg's procedures (see docs/iceberg-upkeep.md). Raises UnsupportedError where `gc.enabled` is
        false.
        """
        self.operations.refuse_changes(self.operations.load())
        asked = parsed({**_properties(self.options), **option_texts(options)})
        done: list[ExpireResult] = []
        if asked[EXPIRE_SNAPSHOTS]:
            done.append(expire(self.operations, asked, dry_run))
        if asked[REMOVE_ORPHANS]:
            done.append(remove_orphans(self.operations, asked, dry_run))
        return ExpireResult(
            tuple(id for one in done for id in one.expired),
            tuple(path for one in done for path in one.deleted_files),
            tuple(kept for one in done for kept in one.kept),
            dry_run,
            tuple(note for one in done for note in one.notes),
        )

    def relocate(self, dry_run: bool = False) -> RelocateResult:
        """Make the folder where the table was opened its place, after it was moved or copied.

        Manifests, manifest lists and files of position deletes are written anew with the paths of this place, for all
        snapshots, and the next metadata version names them. UnsupportedError for a catalog's table, and where files did
        not come along; CommitConflictError when another change was faster.
        """
        if not isinstance(self.operations, HadoopTable):
            raise UnsupportedError(
                "the place of a catalog's table is the catalog's", table=self.operations.name,
                todo="Register the metadata file of the new place with the catalog",
            )  # fmt: skip
        return relocate(self.operations, dry_run)

    @looks_again
    def inspect(self, options: Mapping[str, object] = {}) -> TableReport:
        """Health of the branch: snapshots and refs, small files, deletes, manifests, metadata, and what to do.

        `options` are those of `expire`, and table properties that a writer sets for itself.
        """
        return inspect(self.operations, self.branch, {**_properties(self.options), **option_texts(options)})

    def newest(self) -> Instant | None:
        """The head of the branch, to be read with the schema that the table has now; None where options name the
        snapshot that is read."""
        if any(map(_OPTIONS.parse(self.options).given, opt.POSITIONS)):
            return None
        metadata = self.metadata
        head = metadata.head(self.branch)
        if head is None:
            return None
        return Instant(
            str(head.snapshot_id), iso_time(head.timestamp_ms), head.operation or "append", "completed",
            summary={_READ_WITH: str(metadata.current_schema_id)},
        )  # fmt: skip

    def _to_read(self) -> TableMetadata:
        """The current metadata, with a warning where it says that the table lies elsewhere."""
        metadata = self.metadata
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
        return metadata

    def _to_write(self) -> TableMetadata:
        """The current metadata of a table that may be changed and whose files go where it may touch them."""
        loaded = self.operations.load()
        refuse_writing(self.operations, loaded)
        return loaded.metadata

    def _at(self, metadata: TableMetadata, position: Position) -> tuple[Snapshot | None, Schema]:
        """The snapshot that a position means, and the schema to read it with."""
        if _is_newest(position):
            return metadata.snapshot(int(position.time)), metadata.schemas[int(position.summary[_READ_WITH])]
        return snapshot_at(metadata, position, self.branch), schema_at(metadata, position, self.branch)

    def _context(self, metadata: TableMetadata, schema: Schema) -> ReadContext:
        return ReadContext.of(metadata, schema, _OPTIONS.parse(self.options)[opt.DELETE_MEMORY])


_READ_WITH = "lakebed.read-with-schema"
"""In the summary of an instant that `newest` gives: the id of the schema that its rows are read with."""


def _is_newest(position: Position) -> TypeGuard[Instant]:
    """Whether `newest` gave the position."""
    return isinstance(position, Instant) and _READ_WITH in position.summary


def _given_position(options: Options) -> Position:
    """The snapshot that options name; OptionError where several do."""
    given = [option.key for option in opt.POSITIONS if options.given(option)]
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} are given", key=given[1], why="one snapshot is read", todo="Give one")
    if options[opt.TAG] is not None:
        return f"tag:{options[opt.TAG]}"
    moment = options[opt.AS_OF_TIMESTAMP]
    if moment is not None:
        return iso_time(moment)
    return options[opt.SNAPSHOT_ID]


def _append_range(options: Options, as_of: Position) -> tuple[int, Position]:
    """The snapshots between which a read gives appends; an instant of `newest` ends it where no option does."""
    start, end = options[opt.START_SNAPSHOT], options[opt.END_SNAPSHOT]
    pinned = _is_newest(as_of)
    if start is None:
        raise UsageError(
            "end-snapshot-id alone names no range", todo="Give start-snapshot-id too, or snapshot-id for a whole table"
        )
    if (as_of is not None and not pinned) or _given_position(options) is not None:
        raise UsageError(
            "start-snapshot-id does not go with a snapshot, time or tag to read as of",
            todo="End the range with end-snapshot-id",
        )
    return start, end if end is not None else as_of


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    """Of the options of `open` those that lie over table properties."""
    return {key: value for key, value in options.items() if opt.known_property(key)}


def _opening(options: Mapping[str, str]) -> dict[str, str]:
    """Of the options of `create` those that say how to open the table."""
    return {key: value for key, value in options.items() if opt.OPENING.knows(key)}
