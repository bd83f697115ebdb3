"""Snapshots: the splits of the newest or an older state of the table, one file slice each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import NotInHistoryError, UnsupportedError
from lakebed.formats.hudi.codec.record_keys import has_key_text
from lakebed.formats.hudi.keygen import GeneratorKind
from lakebed.formats.hudi.merge.rules import check_known, rules_of, with_defaults
from lakebed.formats.hudi.options import MERGE_TYPE, QUERY_TYPE
from lakebed.formats.hudi.read.completeness import Completeness, check_lost
from lakebed.formats.hudi.read.partitions import list_partitions
from lakebed.formats.hudi.read.split import HudiSplit, split_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.slices import FileGroup, FileSlice, WrittenFiles, file_groups, live_slices, slice_of
from lakebed.formats.hudi.timeline.active import View
from lakebed.kernel.files import FileInfo
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, columns_of, parse_where
from lakebed.verbs.read import ReadPlan, filtered
from lakebed.verbs.table import Position, project


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """Reads one split of a snapshot. `decoded` are the columns asked for and those of the predicate."""

    reader: SliceReader
    columns: tuple[str, ...]
    decoded: tuple[str, ...]
    predicate: pc.Expression | None
    prunable: bool

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The split's rows."""
        for paths in split.slices:
            prune = self.predicate if self.prunable or not paths.logs else None
            rows = self.reader.open(paths, self.decoded, prune).rows()
            yield from filtered(rows, self.predicate, list(self.columns))


def plan_snapshot(
    state: TableState, options: Options, columns: Sequence[str] | None, where: Where, as_of: Position
) -> ReadPlan[HudiSplit]:
    """The splits of the table's state now, or as of an instant or time.

    Raises NotInHistoryError for a moment before the first commit, DataCleanedError when files of that state were
    cleaned, CorruptError when a file of the newest state is gone.
    """
    bound = state.bound_of(as_of, "as_of")
    view = state.view(bound)
    if bound and not view.entries and not state.archived_before(bound):
        raise NotInHistoryError(
            "the table has no commit as early as that",
            table=state.store.location,
            instant=str(as_of),
            todo=f"Its first commit is {state.timeline.commits[0].time if state.timeline.commits else 'still to come'}",
        )
    schema = state.schema(view if bound else None)
    names = project(columns, schema, table=state.store.location)
    predicate = parse_where(where, schema)
    base_only = options[QUERY_TYPE] == "read_optimized"
    slices = _slices(state, view, predicate, schema, logs=not base_only)
    if base_only:
        slices = [s._replace(logs=()) for s in slices if s.base is not None]
    reader = reader_of(state, options, schema, view, view)
    if any(s.logs for s in slices) and reader.combine:
        check_known(reader.rules, state.store.location)
    if any(s.logs for s in slices):
        _check_keys(state, schema)
    task = snapshot_task(reader, state, names, columns_of(where, schema), predicate, schema)
    out = pa.schema([schema.field(name) for name in names])
    return ReadPlan(out, tuple(split_of(s) for s in slices), task)


def snapshot_task(
    reader: SliceReader,
    state: TableState,
    names: list[str],
    where_columns: Sequence[str],
    predicate: pc.Expression | None,
    schema: pa.Schema,
) -> SnapshotTask:
    """The task of a snapshot.

    Base rows may be pruned by statistics before they are merged only where that cannot change who wins: under
    commit-time ordering of whole rows the log wins whatever the base row holds, and key and partition columns are the
    same in every version of a row. That is certain only of key generators that Hudi ships, and of partition columns
    whose text the path holds.
    """
    config = state.config
    fixed = {*state.keys, "_hoodie_partition_path"} if config.meta_fields else set()
    fixed |= {name for name in config.record_keys if config.generator.is_shipped and _is_told(name, schema)}
    fixed |= {*config.partition_fields} if config.plain_partitions or config.drops_partition_columns else set()
    decoded = tuple(dict.fromkeys([*names, *where_columns]))
    return SnapshotTask(reader, tuple(names), decoded, predicate, set(where_columns) <= fixed)


def _is_told(name: str, schema: pa.Schema) -> bool:
    """Whether equal keys mean equal values of a key column: those of timestamps can count in milliseconds alone."""
    return name in schema.names and not pa.types.is_timestamp(schema.field(name).type)


def _check_keys(state: TableState, schema: pa.Schema) -> None:
    """Raise UnsupportedError where rows cannot be merged by their key columns, in a table without meta columns."""
    config = state.config
    if config.meta_fields:
        return
    kinds = {name: schema.field(name).type for name in config.record_keys if name in schema.names}
    untold = [name for name in config.record_keys if name not in kinds or not has_key_text(kinds[name])]
    if untold or not config.record_keys or config.generator.kind is GeneratorKind.OTHER:
        raise UnsupportedError(
            "log files cannot be merged by record keys that are not certain",
            table=state.store.location,
            why=f"{_uncertain(state, untold)}, and rows have no meta columns (hoodie.populate.meta.fields is false)",
            todo="Compact the table with its own engine, or read base files alone (hoodie.datasource.query.type = "
            "read_optimized)",
        )


def _uncertain(state: TableState, untold: Sequence[str]) -> str:
    if state.config.generator.kind is GeneratorKind.OTHER:
        return f"lakebed does not know the key generator {state.config.generator.name}"
    if untold:
        return f"{', '.join(untold)} is no column, or of a type, that makes a record key"
    return "it has no record key fields"


def reader_of(
    state: TableState, options: Options, schema: pa.Schema, view: View, schema_view: View | None = None
) -> SliceReader:
    """How slices of a view are read, in the columns of `schema`: those of `schema_view`, None for the newest."""
    merge = options[MERGE_TYPE] == "payload_combine"
    named = schema_view or state.view()
    schemas, rules = state.schema_history(named), rules_of(state.config)
    return SliceReader(
        state.store,
        schema,
        state.keys,
        with_defaults(rules, state.avro_schema(named)) if rules.keep_defaults else rules,
        view.blocks(),
        state.partitions,
        merge,
        options[MERGE_TYPE] != "skip_combine",
        state.archived.scratch,
        schemas,
        None if state.config.meta_fields else state.config.key_form,
    )


def _slices(
    state: TableState, view: View, predicate: pc.Expression | None, schema: pa.Schema, *, logs: bool
) -> list[FileSlice]:
    """The slices that the predicate leaves, all of their files there; without `logs` of base files alone."""
    written = state.written(view)
    named = {stat.partition for commit in state.commits(view).values() for stat in commit.stats}
    if view.bound:
        named.update(state.cleaned_groups(view.bound))
    listed = {**dict.fromkeys(named, ()), **list_partitions(state.store, named)}
    kept = state.partitions.kept(listed, predicate, schema)
    if view.bound:
        slices = [found for path in kept for found in complete_slices(state, path, listed[path], view, written)]
    else:
        slices = [s for path in kept for s in live_slices(path, listed[path], view, written, state.was_replaced)]
    check_lost(state, view, written, kept, slices, logs)
    return slices


def complete_slices(
    state: TableState, partition: str, files: Sequence[FileInfo], view: View, written: WrittenFiles
) -> Iterator[FileSlice]:
    """The slices of a partition as of a moment, which may lie before now; DataCleanedError when they are not whole."""
    complete, groups = Completeness(state, view), file_groups(files)
    replaced = written.replaced.get(partition, frozenset())
    for file_id in sorted({*groups, *complete.vanished(partition, groups)} - replaced):
        group = groups.get(file_id) or FileGroup(file_id, [], [])
        if state.was_replaced(partition, group, view):
            continue
        found = slice_of(partition, group, view, written)
        complete.check(partition, group, found)
        if found is not None:
            yield found
