"""The options of a Paimon table, with the keys, types and defaults of Paimon's CoreOptions (up to its newest release).

A table stores its options as text in its schema files. Options given to `open` or `write` override them for that call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.paimon.compaction_options import COMPACTION_OPTIONS
from lakebed.formats.paimon.file_options import FILE_OPTIONS
from lakebed.formats.paimon.partition_options import PARTITION_OPTIONS
from lakebed.formats.paimon.tag_options import TAG_OPTIONS
from lakebed.formats.paimon.tuning import TUNING
from lakebed.formats.paimon.unserved import UNSERVED
from lakebed.kernel.options import (
    Option,
    Options,
    OptionSet,
    at_least,
    boolean,
    duration_ms,
    idle_option,
    memory_size,
    one_of,
    option_texts,
    whole_number,
)
from lakebed.kernel.scratch import SCRATCH_DIR

# isort: off
from lakebed.formats.paimon.row_id_options import (
    DATA_EVOLUTION as DATA_EVOLUTION, ROW_ID_OPTIONS as ROW_ID_OPTIONS, ROW_TRACKING as ROW_TRACKING,
)  # fmt: skip
from lakebed.formats.paimon.scan_options import (
    BOUNDED_WATERMARK as BOUNDED_WATERMARK, BYTES_LIMIT as BYTES_LIMIT, COMMITS_LIMIT as COMMITS_LIMIT,
    CONSUMER_ID as CONSUMER_ID, CONSUMER_IGNORE_PROGRESS as CONSUMER_IGNORE_PROGRESS, CONSUMER_MODE as CONSUMER_MODE,
    CREATION_TIME as CREATION_TIME, DISCOVERY_INTERVAL as DISCOVERY_INTERVAL, FALLBACK_BRANCH as FALLBACK_BRANCH,
    FILE_CREATION_TIME as FILE_CREATION_TIME, INCREMENTAL_BETWEEN as INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP as INCREMENTAL_BETWEEN_TIMESTAMP, INCREMENTAL_MODE as INCREMENTAL_MODE,
    INCREMENTAL_TAGS as INCREMENTAL_TAGS, INCREMENTAL_TO_AUTO_TAG as INCREMENTAL_TO_AUTO_TAG, MAX_BYTES as MAX_BYTES,
    MAX_DELAY as MAX_DELAY, MAX_FILES as MAX_FILES, MAX_ROWS as MAX_ROWS, MIN_ROWS as MIN_ROWS,
    READ_CHANGELOG as READ_CHANGELOG, SCAN_MODE as SCAN_MODE, SCAN_SNAPSHOT_ID as SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME as SCAN_TAG_NAME, SCAN_TIMESTAMP as SCAN_TIMESTAMP, SCAN_TIMESTAMP_MILLIS as SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION as SCAN_VERSION, SCAN_WATERMARK as SCAN_WATERMARK, SEQUENCE_NUMBERS as SEQUENCE_NUMBERS,
    SNAPSHOT_DELAY as SNAPSHOT_DELAY, SPLITS_LIMIT as SPLITS_LIMIT, START_COMMIT as START_COMMIT,
    STREAM_APPEND_OVERWRITES as STREAM_APPEND_OVERWRITES, STREAM_OVERWRITES as STREAM_OVERWRITES,
)  # fmt: skip
# isort: on


def _text(key: str, doc: str, default: str = "") -> Option[str]:
    return Option(key, str, default, doc)


def _optional(key: str, parse: Callable[[str], int | bool], doc: str) -> Option[Any]:
    return Option(key, parse, None, doc)


def _bucket(text: str) -> int:
    number = whole_number(text)
    if number == 0 or number < -2:
        raise ValueError(text)
    return number


BUCKET = Option(
    "bucket",
    _bucket,
    -1,
    "Buckets per partition; -1: dynamic buckets, or none without a primary key; -2: postponed buckets.",
    "a number of buckets above 0, or -1 (dynamic), or -2 (postponed)",
)
BUCKET_KEY = _text(
    "bucket-key", "Columns whose hash chooses the bucket, separated by commas; by default the primary key."
)
BUCKET_FUNCTION = Option(
    "bucket-function.type",
    one_of("default", "mod"),
    "default",
    "How the bucket key chooses the bucket: by its hash, or `mod`, by its value.",
)
MERGE_ENGINE = Option(
    "merge-engine",
    one_of("deduplicate", "partial-update", "aggregation", "first-row"),
    "deduplicate",
    "How rows with the same primary key become one.",
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer",
    one_of("none", "input", "full-compaction", "lookup"),
    "none",
    "Where changelog files come from.",
)
SEQUENCE_FIELD = _text(
    "sequence.field", "Columns that say which row of a key is newer. Where they are equal, the order of arrival does."
)
SEQUENCE_ORDER = Option(
    "sequence.field.sort-order",
    one_of("ascending", "descending"),
    "ascending",
    "Whether greater or smaller values of the sequence field are newer.",
)
ROWKIND_FIELD = _text("rowkind.field", "A column that holds the row kind.")
IGNORE_DELETE = Option(
    "ignore-delete",
    boolean,
    False,
    "Drop rows of kind -D (and -U) on write.",
    aliases=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)
IGNORE_UPDATE_BEFORE = Option("ignore-update-before", boolean, False, "Drop rows of kind -U on write.")
FILE_FORMAT = Option("file.format", one_of("parquet", "orc", "avro"), "parquet", "Format of data files.")
FILE_FORMAT_PER_LEVEL = _text("file.format.per.level", "Formats of single levels, for example `0:avro,5:parquet`.")
FILE_COMPRESSION = Option("file.compression", str, "zstd", "Compression of data files.")
ZSTD_LEVEL = Option("file.compression.zstd-level", at_least(1), 1, "Compression level of zstd.")
BLOCK_SIZE = Option("parquet.block.size", memory_size, 128 << 20, "Most bytes of rows in a row group of Parquet files.")
TARGET_FILE_SIZE = _optional(
    "target-file-size",
    memory_size,
    "Bytes at which a file is closed; by default 128 mb with a primary key, 256 mb without.",
)
WRITE_BUFFER_SIZE = Option(
    "write-buffer-size", memory_size, 256 << 20, "Bytes of rows that a task holds in memory before it spills them."
)
WRITE_BUFFER_SPILLABLE = Option(
    "write-buffer-spillable",
    boolean,
    True,
    "Spill a full buffer to disk. If false, a full buffer becomes files of its own.",
)
SPILL_DISK_SIZE = _optional(
    "write-buffer-spill.max-disk-size", memory_size, "Bytes that a task spills at most before it writes files."
)
GATHER_BYTES = Option(
    "lakebed.gather.max-bytes",
    memory_size,
    256 << 20,
    "Bytes of small files that the driver merges before a commit where rows were not routed; 0: none.",
)
SPILL_COMPRESSION = Option(
    "spill-compression", one_of("zstd", "lz4", "none"), "none", "Compression of spilled rows. Paimon's own default is "
    "zstd, which costs more time than it saves on a local disk.",
)  # fmt: skip
PARTITION_DEFAULT_NAME = _text(
    "partition.default-name", "Folder name of null and empty partition values.", "__DEFAULT_PARTITION__"
)
PARTITION_LEGACY_NAME = Option(
    "partition.legacy-name", boolean, True, "Name partition folders by Java's toString. If false, by a cast to text."
)
DATA_FILE_PREFIX = _text("data-file.prefix", "How names of data files begin.", "data-")
CHANGELOG_FILE_PREFIX = _text("changelog-file.prefix", "How names of changelog files begin.", "changelog-")
THIN_MODE = Option(
    "data-file.thin-mode", boolean, False, "Leave out the key columns of data files, which repeat value columns."
)
MANIFEST_TARGET_SIZE = Option("manifest.target-file-size", memory_size, 8 << 20, "Bytes at which a manifest is full.")
MANIFEST_MERGE_COUNT = Option(
    "manifest.merge-min-count", at_least(1), 30, "How many small manifests there must be before they are merged."
)
MANIFEST_FULL_SIZE = Option(
    "manifest.full-compaction-threshold-size",
    memory_size,
    16 << 20,
    "Bytes of changed manifests at which all manifests are rewritten.",
)
COMMIT_MAX_RETRIES = Option(
    "commit.max-retries", at_least(0), 10, "How often a commit that lost the race for its snapshot is tried again."
)
COMMIT_MIN_WAIT = Option("commit.min-retry-wait", duration_ms, 10, "Wait before the first retry.")
COMMIT_MAX_WAIT = Option("commit.max-retry-wait", duration_ms, 10_000, "Longest wait before a retry.")
COMMIT_TIMEOUT = _optional("commit.timeout", duration_ms, "Time after which a commit is no longer retried.")
COMMIT_USER_PREFIX = _text("commit.user-prefix", "How random commit users begin.")
FORCE_SNAPSHOT = Option(
    "commit.force-create-snapshot", boolean, False, "Make a snapshot of a commit without files too."
)
IGNORE_EMPTY_COMMIT = _optional("snapshot.ignore-empty-commit", boolean, "Make no snapshot of a commit without files.")
COMMIT_CALLBACKS = _text(
    "commit.callbacks", "Classes to call after each commit, as package.module:Class, separated by commas."
)
TAG_CALLBACKS = _text("tag.callbacks", "Classes to call after each tag, as package.module:Class, separated by commas.")
DYNAMIC_OVERWRITE = Option(
    "dynamic-partition-overwrite", boolean, True, "An overwrite replaces only the partitions that it has rows for."
)
OVERWRITE_PARTITION = _text(
    "overwrite.partition",
    "The partitions that an overwrite replaces, as `dt=2024-01-01,h=3`; `null` is null. For a single write only.",
)
DELETION_VECTORS = Option("deletion-vectors.enabled", boolean, False, "Mark deleted rows beside the data files.")
DELETION_VECTORS_ON_READ = Option(
    "deletion-vectors.merge-on-read",
    boolean,
    False,
    "Batch reads merge level 0, which waits for a compaction, into what they read.",
)
PARTIAL_UPDATE_REMOVE = Option("partial-update.remove-record-on-delete", boolean, False, "A -D removes the whole row.")
PARTIAL_UPDATE_REMOVE_GROUP = _text(
    "partial-update.remove-record-on-sequence-group", "A -D that wins one of these sequence groups removes the row."
)
AGGREGATION_REMOVE = Option("aggregation.remove-record-on-delete", boolean, False, "A -D removes the whole row.")
DEFAULT_AGGREGATE = _text("fields.default-aggregate-function", "Aggregate function of columns that do not name one.")
DYNAMIC_TARGET_ROWS = Option(
    "dynamic-bucket.target-row-num", at_least(1), 2_000_000, "Rows of a bucket at which the next one begins."
)
DYNAMIC_MAX_BUCKETS = Option("dynamic-bucket.max-buckets", int, -1, "Buckets per partition at most; -1: no bound.")
DYNAMIC_INITIAL_BUCKETS = _optional(
    "dynamic-bucket.initial-buckets", at_least(1), "Buckets of a partition that are filled at once in the beginning."
)
DYNAMIC_ASSIGNERS = _optional("dynamic-bucket.assigner-parallelism", at_least(1), "How many tasks assign buckets.")
POSTPONE_DEFAULT_BUCKETS = _optional(
    "postpone.default-bucket-num",
    at_least(1),
    "Buckets of a partition whose postponed rows get their first real buckets; by default their rows or bytes decide.",
)
SNAPSHOTS_MIN = Option("snapshot.num-retained.min", at_least(1), 10, "How many of the newest snapshots never expire.")
SNAPSHOTS_MAX = _optional(
    "snapshot.num-retained.max", at_least(1), "Snapshots beyond this number expire, whatever their age."
)
SNAPSHOT_TIME = Option(
    "snapshot.time-retained", duration_ms, 3_600_000, "Snapshots expire when they are older than this: 1 h."
)
EXPIRE_LIMIT = Option("snapshot.expire.limit", at_least(1), 50, "Snapshots that expire at a time at most.")
CONSUMER_TIME = Option(
    "consumer.expiration-time",
    duration_ms,
    None,
    "An expiry removes consumers that have not moved for this long. They hold no snapshot any more.",
)
CONSUMER_CHANGELOGS_ONLY = Option(
    "consumer.changelog-only",
    boolean,
    False,
    "Consumers hold changelogs that outlive their snapshots, and no snapshots where changelogs do so.",
)
OWED_TIME = Option(
    "lakebed.owed.time-retained",
    duration_ms,
    7 * 86_400_000,
    "How long snapshots are kept for streams that stopped, whose replays they identify, and for callbacks that have "
    "not been called: 7 d.",
)
WRITE_ONLY = Option(
    "write-only",
    boolean,
    False,
    "Commits neither compact buckets nor expire snapshots.",
    aliases=("write.compaction-skip",),
)
COMPACTION_MIN_FILES = Option(
    "compaction.min.file-num", at_least(1), 5, "Small files of a table without a primary key that are compacted."
)
CHANGELOG_MIN = _optional(
    "changelog.num-retained.min", at_least(1), "The newest so many snapshots, expired or not, keep changelogs."
)
CHANGELOG_MAX = _optional(
    "changelog.num-retained.max", at_least(1), "Older snapshots than the newest so many keep no changelog."
)
CHANGELOG_TIME = _optional("changelog.time-retained", duration_ms, "How long changelogs are kept.")
LAST_SAFE_SNAPSHOT = _optional(
    "commit.strict-mode.last-safe-snapshot",
    at_least(-1),
    "A commit fails when another user compacted, overwrote or wrote to real buckets after this snapshot; -1: after "
    "the writer's own first commit.",
)
BRANCH = Option("branch", str, "main", "The branch to read and write.")
SPLIT_SIZE = Option(
    "source.split.target-size",
    memory_size,
    128 << 20,
    "Bytes of files that one task of a read gets at most, or one file.",
)
SPLIT_OPEN_COST = Option(
    "source.split.open-file-cost", memory_size, 4 << 20, "Bytes that a file counts at least when splits are packed."
)
READ_TASKS = _optional("read.tasks", at_least(1), "Threads that read in this process.")

SERVED: tuple[Option[Any], ...] = (
    *(value for value in list(vars().values()) if isinstance(value, Option)),
    *FILE_OPTIONS,
    *COMPACTION_OPTIONS,
    *TAG_OPTIONS,
    *PARTITION_OPTIONS,
)
"""The options that do something, in the order of the reference page."""

OPTIONS = OptionSet(
    [
        *SERVED,
        *(idle_option(key, "Stored for Paimon's engines, without effect in lakebed.") for key in TUNING),
        *(Option(unserved.key, str, "", "Refused.", aliases=unserved.aliases) for unserved in UNSERVED),
    ],
    "Paimon tables",
    (
        "lakebed.storage.",
        "lakebed.catalog.",
        "fields.",
        "file-index.",
        "commit.callback.",
        "tag.callback.",
        "parquet.",
        "orc.",
        "avro.",
        "metadata.iceberg.",
    ),
)
"""Every option of a Paimon table."""

CALL_ONLY = (
    "lakebed.storage.", "lakebed.catalog.", SCRATCH_DIR.key, "read.tasks", "branch", "path", "overwrite.partition",
    COMMIT_CALLBACKS.key,
    TAG_CALLBACKS.key, "commit.callback.", "tag.callback.",
)  # fmt: skip
"""Keys that say how to reach a table, or what to run in this process. Only the caller may give them.

lakebed ignores them in a table's schema: whoever can write a table must not choose where this process writes or what it
runs."""


def table_options(stored: Mapping[str, str], given: Mapping[str, str] = {}) -> Options:
    """The options of a call: those of the table's schema, overridden by those of the caller.

    Unknown keys of the schema are ignored, since a newer Paimon may have stored them, and so are keys that only the
    caller may give. Raises OptionError for an unknown key of the caller.
    """
    return _table_options(tuple(stored.items()), tuple(option_texts(given).items()))


@lru_cache(64)
def _table_options(of_schema: tuple[tuple[str, str], ...], of_call: tuple[tuple[str, str], ...]) -> Options:
    stored, given = dict(of_schema), dict(of_call)
    OPTIONS.parse(given)
    over = {OPTIONS.spelled(key) for key in given}
    from_schema = {
        key: value
        for key, value in stored.items()
        if OPTIONS.knows(key) and OPTIONS.spelled(key) not in over and not key.lower().startswith(CALL_ONLY)
    }
    return OPTIONS.parse({**from_schema, **given})


def refuse_stored_callbacks(stored: Mapping[str, str], given: Iterable[str], key: str, table: str) -> None:
    """Raise UnsupportedError for a table whose schema names callbacks (`key`) unless the caller says which to call.

    Paimon's own engine would run them, but lakebed runs nothing that a table names.
    """
    named = next((value for name, value in stored.items() if name.lower() == key and value.strip()), "")
    if named and key not in (name.lower() for name in given):
        raise UnsupportedError(
            f"the table asks for the callback {named}", table=table,
            why=f"its option {key} says so, and lakebed runs nothing that a table names",
            todo=f"Name the callbacks in the option {key} of this call or of open. An empty value calls none",
        )  # fmt: skip


def stored_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a new table as its schema stores them, with keys in Paimon's spelling.

    Raises OptionError as `OptionSet.parse` does.
    """
    parsed = OPTIONS.parse(given)
    return {key: value for key, value in parsed.raw.items() if not key.lower().startswith(CALL_ONLY)}


def refuse(key: Option[Any], value: object, why: str) -> OptionError:
    """The error for an option whose value conflicts with the table."""
    return OptionError(f"option {key.key!r} is {value!r}", key=key.key, why=why)


def split_names(text: str) -> tuple[str, ...]:
    """The column names in an option, separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
