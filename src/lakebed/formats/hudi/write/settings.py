"""How one write works: its operation, the sizes of files, and what happens to duplicates. From the write options.

Rules: Hudi's `DataSourceWriteOptions`, `HoodieWriteConfig`, `HoodieCompactionConfig` and `HoodieStorageConfig`, with
their defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lakebed.errors import UsageError
from lakebed.formats.hudi.codec.bloom import FilterSettings, FilterType
from lakebed.formats.hudi.commit.options import COMMIT, check_concurrency
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.index.options import INDEXES, IndexSettings, check_index
from lakebed.formats.hudi.metadata_table.options import METADATA_OPTIONS
from lakebed.formats.hudi.table_options import META_FIELDS, ORDERING, PARTITION_FIELDS, RECORD_KEYS, TABLE, TABLE_TYPE
from lakebed.formats.hudi.unserved import placeholders, refuse_hfile_blocks, refuse_unserved
from lakebed.formats.hudi.write.evolution import EVOLUTION
from lakebed.formats.hudi.write.files import FileOptions
from lakebed.formats.hudi.write.operation import Operation, operation_of
from lakebed.formats.hudi.write.small_files import FileSizes
from lakebed.kernel.options import Option, Options, OptionSet, at_least, between, boolean, idle_option, one_of
from lakebed.verbs.write import Mode


class SortMode(StrEnum):
    """How a bulk insert orders rows. Those of a partition are brought together in every mode."""

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    """The files of a partition have ranges of the record key that do not overlap."""
    PARTITION_SORT = "PARTITION_SORT"
    """The rows of each file are sorted by the record key."""
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"


OPERATION: Option[str] = Option(
    "hoodie.datasource.write.operation",
    one_of(*Operation),
    "",
    "What the write does; by default what its mode says: insert, insert_overwrite, upsert or delete",
)
SORT_MODE: Option[str] = Option(
    "hoodie.bulkinsert.sort.mode", one_of(*SortMode), "NONE", "How a bulk insert sorts rows"
)
SMALL_FILE: Option[int] = Option(
    "hoodie.parquet.small.file.limit", int, 104857600, "Base files below so many bytes take new rows; 0 for none"
)
MAX_FILE: Option[int] = Option(
    "hoodie.parquet.max.file.size", at_least(1), 125829120, "The greatest size of base files, in bytes"
)
BLOCK: Option[int] = Option(
    "hoodie.parquet.block.size",
    at_least(1),
    125829120,
    "The most bytes of rows in memory per row group; lakebed takes 32 MiB at most",
)
CODEC: Option[str] = Option(
    "hoodie.parquet.compression.codec",
    one_of("gzip", "snappy", "zstd", "uncompressed", "lz4", "brotli"),
    "gzip",
    "The compression of base files",
)
DICTIONARY: Option[bool] = Option(
    "hoodie.parquet.dictionary.enabled", boolean, True, "Whether base files use dictionaries"
)
SPLIT: Option[int] = Option(
    "hoodie.copyonwrite.insert.split.size",
    at_least(1),
    500000,
    "The rows of a new file where hoodie.copyonwrite.insert.auto.split is false",
)
AUTO_SPLIT: Option[bool] = Option(
    "hoodie.copyonwrite.insert.auto.split", boolean, True, "Whether new files are sized by bytes"
)
ROW_SIZE: Option[int | None] = Option(
    "hoodie.copyonwrite.record.size.estimate",
    at_least(1),
    None,
    "The bytes of a row in small files, where no commit tells; by default a sample of the rows is measured",
)
ROW_SIZE_THRESHOLD: Option[float] = Option(
    "hoodie.record.size.estimation.threshold",
    between(0, math.inf),
    1.0,
    "A commit tells the size of a row if it wrote so many times the small file limit",
)
CANDIDATES: Option[int] = Option(
    "hoodie.merge.small.file.group.candidates.limit",
    at_least(0),
    1,
    "How many small files of a partition a write of a merge-on-read table fills up",
)
LOG_SIZE: Option[int] = Option(
    "hoodie.logfile.max.size", at_least(1), 1 << 30, "The size at which a write begins another log file"
)
LOG_BLOCK: Option[int] = Option(
    "hoodie.logfile.data.block.max.size", at_least(1), 256 << 20, "The most bytes of rows in a data block"
)
LOG_FORMAT: Option[str] = Option(
    "hoodie.logfile.data.block.format",
    one_of("avro", "parquet", "hfile"),
    "",
    "The format of data blocks in logs, avro or parquet; by default avro. hfile is refused",
)
POSITIONS: Option[bool] = Option(
    "hoodie.write.record.positions",
    boolean,
    False,
    "Whether log blocks say where in the base file their rows are (table version 8 and later)",
)
COMBINE_INSERT: Option[bool] = Option(
    "hoodie.combine.before.insert", boolean, False, "Whether an insert keeps one of the rows of a key"
)
COMBINE_UPSERT: Option[bool] = Option(
    "hoodie.combine.before.upsert", boolean, True, "Whether an upsert keeps one of the rows of a key"
)
COMBINE_DELETE: Option[bool] = Option(
    "hoodie.combine.before.delete", boolean, True, "Whether a delete takes a key once"
)
DUP_POLICY: Option[str] = Option(
    "hoodie.datasource.insert.dup.policy",
    one_of("none", "drop", "fail"),
    "none",
    "What an insert does with keys that the table has: none adds their rows again, drop leaves them out, fail refuses",
)
DROP_DUPLICATES: Option[bool] = Option(
    "hoodie.datasource.write.insert.drop.duplicates", boolean, False, "The old name of the policy drop"
)
ALLOW_DUPLICATES: Option[bool] = Option(
    "hoodie.merge.allow.duplicate.on.inserts",
    boolean,
    True,
    "Whether an insert into a small file adds rows whose keys the file has, and does not replace them",
)
DELETE_PARTITIONS: Option[str] = Option(
    "hoodie.datasource.write.partitions.to.delete",
    str,
    "",
    "The partition paths that delete_partition removes, separated by commas; * stands for any text",
)
CONFLICT_RETRIES: Option[int] = Option(
    "hoodie.write.num.retries.on.conflict.failures",
    at_least(0),
    0,
    "How often a write that lost to another writer is done again, from its staged rows",
)
CHECKPOINT: Option[str] = Option(
    "hoodie.datasource.write.streaming.checkpoint.identifier",
    str,
    "",
    "A stream's name in the commits of Hudi's own streaming sink: batches that are committed under it are skipped",
)
BLOOM_ENTRIES: Option[int] = Option(
    "hoodie.index.bloom.num_entries",
    at_least(1, most=(1 << 31) - 1),
    60000,
    "The keys that a bloom filter has room for",
)
BLOOM_FPP: Option[float] = Option(
    "hoodie.index.bloom.fpp", between(0, 1), 0.000000001, "How often a bloom filter may be wrong"
)
BLOOM_TYPE: Option[str] = Option(
    "hoodie.bloom.index.filter.type", one_of("SIMPLE", "DYNAMIC_V0"), "DYNAMIC_V0", "The kind of bloom filters"
)
BLOOM_MAX: Option[int] = Option(
    "hoodie.bloom.index.filter.dynamic.max.entries",
    at_least(1),
    100000,
    "The keys that a dynamic bloom filter grows to",
)
BLOOM_ENABLED: Option[bool] = Option(
    "hoodie.parquet.bloom.filter.enabled", boolean, True, "Whether base files carry a bloom filter"
)

_ACCEPTED = (
    "hoodie.insert.shuffle.parallelism",
    "hoodie.upsert.shuffle.parallelism",
    "hoodie.delete.shuffle.parallelism",
    "hoodie.bulkinsert.shuffle.parallelism",
    "hoodie.simple.index.parallelism",
    "hoodie.bloom.index.parallelism",
    "hoodie.bloom.index.prune.by.ranges",
    "hoodie.bloom.index.use.caching",
    "hoodie.embed.timeline.server",
    "hoodie.write.markers.type",
    "hoodie.datasource.write.row.writer.enable",
    "hoodie.write.auto.upgrade",
)

_SERVED = (
    OptionSet(
        (
            *(idle_option(key, "Accepted without effect: it changes nothing here") for key in _ACCEPTED),
            *INDEXES.options,
            *METADATA_OPTIONS,
            OPERATION,
            SORT_MODE,
            SMALL_FILE,
            MAX_FILE,
            BLOCK,
            CODEC,
            DICTIONARY,
            SPLIT,
            AUTO_SPLIT,
            ROW_SIZE,
            ROW_SIZE_THRESHOLD,
            CANDIDATES,
            LOG_SIZE,
            LOG_BLOCK,
            LOG_FORMAT,
            POSITIONS,
            COMBINE_INSERT,
            COMBINE_UPSERT,
            COMBINE_DELETE,
            DUP_POLICY,
            DROP_DUPLICATES,
            ALLOW_DUPLICATES,
            DELETE_PARTITIONS,
            CONFLICT_RETRIES,
            CHECKPOINT,
            BLOOM_ENTRIES,
            BLOOM_FPP,
            BLOOM_TYPE,
            BLOOM_MAX,
            BLOOM_ENABLED,
        ),
        "writes to Hudi tables",
    )
    + COMMIT
    + EVOLUTION
)
LEFT_OUT = placeholders(_SERVED + TABLE)
"""The options of Hudi's writers that have no effect here, or are refused."""
SIZING = LEFT_OUT + _SERVED
"""The options that say how a write works."""
WRITE = SIZING + TABLE
"""The options of a write: these, and those that describe the table."""
_ROW_GROUP = 32 << 20
_BY_BASE_FILES = IndexSettings()


def write_options(given: Mapping[str, str], config: TableConfig, location: str) -> Options:
    """The options of a write: the caller's over the table's properties.

    Options that describe the table are accepted if they agree with it, since jobs give them with every write.
    UsageError if they do not, UnsupportedError for an index that lakebed does not have.
    """
    stored = {key: text for key, text in config.properties.items() if _SERVED.knows(key)}
    spelled = {WRITE.spelled(key): text for key, text in given.items()}
    options = WRITE.parse({**stored, **spelled})
    WRITE.note_idle(given, "Hudi")
    check_served(options, location)
    _check_described(options, config, location)
    return options


def check_served(options: Options, location: str) -> None:
    """Raise UnsupportedError for what lakebed does not serve of a write's options."""
    refuse_unserved({key: text for key, text in options.raw.items() if LEFT_OUT.knows(key)}, location)
    refuse_hfile_blocks(options.raw, location)
    check_concurrency(options, location)
    check_index(options, location)


def _check_described(options: Options, config: TableConfig, location: str) -> None:
    described: dict[Option[Any], str] = {
        TABLE_TYPE: "MERGE_ON_READ" if config.merge_on_read else "COPY_ON_WRITE",
        RECORD_KEYS: ",".join(config.record_keys),
        PARTITION_FIELDS: ",".join(config.partition_fields),
        ORDERING: ",".join(config.ordering),
        META_FIELDS: str(config.meta_fields),
    }
    for option, text in described.items():
        given = str(options[option])
        if options.given(option) and _plain(given) != text and not (option is ORDERING and not text):
            raise UsageError(
                f"the option {option.key} does not agree with the table",
                table=location,
                why=f"the table has {text or 'none'}, the option says {given}",
                todo="Leave the option out",
            )


def _plain(text: str) -> str:
    return ",".join(part.strip().partition(":")[0] for part in text.split(","))


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """What the options ask of one write.

    `combines` says that duplicates within the write are combined, `duplicates` what an insert does with keys that the
    table has (none, drop, fail), and `concat` that it adds rows to small files whatever their keys. `checkpoint` is the
    stream's name in the commits of Hudi's own sink, "" for none.
    """

    operation: Operation
    sizes: FileSizes
    files: FileOptions
    sort: SortMode
    combines: bool
    duplicates: str
    concat: bool
    row_bytes: int | None
    partitions: tuple[str, ...]
    retries: int
    checkpoint: str = ""
    index: IndexSettings = _BY_BASE_FILES

    @property
    def by_key(self) -> bool:
        """Whether all rows of a key have to meet."""
        return self.combines or self.looks_up

    @property
    def deletes_by_partition(self) -> bool:
        """Whether rows name what to delete, and only they name its partition."""
        if self.operation is Operation.DELETE:
            return not self.index.everywhere
        return self.operation is Operation.DELETE_PARTITION and not self.partitions

    @property
    def looks_up(self) -> bool:
        """Whether the index says where keys are."""
        return self.operation.tags or (self.operation is Operation.INSERT and self.duplicates != "none")

    @classmethod
    def of(cls, mode: Mode, options: Options, config: TableConfig, table: str) -> WriteSettings:
        """From parsed options. UsageError for an operation that the mode cannot run."""
        operation = operation_of(mode, options[OPERATION], table)
        combine = {Operation.UPSERT: COMBINE_UPSERT, Operation.DELETE: COMBINE_DELETE}.get(operation, COMBINE_INSERT)
        codec = options[CODEC]
        bloom = FilterSettings(
            FilterType(options[BLOOM_TYPE]), options[BLOOM_ENTRIES], options[BLOOM_FPP], options[BLOOM_MAX]
        )
        return cls(
            operation,
            FileSizes(
                options[SMALL_FILE],
                options[MAX_FILE],
                options[CANDIDATES],
                0 if options[AUTO_SPLIT] else options[SPLIT],
                options[ROW_SIZE_THRESHOLD],
            ),
            FileOptions(
                compression="none" if codec == "uncompressed" else codec,
                row_group=min(options[BLOCK], _ROW_GROUP),
                dictionary=options[DICTIONARY],
                bloom=bloom if options[BLOOM_ENABLED] else None,
                block=options[LOG_FORMAT] or "avro",
                block_bytes=options[LOG_BLOCK],
                log_bytes=options[LOG_SIZE],
                positions=options[POSITIONS],
            ),
            SortMode(options[SORT_MODE]),
            options[combine],
            "drop" if options[DROP_DUPLICATES] else options[DUP_POLICY],
            options[ALLOW_DUPLICATES],
            options[ROW_SIZE],
            tuple(filter(None, (part.strip() for part in options[DELETE_PARTITIONS].split(",")))),
            options[CONFLICT_RETRIES],
            options[CHECKPOINT],
            IndexSettings.of(options, config, table),
        )
