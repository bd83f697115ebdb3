"""A Hudi table: the public face, which every call answers from fresh metadata."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lakebed.formats.hudi.commit.gone import conflict_when_gone
from lakebed.formats.hudi.commit.options import commit_options
from lakebed.formats.hudi.config import load_config
from lakebed.formats.hudi.layout import COMPLETES_AS, HOODIE, META_COLUMNS, WRITES
from lakebed.formats.hudi.metadata_table.read import keeps_listing
from lakebed.formats.hudi.options import AS_OF, READ
from lakebed.formats.hudi.read.batch import check_alone, is_range, plan_batch, plan_change_range
from lakebed.formats.hudi.read.partitions import first_folders
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.active import MetadataFiles, instant_of, timeline_from
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline, ArchiveMemory
from lakebed.formats.hudi.upkeep import OPEN, split_options
from lakebed.kernel.again import looks_again
from lakebed.kernel.files import Listing
from lakebed.kernel.garbage import no_cycles
from lakebed.kernel.options import option_texts
from lakebed.kernel.predicates.where import Where
from lakebed.kernel.scratch import SCRATCH_DIR, Scratch
from lakebed.model.notebooks import ShownList
from lakebed.verbs.arguments import checked_name, checked_position, checked_target
from lakebed.verbs.table import Table
from lakebed.verbs.write import Mode

if TYPE_CHECKING:
    from lakebed.formats.hudi.commit.context import WriteContext
    from lakebed.formats.hudi.config import TableConfig
    from lakebed.formats.hudi.read.split import HudiSplit
    from lakebed.formats.hudi.write.sink import HudiSink
    from lakebed.kernel.engine import Engine
    from lakebed.kernel.files import Store
    from lakebed.model.commit import CommitResult
    from lakebed.model.instant import Instant
    from lakebed.model.refs import Ref
    from lakebed.model.report import TableReport
    from lakebed.model.upkeep import ArchiveResult, ExpireResult, RewriteResult, RollbackResult
    from lakebed.verbs.arguments import Position, Span
    from lakebed.verbs.read import ReadPlan
    from lakebed.verbs.stream import StreamReader
    from lakebed.verbs.system_tables import SystemTable
    from lakebed.verbs.two_phase import TableWriter


class HudiTable(Table):
    """A Hudi table, copy-on-write or merge-on-read."""

    format: ClassVar[str] = "hudi"
    history_holds: ClassVar[str] = "instants"
    meta_columns: ClassVar[tuple[str, ...]] = META_COLUMNS
    own_folder: ClassVar[str] = f"{HOODIE}/.lakebed"
    unknown_to_format: ClassVar[Mapping[str, str]] = {
        "relocation": "Its paths are relative: open it where it lies",
        "branches": "Write to another table, and copy its rows",
        "retention of branches": "A savepoint lives until it is deleted",
        "cherry-pick": "Write the rows again",
        "staged writes": "Write to another table, and copy its rows",
    }

    def __init__(self, store: Store, options: Mapping[str, str]) -> None:
        super().__init__(store, options)
        self._options = OPEN.parse(options)
        OPEN.note_idle(options, "Hudi")
        self._writes = {key: text for key, text in options.items() if not READ.knows(key)}
        self._metadata = MetadataFiles(store)
        self._scratch = Scratch(self._options[SCRATCH_DIR])
        self._archive = ArchiveMemory()
        # A table whose properties cannot be read fails here; the timeline is listed only when it is needed.
        self._config = load_config(store)

    @classmethod
    def create(
        cls,
        store: Store,
        schema: pa.Schema,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> HudiTable:
        """Create an empty table (docs/hudi-write.md).

        Raises what `definition.create_table` raises for a definition that makes no table, UnsupportedError where the
        options ask for writes that lakebed does not serve, TableExistsError where there is a table already.
        """
        from lakebed.formats.hudi.definition import create_table
        from lakebed.formats.hudi.index.options import INDEXES, check_engine_of, kept_with_table
        from lakebed.formats.hudi.table_options import TABLE, TABLE_TYPE
        from lakebed.formats.hudi.upkeep import UPKEEP
        from lakebed.formats.hudi.write.settings import SIZING, check_served

        known = SIZING + UPKEEP
        calls = {k: v for k, v in options.items() if k.lower().startswith("lakebed.") or known.knows(k)}
        OPEN.parse(calls)
        check_served(SIZING.parse({SIZING.spelled(k): v for k, v in calls.items() if SIZING.knows(k)}), store.location)
        described = {k: v for k, v in options.items() if k not in calls}
        index = INDEXES.parse({k: v for k, v in calls.items() if INDEXES.knows(k)})
        of_table = TABLE.parse({k: v for k, v in described.items() if TABLE.knows(k)})
        check_engine_of(index, store.location, merge_on_read=of_table[TABLE_TYPE] == "MERGE_ON_READ")
        create_table(store, schema, primary_key, partition_by, described, kept_with_table(index))
        return cls(store, calls)

    def newest_commit(self) -> Instant | None:
        """The newest completed instant that wrote or replaced data files."""
        return next((i for i in reversed(self.history()) if i.action in WRITES and i.state == "completed"), None)

    def remove_without_commits(self) -> None:
        """Remove the table, with what failed writes left; it stays where a write is pending or has completed."""
        from lakebed.formats.hudi.definition import remove_without_commits

        remove_without_commits(self.store)

    def state(self, whole: bool = False) -> TableState:
        """The table's metadata as it is now: settings, timeline, archive. `whole` says that the folders of all
        partitions are going to be needed."""
        return self._state(*self._now(whole))

    def _state(self, config: TableConfig, timeline: Listing, root: Listing | None) -> TableState:
        archived = ArchivedTimeline(self.store, config, self._scratch, self._archive)
        entries = timeline_from(timeline, config)
        return TableState(self.store, config, entries, self._metadata, archived, first_folders(root))

    def _now(self, whole: bool) -> tuple[TableConfig, Listing, Listing | None]:
        """The settings, the listing of the timeline and, where it is asked for and has only folders to tell, that of
        the root; all at once.

        The timeline is listed where it was before; when an upgrade has moved it, it is listed again.
        """
        before = self._config
        root_tells = whole and before.partition_fields and not keeps_listing(before)
        folders = [before.timeline_folder, *([""] if root_tells else [])]

        def look(folder: str | None) -> Listing | None:
            if folder is not None:
                return self.store.list(folder)
            self._config = load_config(self.store)
            return None

        _, timeline, *root = self.store.together(look, [None, *folders])
        if timeline is None or self._config.timeline_folder != before.timeline_folder:
            timeline = self.store.list(self._config.timeline_folder)
        return self._config, timeline, root[0] if root else None

    @property
    @looks_again
    def schema(self) -> pa.Schema:
        """The meta columns, then the user's columns."""
        return self.state().schema()

    def newest(self) -> Instant | None:
        """The newest completed instant; None where the option `as.of.instant` already names the one to read."""
        return None if self._options[AS_OF] else super().newest()

    def _system_tables(self) -> Mapping[str, Callable[[], SystemTable]]:
        from lakebed.formats.hudi.system_tables.names import system_tables

        return system_tables(self.state, self.history, self.options)

    @looks_again
    def history(self, archived: bool = False) -> list[Instant]:
        """The instants of the active timeline, oldest first; with `archived` those of the archived timeline too."""
        state = self.state()
        active = ShownList(instant_of(entry, state.config.completion_times) for entry in state.timeline.entries)
        if not archived:
            return active
        keys = {(instant.time, COMPLETES_AS.get(instant.action, instant.action)) for instant in active}
        old = [i for i in state.archived.instants() if (i.time, COMPLETES_AS.get(i.action, i.action)) not in keys]
        return ShownList(sorted([*old, *active], key=lambda instant: (instant.time, instant.action)))

    @looks_again
    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None
    ) -> ReadPlan[HudiSplit]:
        """The splits of a snapshot, one per file slice; with `read.start-commit` or `read.end-commit` those of a range
        of commits."""
        with no_cycles():
            state = self.state(whole=not is_range(self._options))
            return plan_batch(state, ReadRequest(self._options, columns, where), as_of)

    @looks_again
    def plan_changes(
        self, columns: Sequence[str] | None = None, where: Where = None, after: Position = None, until: Position = None
    ) -> ReadPlan[HudiSplit]:
        """The splits of the changes in (after, until]."""
        with no_cycles():
            return plan_change_range(self.state(), ReadRequest(self._options, columns, where), after, until)

    @looks_again
    def sink(
        self,
        mode: Mode = Mode.APPEND,
        commit_user: str | None = None,
        callbacks: Sequence[Any] = (),
        options: Mapping[str, object] = {},
        ends_here: bool = False,
        rows: pa.Schema | None = None,
        evolution: str = "table",
    ) -> HudiSink:
        """The table as the target of a write by many tasks (docs/hudi-write.md). `options` come before those that the
        table was opened with. Where the columns of the rows are known (`rows`), the table takes new ones as the options
        say, or, where they say nothing, as `evolution` does (table or evolve).

        Raises OptionError, UsageError for an operation that the mode cannot run, UnsupportedError for a table or a
        setting that lakebed does not write. `ends_here` says that rows which this process stages need not outlive it.
        """
        from lakebed.formats.hudi.upkeep import after_commit, upkeep_options
        from lakebed.formats.hudi.write.evolution import Evolution, refuse_evolution
        from lakebed.formats.hudi.write.settings import WriteSettings
        from lakebed.formats.hudi.write.sink import HudiSink

        state = self.state()
        given, services = split_options({**self._writes, **option_texts(options)})
        upkeep_options(services, state.config)  # refused before anything is written
        context = self._context(state.config, given)
        settings = WriteSettings.of(mode, context.options, state.config, self.location)
        columns = pa.schema([f for f in state.schema() if f.name not in META_COLUMNS])
        avro = state.avro_schema(state.view())
        after = partial(after_commit, self, state.config, services)
        evolved = (columns, avro)
        if rows is None and settings.operation.adds:
            refuse_evolution(context.options, self.location)
        if rows is not None and avro and settings.operation.adds:
            evolves = Evolution.of(context.options, state.config, self.location, evolution)
            ids = bool(state.column_history) or state.schema_history(state.view()).wanted is not None
            evolved = evolves.evolved(columns, avro, rows, ids)
        return HudiSink(context, settings, *evolved, commit_user, callbacks, ends_here, after, columns)

    def sink_for(self, rows: pa.Schema, mode: Mode = Mode.APPEND, commit_user: str | None = None) -> HudiSink:
        """The table as the target of rows with these columns, named in any case."""
        from lakebed.formats.hudi.write.evolution import spelled

        return self.sink(mode, commit_user, rows=spelled(rows, self.schema))

    def write(self, data: Any, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
        """Write rows as one commit: insert, overwrite of the partitions touched, upsert or delete by key, or what the
        option `hoodie.datasource.write.operation` names (docs/hudi-write.md).

        Raises SchemaError when rows do not fit, CommitConflictError when another writer changed the same file groups.
        Nothing is visible after an error.
        """
        from lakebed.model.commit import BATCH_IDENTIFIER
        from lakebed.verbs.two_phase import TableWriter
        from lakebed.verbs.write import swept

        if not isinstance(getattr(data, "schema", None), pa.Schema) and hasattr(data, "__arrow_c_stream__"):
            data = pa.RecordBatchReader.from_stream(data)
        rows = getattr(data, "schema", None)
        sink = self.sink(Mode.parse(mode), options=options, ends_here=True, rows=rows)
        with TableWriter(sink) as writer, swept(sink):
            writer.write(data)
            return writer.commit(BATCH_IDENTIFIER, writer.prepare_commit())

    def writer(self, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> TableWriter:
        """A writer whose caller decides when to commit. It inserts rows; rows with a `_row_kind` are changes by key."""
        from lakebed.formats.hudi.write.first_rows import FirstRowsWriter

        return FirstRowsWriter(lambda rows: self.sink(Mode.APPEND, commit_user, callbacks, rows=rows), self.schema)

    @conflict_when_gone
    def rewrite(
        self,
        where: Where = None,
        dry_run: bool = False,
        engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> RewriteResult:
        """Compact a merge-on-read table, or join and sort small files (docs/hudi-services.md).

        `where` chooses partitions. The options are those of `formats/hudi/rewrite/options.py`; by default a plan is
        made and run, with the plans that are pending already. Raises UnsupportedError for a table that lakebed does
        not compact, before anything is written.
        """
        from lakebed.formats.hudi.commit.restore import finish_restores
        from lakebed.formats.hudi.rewrite.run import Rewrite, parse_options
        from lakebed.formats.hudi.write.settings import WriteSettings
        from lakebed.kernel.engine import LocalEngine

        state = self.state()
        parsed = parse_options(option_texts(options), state.config.properties)
        context = self._context(state.config, commit_options(option_texts(options)))
        if not dry_run and finish_restores(context, state.timeline):
            state = self.state()
        files = WriteSettings.of(Mode.APPEND, context.options, state.config, self.location).files
        return Rewrite(state, context, parsed, files).rewrite(where, dry_run, engine or LocalEngine())

    @conflict_when_gone
    def expire(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ExpireResult:
        """Clean: delete file slices and replaced file groups that no retained commit, savepoint or pending service
        needs.

        The options are those of `formats/hudi/expire/options.py`; those of Hudi may stand in the table's properties
        too. `expired` of the result are the commits that can no longer be read as of. With `lakebed.expire.what` =
        partitions whole partitions go that are too old, and `expired` are their paths. With failed-writes pending
        writes are rolled back, and `expired` are their instants. With orphan-files those files go that no state of the
        table has.
        """
        from lakebed.formats.hudi.expire.failed_writes import end_failed_writes
        from lakebed.formats.hudi.expire.options import WHAT
        from lakebed.formats.hudi.expire.options import parse_options as parse_expire_options
        from lakebed.formats.hudi.expire.orphans import remove_orphans
        from lakebed.formats.hudi.expire.partitions import expire_partitions
        from lakebed.formats.hudi.expire.run import Clean

        config = load_config(self.store)
        parsed = parse_expire_options(option_texts(options), config.properties)
        if parsed[WHAT] == "partitions":
            return expire_partitions(lambda: self.state(whole=True), parsed, self._delete_partitions, dry_run)
        context = self._context(config, commit_options(option_texts(options)))
        if parsed[WHAT] == "failed-writes":
            return end_failed_writes(context, parsed, dry_run)
        if parsed[WHAT] == "orphan-files":
            return remove_orphans(self.state(), parsed, dry_run)
        return Clean(self.state, context, parsed).run(dry_run)

    def _delete_partitions(self, patterns: str, check: Callable[[TableState], None]) -> CommitResult:
        from lakebed.formats.hudi.write.operation import Operation
        from lakebed.formats.hudi.write.settings import DELETE_PARTITIONS, OPERATION
        from lakebed.model.commit import BATCH_IDENTIFIER

        options = {OPERATION.key: Operation.DELETE_PARTITION.value, DELETE_PARTITIONS.key: patterns}
        return self.sink(Mode.DELETE, options=options).checked_by(check).commit(BATCH_IDENTIFIER, ())

    def _context(self, config: TableConfig, options: Mapping[str, str] = {}) -> WriteContext:
        from lakebed.formats.hudi.commit.context import WriteContext
        from lakebed.formats.hudi.write.settings import write_options

        given = write_options({**split_options(self._writes)[0], **options}, config, self.location)
        return WriteContext(self.store, config, given, self._metadata, self._scratch, self.options)

    def refs(self) -> list[Ref]:
        """The savepoints as tags, by name."""
        from lakebed.formats.hudi.timeline.savepoint_names import savepoint_refs

        return savepoint_refs(self.store, self.state().timeline)

    def tag(self, name: str, snapshot: Position = None, time_retained: Span = None) -> None:
        """Make a savepoint: cleans leave the files of a completed commit alone, and `as_of="tag:NAME"` reads it.

        NotInHistoryError for a commit that is not on the active timeline, DataCleanedError where its files are gone,
        UsageError for a name or a commit that has a tag already, and for a `time_retained`, which savepoints have not.
        """
        from lakebed.formats.hudi.read.plan import commit_at, needed_files
        from lakebed.formats.hudi.savepoints import make_savepoint, refuse_lifetime

        name = checked_name(name, "tag")
        refuse_lifetime(time_retained, self.location)
        state = self.state(whole=True)
        entry = commit_at(state, checked_position(snapshot))
        make_savepoint(self._context(state.config), state.timeline, entry, name, needed_files(state, entry))

    def delete_tag(self, name: str) -> None:
        """Remove a savepoint, by its name or its instant. The next clean may delete what it kept."""
        from lakebed.formats.hudi.savepoints import remove_savepoint

        name = checked_name(name, "tag")
        remove_savepoint(self._context(load_config(self.store)), name)

    @conflict_when_gone
    def rollback(self, to: Position | datetime.date, dry_run: bool = False) -> RollbackResult:
        """Restore the table to a completed commit of its active timeline: that of a savepoint ("tag:NAME"), an instant,
        or the newest one at a time (docs/hudi-services.md).

        Raises NotInHistoryError where there is no such commit, UsageError where later savepoints hold what would go,
        DataCleanedError where files of that commit are gone, UnsupportedError where what would go is archived.
        """
        from lakebed.formats.hudi.rollback import roll_back_to

        context = self._context(load_config(self.store))
        return roll_back_to(partial(self.state, whole=True), context, checked_target(to), dry_run)

    def archive(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ArchiveResult:
        """Move old instants from the active timeline to the archived one; the result says which stay and why.

        The options are those of `formats/hudi/archive/options.py`; those of Hudi may stand in the table's properties
        too. With `dry_run` the decisions are the same, and nothing is changed.
        """
        from lakebed.formats.hudi.archive.run import archive
        from lakebed.kernel.engine import LocalEngine

        options = {**commit_options(self._writes), **option_texts(options)}
        return archive(self.store, options, engine or LocalEngine(), dry_run=dry_run, storage=self.options)

    @looks_again
    def inspect(self, options: Mapping[str, object] = {}) -> TableReport:
        """Report the table's health: figures of the timelines, the archive and the files, findings with what to do, and
        the instants that archival cannot take.

        `options` are those of `archive`: the report says what an archival with them would do, and what holds it up.
        """
        from lakebed.formats.hudi.archive.state_files import active_from
        from lakebed.formats.hudi.inspect import inspect_table

        now = self._now(whole=True)
        return inspect_table(self._state(*now), active_from(now[1].files), self._options, self.options, options)

    def stream(self, columns: Sequence[str] | None = None, where: Where = None) -> StreamReader:
        """A stream of changes that begins at `read.start-commit`, without that option at the newest commit."""
        from lakebed.formats.hudi.read.stream import HudiStream

        check_alone(self._options, "a stream", self.location)
        return HudiStream(self.state, ReadRequest(self._options, columns, where))
