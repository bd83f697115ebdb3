"""Build parts of a metadata table that a table does not have yet, from the files that it has.

It happens after a write, under the table's lock, while no instant is pending: so the parts are of one state of the
table. Where that is not so, a later write builds them. The table's property names a part last: one that was cut off is
built anew.

Rules: Hudi's `HoodieBackedTableMetadataWriter.initializeFromFilesystem`, `HoodieIndexMetadata` (index definitions).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.layout import RECORD_KEY, file_path
from lakebed.formats.hudi.metadata_table.bootstrap import build_instant, build_part, can_build
from lakebed.formats.hudi.metadata_table.change import MetadataChange, WrittenFile
from lakebed.formats.hudi.metadata_table.definitions import definition_of, definitions_file, read_definitions
from lakebed.formats.hudi.metadata_table.grouped import NotKeptError, group_ids, spread
from lakebed.formats.hudi.metadata_table.keys_written import BLOOM_FILTERS, bloom_records, located
from lakebed.formats.hudi.metadata_table.named import INFLIGHT, PARTITIONS, partitions_of
from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.metadata_table.options import (
    BLOOM_ENABLE,
    BLOOM_GROUPS,
    COLUMN_STATS_ENABLE,
    COLUMN_STATS_GROUPS,
    METADATA_ENABLE,
    PARTITION_STATS_ENABLE,
    RECORD_INDEX_ENABLE,
    RECORD_INDEX_GROUPS,
)
from lakebed.formats.hudi.metadata_table.partition_stats import known_statistics, partition_records
from lakebed.formats.hudi.metadata_table.record_index import RECORD_INDEX
from lakebed.formats.hudi.metadata_table.records import FILES, GroupRecords
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS, PARTITION_STATS
from lakebed.formats.hudi.metadata_table.statistics_written import (
    INDEXED_META,
    RangeEncoder,
    column_stats_records,
    has_statistics,
)
from lakebed.formats.hudi.metadata_table.target import Target
from lakebed.formats.hudi.metadata_table.turn import Turn, building
from lakebed.formats.hudi.metadata_table.update import build_from, needs_building, walked
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileSlice, live_slices
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.formats.hudi.write.statistics import column_ranges, columns_without_nan
from lakebed.formats.hudi.write.wanted import named_columns
from lakebed.kernel.decoding import decoding

_MOST_COLUMNS = 32
_ENABLING = {
    COLUMN_STATS: COLUMN_STATS_ENABLE,
    PARTITION_STATS: COLUMN_STATS_ENABLE,
    BLOOM_FILTERS: BLOOM_ENABLE,
    RECORD_INDEX: RECORD_INDEX_ENABLE,
}
_GROUPS = {COLUMN_STATS: COLUMN_STATS_GROUPS, BLOOM_FILTERS: BLOOM_GROUPS, RECORD_INDEX: RECORD_INDEX_GROUPS}


def build_indexes(context: WriteContext, state_of: Callable[[], TableState]) -> tuple[str, ...]:
    """Build the parts that the options ask for and the table lacks. Notes about those that cannot be built."""
    return _build(context, state_of, _missing(context, context.config))


def build_again(context: WriteContext, state_of: Callable[[], TableState], named: Sequence[str]) -> tuple[str, ...]:
    """Build the parts of `named` that a restore could not keep. Notes about those that cannot be built."""
    context.config = load_config(context.store)
    if FILES not in named or not context.options[METADATA_ENABLE]:
        return ()
    walk = walked(context) if needs_building(context) else None
    if walk is not None:
        with context.locked(chooses=True) as held:
            context.config = build_from(context, context.timeline(), *walk, held)
    parts = partitions_of(context.config, PARTITIONS)
    notes = _build(context, state_of, [part for part in named if part in _ENABLING and part not in parts])
    parts = partitions_of(context.config, PARTITIONS)
    gone = [part for part in named if part not in parts]
    if gone and not notes:
        notes = (f"the metadata table is no longer used ({', '.join(gone)}): a later write builds it again",)
    return notes


def _build(context: WriteContext, state_of: Callable[[], TableState], wanted: Sequence[str]) -> tuple[str, ...]:
    if not wanted:
        return ()
    with context.locked(chooses=True) as held:
        config = context.config = load_config(context.store)
        state = state_of()
        missing = [part for part in wanted if part not in partitions_of(config, PARTITIONS)]
        if not missing or FILES not in partitions_of(config, PARTITIONS) or not can_build(state.timeline):
            return ()
        builder = _Builder(context, state, held)
        notes = []
        for part in missing:
            try:
                builder.build(part)
            except NotKeptError as error:
                notes.append(f"the part {part} of the metadata table was not built: {error.what}")
        context.config = load_config(context.store)
    return tuple(notes)


def _missing(context: WriteContext, config: TableConfig) -> list[str]:
    options, named = context.options, partitions_of(config, PARTITIONS)
    if not options[METADATA_ENABLE]:
        return []
    wanted = [part for part, option in _ENABLING.items() if options[option] and part not in named]
    summed = config.completion_times and config.partition_fields and options[PARTITION_STATS_ENABLE]
    return [part for part in wanted if part != PARTITION_STATS or summed]


class _Builder:
    """Builds parts from one state of a table. `held` is told between files that the lock is still needed."""

    def __init__(self, context: WriteContext, state: TableState, held: Turn) -> None:
        self._context, self._state, self._held = context, state, held
        self._view = state.view()
        self._schema = state.schema()
        files, written = state.list_partitions(()), state.written(self._view)
        self._slices = [
            each
            for path, listed in sorted(files.items())
            for each in live_slices(path, listed, self._view, written, state.was_replaced)
        ]

    def build(self, part: str) -> None:
        """Build a part, then name it in the table's properties. NotKeptError where the files do not tell enough."""
        context, config = self._context, load_config(self._context.store)
        ids = group_ids(part, context.options[_GROUPS[part]] if part in _GROUPS else 1)
        columns = self._columns()
        records = {
            COLUMN_STATS: lambda: self._statistics(config, columns, ids),
            PARTITION_STATS: lambda: self._partition_statistics(config, ids),
            BLOOM_FILTERS: lambda: self._filters(config, ids),
            RECORD_INDEX: lambda: self._keys(config, ids),
        }[part]()
        by_id = {each.file_id: each for each in records}
        nothing = pa.array([], pa.binary())
        groups = [by_id.get(file_id) or GroupRecords(part, file_id, nothing, nothing) for file_id in ids]
        target = Target.open(context.store, config, ())
        with building(
            context.store, f"{FOLDER}/{part}", self._held
        ):  # what is left is of a time when it was kept before
            build_part(target, build_instant(target), groups, self._held)
            named = {*partitions_of(config, PARTITIONS), part}
            changes: dict[str, str | None] = {PARTITIONS: ",".join(sorted(named)), INFLIGHT: ""}
            if config.completion_times:
                changes |= self._define(config, part, columns)
            update_properties(context.store, changes)

    def _columns(self) -> tuple[str, ...]:
        named = named_columns(self._context.options)
        fields = [field for field in self._schema if not field.name.startswith("_hoodie_") and has_statistics(field)]
        every = tuple(field.name for field in fields[:_MOST_COLUMNS])
        return (*(INDEXED_META if self._state.config.meta_fields else ()), *(named or every))

    def _files(self) -> Iterator[tuple[FileSlice, pq.ParquetFile]]:
        """The base files, each open until the next."""
        store = self._context.store
        for each in self._slices:
            if each.base is not None:
                self._held()
                path = file_path(each.partition, each.base.name)
                with store.open_input(path, each.base.size) as source:
                    with decoding(
                        "a base file cannot be read",
                        table=store.location,
                        file=path,
                        todo="Restore the file from a copy",
                    ):
                        file = pq.ParquetFile(source)
                    yield each, file

    def _statistics(self, config: TableConfig, columns: Sequence[str], ids: Sequence[str]) -> list[GroupRecords]:
        written = tuple(
            WrittenFile(
                each.partition,
                each.file_id,
                file_path(each.partition, each.base.name if each.base else ""),
                0,
                ranges=column_ranges(file.metadata, self._schema, columns, columns_without_nan(file, columns)),
            )
            for each, file in self._files()
        )
        change = MetadataChange("commit", written, schema=self._state.avro_schema(self._view))
        return column_stats_records(config.version, change, ids, columns, typed=config.version >= 9)

    def _partition_statistics(self, config: TableConfig, ids: Sequence[str]) -> list[GroupRecords]:
        """The statistics of whole partitions, from the part `column_stats`."""
        target = Target.open(self._context.store, config, (COLUMN_STATS,))
        columns = tuple(definition_of(self._context.store, config, COLUMN_STATS).get("sourceFields") or ())
        encoder = RangeEncoder(config.version, config.version >= 9, self._state.avro_schema(self._view))
        live: dict[str, set[str]] = {}
        for each in self._slices:
            live.setdefault(each.partition, set()).update(each.names)
        known = known_statistics(target, columns, sorted(live))
        return partition_records(encoder, config.version, ids, columns, live, known)

    def _filters(self, config: TableConfig, ids: Sequence[str]) -> list[GroupRecords]:
        written = tuple(
            WrittenFile(
                each.partition,
                each.file_id,
                file_path(each.partition, each.base.name if each.base else ""),
                0,
                bloom=(file.metadata.metadata or {}).get(b"org.apache.hudi.bloomfilter", b""),
            )
            for each, file in self._files()
        )
        return bloom_records(config.version, self._newest, MetadataChange("commit", written), ids)

    def _keys(self, config: TableConfig, ids: Sequence[str]) -> list[GroupRecords]:
        if not config.meta_fields:
            raise NotKeptError("the table has no meta columns")
        reader = reader_of(self._state, READ.parse({}), self._schema, self._view)
        keys, values = [], []
        for each in self._slices:
            self._held()
            merged = reader.open(SlicePaths.of(each), (RECORD_KEY,))
            for batch in merged.rows():
                file = WrittenFile(each.partition, each.file_id, "", 0)
                keys.append(batch.column(RECORD_KEY).cast(pa.binary()))
                values.append(located(config.version, batch.num_rows, file, self._newest, config.timezone))
        nothing = pa.array([], pa.binary())
        every = pa.concat_arrays([*keys, nothing])
        if len(every.unique()) < len(every):
            raise NotKeptError("several rows have the same key")
        return spread(RECORD_INDEX, ids, every, pa.concat_arrays([*values, nothing]))

    @property
    def _newest(self) -> str:
        return max((entry.time for entry in self._state.timeline.commits), default="")

    def _define(self, config: TableConfig, part: str, columns: Sequence[str]) -> dict[str, str | None]:
        """Write the definition of a part beside those that are there, as the release of the table's version does. The
        property that says where."""
        store, path = self._context.store, definitions_file(config)
        whole = read_definitions(store, config)
        typed = config.version >= 9
        definition: dict[str, Any] | None = None
        if part == COLUMN_STATS:
            definition = _definition(part, part, columns, {}, "V2" if typed else "")
        elif part == RECORD_INDEX and typed:
            definition = _definition(part, "", (), {"isPartitioned": "false"}, "V1")
        if definition is not None:
            whole["indexDefinitions"] = {**(whole.get("indexDefinitions") or {}), part: definition}
        if definition is not None or "indexDefinitions" not in whole:
            store.write(path, json.dumps({"indexDefinitions": {}, **whole}, indent=2).encode())
        return {"hoodie.table.index.defs.path": path}


def _definition(
    name: str, function: str, columns: Sequence[str], options: dict[str, str], version: str
) -> dict[str, Any]:
    known = {
        "indexName": name,
        "indexType": name,
        "indexFunction": function,
        "sourceFields": list(columns),
        "indexOptions": options,
    }
    return known | ({"version": version} if version else {})
