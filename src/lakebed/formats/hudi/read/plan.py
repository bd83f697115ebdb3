"""The plan of a snapshot: the newest or an older state of the table, one split per file slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.errors import DataCleanedError, NotInHistoryError, UnsupportedError, UsageError
from lakebed.formats.hudi.codec.record_keys import has_key_text
from lakebed.formats.hudi.keygen import GeneratorKind
from lakebed.formats.hudi.layout import PARTITION_PATH
from lakebed.formats.hudi.merge.rules import check_known, rules_of, with_defaults
from lakebed.formats.hudi.options import MERGE_TYPE, QUERY_TYPE
from lakebed.formats.hudi.read.completeness import Completeness, check_lost
from lakebed.formats.hudi.read.pruning import Pruning
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import HudiSplit, split_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.slices import FileGroup, FileSlice, WrittenFiles, file_groups, live_slices, slice_of
from lakebed.formats.hudi.timeline.active import Entry, View
from lakebed.kernel.files import FileInfo
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import unread_parts
from lakebed.model.instant import Instant
from lakebed.verbs.arguments import Position
from lakebed.verbs.read import ReadPlan, filtered


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """Reads one split of a snapshot.

    `decoded` are the columns asked for and those of the predicate. `prunable` says that the predicate may leave out
    base rows before they are merged.
    """

    reader: SliceReader
    columns: tuple[str, ...]
    decoded: tuple[str, ...]
    predicate: Node | None
    prunable: bool

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The split's rows."""
        with split.fetched_ahead(self.reader.store):
            for paths in split.slices:
                prune = self.predicate if self.prunable or not paths.logs else None
                rows = self.reader.open(paths, self.decoded, prune).rows()
                yield from filtered(rows, self.predicate, list(self.columns))


def plan_snapshot(state: TableState, request: ReadRequest, as_of: Position) -> ReadPlan[HudiSplit]:
    """The splits of the table's state now, or as of an instant or time.

    Raises NotInHistoryError for a moment before the first commit, DataCleanedError when files of that state were
    cleaned, CorruptError when a file of the newest state is gone.
    """
    options = request.options
    bound = state.bound_of(as_of, "as_of")
    state.read_ahead(bound, partitions=request.where is None)
    view = state.view(bound)
    if bound and not view.entries and not state.archived_before(bound):
        raise NotInHistoryError(
            "the table has no commit as early as that",
            table=state.store.location,
            instant=str(as_of),
            todo=f"Its first commit is {state.timeline.commits[0].time if state.timeline.commits else 'still to come'}",
        )
    schema = state.schema(view if bound else None)
    projection = request.projected(schema, state.store.location)
    base_only = options[QUERY_TYPE] == "read_optimized"
    pruning = Pruning(state, view, projection.predicate, schema)
    slices = _slices(state, view, projection.predicate, schema, logs=not base_only, pruning=pruning)
    if base_only:
        slices = [file_slice._replace(logs=()) for file_slice in slices if file_slice.base is not None]
    slices = pruning.slices(slices)
    reader = reader_of(state, options, schema, view, view)
    with_logs = any(file_slice.logs for file_slice in slices)
    if with_logs and reader.combine:
        check_known(reader.rules, state.store.location, schema.names)
    if with_logs:
        _check_keys(state, schema)
    prunable = set(projection.filtered) <= _same_in_every_version(state, schema)
    task = SnapshotTask(reader, projection.columns, projection.decoded, projection.predicate, prunable)
    out = pa.schema([schema.field(name) for name in projection.columns])
    splits = tuple(split_of(file_slice) for file_slice in slices)
    return plan_of(state, out, splits, task, unread_parts(task.predicate))


def commit_at(state: TableState, position: Position) -> Entry:
    """The completed commit of the active timeline that a position names; for a time, and for None, the newest one then.

    NotInHistoryError where there is none, UsageError for an instant that is not completed or is no commit.
    """
    text = position.time if isinstance(position, Instant) else str(position or "").strip()
    named = [entry for entry in state.timeline.entries if entry.time == text and entry.action != "savepoint"]
    if named and not (named[0].writes and named[0].done):
        raise UsageError(
            f"{text} is not a completed commit, but a {named[0].action} that is {named[0].state}",
            table=state.store.location,
            instant=text,
            todo="Name a completed commit of the table's history",
        )
    if named:
        return named[0]
    bound = state.bound_of(position, "as_of")
    commits = state.view(bound).entries
    if commits:
        return max(commits, key=state.timeline.order)
    raise NotInHistoryError(
        "the active timeline has no commit as early as that" if bound else "the table has no commit",
        table=state.store.location,
        instant=text,
        todo="Name a completed commit of the table's history that is not archived",
    )


def needed_files(state: TableState, entry: Entry) -> dict[str, tuple[str, ...]]:
    """The names of the files that a snapshot as of a commit reads, by partition.

    DataCleanedError where cleans no longer keep that commit, and no savepoint does.
    """
    earliest = state.earliest_readable()
    if entry.time < earliest and entry.time not in state.timeline.savepointed:
        raise DataCleanedError(
            "cleans no longer keep the files of this commit",
            table=state.store.location,
            instant=entry.time,
            todo=f"Name a commit from {earliest} on",
        )
    view = state.view(state.timeline.order(entry))
    files: dict[str, list[str]] = {}
    for part in _slices(state, view, None, state.schema(view), logs=True):
        names = files.setdefault(part.partition, [])
        names += [part.base.name] if part.base else []
        # In table version 6 and older, log files of later slices lie beyond the commit.
        names += [log.name for log in part.logs if log.instant <= entry.time]
    return {partition: tuple(names) for partition, names in sorted(files.items())}


def plan_of(
    state: TableState,
    schema: pa.Schema,
    splits: Iterable[HudiSplit],
    task: Callable[[HudiSplit], Iterator[pa.RecordBatch]],
    warnings: tuple[str, ...],
) -> ReadPlan[HudiSplit]:
    """The plan of a read of this table. It warns of what the timeline leaves in doubt too."""
    warnings = (*state.timeline.doubts, *warnings)
    return ReadPlan(schema, tuple(splits), task, warnings, state.store.at_once, state.store.in_flight)


def _same_in_every_version(state: TableState, schema: pa.Schema) -> set[str]:
    """The columns that are certainly the same in every version of a row.

    A predicate on these columns alone may prune base rows by statistics before they are merged, since it cannot change
    which version wins. They are the key and partition columns: only where Hudi ships the key generator, and only
    partition columns whose text the path holds.
    """
    config = state.config
    names = {*state.keys, PARTITION_PATH} if config.meta_fields else set()
    names |= {name for name in config.record_keys if config.generator.is_shipped and _key_tells_value(name, schema)}
    names |= {*config.partition_fields} if config.plain_partitions or config.drops_partition_columns else set()
    return names


def _key_tells_value(name: str, schema: pa.Schema) -> bool:
    """Whether equal keys mean equal values of a key column. Keys may hold timestamps in milliseconds alone."""
    return name in schema.names and not pa.types.is_timestamp(schema.field(name).type)


def _check_keys(state: TableState, schema: pa.Schema) -> None:
    """Raise UnsupportedError where a table without meta columns cannot merge rows by its key columns."""
    config = state.config
    if config.meta_fields:
        return
    kinds = {name: schema.field(name).type for name in config.record_keys if name in schema.names}
    unusable = [name for name in config.record_keys if name not in kinds or not has_key_text(kinds[name])]
    if unusable or not config.record_keys or config.generator.kind is GeneratorKind.OTHER:
        raise UnsupportedError(
            "log files cannot be merged by record keys that are not certain",
            table=state.store.location,
            why=f"{_why_uncertain(state, unusable)}, and rows have no meta columns (hoodie.populate.meta.fields is "
            "false)",
            todo="Compact the table with its own engine, or read base files alone (hoodie.datasource.query.type = "
            "read_optimized)",
        )


def _why_uncertain(state: TableState, unusable: Sequence[str]) -> str:
    if state.config.generator.kind is GeneratorKind.OTHER:
        return f"lakebed does not know the key generator {state.config.generator.name}"
    if unusable:
        return f"{', '.join(unusable)} is not a column, or its type cannot be part of a record key"
    return "the table has no record key fields"


def reader_of(
    state: TableState, options: Options, schema: pa.Schema, view: View, schema_view: View | None = None
) -> SliceReader:
    """How slices of a view are read.

    `schema` has the table's columns in `schema_view`, or those of the newest schema where that is None.
    """
    newest = schema_view or state.view()
    schemas, rules = state.schema_history(newest), rules_of(state.config)
    if not state.config.merge_on_read:  # its files are merged, whatever ordering column its first writer named
        rules = replace(rules, ordering=tuple(name for name in rules.ordering if name in schema.names))
    return SliceReader(
        state.store,
        schema,
        state.keys,
        with_defaults(rules, state.avro_schema(newest)) if rules.keep_defaults else rules,
        view.blocks(),
        state.partitions,
        options[MERGE_TYPE] == "payload_combine",
        options[MERGE_TYPE] != "skip_combine",
        state.archived.scratch,
        schemas,
        None if state.config.meta_fields else state.config.key_form,
    )


def _slices(
    state: TableState,
    view: View,
    predicate: Node | None,
    schema: pa.Schema,
    *,
    logs: bool,
    pruning: Pruning | None = None,
) -> list[FileSlice]:
    """The slices in the partitions that the predicate leaves.

    Raises as `plan_snapshot` does where one of their files is gone; without `logs` only base files are checked.
    """
    written = state.written(view)
    named = {stat.partition for commit in state.commits(view).values() for stat in commit.stats}
    if view.bound:
        named.update(state.cleaned_groups(view.bound))
    keeping = state.partitions.keeping(predicate, schema)
    wanted = named if keeping is None else keeping.kept(named)
    listed = {**dict.fromkeys(sorted(wanted), ()), **state.list_partitions(named, keeping)}
    kept = [*listed] if keeping is None else keeping.kept(listed)
    kept = kept if pruning is None else pruning.partitions(kept)
    if view.bound:
        slices = [s for path in kept for s in complete_slices(state, path, listed[path], view, written)]
    else:
        slices = [s for path in kept for s in live_slices(path, listed[path], view, written, state.was_replaced)]
    check_lost(state, view, written, kept, slices, logs)
    return slices


def complete_slices(
    state: TableState, partition: str, files: Sequence[FileInfo], view: View, written: WrittenFiles
) -> Iterator[FileSlice]:
    """The slices of a partition as of a moment, which may lie before now.

    Raises DataCleanedError when one of them is not whole.
    """
    complete, groups = Completeness(state, view), file_groups(files)
    replaced = written.replaced.get(partition, frozenset())
    for file_id in sorted({*groups, *complete.vanished(partition, groups)} - replaced):
        group = groups.get(file_id) or FileGroup(file_id, [], [])
        if state.was_replaced(partition, group, view):
            continue
        file_slice = slice_of(partition, group, view, written)
        complete.check(partition, group, file_slice)
        if file_slice is not None:
            yield file_slice
