"""The lookup of one write, for the index that its settings name.

Nothing of the table but its file listing and, for a bucket index, one footer is read here: tasks do the lookup. For a
global index that listing is of all partitions, and each task has it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import UnsupportedError, counted
from lakebed.formats.hudi.codec.bucket_rules import BucketRules
from lakebed.formats.hudi.codec.hashing import HashingMetadata
from lakebed.formats.hudi.index.base_files import BaseFileIndex, BaseFileKeys
from lakebed.formats.hudi.index.bucket_rule_files import load_rules, save_first_rules
from lakebed.formats.hudi.index.buckets import BucketIndex, bucket_numbers, by_bucket, not_its_index
from lakebed.formats.hudi.index.consistent import ConsistentIndex, check_ring, places_of, ring_hashes
from lakebed.formats.hudi.index.file_hints import FileHints
from lakebed.formats.hudi.index.global_keys import GlobalIndex
from lakebed.formats.hudi.index.hash_fields import HashFields
from lakebed.formats.hudi.index.hashing_files import begin_ring, load_rings
from lakebed.formats.hudi.index.keys_in_logs import keys_in_logs
from lakebed.formats.hudi.index.options import GlobalSettings, IndexSettings
from lakebed.formats.hudi.index.record_keys import RecordIndexKeys, record_index_of
from lakebed.formats.hudi.layout import BaseFile, file_path
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.served import check_groups
from lakebed.formats.hudi.write.stored_keys import StoredKeys
from lakebed.formats.hudi.write.table_files import TableFiles
from lakebed.formats.hudi.write.tagging import NewOnly, Tagged
from lakebed.kernel.files import Store

_NO_RECORD_INDEX = (
    "the table has no record index that is up to date: keys were looked up in its base files, as GLOBAL_SIMPLE does"
)

_OTHER_RULES = (
    "the table has rules of its own for its numbers of buckets, which count rather than those of the options: "
    "{0.expressions} and else {0.default}"
)

_NOT_BY_PARTITION = "a record index by partition is not read: keys were looked up in base files, as SIMPLE does"


@dataclass(frozen=True, slots=True)
class Lookup:
    """How a write finds the file groups of keys; None if it only adds rows. `notes` are for the writer."""

    find: Callable[[pa.Table], Tagged] | None = None
    notes: tuple[str, ...] = ()


def lookup_of(
    index: IndexSettings,
    files: TableFiles,
    partitions: Sequence[str],
    operation: Operation,
    duplicates: str,
    schema: pa.Schema,
) -> Lookup:
    """The lookup of a write to some partitions. `duplicates` says what an insert does with keys that the table has;
    `schema` are the columns of the table's files.

    UsageError for a table that was written with another index.
    """
    if index.consistent:
        return Lookup(_by_ring(index, files, partitions, operation, duplicates))
    if index.buckets:
        return _by_bucket(index, files, partitions, operation, duplicates)
    only_new = operation is Operation.INSERT and duplicates != "none"
    looks_up, table = operation.tags or only_new, files.state.store.location
    slices = files.all_slices() if index.everywhere and looks_up else files.slices(partitions)
    check_groups((each for some in slices.values() for each in some), table)
    if not looks_up:
        return Lookup()
    hints = FileHints.of(files.state.metadata_table) if index.by_metadata else None
    stored = StoredKeys.of(files.state.config, schema)
    logs = keys_in_logs(files, (each for some in slices.values() for each in some), schema, stored)
    keys = BaseFileKeys(files.state.store, slices, hints, stored, logs)
    lookup = Lookup(BaseFileIndex(keys), (_NOT_BY_PARTITION,) if index.instead and any(slices.values()) else ())
    if index.everywhere:
        stay = only_new or not files.state.config.partition_fields
        wanted = replace(index.everywhere, moves=False, moves_without=False) if stay else index.everywhere
        lookup = _everywhere(wanted, files, keys, schema)
    return (
        replace(lookup, find=NewOnly(lookup.find, duplicates == "fail", table)) if only_new and lookup.find else lookup
    )


def _everywhere(index: GlobalSettings, files: TableFiles, keys: BaseFileKeys, schema: pa.Schema) -> Lookup:
    state = files.state
    reader = reader_of(state, READ.parse({}), schema, files.view)
    records = record_index_of(state) if index.by_records else None
    if records is not None:
        return Lookup(
            GlobalIndex(RecordIndexKeys(records, keys.slices, state.store.location), True, index.moves, reader)
        )
    certain = not state.config.merge_on_read
    if index.by_records:
        notes = (_NO_RECORD_INDEX,) if any(keys.slices.values()) else ()
        return Lookup(GlobalIndex(keys, certain, index.moves_without, reader), notes)
    return Lookup(GlobalIndex(keys, certain, index.moves, reader, keys.stored))


def _by_bucket(
    index: IndexSettings, files: TableFiles, partitions: Sequence[str], operation: Operation, duplicates: str
) -> Lookup:
    """The lookup by buckets, whose numbers the table's own rules tell where it has some, as in Hudi's Spark sink."""
    store = files.state.store
    hashed = _hashed(index, files, operation, duplicates)
    rules = load_rules(files.state)
    slices = by_bucket(files.slices(partitions), rules or index.rules, store.location)
    unsaved = rules is None and bool(index.rules.patterns)
    _check_numbers(slices, files, hashed, rules or index.rules, every=unsaved)
    known = {} if operation.replaces else slices
    names = None if index.alike else uuid.uuid4()
    found = BucketIndex(hashed, rules or index.rules, known, names, unsaved)
    differ = rules is not None and index.rules.patterns and rules != index.rules
    return Lookup(found, (_OTHER_RULES.format(rules),) if differ else ())


def _hashed(index: IndexSettings, files: TableFiles, operation: Operation, duplicates: str) -> HashFields:
    store, config = files.state.store, files.state.config
    if operation is Operation.INSERT and duplicates != "none":
        raise UnsupportedError(
            "lakebed does not look for known keys in an insert by the bucket index",
            table=store.location,
            why=f"the option hoodie.datasource.insert.dup.policy is {duplicates}",
            todo="Upsert the rows, or leave the option out",
        )
    return HashFields(config.record_keys, index.hash_fields, config.version < 8, store.location)


def _by_ring(
    index: IndexSettings, files: TableFiles, partitions: Sequence[str], operation: Operation, duplicates: str
) -> ConsistentIndex:
    """The lookup by consistent hashing. New partitions get their first buckets, which `begin_lookup` writes."""
    store = files.state.store
    hashed = _hashed(index, files, operation, duplicates)
    rings = load_rings(files.state, partitions)
    slices = {p: {each.file_id: each for each in some} for p, some in files.slices(partitions).items()}
    replaced = files.state.written(files.view).replaced
    new = frozenset(partitions) - rings.keys()
    for partition in slices:
        ring = rings.setdefault(partition, HashingMetadata.initial(partition, index.buckets))
        if not operation.replaces:
            check_ring(ring, slices[partition], frozenset(replaced.get(partition, ())), store.location)
    check_hash(rings, slices, hashed, store)
    return ConsistentIndex(hashed, rings, {} if operation.replaces else slices, new)


def begin_lookup(lookup: Lookup, store: Store, operation: Operation, instant: str) -> Lookup:
    """The lookup of a write whose instant is requested: new partitions have their buckets, and those that it replaces
    get new ones; the table has the rules of its numbers of buckets."""
    index = lookup.find
    if isinstance(index, BucketIndex) and index.unsaved:
        save_first_rules(store, index.rules)
    if not isinstance(index, ConsistentIndex):
        return lookup
    new = {partition: begin_ring(store, partition, index.rings[partition].first) for partition in sorted(index.new)}
    known = {partition: ring for partition, ring in index.rings.items() if partition not in new}
    if operation.replaces:
        known = {partition: ring.renewed(instant) for partition, ring in known.items()}
    return replace(lookup, find=replace(index, rings={**new, **known}))


def check_hash(
    rings: Mapping[str, HashingMetadata],
    slices: Mapping[str, Mapping[str, FileSlice]],
    hashed: HashFields,
    store: Store,
) -> None:
    """UsageError where a base file has keys of another bucket than its own. One file tells, by the keys of its
    footer."""
    based = ((rings[p], s, s.base) for p, some in slices.items() for s in some.values() if s.base is not None)
    ring, file_slice, base = next(based, (None, None, None))
    if ring is None or file_slice is None or base is None:
        return
    places = places_of(ring_hashes(_end_keys(store, file_slice, base, StoredKeys()), hashed), ring)
    if {ring.nodes[place].file_id for place in places.tolist()} - {file_slice.file_id}:
        raise not_its_index(store.location, f"file group {file_slice.file_id} has keys of another bucket")


def _end_keys(store: Store, file_slice: FileSlice, base: BaseFile, stored: StoredKeys) -> pa.StringArray:
    """The least and the greatest key of a base file, by its footer; the first one where footers have none."""
    with store.open_input(file_path(file_slice.partition, base.name), base.size) as source:
        file = pq.ParquetFile(source)
        if stored.made is not None:
            first = next(file.iter_batches(1, columns=[*stored.columns], use_threads=False), None)
            return pa.array([], pa.string()) if first is None else stored.keys(first)
        footer = file.metadata.metadata or {}
    bounds = [footer.get(b"hoodie_min_record_key"), footer.get(b"hoodie_max_record_key")]
    return pa.array([key.decode() for key in bounds if key is not None], pa.string())


def _check_numbers(
    slices: Mapping[str, Mapping[int, FileSlice]],
    files: TableFiles,
    hashed: HashFields,
    rules: BucketRules,
    every: bool,
) -> None:
    """UsageError where a base file has keys of another bucket than its own: the table has another number of buckets.
    The keys of a footer tell: of `every` file, or of one file for each number of buckets."""
    store = files.state.store
    stored = StoredKeys.of(files.state.config, files.state.schema())
    based = [
        (rules.count(partition), number, s, s.base)
        for partition, some in slices.items()
        for number, s in some.items()
        if s.base is not None
    ]
    for buckets, number, file_slice, base in based if every else {each[0]: each for each in based}.values():
        keys = _end_keys(store, file_slice, base, stored)
        if set(bucket_numbers(keys, hashed, buckets).tolist()) - {number}:
            raise not_its_index(
                store.location,
                f"by {counted(buckets, 'bucket')}, file group {file_slice.file_id} has keys of another bucket",
            )
