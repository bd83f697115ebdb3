"""Records of the indexing parts of the metadata table: spread over the part's file groups, and merged by key."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.metadata_keys import file_groups_of
from lakebed.formats.hudi.codec.metadata_records import record_schema
from lakebed.formats.hudi.metadata_table.entries import Entries, entries_of_image
from lakebed.formats.hudi.metadata_table.opened import Image
from lakebed.formats.hudi.metadata_table.records import GroupRecords
from lakebed.formats.hudi.metadata_table.target import Target
from lakebed.kernel.decoding import decoding

PREFIXES: Mapping[str, str] = {
    "column_stats": "col-stats",
    "partition_stats": "partition-stats",
    "bloom_filters": "bloom-filters",
    "record_index": "record-index",
}
"""The prefix of the file ids of each part."""
_GROUP = re.compile(r"^([a-z-]+)-(\d{4})-\d+$")


class NotKeptError(UnsupportedError):
    """A part of the metadata table cannot be kept in one commit: it is used no longer."""


def group_ids(part: str, count: int) -> list[str]:
    """The file ids of a part's file groups, of so many."""
    return [f"{PREFIXES[part]}-{number:04d}-0" for number in range(count)]


def groups_of(target: Target, part: str) -> list[str]:
    """The file ids of a part that is there, by number. NotKeptError where they have other names."""
    ids: dict[int, str] = {}
    for file_id in target.groups(part):
        parsed = _GROUP.match(file_id)
        if parsed is None or parsed[1] != PREFIXES[part]:
            raise NotKeptError(f"the file groups of {part} have names that lakebed does not know")
        ids[int(parsed[2])] = file_id
    if not ids or sorted(ids) != list(range(len(ids))):
        raise NotKeptError(f"a file group of {part} is missing")
    return [ids[number] for number in range(len(ids))]


def spread(
    part: str, ids: Sequence[str], keys: pa.Array, values: pa.Array, deleted: pa.Array | None = None
) -> list[GroupRecords]:
    """Records over the file groups that their keys belong to. Of records with one key the last counts."""
    gone = pa.array([], pa.binary()) if deleted is None else deleted
    keys, values = last_of_each(keys, values)
    gone = pc.unique(gone).sort()
    of_key = file_groups_of(keys.cast(pa.string()), len(ids))
    of_gone = file_groups_of(gone.cast(pa.string()), len(ids))
    groups = []
    for number, file_id in enumerate(ids):
        mine, lost = pa.array(of_key == number), pa.array(of_gone == number)
        records = GroupRecords(part, file_id, keys.filter(mine), values.filter(mine), gone.filter(lost))
        if len(records.keys) or len(records.deleted):
            groups.append(records)
    return groups


def last_of_each(keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Keys in order and once each, with the last of their values."""
    order = pc.sort_indices(
        pa.table({"key": keys, "at": np.arange(len(keys))}), [("key", "ascending"), ("at", "ascending")]
    )
    keys, values = keys.take(order), values.take(order)
    if len(keys) < 2:
        return keys, values
    last = pa.array(np.append(pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False), True))
    return keys.filter(last), values.filter(last)


def merge_newest(kind: str, version: int, images: Sequence[Image]) -> tuple[pa.Array, pa.Array]:
    """The keys and datums of a base file: the newest record of each key, without those that are deleted."""
    keys, values, gone = [], [], []
    for image in images:
        entries = entries_of_image(image)
        live = entries.values if entries.values is not None else pa.nulls(len(entries.keys), pa.binary())
        deleted = entries.values is None or _tombstones(entries, kind)
        keys.append(entries.keys)
        values.append(_in_schema(live, entries.schema, version))
        gone.append(np.broadcast_to(deleted, len(entries.keys)))
    if not keys:
        return pa.array([], pa.binary()), pa.array([], pa.binary())
    marked = pc.if_else(pa.array(np.concatenate(gone)), pa.scalar(None, pa.binary()), pa.concat_arrays(values))
    merged, datums = last_of_each(pa.concat_arrays(keys), marked)
    kept = datums.is_valid()
    return merged.filter(kept), datums.filter(kept)


def _tombstones(entries: Entries, kind: str) -> Any:
    fields = entries.decoded(kind) if len(entries.keys) else None
    return False if fields is None or "isDeleted" not in fields else fields["isDeleted"]


def _in_schema(values: pa.Array, schema: str, version: int) -> pa.Array:
    """Datums as a version's records have them. Those of another release are decoded and encoded again."""
    ours = record_schema(version)
    if values.null_count == len(values) or _shape(schema) == _shape(ours.text.decode()):
        return values
    with decoding("a record of the metadata table cannot be read"):
        written, datums = fastavro.parse_schema(json.loads(schema)), []
        for value in values.to_pylist():
            record = fastavro.schemaless_reader(io.BytesIO(value), written, ours.parsed, return_record_name=True)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, ours.parsed, record)
            datums.append(out.getvalue())
    return pa.array(datums, pa.binary())


@lru_cache(maxsize=16)
def _shape(schema: str) -> str:
    """The parts of a schema that change how it is encoded, as text."""
    return json.dumps(_stripped(json.loads(schema)))


def _stripped(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_stripped(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "record":
        return [kind["name"], [[field["name"], _stripped(field["type"])] for field in kind["fields"]]]
    inner = {name: _stripped(kind[name]) for name in ("items", "values") if name in kind}
    return [kind["type"], inner] if inner else _stripped(kind["type"])
