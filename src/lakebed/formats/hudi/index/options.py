"""Which index a write looks keys up with, from its options.

Rules: Hudi's `HoodieIndexConfig` of releases 0.15, 1.0 and 1.1, with their defaults; `HoodieIndex.IndexType`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.hudi.codec.bucket_rules import BucketRules
from lakebed.formats.hudi.commit.options import CONCURRENCY, NON_BLOCKING
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.merge.rules import rules_of
from lakebed.kernel.options import Option, Options, OptionSet, at_least, between, boolean, idle_option, one_of

BASE_FILES, GLOBAL = ("SIMPLE", "BLOOM"), ("GLOBAL_SIMPLE", "GLOBAL_BLOOM")
RECORDS = ("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")
"""The names of the record index in releases 0.15 and 1.0, and in release 1.1."""
BY_PARTITION = "RECORD_LEVEL_INDEX"
"""Release 1.1's record index of keys that belong to a partition."""
BUCKET = "BUCKET"
CONSISTENT = "CONSISTENT_HASHING"
_REFUSED = {
    "INMEMORY": "it keeps keys in the memory of one Java process: another writer would add rows of known keys again",
    "FLINK_STATE": "it keeps keys in the state of a Flink job",
    "HBASE": "it keeps keys in HBase",
}
"""Indexes of Hudi that are not served, and why."""

INDEX: Option[str] = Option(
    "hoodie.index.type",
    lambda text: one_of("", *BASE_FILES, *GLOBAL, *RECORDS, BY_PARTITION, BUCKET, *_REFUSED)(text.upper()),
    "",
    "How keys are looked up: SIMPLE or BLOOM (the default; the same here), GLOBAL_SIMPLE or GLOBAL_BLOOM (the same "
    "here), RECORD_INDEX, or BUCKET",
    "SIMPLE, BLOOM, GLOBAL_SIMPLE, GLOBAL_BLOOM, RECORD_INDEX or BUCKET",
)
ENGINE: Option[str] = Option(
    "hoodie.index.bucket.engine",
    lambda text: one_of("SIMPLE", CONSISTENT)(text.upper()),
    "SIMPLE",
    "How keys get their bucket: SIMPLE, by a fixed number of buckets, or CONSISTENT_HASHING, whose buckets can split "
    "and merge (merge-on-read tables)",
    "SIMPLE or CONSISTENT_HASHING",
)
BUCKETS: Option[int] = Option(
    "hoodie.bucket.index.num.buckets",
    at_least(1),
    256,
    "How many buckets a partition has, or begins with under consistent hashing",
)
HASH_FIELDS: Option[str] = Option(
    "hoodie.bucket.index.hash.field",
    str,
    "",
    "The columns of the record key that choose the bucket, separated by commas; by default all of them",
)
MAX_BUCKETS: Option[int | None] = Option(
    "hoodie.bucket.index.max.num.buckets",
    at_least(1),
    None,
    "Consistent hashing, clustering: split buckets up to so many in a partition; by default as many as it began with",
)
MIN_BUCKETS: Option[int | None] = Option(
    "hoodie.bucket.index.min.num.buckets",
    at_least(1),
    None,
    "Consistent hashing, clustering: merge buckets down to so many; by default as many as the partition began with",
)
SPLIT_THRESHOLD: Option[float] = Option(
    "hoodie.bucket.index.split.threshold",
    between(0, math.inf),
    2.0,
    "Consistent hashing, clustering: split buckets with more than so many times hoodie.parquet.max.file.size",
)
MERGE_THRESHOLD: Option[float] = Option(
    "hoodie.bucket.index.merge.threshold",
    between(0, math.inf),
    0.2,
    "Consistent hashing, clustering: merge neighbours with no more than so many times hoodie.parquet.max.file.size",
)
RESIZING = (HASH_FIELDS, MAX_BUCKETS, MIN_BUCKETS, SPLIT_THRESHOLD, MERGE_THRESHOLD)
"""The options of clusterings of consistent hashing."""
PARTITION_RULES: Option[str] = Option(
    "hoodie.bucket.index.partition.expressions",
    str,
    "",
    "Engine SIMPLE: numbers of buckets by partition, as in `2024-.*,16;2023-.*,8`: the first regular expression that "
    "is found in the partition's path counts. A table keeps them from its first write on",
)
RULE_TYPE: Option[str] = Option(
    "hoodie.bucket.index.partition.rule.type", str, "regex", "The type of these rules: regex, the only one"
)
MOVES_BLOOM: Option[bool] = Option(
    "hoodie.bloom.index.update.partition.path",
    boolean,
    True,
    "GLOBAL_BLOOM: whether a row moves to the partition that its new version names, or stays in its old one",
)
MOVES_SIMPLE: Option[bool] = Option(
    "hoodie.simple.index.update.partition.path",
    boolean,
    True,
    "GLOBAL_SIMPLE, and RECORD_INDEX where the table has no record index: whether a row moves to the partition that "
    "its new version names, or stays in its old one",
)
MOVES_RECORD: Option[bool] = Option(
    "hoodie.record.index.update.partition.path",
    boolean,
    False,
    "RECORD_INDEX: whether a row moves to the partition that its new version names, or stays in its old one",
)
USE_METADATA: Option[bool] = Option(
    "hoodie.bloom.index.use.metadata",
    boolean,
    False,
    "BLOOM and GLOBAL_BLOOM: whether key ranges and bloom filters are those of the metadata table, where it has them, "
    "so that no footer is read of a file that cannot have a key",
)
_IDLE = (
    "hoodie.bucket.index.remote.partitioner.enable",
    "hoodie.bucket.index.query.pruning",
    "hoodie.storage.layout.type",
    "hoodie.storage.layout.partitioner.class",
)
INDEXES = OptionSet(
    (
        INDEX,
        ENGINE,
        BUCKETS,
        *RESIZING,
        PARTITION_RULES,
        RULE_TYPE,
        USE_METADATA,
        MOVES_BLOOM,
        MOVES_SIMPLE,
        MOVES_RECORD,
        *(idle_option(key, "Accepted without effect: it changes nothing here") for key in _IDLE),
    ),
    "indexes of Hudi tables",
)
"""The options of indexes."""


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """An index that knows a key in all partitions.

    `moves` says that a row goes to the partition that its new version names. With `by_records` the table's record index
    is asked; where it has none, base files are, and `moves_without` holds.
    """

    moves: bool
    by_records: bool = False
    moves_without: bool = False

    @classmethod
    def of(cls, options: Options) -> GlobalSettings | None:
        """From parsed options, None for an index that is not a global one."""
        kind = options[INDEX]
        if kind in RECORDS:
            return cls(options[MOVES_RECORD], True, options[MOVES_SIMPLE])
        return cls(options[MOVES_BLOOM if kind == "GLOBAL_BLOOM" else MOVES_SIMPLE]) if kind in GLOBAL else None


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The index of one write. `buckets` is 0 where keys have no buckets; `rules` are the numbers of buckets by
    partition, as the options have them. `everywhere` None where a key is looked up in
    its own partition only. `by_metadata` says that the metadata table tells which files may have a key, `consistent`
    that the number of buckets changes, `alike` that all writers give a new bucket the same file id, `instead` that the
    options name a record index by partition, for which base files are asked."""

    buckets: int = 0
    rules: BucketRules = field(default_factory=lambda: BucketRules(0))
    hash_fields: tuple[str, ...] = ()
    everywhere: GlobalSettings | None = None
    by_metadata: bool = False
    consistent: bool = False
    alike: bool = False
    instead: bool = False

    @classmethod
    def of(cls, options: Options, config: TableConfig, table: str) -> IndexSettings:
        """From parsed options. Raises UnsupportedError for an index that lakebed does not have, OptionError for hash
        fields that are not in the record key."""
        check_index(options, table)
        _check_virtual(options, config, table)
        if options[INDEX] != BUCKET:
            by_metadata = options[USE_METADATA] and options[INDEX] in ("", "BLOOM", "GLOBAL_BLOOM")
            return cls(
                everywhere=_checked(GlobalSettings.of(options), config, table),
                by_metadata=by_metadata,
                instead=options[INDEX] == BY_PARTITION,
            )
        check_engine_of(options, table, merge_on_read=config.merge_on_read)
        alike = options.raw.get(CONCURRENCY.key, "").upper() == NON_BLOCKING
        consistent = options[ENGINE] == CONSISTENT
        return cls(
            options[BUCKETS],
            rules_of_options(options, table),
            hash_fields_of(options, config, table),
            consistent=consistent,
            alike=alike,
        )


def _checked(index: GlobalSettings | None, config: TableConfig, table: str) -> GlobalSettings | None:
    """UnsupportedError for rows that would move without the values of their older versions."""
    rules = rules_of(config)
    moves = index is not None and (index.moves or (index.by_records and index.moves_without))
    if moves and config.partition_fields and (rules.fills or rules.marker_column):
        raise UnsupportedError(
            "lakebed does not move rows between the partitions of a table with partial updates or a column that marks "
            "deletes",
            table=table,
            why="the index is a global one, and rows go to the partition that their new version names",
            todo=f"Set {MOVES_BLOOM.key}, {MOVES_SIMPLE.key} and {MOVES_RECORD.key} to false, so that rows stay in the "
            "partition that they are in",
        )
    return index


def _check_virtual(options: Options, config: TableConfig, table: str) -> None:
    """Raise UnsupportedError for an index that cannot tell the keys of a table without meta columns."""
    if config.meta_fields:
        return
    name = options[INDEX]
    stays = name == "GLOBAL_SIMPLE" and not options[MOVES_SIMPLE] and bool(config.partition_fields)
    reasons = {
        "its files have no bloom filters": name in ("BLOOM", "GLOBAL_BLOOM"),
        "it has no record index": name in (*RECORDS, BY_PARTITION),
        "a clustering could not tell the bucket of its rows": name == BUCKET and options[ENGINE] == CONSISTENT,
        f"the option {MOVES_SIMPLE.key} is false: other engines look for a row where its columns say": stays,
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if why:
        raise UnsupportedError(
            f"lakebed does not write a table without meta columns with the index {name}",
            table=table,
            why=why,
            todo=f"Give {INDEX.key} SIMPLE or BUCKET, or GLOBAL_SIMPLE with rows that move",
        )


def hash_fields_of(options: Options, config: TableConfig, table: str) -> tuple[str, ...]:
    """The columns of the record key that choose the bucket. OptionError for one that is not in the record key."""
    fields = tuple(filter(None, (name.strip() for name in options[HASH_FIELDS].split(","))))
    strange = [name for name in fields if name not in config.record_keys]
    if strange:
        raise OptionError(
            f"{', '.join(strange)} is not in the record key {', '.join(config.record_keys)}",
            key=HASH_FIELDS.key,
            table=table,
            todo="Name columns of the record key, or leave the option out",
        )
    return fields or config.record_keys


def check_index(options: Options, table: str) -> None:
    """Raise UnsupportedError where the options ask for an index that lakebed does not write with."""
    why = _REFUSED.get(options[INDEX], "")
    if why:
        raise UnsupportedError(
            f"lakebed does not write with the index {options[INDEX]}",
            table=table,
            why=why,
            todo=f"Give {INDEX.key} one of {', '.join((*BASE_FILES, *GLOBAL, RECORDS[0], BUCKET))}, or leave it out",
        )
    rules_of_options(options, table)


def rules_of_options(options: Options, table: str) -> BucketRules:
    """The numbers of buckets of the engine SIMPLE. Raises what `BucketRules.of` raises, and UnsupportedError for rules
    that Hudi's engines would not follow."""
    rules = BucketRules.of(options[PARTITION_RULES], options[RULE_TYPE], options[BUCKETS], table)
    if rules.patterns and options[INDEX] == BUCKET and options[ENGINE] == CONSISTENT:
        raise UnsupportedError(
            "consistent hashing has no numbers of buckets by partition",
            table=table,
            why=f"the option {PARTITION_RULES.key} is {options[PARTITION_RULES]!r}",
            todo=f"Leave the option out, or give {ENGINE.key} SIMPLE",
        )
    return rules


def check_engine_of(options: Options, table: str, *, merge_on_read: bool) -> None:
    """Raise UnsupportedError for consistent hashing in a copy-on-write table, which no engine of Hudi writes."""
    if options[INDEX] == BUCKET and options[ENGINE] == CONSISTENT and not merge_on_read:
        raise UnsupportedError(
            "a copy-on-write table cannot have consistent hashing",
            table=table,
            why="no engine of Hudi writes it",
            todo=f"Give {ENGINE.key} SIMPLE, or make the table a MERGE_ON_READ one",
        )


def kept_with_table(options: Options) -> Mapping[str, str]:
    """The properties that a new table keeps, so that no writer chooses another index: none where keys have no
    buckets."""
    if options[INDEX] != BUCKET:
        return {}
    fields = {HASH_FIELDS.key: options[HASH_FIELDS]} if options[HASH_FIELDS] else {}
    rules = {PARTITION_RULES.key: options[PARTITION_RULES], RULE_TYPE.key: options[RULE_TYPE]}
    given = {INDEX.key: BUCKET, ENGINE.key: options[ENGINE], BUCKETS.key: str(options[BUCKETS]), **fields}
    return {**given, **(rules if options[PARTITION_RULES] else {})}
