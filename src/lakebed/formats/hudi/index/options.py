"""Which index a write looks keys up with, from its options.

Rules: Hudi's `HoodieIndexConfig` of releases 0.15, 1.0 and 1.1, with their defaults; `HoodieIndex.IndexType`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.kernel.options import Option, Options, OptionSet, at_least, one_of

BASE_FILES, GLOBAL = ("SIMPLE", "BLOOM"), ("GLOBAL_SIMPLE", "GLOBAL_BLOOM")
_ELSEWHERE = "it looks keys up in all partitions, and lakebed only in those of the rows"
BUCKET = "BUCKET"
CONSISTENT = "CONSISTENT_HASHING"
_REFUSED = {
    **dict.fromkeys(GLOBAL, _ELSEWHERE),
    "INMEMORY": "it keeps keys in the memory of one Java process: another writer would add rows of known keys again",
    "FLINK_STATE": "it keeps keys in the state of a Flink job",
    "HBASE": "it keeps keys in HBase",
    "RECORD_INDEX": "it keeps keys in the metadata table, which lakebed does not look up for writes yet",
    "GLOBAL_RECORD_LEVEL_INDEX": "it keeps keys in the metadata table, which lakebed does not look up for writes yet",
    "RECORD_LEVEL_INDEX": "it keeps keys in the metadata table, which lakebed does not look up for writes yet",
}
"""Indexes of Hudi that are not served, and why."""

INDEX: Option[str] = Option(
    "hoodie.index.type",
    lambda text: one_of("", *BASE_FILES, BUCKET, *_REFUSED)(text.upper()),
    "",
    "How keys are looked up: SIMPLE or BLOOM (the default; the same here), or BUCKET",
    "SIMPLE, BLOOM or BUCKET",
)
ENGINE: Option[str] = Option(
    "hoodie.index.bucket.engine",
    lambda text: one_of("SIMPLE", CONSISTENT)(text.upper()),
    "SIMPLE",
    "How keys get their bucket: SIMPLE, by a fixed number of buckets; CONSISTENT_HASHING is refused",
    "SIMPLE",
)
BUCKETS: Option[int] = Option(
    "hoodie.bucket.index.num.buckets",
    at_least(1),
    256,
    "How many buckets a partition has, which never changes",
)
HASH_FIELDS: Option[str] = Option(
    "hoodie.bucket.index.hash.field",
    str,
    "",
    "The columns of the record key that choose the bucket, separated by commas; by default all of them",
)
PARTITION_RULES: Option[str] = Option(
    "hoodie.bucket.index.partition.expressions",
    str,
    "",
    "Refused unless it is empty: numbers of buckets by partition",
)
_IDLE = (
    "hoodie.bloom.index.update.partition.path",
    "hoodie.simple.index.update.partition.path",
    "hoodie.bucket.index.partition.rule.type",
    "hoodie.bucket.index.remote.partitioner.enable",
    "hoodie.bucket.index.query.pruning",
    "hoodie.bucket.index.max.num.buckets",
    "hoodie.bucket.index.min.num.buckets",
    "hoodie.bucket.index.split.threshold",
    "hoodie.bucket.index.merge.threshold",
    "hoodie.storage.layout.type",
    "hoodie.storage.layout.partitioner.class",
)
INDEXES = OptionSet(
    (
        INDEX,
        ENGINE,
        BUCKETS,
        HASH_FIELDS,
        PARTITION_RULES,
        *(Option(key, str, "", "Accepted without effect: it changes nothing here") for key in _IDLE),
    ),
    "indexes of Hudi tables",
)
"""The options of indexes."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The index of one write. `buckets` is 0 where keys have no buckets."""

    buckets: int = 0
    hash_fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Options, config: TableConfig, table: str) -> IndexSettings:
        """From parsed options. Raises UnsupportedError for an index that lakebed does not have, OptionError for hash
        fields that are not in the record key."""
        check_index(options, table)
        if options[INDEX] != BUCKET:
            return cls()
        fields = tuple(filter(None, (name.strip() for name in options[HASH_FIELDS].split(","))))
        strange = [name for name in fields if name not in config.record_keys]
        if strange:
            raise OptionError(
                f"{', '.join(strange)} is not in the record key {', '.join(config.record_keys)}",
                key=HASH_FIELDS.key,
                table=table,
                todo="Name columns of the record key, or leave the option out",
            )
        return cls(options[BUCKETS], fields or config.record_keys)


def check_index(options: Options, table: str) -> None:
    """Raise UnsupportedError where the options ask for an index that lakebed does not write with."""
    why = _REFUSED.get(options[INDEX], "")
    if why:
        raise UnsupportedError(
            f"lakebed does not write with the index {options[INDEX]}",
            table=table,
            why=why,
            todo=f"Give {INDEX.key} one of {', '.join((*BASE_FILES, BUCKET))}, or leave it out",
        )
    if options[INDEX] == BUCKET and options[ENGINE] == CONSISTENT:
        raise UnsupportedError(
            "lakebed does not write with consistent hashing",
            table=table,
            why=f"the option {ENGINE.key} is {CONSISTENT}",
            todo=f"Give {ENGINE.key} SIMPLE, or write the table with Hudi's own engine",
        )
    if options[INDEX] == BUCKET and options[PARTITION_RULES].strip():
        raise UnsupportedError(
            "lakebed does not have numbers of buckets by partition",
            table=table,
            why=f"the option {PARTITION_RULES.key} is {options[PARTITION_RULES]!r}",
            todo="Leave the option out, or write the table with Hudi's own engine",
        )


def kept_with_table(options: Options) -> Mapping[str, str]:
    """The properties that a new table keeps, so that no writer chooses another index: none where keys have no
    buckets."""
    if options[INDEX] != BUCKET:
        return {}
    fields = {HASH_FIELDS.key: options[HASH_FIELDS]} if options[HASH_FIELDS] else {}
    return {INDEX.key: BUCKET, ENGINE.key: options[ENGINE], BUCKETS.key: str(options[BUCKETS]), **fields}
