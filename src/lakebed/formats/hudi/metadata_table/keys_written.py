"""The records of the parts `bloom_filters` (of each base file) and `record_index` (of each key).

The record index gets the keys that a write adds to a file group or takes out of it. A key whose delete may lose against
a row of the table stays in it: a lookup then finds the file group, and the file group tells. A replaced file group must
not be found at all, so the keys go that the index has there and the commit does not write anew.

Rules: Hudi's `HoodieMetadataPayload.createBloomFilterMetadataRecord`, `createRecordIndexUpdate` and
`createRecordIndexDelete`.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.bloom import FilterType
from lakebed.formats.hudi.codec.metadata_keys import file_hash, partition_hash
from lakebed.formats.hudi.codec.metadata_records import RecordType, encode_records
from lakebed.formats.hudi.metadata_table.change import MetadataChange, WrittenFile
from lakebed.formats.hudi.metadata_table.grouped import NotKeptError, groups_of, spread
from lakebed.formats.hudi.metadata_table.record_index import NO_INDEX, RECORD_INDEX, RecordIndex, halves_of
from lakebed.formats.hudi.metadata_table.records import GroupRecords
from lakebed.formats.hudi.metadata_table.target import Target
from lakebed.kernel.arrays import from_values, one_chunk
from lakebed.kernel.avro.encode import encode_datums

BLOOM_FILTERS = "bloom_filters"
_HEAD = struct.Struct(">iibi")
_MILLIS = 17
_NOTHING = from_values([], pa.binary())


def bloom_filters_of(target: Target, instant: str, change: MetadataChange) -> list[GroupRecords]:
    """The filters of a change's base files. NotKeptError where one has none."""
    return bloom_records(target.described.version, instant, change, groups_of(target, BLOOM_FILTERS))


def bloom_records(version: int, instant: str, change: MetadataChange, ids: Sequence[str]) -> list[GroupRecords]:
    """The records of `bloom_filters` for a change, in file groups with these ids."""
    keys, records = [], []
    for file in change.written:
        if file.is_log:
            continue
        if not file.bloom:
            raise NotKeptError("a base file has no bloom filter")
        keys.append(partition_hash(file.partition) + file_hash(file.name))
        records.append({"type": _kind(file.bloom), "bloomFilter": file.bloom, "isDeleted": False})
    for partition, names in change.deleted.items():
        for name in names:
            if not name.startswith("."):
                keys.append(partition_hash(partition) + file_hash(name))
                records.append({"type": "", "bloomFilter": b"", "isDeleted": True})
    values = encode_records(
        version,
        ((RecordType.BLOOM_FILTER, {"BloomFilterMetadata": {"timestamp": instant, **each}}) for each in records),
    )
    return spread(BLOOM_FILTERS, ids, pa.array(keys, pa.binary()), values)


def _kind(bloom: bytes) -> str:
    """The kind of a serialised filter: one that can grow has more than a head and its bits."""
    data = base64.b64decode(bloom)
    _, _, _, bits = _HEAD.unpack_from(data, 0)
    return (FilterType.SIMPLE if len(data) == _HEAD.size + (bits + 7) // 8 else FilterType.DYNAMIC).value


def record_index_of(target: Target, instant: str, change: MetadataChange) -> list[GroupRecords]:
    """The keys that a change adds and removes. NotKeptError where nobody says which keys these are, or where it takes
    back what the index holds."""
    if change.service in ("COMPACT", "LOG_COMPACT"):
        return []
    if any(change.replaced.values()) and change.replaced_keys is None:
        raise NotKeptError("file groups are replaced, and nothing says which keys they have")
    if change.undone:
        raise NotKeptError("commits are taken back whose keys it has")
    if any(file.added is None and file.writes > file.deletes for file in change.written):
        raise NotKeptError("the write did not note its keys")
    keys, values, gone = [], [], []
    for file in change.written:
        if file.added is not None and len(file.added):
            keys.append(file.added.cast(pa.binary()))
            values.append(located(target.described.version, len(file.added), file, instant, target.described.timezone))
        if file.removed is not None and len(file.removed):
            gone.append(file.removed.cast(pa.binary()))
    ids = groups_of(target, RECORD_INDEX)
    if any(change.replaced.values()):
        gone.append(_replaced(target, change))
    if not keys and not gone:
        return []
    added = pa.concat_arrays([*keys, _NOTHING])
    removed = pa.concat_arrays([*gone, _NOTHING])
    left = removed.filter(pc.invert(pc.is_in(removed, value_set=added)))
    return spread(RECORD_INDEX, ids, added, pa.concat_arrays([*values, _NOTHING]), left)


def _replaced(target: Target, change: MetadataChange) -> pa.Array:
    """The keys that the index has in file groups which the change replaces."""
    assert change.replaced_keys is not None
    keys = change.replaced_keys().unique()
    places = RecordIndex(target.reader).locate(keys)
    groups = [f"{partition}\0{file_id}" for partition, ids in change.replaced.items() for file_id in ids]
    group = pc.binary_join_element_wise(places["partition"], places["file_id"], "\0")
    mine = one_chunk(pc.is_in(group, value_set=pa.array(groups, pa.string())))
    return keys.filter(mine).cast(pa.binary())


def located(version: int, count: int, file: WrittenFile, instant: str, timezone: str) -> pa.Array:
    """The datums of so many keys in one file."""
    halves = halves_of(file.file_id)
    high, low, number = halves if halves is not None else (NO_INDEX, NO_INDEX, NO_INDEX)
    values: list[tuple[str, pa.Scalar]] = [
        ("partitionName", pa.scalar(file.partition)),
        ("fileIdHighBits", pa.scalar(high, pa.int64())),
        ("fileIdLowBits", pa.scalar(low, pa.int64())),
        ("fileIndex", pa.scalar(number, pa.int32())),
        ("fileId", pa.scalar("" if halves is not None else file.file_id)),
        ("instantTime", pa.scalar(_epoch_millis(instant, timezone), pa.int64())),
    ]
    arrays = [pa.repeat(value, count) for _, value in values]
    fields = [pa.field(name, value.type) for name, value in values]
    arrays.append(pa.repeat(pa.scalar(0 if halves is not None else 1, pa.int32()), count))
    fields.append(pa.field("fileIdEncoding", pa.int32(), nullable=False))
    if version >= 8:
        arrays.append(pa.nulls(count, pa.int64()))
        fields.append(pa.field("position", pa.int64()))
    info = pa.StructArray.from_arrays(arrays, fields=fields)
    nothing, text = pa.nulls(count, pa.string()), pa.repeat("", count)
    columns = [(f"meta{each}", nothing, True) for each in range(5)]
    columns += [
        ("key", text, False),
        ("type", pa.repeat(pa.scalar(int(RecordType.RECORD_INDEX), pa.int32()), count), False),
    ]
    columns += [(name, nothing, True) for name in ("files", "bloom", "stats")]
    columns.append(("index", info, True))
    if version >= 8:
        columns.append(("secondary", nothing, True))
    schema = pa.schema([pa.field(name, array.type, nullable) for name, array, nullable in columns])
    return encode_datums(pa.RecordBatch.from_arrays([array for _, array, _ in columns], schema=schema))


def _epoch_millis(instant: str, timezone: str) -> int:
    """The moment that an instant names, in the time zone of the table."""
    text = instant[:_MILLIS].ljust(_MILLIS, "0")
    zone = datetime.UTC if timezone.upper() == "UTC" else None
    moment = datetime.datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
    return int(moment.timestamp()) * 1000 + int(text[14:])
