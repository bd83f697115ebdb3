"""A table as the driver sees it for one call: settings, timeline, commits, schema, and the moments that a caller can
name."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakebed.errors import NotInHistoryError, OptionError, UsageError
from lakebed.formats.hudi.codec.internal_schema import (
    InternalSchema,
    SchemaHistory,
    parse_internal_schema,
    parse_schema_history,
)
from lakebed.formats.hudi.codec.metadata import CleanMetadata, CommitMetadata, parse_hashing_nodes
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.formats.hudi.codec.timestamps import mislabelled_units
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import (
    HASHING_METADATA,
    HOODIE,
    META_COLUMNS,
    RECORD_KEY,
    WRITES,
    parse_base_name,
    parse_log_name,
)
from lakebed.formats.hudi.options import READ, SPARK
from lakebed.formats.hudi.read.files import BaseFileReader
from lakebed.formats.hudi.read.partitions import PartitionColumns, list_partitions
from lakebed.formats.hudi.slices import FileGroup, WrittenFiles
from lakebed.formats.hudi.timeline.active import Entry, MetadataFiles, Timeline, View, view_of
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel.files import Store
from lakebed.model.instant import Instant
from lakebed.verbs.table import Position

_FORMATS = {8: "%Y%m%d", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}
"""How a day, and the instants that Hudi writes, look by the number of their digits."""


@dataclass
class TableState:
    """One reading of a table's metadata. What is asked of it is read once, when asked."""

    store: Store
    config: TableConfig
    timeline: Timeline
    files: MetadataFiles
    archived: ArchivedTimeline

    @cached_property
    def partitions(self) -> PartitionColumns:
        """How partition columns stand in paths."""
        return PartitionColumns.of(self.config, self.store.location)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that make a row's record key."""
        return (RECORD_KEY,) if self.config.meta_fields else self.config.record_keys

    def view(self, bound: str = "", left_out: frozenset[str] = frozenset()) -> View:
        """The table as of a time in what ranges count in, "" for now."""
        archived = self.archived.completions() if self.config.completion_times else None
        return view_of(self.timeline, bound, left_out, archived)

    def commits(self, view: View) -> dict[str, CommitMetadata]:
        """Metadata of the active timeline's commits in a view."""
        return self.files.commits(view.entries)

    def written(self, view: View) -> WrittenFiles:
        """What the commits of a view wrote and replaced, as far as the active timeline tells."""
        return WrittenFiles.of(self.commits(view))

    def was_replaced(self, partition: str, group: FileGroup, view: View) -> bool:
        """Whether an archived commit of the view replaced a file group, or none ever made it.

        The archive is asked only about groups that nothing of the active timeline wrote to: a commit that did would be
        newer than the replacement.
        """
        start = self.timeline.start
        if any(base.instant >= start for base in group.bases) or any(log.instant >= start for log in group.logs):
            return False
        if not group.bases and self._is_left_over(partition, group):
            return True
        if view.bound not in self._replaced:
            self._replaced[view.bound] = self.archived.replaced(view.bound)
        return group.file_id in self._replaced[view.bound].get(partition, ())

    def _is_left_over(self, partition: str, group: FileGroup) -> bool:
        """Whether log files from before the active timeline, with no base file beside them, are of no completed write:
        the archive has none of their instants, or there is none and the buckets of consistent hashing do not name the
        group."""
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
        """The beginnings of the file ids that a partition's hashing metadata of any time names; none without it."""
        folder = f"{HASHING_METADATA}/{partition}" if partition else HASHING_METADATA
        files = [info.path for info in self.store.list(folder).files if info.name.endswith(".hashing_meta")]
        return frozenset(prefix for content in self.store.read_many(files) for prefix in parse_hashing_nodes(content))

    @cached_property
    def _replaced(self) -> dict[str, dict[str, set[str]]]:
        return {}

    def schema(self, view: View | None = None) -> pa.Schema:
        """The columns of the table in a view: the meta columns, then those of the newest commit that names a schema.

        Where none does: those the table was created with, else those of a base file; none at all for a table that
        nothing was written to. Partition columns that files leave out come last where that schema lacks them.
        """
        entries = self.timeline.commits if view is None else view.entries
        text = self._schema_text(entries)
        found = list(arrow_schema(text)) if text else self._fields_of_a_file()
        fields = [field for field in found if field.name not in META_COLUMNS]
        meta = [pa.field(name, pa.string()) for name in META_COLUMNS] if self.config.meta_fields else []
        if found and self.config.drops_partition_columns:
            there = {field.name for field in fields}
            lacking = [name for name in self.config.partition_fields if name not in there]
            fields += self._fields_of_paths(entries, lacking) if lacking else []
        return pa.schema([*meta, *fields])

    def _fields_of_paths(self, entries: Sequence[Entry], names: Sequence[str]) -> list[pa.Field]:
        """Columns that stand in partition paths alone: of the type that the newest schema to name one gives it (an
        upsert's may), else text, as Hudi's `TableSchemaResolver` appends them."""
        commits = self.files.commits(entries)
        texts = [commits[entry.time].schema for entry in reversed(entries)]
        known = [arrow_schema(text) for text in dict.fromkeys([*texts, self.config.create_schema]) if text]
        return [
            next((schema.field(name).with_nullable(True) for schema in known if name in schema.names), None)
            or pa.field(name, pa.string())
            for name in names
        ]

    def avro_schema(self, view: View) -> str:
        """The Avro schema of the table in a view as JSON text, "" where nothing names one."""
        return self._schema_text(view.entries)

    def schema_history(self, view: View) -> SchemaHistory:
        """Column ids over time, where writers keep them (schema on read): what renamed columns were called.

        The columns wanted are those of the newest commit that records ids: table services, and writers that do not know
        of them, leave them out. Where none of the active timeline does, they are the newest of the history that a
        commit of the view began.
        """
        commits = self.commits(view)
        recorded = (commits[entry.time].extra.get("latest_schema", "") for entry in reversed(view.entries))
        wanted = parse_internal_schema(next(filter(None, recorded), ""))
        files = [info for info in self.store.list(f"{HOODIE}/.schema").files if info.name.endswith(".schemacommit")]
        units = mislabelled_units(self.avro_schema(view))
        if not files:
            return SchemaHistory(wanted, units=units)
        written = parse_schema_history(self.store.read(max(files, key=lambda info: info.name).path).decode())
        if wanted is None:
            wanted = next((schema for schema in reversed(written) if _began(schema, view)), None)
        return SchemaHistory(wanted, written if wanted is not None else (), units)

    def deleted_files(self, partition: str, file_id: str, bound: str) -> tuple[str, ...]:
        """Names of files of a group that cleans removed which can matter to the state as of a time."""
        return self._deletions(bound).get((partition, file_id), ())

    def cleaned_groups(self, bound: str) -> dict[str, frozenset[str]]:
        """File groups by partition that cleans removed files of which can matter to the state as of a time."""
        found: dict[str, set[str]] = {}
        for partition, file_id in self._deletions(bound):
            found.setdefault(partition, set()).add(file_id)
        return {partition: frozenset(ids) for partition, ids in found.items()}

    def earliest_readable(self) -> str:
        """The earliest instant whose state the cleaner kept, "" where no clean says."""
        newest = max((clean.earliest_retained for clean in self._cleans), default="")
        return newest or max((clean.earliest_retained for clean in self.archived.cleans()), default="")

    @cached_property
    def _cleans(self) -> list[CleanMetadata]:
        return self.files.cleans(self.timeline)

    def _deletions(self, bound: str) -> dict[tuple[str, str], tuple[str, ...]]:
        """By (partition, file id). A clean removes only what no state from its own time on needs: none matters to the
        newest state, and archived ones only to a state from before the active ones."""
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
        for files in list_partitions(self.store, ()).values():
            for info in files:
                if parse_base_name(info.name) and info.name.endswith(".parquet"):
                    return list(BaseFileReader(self.store, info.path).schema())
        return []

    def bound_of(self, position: Position, what: str) -> str:
        """A position as a time that ranges count in, "" for none.

        The name of an instant stands for the moment when that instant became visible. A number or text of digits is
        such a time itself, an ISO timestamp is UTC unless it says otherwise.
        """
        if position is None or position == "":
            return ""
        if isinstance(position, Instant):
            return position.completed if self.config.completion_times and position.completed else position.time
        text = str(position).strip()
        if text.startswith("tag:"):
            text = self._savepoint(text[4:])
        if not text.isdigit():
            return _digits(text, what, self.config.timezone)
        if text not in self.timeline.by_time and not _is_moment(text, history=what != "as_of"):
            raise _no_moment(text, what)
        if self.config.completion_times:
            orders = {self.timeline.order(entry) for entry in self.timeline.commits}
            entry = self.timeline.by_time.get(text)
            if text not in orders and entry is not None and entry.done:
                return entry.completed
            if text not in orders and entry is None:
                return (self.archived.completions() or {}).get(text, text) if len(text) >= 14 else text
        return text

    def archived_before(self, bound: str) -> bool:
        """Whether commits up to a time were archived."""
        return any(self.archived.commits("", bound))

    def _savepoint(self, name: str) -> str:
        if name in self.timeline.savepointed:
            return name
        raise NotInHistoryError(
            f"no savepoint {name!r}",
            table=self.store.location,
            todo=f"Savepoints: {', '.join(sorted(self.timeline.savepointed)) or 'none'}",
        )


def _began(schema: InternalSchema, view: View) -> bool:
    """Whether the commit that a schema counts from belongs to a view; version 0 is the one before any change."""
    return not schema.version_id or view.order(str(schema.version_id)) is not None


def _removed(cleans: Iterable[CleanMetadata]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Names of files that cleans removed, by partition and file id."""
    found: dict[tuple[str, str], list[str]] = {}
    for clean in cleans:
        for partition, names in clean.deleted.items():
            for name in names:
                parsed = parse_base_name(name) or parse_log_name(name)
                if parsed is not None:
                    found.setdefault((partition, parsed[0]), []).append(name)
    return {key: tuple(names) for key, names in found.items()}


def _digits(text: str, what: str, timezone: str) -> str:
    """An ISO timestamp as an instant time (yyyyMMddHHmmssSSS) in the table's time zone: UTC, or this machine's for
    LOCAL as in Hudi."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise _no_moment(text, what) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    local = moment.astimezone(datetime.UTC if timezone == "UTC" else None)
    return local.strftime("%Y%m%d%H%M%S") + f"{local.microsecond // 1000:03d}"


def _is_moment(text: str, history: bool) -> bool:
    """Whether digits are a day or an instant as Hudi writes it. An end of `history` may lie beyond all instants: a
    number of zeros (or an instant of a bootstrap, which begins with them), or of nines."""
    if history and (set(text) <= {"0"} or set(text) == {"9"}):
        return True
    if len(text) not in _FORMATS:
        return False
    if text.startswith("0000"):
        return history
    try:
        datetime.datetime.strptime(text, _FORMATS[len(text)])
    except ValueError:
        return False
    return True


def _no_moment(text: str, what: str) -> UsageError:
    why = "expected an instant such as 20240131093000000 or a timestamp such as 2024-01-31T09:30:00"
    if READ.knows(what) or SPARK.knows(what):
        return OptionError(f"option {what!r} is {text!r}", key=what, why=why)
    return UsageError(f"{what} is {text!r}", why=why)
