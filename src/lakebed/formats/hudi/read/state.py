"""A table as the driver sees it during one call: settings, timeline, commits, schema, and what positions mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lakebed.formats.hudi.codec.avro_schema import without_fields
from lakebed.formats.hudi.codec.hashing import parse_hashing
from lakebed.formats.hudi.codec.internal_schema import (
    InternalSchema,
    SchemaHistory,
    parse_internal_schema,
    parse_schema_history,
)
from lakebed.formats.hudi.codec.metadata import CleanMetadata, CommitMetadata
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.formats.hudi.codec.timestamps import mislabelled_units
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import (
    HASHING_METADATA,
    META_COLUMNS,
    RECORD_KEY,
    WRITES,
    parse_base_name,
    parse_log_name,
)
from lakebed.formats.hudi.metadata_table.opened import MetadataTable
from lakebed.formats.hudi.metadata_table.read import FILES, keeps_listing, listed_files
from lakebed.formats.hudi.read.files import BaseFileReader
from lakebed.formats.hudi.read.moments import instant_of_timestamp, is_moment, no_moment
from lakebed.formats.hudi.read.partitions import Keeping, PartitionColumns, list_partitions
from lakebed.formats.hudi.slices import FileGroup, WrittenFiles
from lakebed.formats.hudi.timeline.active import Entry, MetadataFiles, Timeline, View, timeline_from, view_of
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.formats.hudi.timeline.column_history import newest_history
from lakebed.formats.hudi.timeline.savepoint_names import find_savepoint
from lakebed.formats.hudi.timeline.undone import undone_before_start
from lakebed.kernel.files import FileInfo, Listing, Store
from lakebed.kernel.options import is_number
from lakebed.model.instant import Instant
from lakebed.verbs.arguments import Position


@dataclass
class TableState:
    """A table's metadata at one moment. Each part is read once, when it is first asked for."""

    store: Store
    config: TableConfig
    timeline: Timeline
    files: MetadataFiles
    archived: ArchivedTimeline
    folders: tuple[str, ...] | None = None
    """The folders of the table's root, where they were listed with the timeline and can lead to partitions."""

    def read_ahead(self, bound: str = "", partitions: bool = False) -> None:
        """Read together what the plan of a read needs: the commits up to an order, the archive's instants, the names
        of schemas; with `partitions` the folders of the table's root, or the root, are listed meanwhile.

        All of it comes after the listing of the timeline, as each part would by itself: files that later commits write
        or archivals move are then no surprise.
        """
        entries = [e for e in self.timeline.commits if not bound or self.timeline.order(e) <= bound]
        acts: list[Callable[[], object]] = [lambda: self.files.commits(entries), lambda: self.column_history]
        if self.config.completion_times:
            acts.append(self.archived.completions)
        if bound:
            acts.append(lambda: self._cleans)
        if partitions:
            acts.append(lambda: self._listed if self.indexed_files is None else None)
        self.store.together(lambda act: act(), acts)

    def list_partitions(
        self, named: Collection[str], keeping: Keeping | None = None
    ) -> dict[str, tuple[FileInfo, ...]]:
        """The files of each partition: as the table's metadata table has them, where that is certain; else as
        `partitions.list_partitions` says."""
        if self.indexed_files is not None:
            kept = [*self.indexed_files] if keeping is None else keeping.kept(self.indexed_files)
            return {**dict.fromkeys(sorted(named), ()), **{path: self.indexed_files[path] for path in kept}}
        listed: Mapping[str, Listing] = self.__dict__.pop("_listed", {})  # a later call lists again
        return list_partitions(self.store, named, self.folders, listed, keeping)

    @cached_property
    def indexed_files(self) -> Mapping[str, tuple[FileInfo, ...]] | None:
        """The files of each partition as the metadata table has them, None where that is not certain."""
        return listed_files(self.metadata_table) if self.metadata_table is not None else None

    @cached_property
    def metadata_table(self) -> MetadataTable | None:
        """The table's metadata table, None where there is none or it is not certain."""
        if not keeps_listing(self.config):
            return None
        return MetadataTable.opened(self.store, self.config, self.timeline, (FILES,))

    @cached_property
    def _listed(self) -> dict[str, Listing]:
        folders = ("",) if self.folders is None else self.folders
        return dict(zip(folders, self.store.list_many(folders), strict=True))

    @cached_property
    def column_history(self) -> str:
        """The schemas with column ids, "" where the table keeps none."""
        return newest_history(self.store, self.timeline)

    def later(self) -> TableState:
        """The table a moment later, by the same settings: its timeline listed again. Itself when that is the same."""
        now = timeline_from(self.store.list(self.config.timeline_folder), self.config)
        return self if now == self.timeline else replace(self, timeline=now, archived=replace(self.archived))

    @cached_property
    def partitions(self) -> PartitionColumns:
        """How paths hold the partition columns."""
        return PartitionColumns.of(self.config, self.store.location)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that make the record key of a row."""
        return (RECORD_KEY,) if self.config.meta_fields else self.config.record_keys

    def view(self, bound: str = "", left_out: frozenset[str] = frozenset()) -> View:
        """The table as of an order, "" for now, without the instants in `left_out`."""
        archived = self.archived.completions() if self.config.completion_times else None
        return view_of(self.timeline, bound, left_out, archived, self._undone)

    _undone = cached_property(lambda self: undone_before_start(self.store, self.timeline, self.archived))

    def commits(self, view: View) -> dict[str, CommitMetadata]:
        """The metadata of the active timeline's commits in a view, by instant."""
        return self.files.commits(view.entries)

    def written(self, view: View) -> WrittenFiles:
        """What commits of the active timeline in a view wrote and replaced."""
        return WrittenFiles.of(self.commits(view))

    def was_replaced(self, partition: str, group: FileGroup, view: View) -> bool:
        """Whether an archived commit of the view replaced a file group, or no commit ever made it.

        The archive is read only for groups that no commit of the active timeline wrote to: such a commit would be newer
        than the replacement.
        """
        start = self.timeline.start
        if any(base.instant >= start for base in group.bases) or any(log.instant >= start for log in group.logs):
            return False
        if group.logs and not group.bases and self._is_left_over(partition, group):
            return True
        if view.bound not in self._replaced:
            self._replaced[view.bound] = self.archived.replaced(view.bound)
        return group.file_id in self._replaced[view.bound].get(partition, ())

    def _is_left_over(self, partition: str, group: FileGroup) -> bool:
        """Whether no completed write made the log files of a group, which has no base file and is older than the active
        timeline.

        So it is where the archive has none of their instants, or where there is no archive and the buckets of
        consistent hashing do not name the group.
        """
        if self.config.completion_times:
            return False
        instants = {log.instant for log in group.logs}
        if self._archived_writes:
            return not instants & self._archived_writes and min(instants) >= min(self._archived_writes)
        buckets = self._consistent_buckets(partition)
        return bool(buckets) and not group.file_id.startswith(tuple(buckets))

    @cached_property
    def _archived_writes(self) -> frozenset[str]:
        return frozenset(i.time for i in self.archived.instants() if i.action in WRITES and i.state == "completed")

    def _consistent_buckets(self, partition: str) -> frozenset[str]:
        """The file id prefixes that a partition's hashing metadata, of any time, names; none without such metadata."""
        known = self._buckets.get(partition)
        if known is None:
            folder = f"{HASHING_METADATA}/{partition}" if partition else HASHING_METADATA
            files = [info.path for info in self.store.list(folder).files if info.name.endswith(".hashing_meta")]
            nodes = (node for content in self.store.read_many(files) for node in parse_hashing(content).nodes)
            known = self._buckets[partition] = frozenset(node.prefix for node in nodes)
        return known

    @cached_property
    def _buckets(self) -> dict[str, frozenset[str]]:
        return {}

    @cached_property
    def _replaced(self) -> dict[str, dict[str, set[str]]]:
        return {}

    def schema(self, view: View | None = None) -> pa.Schema:
        """The columns of the table in a view: the meta columns, then those of the newest commit that names a schema.

        Where no commit names one they are those that the table was created with, else those of a base file. A table
        that nothing was written to has no columns. Partition columns that files leave out come last where that schema
        lacks them.
        """
        entries = self.timeline.commits if view is None else view.entries
        text = self._schema_text(entries)
        written = list(arrow_schema(text)) if text else self._fields_of_a_file()
        fields = [field for field in written if field.name not in META_COLUMNS]
        meta = [pa.field(name, pa.string()) for name in META_COLUMNS] if self.config.meta_fields else []
        if written and self.config.drops_partition_columns:
            names = {field.name for field in fields}
            lacking = [name for name in self.config.partition_fields if name not in names]
            fields += self._fields_of_paths(entries, lacking) if lacking else []
        return pa.schema([*meta, *fields])

    def _fields_of_paths(self, entries: Sequence[Entry], names: Sequence[str]) -> list[pa.Field]:
        """Columns that only partition paths hold, as Hudi's `TableSchemaResolver` appends them.

        Each has the type that the newest schema to name it gives (an upsert's may name it), else it is text.
        """
        commits = self.files.commits(entries)
        texts = [commits[entry.time].schema for entry in reversed(entries)]
        schemas = [arrow_schema(text) for text in dict.fromkeys([*texts, self.config.create_schema]) if text]
        return [
            next((schema.field(name).with_nullable(True) for schema in schemas if name in schema.names), None)
            or pa.field(name, pa.string())
            for name in names
        ]

    def avro_schema(self, view: View) -> str:
        """The Avro schema of the table's own columns in a view as JSON text, "" where no commit names one. Those that
        releases record of a delete of partitions have the meta columns too."""
        return without_fields(self._schema_text(view.entries), META_COLUMNS)

    def schema_history(self, view: View) -> SchemaHistory:
        """The column ids over time, where writers keep them (schema on read): they tell the old names of columns.

        Rows are read as the newest commit that records ids says: table services, and writers that do not know ids,
        leave them out. Where no commit of the active timeline records them, it is the newest schema of the history that
        a commit of the view began.
        """
        commits = self.commits(view)
        recorded = (commits[entry.time].extra.get("latest_schema", "") for entry in reversed(view.entries))
        wanted = parse_internal_schema(next(filter(None, recorded), ""))
        units = mislabelled_units(self.avro_schema(view))
        if not self.column_history:
            return SchemaHistory(wanted, units=units)
        written = parse_schema_history(self.column_history)
        if wanted is None:
            wanted = next((schema for schema in reversed(written) if _began(schema, view)), None)
        return SchemaHistory(wanted, written if wanted is not None else (), units)

    def deleted_files(self, partition: str, file_id: str, bound: str) -> tuple[str, ...]:
        """Names of a group's files that cleans removed and that the state as of an order may need."""
        return self._deletions(bound).get((partition, file_id), ())

    def cleaned_groups(self, bound: str) -> dict[str, frozenset[str]]:
        """By partition the file groups of which cleans removed files that the state as of an order may need."""
        groups: dict[str, set[str]] = {}
        for partition, file_id in self._deletions(bound):
            groups.setdefault(partition, set()).add(file_id)
        return {partition: frozenset(ids) for partition, ids in groups.items()}

    def earliest_readable(self) -> str:
        """The earliest instant whose state the cleaner kept, "" where no clean says. What a restore went back to was
        whole then, whatever older cleans say."""
        restored = max((e.time for e in self.timeline.entries if e.action == "restore" and e.done), default="")
        entries = [e for e in self.timeline.entries if e.action == "clean" and e.done]
        before = [clean for e, clean in zip(entries, self._cleans, strict=True) if e.time < restored]
        newest = max((clean.earliest_retained for clean in self._cleans[len(before) :]), default="")
        if newest:
            return newest
        older = max((clean.earliest_retained for clean in before), default="")
        older = older or max((clean.earliest_retained for clean in self.archived.cleans()), default="")
        reached = max((e.time for e in self.timeline.commits if e.time < restored), default="")
        return min(older, reached) if reached else older

    @cached_property
    def _cleans(self) -> list[CleanMetadata]:
        return self.files.cleans(self.timeline)

    def _deletions(self, bound: str) -> dict[tuple[str, str], tuple[str, ...]]:
        """The files that cleans removed and that the state as of an order may need, by (partition, file id).

        A clean removes only what no state from its own time on needs. So no clean matters to the newest state, and
        archived cleans matter only to a state from before the active ones.
        """
        if not bound:
            return {}
        active = min((e.time for e in self.timeline.entries if e.action == "clean" and e.done), default="")
        return self._all_deletions if not active or bound < active else self._active_deletions

    @cached_property
    def _active_deletions(self) -> dict[tuple[str, str], tuple[str, ...]]:
        return _removed(self._cleans)

    @cached_property
    def _all_deletions(self) -> dict[tuple[str, str], tuple[str, ...]]:
        return _removed([*self.archived.cleans(), *self._cleans])

    def _schema_text(self, entries: Iterable[object]) -> str:
        for entry in reversed(list(entries)):
            text = self.files.commits([entry])[entry.time].schema  # type: ignore[attr-defined,list-item]
            if text:
                return text
        return self.archived.newest_schema() or self.config.create_schema

    def _fields_of_a_file(self) -> list[pa.Field]:
        for files in self.list_partitions(()).values():
            for info in files:
                if parse_base_name(info.name) and info.name.endswith(".parquet"):
                    return list(BaseFileReader(self.store, info.path, info.size).schema())
        return []

    def bound_of(self, position: Position, what: str) -> str:
        """A position as an order, which is what ranges count in; "" for none. `what` names the position in errors.

        The name of an instant stands for the moment when the instant became visible. Other digits are an order
        themselves. An ISO timestamp is UTC unless it says otherwise. Raises UsageError or OptionError for text that is
        no moment, NotInHistoryError for a savepoint that does not exist.
        """
        if position is None or position == "":
            return ""
        if isinstance(position, Instant):
            return position.completed if self.config.completion_times and position.completed else position.time
        text = str(position).strip()
        if text.startswith("tag:"):
            text = find_savepoint(self.store, self.timeline, text[4:])
        if not is_number(text):
            return instant_of_timestamp(text, what, self.config.timezone)
        if text not in self.timeline.by_time and not is_moment(text, history=what != "as_of"):
            raise no_moment(text, what)
        if self.config.completion_times:
            orders = {self.timeline.order(entry) for entry in self.timeline.commits}
            entry = self.timeline.by_time.get(text)
            if text not in orders and entry is not None and entry.done:
                return entry.completed
            if text not in orders and entry is None:
                return (self.archived.completions() or {}).get(text, text) if len(text) >= 14 else text
        return text

    def archived_before(self, bound: str) -> bool:
        """Whether commits up to an order were archived."""
        return any(self.archived.commits("", bound))


def _began(schema: InternalSchema, view: View) -> bool:
    """Whether the commit that began a schema belongs to a view. Version 0 is the schema before any change."""
    return not schema.version_id or view.order(str(schema.version_id)) is not None


def _removed(cleans: Iterable[CleanMetadata]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Names of files that cleans removed, by (partition, file id)."""
    files: dict[tuple[str, str], list[str]] = {}
    for clean in cleans:
        for partition, names in clean.deleted.items():
            for name in names:
                parsed = parse_base_name(name) or parse_log_name(name)
                if parsed is not None:
                    files.setdefault((partition, parsed[0]), []).append(name)
    return {key: tuple(names) for key, names in files.items()}
