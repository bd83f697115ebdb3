"""A Paimon table: the public face, over the modules of the format.

What only one verb needs is imported when that is called: most processes read, and start in half the time.
"""

from __future__ import annotations

import copy
import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from lakebed.errors import CommitUnknownError, TableExistsError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema, schema_to_json
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.expire.last_look import LastLook
from lakebed.formats.paimon.instants import instant_of
from lakebed.formats.paimon.layout import MAIN_BRANCH, named, numbered, schema_path
from lakebed.formats.paimon.read.batch import plan_range, plan_rows
from lakebed.formats.paimon.read.plan import ReadRequest
from lakebed.formats.paimon.read.range import names_a_range
from lakebed.formats.paimon.read.row_tracking import with_tracking
from lakebed.formats.paimon.read.start import NEWEST
from lakebed.formats.paimon.read.travel import travel_keys, travelled
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.again import looks_again
from lakebed.kernel.files import Listing, PutOutcome, Store
from lakebed.kernel.options import Options, option_texts
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.instant import Instant
from lakebed.model.notebooks import ShownList
from lakebed.redaction import Settings
from lakebed.verbs.arguments import Position, Span, checked_name, checked_position, checked_target, project
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.table import Table
from lakebed.verbs.write import Mode

if TYPE_CHECKING:
    from lakebed.formats.paimon.read.split import ChangeSplit
    from lakebed.formats.paimon.read.stream import PaimonStream
    from lakebed.formats.paimon.tags.names import Tags
    from lakebed.formats.paimon.write.sink import PaimonSink
    from lakebed.formats.paimon.write.two_phase import PaimonTableWriter
    from lakebed.kernel.engine import Engine
    from lakebed.model.alter import AlterResult, Change
    from lakebed.model.commit import CommitResult
    from lakebed.model.refs import Ref
    from lakebed.model.report import TableReport
    from lakebed.model.upkeep import ExpireResult, RewriteResult, RollbackResult
    from lakebed.verbs.system_tables import SystemTable


class PaimonTable(Table):
    """A Paimon table. Options given override those of its schema; the option `branch` picks a branch."""

    format: ClassVar[str] = "paimon"
    unknown_to_format: ClassVar[Mapping[str, str]] = {
        "archive": "Its history is bounded by expiring snapshots",
        "relocation": "Its paths are relative: open it where it is",
        "retention of branches": "A tag has its time_retained; a branch lives until it is deleted",
        "cherry-pick": "Write to a branch, and fast-forward to it",
        "staged writes": "Write to a branch, and fast-forward to it",
    }

    def __init__(self, store: Store, options: Mapping[str, str] = {}, schemas: Listing | None = None) -> None:
        super().__init__(store, options)
        branch = opt.OPTIONS.parse(options)[opt.BRANCH]
        opt.OPTIONS.note_idle(options, "Paimon")
        self._history, self._looked = History(store, branch), LastLook()
        self._history.latest_schema(schemas if branch == MAIN_BRANCH else None)

    @classmethod
    def opened(cls, store: Store, options: Mapping[str, str], metadata: Listing) -> Self:
        """Open a table, given the listing of its folder `schema`."""
        return cls(store, options, metadata)

    @classmethod
    def create(
        cls,
        store: Store,
        schema: pa.Schema,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> PaimonTable:
        """Create an empty table. Paimon's own catalogs look for tables at WAREHOUSE/DB.db/TABLE.

        Raises SchemaError and OptionError for a definition that Paimon does not allow, TableExistsError where there is
        a table already.
        """
        from lakebed.formats.paimon.definition import new_schema
        from lakebed.formats.paimon.merge import merge_function

        definition = new_schema(schema, primary_key, partition_by, options, store.location)
        if definition.primary_keys:
            merge_function(definition, opt.table_options(definition.options))
        _refuse_leftovers(store)
        outcome = store.put_if_absent(schema_path(MAIN_BRANCH, definition.id), schema_to_json(definition))
        if outcome is PutOutcome.EXISTS:
            raise TableExistsError(
                "there is already a paimon table", table=store.location, todo="Open it with lakebed.open"
            )
        if outcome is PutOutcome.UNKNOWN:
            raise CommitUnknownError(
                "the store does not say whether the table was created",
                table=store.location,
                todo="Try to open it with lakebed.open before you create it again",
            )
        return cls(store, {key: value for key, value in options.items() if key.lower().startswith(opt.CALL_ONLY)})

    def reopened(self) -> PaimonTable:
        """This table, with its schemas forgotten."""
        self._history.forget_schemas()
        return self

    @property
    def snapshots(self) -> History:
        """The schemas, snapshots and tags of the branch that is open."""
        return self._history

    @property
    def table_schema(self) -> TableSchema:
        """The newest version of the schema: columns, keys, options."""
        return self._history.latest_schema()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as an Arrow schema."""
        return arrow_schema(self.table_schema.fields)

    def _system_tables(self) -> Mapping[str, Callable[[], SystemTable]]:
        from lakebed.formats.paimon.system_tables.names import system_tables

        return system_tables(self._history, self._options)

    def history(self, archived: bool = False) -> list[Instant]:
        """The snapshots, oldest first. Paimon archives none."""
        return ShownList(instant_of(snapshot) for snapshot in self._history.snapshots())

    def newest(self) -> Instant | None:
        """The newest snapshot, or that of the last compaction where `scan.mode` asks for it. None where options of the
        call or of the table name the snapshot that is read."""
        schema = self._history.schema_and_hints(earliest=False)
        options = self._options(schema)
        if travel_keys(options) or names_a_range(options):
            return None
        snapshot, _ = self._current(options, schema)
        return instant_of(snapshot) if snapshot is not None else None

    @looks_again
    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None, audited: bool = False
    ) -> ReadPlan[Any]:
        """Plan a read of a snapshot, or of the current rows of a range that the options name. A read as of a snapshot
        or tag has the schema of that time. An `audited` read has row kinds as Paimon's audit log has them."""
        schema, at = self._look(as_of)
        options, named = self._options(schema), as_of is not None
        if names_a_range(options):
            return plan_range(self._request(schema, columns, where), named, audited)
        snapshot, schema = self._in_its_schema(at, schema) if named else self._current(options, schema)
        return plan_rows(self._request(schema, columns, where), snapshot, self.options, named, audited)

    @looks_again
    def plan_changes(
        self, columns: Sequence[str] | None = None, where: Where = None, after: Position = None, until: Position = None
    ) -> ReadPlan[ChangeSplit]:
        """Plan a read of the changes in (after, until], by `incremental-between-scan-mode`: as the commits wrote them,
        or as the two snapshots differ."""
        from lakebed.formats.paimon.read.changes import plan_between

        schema = self._history.schema_and_hints(earliest=False)
        return plan_between(self._request(schema, columns, where), after, until)

    def stream(
        self, columns: Sequence[str] | None = None, where: Where = None, default: str = NEWEST, audited: bool = False
    ) -> PaimonStream:
        """A stream of the branch's changes, from the start that `scan.mode` and its like name, else in the mode
        `default`. `consumer-id` keeps its progress in the table. An `audited` one has row kinds as Paimon's audit log
        has them."""
        from lakebed.formats.paimon.read.change_task import KindColumn
        from lakebed.formats.paimon.read.stream import PaimonStream

        newest, kinds = self._history.schema_and_hints, KindColumn.FIRST if audited else KindColumn.LAST
        return PaimonStream(
            lambda known: self._request(newest(earliest=False), known or columns, where), default, kinds
        )

    def _request(self, schema: TableSchema, columns: Sequence[str] | None, where: Where) -> ReadRequest:
        options = self._options(schema)
        whole = arrow_schema(with_tracking(schema, options).fields)
        names = project(schema.names if columns is None else columns, whole, table=self.location)
        return ReadRequest(self._history, schema, options, tuple(names), parse_where(where, whole))

    def sink(
        self,
        mode: Mode = Mode.APPEND,
        commit_user: str | None = None,
        callbacks: Sequence[Any] = (),
        options: Mapping[str, object] = {},
        overwrite: Mapping[str, Any] = {},
    ) -> PaimonSink:
        """The table as the target of a write by many tasks. `overwrite` names the partitions that a static overwrite
        replaces, by plain values."""
        from lakebed.formats.paimon.commit.callbacks import named_callbacks
        from lakebed.formats.paimon.commit.options import CommitOptions
        from lakebed.formats.paimon.expire.kinds import after_commits
        from lakebed.formats.paimon.rewrite.append_inline import compaction_of_writes
        from lakebed.formats.paimon.write.sink import PaimonSink
        from lakebed.kernel.commit.callbacks import checked_callbacks

        table = self._on_branch(options)
        schema = table._history.schema_and_hints()
        parsed = table._options(schema, options)
        given = (*table.options, *option_texts(options))
        opt.refuse_stored_callbacks(schema.options, given, opt.COMMIT_CALLBACKS.key, table.location)
        snapshots, partitions, tags = after_commits(table._history, schema, parsed, table._looked, given)
        compaction = compaction_of_writes(table._history, schema, parsed)
        user = commit_user or f"{parsed[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
        called, named = checked_callbacks(callbacks), named_callbacks(parsed)
        commit_options = CommitOptions(
            user, callbacks=called, named=named, expire=snapshots, partitions=partitions, tags=tags
        )
        return PaimonSink.of(table._history, schema, parsed, mode, commit_options, overwrite, compaction)

    def write(self, data: Any, mode: str = "append", options: Mapping[str, object] = {}) -> CommitResult:
        """Write rows as one commit. `mode` is append, overwrite, upsert (rows with or without `_row_kind`) or delete
        (rows with the keys to remove).

        Raises SchemaError for rows that do not conform to the table. When the write fails, nothing is visible and no
        file stays.
        """
        from lakebed.formats.paimon.write.two_phase import PaimonTableWriter
        from lakebed.verbs.two_phase import batches_of

        writer = PaimonTableWriter(self.sink(Mode.parse(mode), options=options))
        with writer:
            for piece in batches_of(data):
                writer.write(piece)
            writer.prepare_commit()
        return writer.commit_for_good()

    def rewrite(
        self,
        where: Where = None,
        dry_run: bool = False,
        engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> RewriteResult:
        """Compact the files of a table, in one COMPACT commit. The rows of postponed buckets (`bucket=-2`) move into
        real buckets, which makes them visible.

        `where` picks partitions. The option `compact_strategy` is `full` or `minor`, `order_strategy` sorts, and
        `bucket` moves rows into that number of buckets; others are table options for this call. With
        `lakebed.rewrite.what` = `manifests` these are merged. CommitConflictError when another compaction was faster.
        """
        from lakebed.formats.paimon.rewrite import options as rewrite_options
        from lakebed.formats.paimon.rewrite.run import rewrite_files
        from lakebed.formats.paimon.tags.after_commit import TagsOfCommits

        own, given = rewrite_options.OPTIONS.split(options, opt.OPTIONS)
        table = self._on_branch(given)
        schema = table._history.schema_and_hints(earliest=False)
        parsed = table._options(schema, given)
        tags = TagsOfCommits.of(table._history, schema, parsed, (*table.options, *given))
        return tags.after_rewrite(rewrite_files(table._history, schema, parsed, where, own, given, dry_run, engine))

    def expire(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ExpireResult:
        """Remove old snapshots of the branch, and the files that only they need, by the `snapshot.*` options.

        Each commit does the same, unless the table is `write-only`. With `lakebed.expire.what` = `partitions`, old
        partitions are dropped in an OVERWRITE commit, with `orphan-files`, files go that nothing names, with `tags` the
        tags whose time is over.
        """
        from lakebed.formats.paimon.expire import options as expire_options
        from lakebed.formats.paimon.expire.kinds import expire

        own, given = expire_options.OPTIONS.split(options, opt.OPTIONS)
        table = self._on_branch(given)
        schema = table.table_schema
        parsed = table._options(schema, given)
        return expire(table._history, schema, parsed, own, (*table.options, *given), dry_run)

    def writer(self, commit_user: str | None = None, callbacks: Sequence[Any] = ()) -> PaimonTableWriter:
        """The two-phase form of append and upsert. Its method `with_overwrite` makes it an overwrite."""
        from lakebed.formats.paimon.write.two_phase import PaimonTableWriter

        return PaimonTableWriter(self.sink(commit_user=commit_user, callbacks=callbacks))

    def refs(self) -> list[Ref]:
        """The branches of the table, and the tags of the branch that is open."""
        from lakebed.formats.paimon.tags.listing import list_refs

        return list_refs(self._history)

    def tag(self, name: str, snapshot: Position = None, time_retained: Span = None, *, replace: bool = False) -> None:
        """Give a snapshot a name; None: the newest one. `time_retained` None: as `tag.default-time-retained` says.

        `replace` moves a tag that is there, with the files that only it needed before; it lives until it is deleted
        then, unless `time_retained` is given. UsageError for a name that is in use or cannot be one, NotInHistoryError
        without a snapshot.
        """
        name = checked_name(name, "tag")
        schema = self._history.schema_and_hints(earliest=False) if snapshot is None else self.table_schema
        tags, tagged = self._tags(schema), self._history.at(checked_position(snapshot))
        (tags.replace if replace else tags.create)(name, tagged, time_retained, is_newest=snapshot is None)

    def rename_tag(self, name: str, to: str) -> None:
        """Give a tag another name. NotInHistoryError when there is no tag `name`, UsageError where `to` is in use."""
        self._tags(self.table_schema).rename(checked_name(name, "tag"), checked_name(to, "tag"))

    def delete_tag(self, name: str) -> None:
        """Remove a tag, and the files that only it needs; NotInHistoryError when there is none."""
        self._tags(self.table_schema).delete(checked_name(name, "tag"))

    def branch(self, name: str, at: Position = None) -> None:
        """Make a branch of "tag:NAME", or an empty one that has the newest schema."""
        from lakebed.formats.paimon.branches import Branches

        Branches(self._history).create(checked_name(name, "branch"), checked_position(at))

    def delete_branch(self, name: str) -> None:
        """Remove a branch. Files that only it needs become orphans."""
        from lakebed.formats.paimon.branches import Branches

        Branches(self._history).delete(checked_name(name, "branch"), self._options(self.table_schema))

    def fast_forward(self, name: str) -> None:
        """Put the branch that is open where the branch `name` is. What it has beyond that branch's oldest snapshot
        goes. CommitConflictError when another writer commits meanwhile."""
        from lakebed.formats.paimon.branches import Branches

        Branches(self._history).fast_forward(checked_name(name, "branch"))

    def rollback(self, to: Position | datetime.date, dry_run: bool = False) -> RollbackResult:
        """Make an earlier snapshot of the branch its newest. Later snapshots and tags go, and the files that only they
        need.

        NotInHistoryError when there is no such snapshot, CommitConflictError when another writer commits meanwhile.
        """
        from lakebed.formats.paimon.rollback import PaimonRollback

        schema = self.table_schema
        return PaimonRollback(self._history, schema, self._options(schema)).run(checked_target(to), dry_run)

    def mark_partition_done(
        self, partitions: Sequence[Mapping[str, Any]], dry_run: bool = False, options: Mapping[str, object] = {}
    ) -> tuple[str, ...]:
        """Write a file `_SUCCESS` into the folder of each partition, as `partition.mark-done-action` says."""
        from lakebed.formats.paimon.mark_done import mark_done

        schema = self.table_schema
        return mark_done(self.store, schema, self._options(schema, options), partitions, dry_run)

    def alter(self, changes: Change | Sequence[Change], dry_run: bool = False) -> AlterResult:
        """Make the next version of the branch's schema. Writers that were opened before it go on with theirs.

        Raises SchemaError and OptionError for what Paimon refuses.
        """
        from lakebed.formats.paimon.alter.run import alter_table

        return alter_table(self._history, changes, dry_run)

    def inspect(self, options: Mapping[str, object] = {}) -> TableReport:
        """Report figures, what readers do not see or pay for, and what holds maintenance back. Reads only metadata.

        `options` are table options that a writer sets for itself, and `branch`.
        """
        from lakebed.formats.paimon.inspect import inspect

        table = self._on_branch(options)
        return inspect(table._history, lambda schema: table._options(schema, options))

    def _tags(self, schema: TableSchema) -> Tags:
        from lakebed.formats.paimon.tags.names import Tags

        return Tags(self._history, schema, self._options(schema), self.options)

    def _on_branch(self, options: Mapping[str, object]) -> PaimonTable:
        """The table, on the branch that the options of a call name. Whether it is there shows when its schema is
        read."""
        parsed = opt.OPTIONS.parse(options)
        if not parsed.given(opt.BRANCH) or parsed[opt.BRANCH] == self._history.branch:
            return self
        given = {key: value for key, value in self.options.items() if key.lower() != opt.BRANCH.key}
        table = copy.copy(self)
        table.options = Settings({**given, opt.BRANCH.key: parsed[opt.BRANCH]})
        table._history, table._looked = self._history.on_branch(parsed[opt.BRANCH]), LastLook()
        return table

    def _options(self, schema: TableSchema, more: Mapping[str, object] = {}) -> Options:
        texts = option_texts(more)
        opt.OPTIONS.note_idle(texts, "Paimon")
        over = {key.lower() for key in texts}
        under = {key: value for key, value in self.options.items() if key.lower() not in over}
        given = {**under, **texts}
        return opt.table_options(schema.options, given)

    def _look(self, as_of: Position) -> tuple[TableSchema, Snapshot | None]:
        """The newest schema, and the snapshot at a position, unless that is None: both are looked for together."""
        if as_of is None:
            return self._history.schema_and_hints(earliest=False), None
        looks: tuple[Callable[[], Any], ...] = self._history.latest_schema, lambda: self._history.at(as_of)
        schema, snapshot = self.store.together(lambda look: look(), looks)
        return schema, snapshot

    def _current(self, options: Options, newest: TableSchema) -> tuple[Snapshot | None, TableSchema]:
        """The snapshot that a read without a position takes, and the schema to read it in."""
        snapshot = travelled(self._history, options, self.location)
        return (self._history.latest(), newest) if snapshot is None else self._in_its_schema(snapshot, newest)

    def _in_its_schema(self, snapshot: Snapshot | None, newest: TableSchema) -> tuple[Snapshot | None, TableSchema]:
        """A snapshot, and the schema of its time."""
        return snapshot, self._history.schema(snapshot.schema_id) if snapshot else newest


def _refuse_leftovers(store: Store) -> None:
    """TableExistsError where a table without its schema files lies: a new one would show its snapshots as its own."""
    snapshots, tags, branches = store.list_many(("snapshot", "tag", "branch"))
    found = [*numbered(snapshots.names, "snapshot"), *named(tags.names, "tag"), *named(branches.folders, "branch")]
    if found:
        raise TableExistsError(
            "there is a Paimon table without a schema file",
            table=store.location,
            why="it still has snapshots, tags or branches, which the new table would show as its own",
            todo="Restore its schema folder, or remove what is left of it, and create the table then",
        )
