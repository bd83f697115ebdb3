"""The records of the part `partition_stats`: the range of each indexed column in each partition.

The statistics of a partition are those of all files of its newest file slices together. A commit replaces them in the
partitions that it touches. Every partition with rows has a record of each indexed column: of two partitions, Hudi's
readers leave out the one without.

Rules: Hudi's `HoodieTableMetadataUtil.convertMetadataToPartitionStatRecords`,
`FileFormatUtils.getColumnRangeInPartition`, `HoodieMetadataPayload.createPartitionStatsRecords`. Releases leave file
groups of earlier replacements out too, and count those of the commit itself until the next one.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.metadata import parse_commit
from lakebed.formats.hudi.codec.metadata_keys import file_hash, hash_of, partition_hash
from lakebed.formats.hudi.codec.metadata_records import RecordType, decode_records, encode_records
from lakebed.formats.hudi.codec.wrapped_values import ValueType, unbounded
from lakebed.formats.hudi.layout import COMPLETES_AS, file_path
from lakebed.formats.hudi.metadata_table.change import ColumnRange, MetadataChange
from lakebed.formats.hudi.metadata_table.definitions import definition_of
from lakebed.formats.hudi.metadata_table.entries import entries_of, keyed_entries
from lakebed.formats.hudi.metadata_table.grouped import NotKeptError, groups_of, merge_newest, spread
from lakebed.formats.hudi.metadata_table.opened import Image
from lakebed.formats.hudi.metadata_table.records import FILES, GroupRecords, Sizes, merge, named, sizes_of
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS, PARTITION_STATS
from lakebed.formats.hudi.metadata_table.statistics_written import RangeEncoder
from lakebed.formats.hudi.metadata_table.target import Target
from lakebed.formats.hudi.slices import WrittenFiles, file_groups, slice_of
from lakebed.formats.hudi.timeline.active import Entry, Timeline, view_of
from lakebed.kernel.files import FileInfo

_KIND = "ColumnStatsMetadata"
Record = Mapping[str, Any]
Names = Mapping[str, Set[str]]


def partition_stats_of(target: Target, instant: str, change: MetadataChange) -> list[GroupRecords]:
    """The records of a change. NotKeptError where they cannot be told from the statistics of files."""
    if change.undone:
        raise NotKeptError("commits are taken back whose rows the statistics of partitions count")
    touched = sorted({file.partition for file in change.written} | {p for p, ids in change.replaced.items() if ids})
    if not touched:
        return []
    definition = definition_of(target.outer, target.described, COLUMN_STATS)
    columns = tuple(definition.get("sourceFields") or ())
    if COLUMN_STATS not in target.listed or not columns:
        raise NotKeptError("the part column_stats is not kept")
    encoder = RangeEncoder(target.described.version, str(definition.get("version", "V1")) == "V2", change.schema)
    known = known_statistics(target, columns, touched)
    for file in change.written:
        records = encoder.records(file, columns)
        prefix = partition_hash(file.partition) + file_hash(file.name)
        known.update({hash_of(name) + prefix: record for name, record in records.items()})
    live = _live_names(target, instant, change, touched)
    return partition_records(
        encoder, target.described.version, groups_of(target, PARTITION_STATS), columns, live, known
    )


def partition_records(
    encoder: RangeEncoder,
    version: int,
    ids: Sequence[str],
    columns: Sequence[str],
    live: Names,
    known: Mapping[bytes, Record],
) -> list[GroupRecords]:
    """The records of partitions whose newest file slices have these files, by the statistics of files that are known.
    Those of a partition without files end."""
    keys: list[bytes] = []
    records: list[Record] = []
    for partition, names in live.items():
        files = [partition_hash(partition) + file_hash(name) for name in sorted(names)]
        for column in filter(encoder.has, columns):
            keys.append(hash_of(column) + partition_hash(partition))
            records.append(_record(encoder, partition, column, columns, files, known))
    values = encode_records(version, ((RecordType.PARTITION_STATS, {_KIND: each}) for each in records))
    return spread(PARTITION_STATS, ids, pa.array(keys, pa.binary()), values)


def merge_partition_stats(version: int, images: Sequence[Image]) -> tuple[pa.Array, pa.Array]:
    """The keys and datums of a base file. NotKeptError where a record only adds to an older one."""
    for image in images:
        scanned = image.hfile.scan() if image.hfile is not None else None
        for record in decode_records(image.schema, scanned["value"]) if scanned is not None else ():
            each = record[_KIND]
            if not each["isDeleted"] and not each.get("isTightBound"):
                raise NotKeptError("statistics of a partition stand for some of its files only")
    return merge_newest(_KIND, version, images)


def known_statistics(target: Target, columns: Sequence[str], partitions: Sequence[str]) -> dict[bytes, Record]:
    """The newest records of files in some partitions, and perhaps in others, by key."""
    prefixes = [hash_of(column) + partition_hash(path) for column in columns for path in partitions]
    wanted = pa.array(prefixes, pa.binary())
    records: dict[bytes, Record] = {}
    for entries in entries_of(target.reader, COLUMN_STATS, prefixes):
        heads = pc.binary_slice(entries.keys, 0, len(prefixes[0]))
        mine = entries.only(pc.is_in(heads, value_set=wanted))
        if mine.values is None:
            for key in mine.keys.to_pylist():
                records.pop(key, None)
            continue
        for key, record in zip(mine.keys.to_pylist(), decode_records(mine.schema, mine.values), strict=True):
            records[key] = record[_KIND]
    return {key: record for key, record in records.items() if not record["isDeleted"]}


def _record(
    encoder: RangeEncoder,
    partition: str,
    column: str,
    columns: Sequence[str],
    files: Sequence[bytes],
    known: Mapping[bytes, Record],
) -> Record:
    if not files:
        return encoder.gone(partition, column)
    kind = encoder.kind(column)
    least: list[Any] = []
    most: list[Any] = []
    nulls = values = size = uncompressed = 0
    for file in files:
        each = known.get(hash_of(column) + file)
        if each is None:  # a file from before the column was added is all null there
            other = next(filter(None, (known.get(hash_of(name) + file) for name in columns)), None)
            if other is None:
                raise NotKeptError("a file has no statistics")
            nulls, values = nulls + other["valueCount"], values + other["valueCount"]
            continue
        nulls, values = nulls + each["nullCount"], values + each["valueCount"]
        size, uncompressed = size + each["totalSize"], uncompressed + each["totalUncompressedSize"]
        if each["minValue"] is not None and each["maxValue"] is not None:
            least.append(_value(each, "minValue", kind))
            most.append(_value(each, "maxValue", kind))
    ends = min(least, default=None), max(most, default=None)
    strange = any(value != value for value in (*least, *most))
    record = (
        None if strange else encoder.record(partition, ColumnRange(column, *ends, nulls, values, size, uncompressed))
    )
    if record is None:
        raise NotKeptError(f"the range of {column} cannot be told")
    return {**record, "isTightBound": True}


def _value(record: Record, bound: str, kind: pa.DataType) -> Any:
    """A bound as a Python value of the column's type; one that does not tell the range in that type is the type's."""
    wrapped = record[bound]  # what is about to be written names the wrapper too
    value = (wrapped[1] if isinstance(wrapped, tuple) else wrapped)["value"]
    typed = record.get("valueType")
    if pa.types.is_decimal(kind) and isinstance(value, bytes) and typed and typed["additionalInfo"]:
        scale = int(typed["additionalInfo"].partition(",")[2])
        value = Decimal(f"{int.from_bytes(value, 'big', signed=True)}e{-scale}")
    elif pa.types.is_date(kind) and isinstance(value, int):
        value = datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
    elif pa.types.is_timestamp(kind) and typed and typed["typeOrdinal"] in _MILLIS:
        value = value * 1000
    elif pa.types.is_floating(kind) and isinstance(value, int):
        value = float(value)
    if isinstance(value, _python(kind)):
        return value
    ends = unbounded(kind)
    if ends is None:
        raise NotKeptError("the statistics of a file are of another type than the column")
    return ends[bound == "maxValue"]


_MILLIS = (ValueType.TIMESTAMP_MILLIS, ValueType.LOCAL_MILLIS)


def _python(kind: pa.DataType) -> type:
    for is_kind, python in _PYTHON:
        if is_kind(kind):
            return python
    return int


_PYTHON = (
    (pa.types.is_boolean, bool),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_date, datetime.date),
    (pa.types.is_decimal, Decimal),
)


def _live_names(target: Target, instant: str, change: MetadataChange, partitions: Sequence[str]) -> Names:
    """The names of the files in the newest slices of some partitions once an instant is completed."""
    view = view_of(_with(target, instant, change.action))
    replaced = _replaced(target, change)
    listed = _listed(target, partitions)
    live = {}
    for partition in partitions:
        sizes = listed[partition]
        merge(sizes, {file.name: (file.size, False) for file in change.written if file.partition == partition})
        merge(sizes, dict.fromkeys(change.deleted.get(partition, ()), (0, True)))
        infos = [FileInfo(file_path(partition, name), size) for name, (size, gone) in sizes.items() if not gone]
        groups = [g for g in file_groups(infos).values() if (partition, g.file_id) not in replaced]
        slices = [slice_of(partition, group, view, _ANY) for group in groups]
        # When logs of archived instants completed is not known here, so they count.
        old = {log.name for g in groups for log in g.logs if log.instant not in view.timeline.by_time and not log.cdc}
        live[partition] = frozenset(old.union(*(each.names for each in slices if each is not None)))
    return live


_ANY = WrittenFiles({}, {}, frozenset())


def _with(target: Target, instant: str, action: str) -> Timeline:
    """The timeline of the table once an instant is completed."""
    others = [entry for entry in target.data.entries if entry.time != instant or not entry.writes]
    done = Entry(instant, target.new_instant(instant), COMPLETES_AS.get(action, action), "completed", "")
    return replace(target.data, entries=tuple(sorted((*others, done), key=lambda entry: (entry.time, entry.action))))


def _replaced(target: Target, change: MetadataChange) -> set[tuple[str, str]]:
    """The file groups that commits of the active timeline and the change took out of use."""
    entries = [entry for entry in target.data.entries if entry.done and entry.action == "replacecommit"]
    commits = map(parse_commit, target.outer.read_many([entry.file for entry in entries]))
    parts: Iterable[Mapping[str, tuple[str, ...]]] = (*(commit.replaced for commit in commits), change.replaced)
    return {(partition, file_id) for part in parts for partition, ids in part.items() for file_id in ids}


def _listed(target: Target, partitions: Sequence[str]) -> dict[str, Sizes]:
    """The files of some partitions as the part `files` has them."""
    listed: dict[str, Sizes] = {partition: {} for partition in partitions}
    paths = {named(partition): partition for partition in partitions}
    keys = [name.encode() for name in paths]
    wanted = pa.array(keys, pa.binary())
    for file_slice in target.slices(FILES):
        for entries in keyed_entries(target.reader, file_slice, keys):
            mine = entries.only(pc.is_in(entries.keys, value_set=wanted))
            for key, sizes in sizes_of(mine.schema, mine.keys, mine.values):
                merge(listed[paths[key]], sizes)
    return listed
