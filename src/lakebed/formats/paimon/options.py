"""The options of a Paimon table: keys, types and defaults as Paimon's CoreOptions (release 1.3.1) declares them.

A table keeps its options as text in its schema files; options given to `open` or `write` lie over them for that call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakebed.errors import OptionError
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, duration_ms, memory_size, one_of
from lakebed.kernel.scratch import SCRATCH_DIR


def _text(key: str, doc: str, default: str = "") -> Option[str]:
    return Option(key, str, default, doc)


def _optional(key: str, parse: Callable[[str], int | bool], doc: str) -> Option[Any]:
    return Option(key, parse, None, doc)


def _bucket(text: str) -> int:
    number = int(text)
    if number == 0 or number < -2:
        raise ValueError(text)
    return number


BUCKET = Option(
    "bucket",
    _bucket,
    -1,
    "Number of buckets of a partition; -1 for dynamic buckets (or none, without a primary key), -2 for postponed ones.",
    "a number of buckets above 0, or -1 (dynamic), or -2 (postponed)",
)
BUCKET_KEY = _text(
    "bucket-key", "Columns whose hash gives the bucket, separated by commas; the primary key when not given."
)
BUCKET_FUNCTION = Option(
    "bucket-function.type", one_of("default", "mod"), "default", "How a bucket is made of the bucket key."
)
MERGE_ENGINE = Option(
    "merge-engine",
    one_of("deduplicate", "partial-update", "aggregation", "first-row"),
    "deduplicate",
    "What becomes of rows with one primary key.",
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer",
    one_of("none", "input", "full-compaction", "lookup"),
    "none",
    "Where changelog files come from.",
)
SEQUENCE_FIELD = _text(
    "sequence.field", "Columns that say which row of a key is the newer one, before the order of arrival."
)
SEQUENCE_ORDER = Option(
    "sequence.field.sort-order",
    one_of("ascending", "descending"),
    "ascending",
    "Which end of the sequence field is newer.",
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
FILE_FORMAT_PER_LEVEL = _text("file.format.per.level", "Formats of single levels, as `0:avro,5:parquet`.")
FILE_COMPRESSION = Option("file.compression", str, "zstd", "Compression of data files.")
ZSTD_LEVEL = Option("file.compression.zstd-level", at_least(1), 1, "Level of zstd.")
TARGET_FILE_SIZE = _optional(
    "target-file-size", memory_size, "Bytes at which a file is closed: 128 mb with a primary key, 256 mb without."
)
WRITE_BUFFER_SIZE = Option(
    "write-buffer-size", memory_size, 256 << 20, "Bytes of rows that a task holds in memory before it spills them."
)
WRITE_BUFFER_SPILLABLE = Option(
    "write-buffer-spillable", boolean, True, "Spill a full buffer to disk; if not, it becomes files of its own."
)
SPILL_DISK_SIZE = _optional(
    "write-buffer-spill.max-disk-size", memory_size, "Bytes that a task spills at most before it writes files."
)
GATHER_BYTES = Option(
    "lakebed.gather.max-bytes",
    memory_size,
    256 << 20,
    "Bytes of files that the driver merges before a commit, where tasks wrote a bucket without routing; 0 for none.",
)
SPILL_COMPRESSION = Option(
    "spill-compression", one_of("zstd", "lz4", "none"), "none", "Compression of spilled rows; Paimon's own default is "
    "zstd, which costs more than the local disk that it spares.",
)  # fmt: skip
PARTITION_DEFAULT_NAME = _text(
    "partition.default-name", "Folder name of null and empty partition values.", "__DEFAULT_PARTITION__"
)
PARTITION_LEGACY_NAME = Option(
    "partition.legacy-name", boolean, True, "Name partition folders by Java's toString instead of a cast to text."
)
DATA_FILE_PREFIX = _text("data-file.prefix", "Begin of data file names.", "data-")
CHANGELOG_FILE_PREFIX = _text("changelog-file.prefix", "Begin of changelog file names.", "changelog-")
THIN_MODE = Option(
    "data-file.thin-mode", boolean, False, "Leave the key columns, which the value columns repeat, out of data files."
)
EXTERNAL_PATHS = _text("data-file.external-paths", "Other places for data files.")
DATA_DIRECTORY = _text("data-file.path-directory", "Folder for data files below the table.")
STATS_MODE = Option(
    "metadata.stats-mode", str, "truncate(16)", "Statistics in manifests: none, counts, full or truncate(N)."
)
MANIFEST_TARGET_SIZE = Option("manifest.target-file-size", memory_size, 8 << 20, "Bytes at which a manifest is full.")
MANIFEST_MERGE_COUNT = Option("manifest.merge-min-count", at_least(1), 30, "Small manifests before they are merged.")
MANIFEST_FULL_SIZE = Option(
    "manifest.full-compaction-threshold-size",
    memory_size,
    16 << 20,
    "Bytes of changed manifests before all are rewritten.",
)
COMMIT_MAX_RETRIES = Option(
    "commit.max-retries", at_least(0), 10, "Tries of a commit that lost the race for its snapshot."
)
COMMIT_MIN_WAIT = Option("commit.min-retry-wait", duration_ms, 10, "Wait before the first retry.")
COMMIT_MAX_WAIT = Option("commit.max-retry-wait", duration_ms, 10_000, "Longest wait before a retry.")
COMMIT_TIMEOUT = _optional("commit.timeout", duration_ms, "Time after which a commit is no longer retried.")
COMMIT_USER_PREFIX = _text("commit.user-prefix", "Begin of random commit users.")
FORCE_SNAPSHOT = Option(
    "commit.force-create-snapshot", boolean, False, "Make a snapshot of a commit without files too."
)
IGNORE_EMPTY_COMMIT = _optional("snapshot.ignore-empty-commit", boolean, "Make no snapshot of a commit without files.")
COMMIT_CALLBACKS = _text(
    "commit.callbacks", "Callbacks after each commit, as package.module:Class, separated by commas."
)
TAG_CALLBACKS = _text("tag.callbacks", "Callbacks after each tag, as package.module:Class, separated by commas.")
DYNAMIC_OVERWRITE = Option(
    "dynamic-partition-overwrite", boolean, True, "An overwrite replaces only the partitions that it has rows for."
)
OVERWRITE_PARTITION = _text(
    "overwrite.partition",
    "The partitions that an overwrite replaces, as `dt=2024-01-01,h=3`; `null` for null. Of one write only.",
)
DELETION_VECTORS = Option("deletion-vectors.enabled", boolean, False, "Deleted rows are marked beside the data files.")
PARTIAL_UPDATE_REMOVE = Option("partial-update.remove-record-on-delete", boolean, False, "A -D removes the whole row.")
PARTIAL_UPDATE_REMOVE_GROUP = _text(
    "partial-update.remove-record-on-sequence-group", "A -D that wins one of these sequence groups removes the row."
)
AGGREGATION_REMOVE = Option("aggregation.remove-record-on-delete", boolean, False, "A -D removes the whole row.")
DEFAULT_AGGREGATE = _text("fields.default-aggregate-function", "Aggregate function of columns that name none.")
DYNAMIC_TARGET_ROWS = Option(
    "dynamic-bucket.target-row-num", at_least(1), 2_000_000, "Rows of a bucket before the next is begun."
)
DYNAMIC_MAX_BUCKETS = Option("dynamic-bucket.max-buckets", int, -1, "Most buckets of a partition; -1 for no bound.")
DYNAMIC_INITIAL_BUCKETS = _optional("dynamic-bucket.initial-buckets", at_least(1), "Buckets begun at once.")
DYNAMIC_ASSIGNERS = _optional("dynamic-bucket.assigner-parallelism", at_least(1), "Tasks that assign buckets.")
POSTPONE_DEFAULT_BUCKETS = Option(
    "postpone.default-bucket-num",
    at_least(1),
    1,
    "Buckets of a partition when postponed rows first get real ones.",
)
ROW_TRACKING = Option("row-tracking.enabled", boolean, False, "Give each row an id.")
DATA_EVOLUTION = Option("data-evolution.enabled", boolean, False, "Columns of one row may lie in several files.")
INDEX_IN_DATA_DIR = Option("index-file-in-data-file-dir", boolean, False, "Index files lie in the bucket's folder.")
SNAPSHOTS_MIN = Option("snapshot.num-retained.min", at_least(1), 10, "The newest snapshots that never expire.")
SNAPSHOTS_MAX = _optional(
    "snapshot.num-retained.max", at_least(1), "Snapshots beyond this number expire whatever their age."
)
SNAPSHOT_TIME = Option("snapshot.time-retained", duration_ms, 3_600_000, "Snapshots expire when they are older: 1 h.")
EXPIRE_LIMIT = Option("snapshot.expire.limit", at_least(1), 50, "Most snapshots that expire at a time.")
CONSUMER_TIME = Option(
    "consumer.expiration-time",
    duration_ms,
    None,
    "Consumers that did not move for this long are removed by an expiry, and hold no snapshot any more.",
)
OWED_TIME = Option(
    "lakebed.owed.time-retained",
    duration_ms,
    7 * 86_400_000,
    "How long snapshots are kept for streams that stopped, whose replays are known by them, and for callbacks that "
    "were not called yet: 7 d.",
)
WRITE_ONLY = Option("write-only", boolean, False, "Commits expire no snapshots.")
COMPACTION_TRIGGER = Option(
    "num-sorted-run.compaction-trigger", at_least(1), 5, "Sorted runs of a bucket that `inspect` speaks of."
)
NUM_LEVELS = _optional(
    "num-levels", at_least(2), "Levels of a bucket: one more than the runs that trigger a compaction."
)
COMPACTION_MIN_FILES = Option(
    "compaction.min.file-num", at_least(1), 5, "Small files of a bucket of an append table that `inspect` speaks of."
)
CHANGELOG_MIN = _optional("changelog.num-retained.min", at_least(1), "Changelogs kept beyond snapshots.")
CHANGELOG_MAX = _optional("changelog.num-retained.max", at_least(1), "Changelogs kept beyond snapshots.")
CHANGELOG_TIME = _optional("changelog.time-retained", duration_ms, "How long changelogs outlive snapshots.")
LAST_SAFE_SNAPSHOT = _optional(
    "commit.strict-mode.last-safe-snapshot",
    at_least(-1),
    "A commit fails when another user compacted, overwrote or wrote to real buckets after this snapshot; -1: since the "
    "writer's own first commit.",
)
BRANCH = Option("branch", str, "main", "The branch to read and write.")
SCAN_SNAPSHOT_ID = _optional("scan.snapshot-id", at_least(1), "Read as of this snapshot.")
SCAN_TAG_NAME = _text("scan.tag-name", "Read as of this tag.")
SCAN_TIMESTAMP_MILLIS = _optional(
    "scan.timestamp-millis", at_least(0), "Read as of this time, milliseconds since 1970."
)
READ_TASKS = _optional("read.tasks", at_least(1), "Threads of a read in this process.")

_OTHERS = """
    file.block-size metadata.stats-dense-store deletion-vectors.bitmap64
    alter-column-null-to-not-null.disabled async-file-write auto-create batch-scan-mode bucket-append-ordered
    cache-page-size changelog-file.compression changelog-file.format changelog-file.stats-mode
    changelog-producer.row-deduplicate changelog-producer.row-deduplicate-ignore-fields clustering.columns
    clustering.history-partition.idle-to-full-sort clustering.history-partition.limit clustering.incremental
    clustering.strategy commit.force-compact compaction.delete-ratio-threshold compaction.force-rewrite-all-files
    compaction.force-up-level-0 compaction.max-size-amplification-percent compaction.offpeak-ratio
    compaction.offpeak.end.hour compaction.offpeak.start.hour compaction.optimization-interval compaction.size-ratio
    compaction.total-size-threshold consumer-id consumer.ignore-progress consumer.mode
    continuous.discovery-interval cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl
    data-file.external-paths.specific-fs data-file.external-paths.strategy delete.force-produce-changelog
    deletion-vector.index-file.target-size disable-explicit-type-casting end-input.check-partition-expire
    file-index.in-manifest-threshold file-index.read.enabled file-operation.thread-num file-reader-async-threshold
    file.compression.per.level file.suffix.include.compression force-lookup full-compaction.delta-commits
    incremental-between incremental-between-scan-mode incremental-between-timestamp incremental-to-auto-tag
    local-merge-buffer-size local-sort.max-num-file-handles log.changelog-mode log.consistency log.format
    log.ignore-delete log.key.format lookup-compact lookup-compact.max-interval lookup-wait
    lookup.cache-file-retention lookup.cache-max-disk-size lookup.cache-max-memory-size
    lookup.cache-spill-compression lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp
    lookup.cache.high-priority-pool-ratio lookup.hash-load-factor lookup.local-file-type lookup.merge-buffer-size
    lookup.merge-records-threshold manifest.compression manifest.delete-file-drop-stats manifest.format
    materialized-table.definition-query materialized-table.interval-freshness
    materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
    materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
    materialized-table.refresh-mode materialized-table.refresh-status metadata.stats-keep-first-n-columns
    metadata.stats-mode.per.level metastore.partitioned-table metastore.tag-to-partition
    metastore.tag-to-partition.preview num-sorted-run.stop-trigger page-size parquet.enable.dictionary partition
    partition.end-input-to-done partition.expiration-batch-size partition.expiration-check-interval
    partition.expiration-max-num partition.expiration-strategy partition.expiration-time
    partition.idle-time-to-report-statistic partition.mark-done-action partition.mark-done-action.custom.class
    partition.mark-done-action.http.params partition.mark-done-action.http.url partition.sink-strategy
    partition.timestamp-formatter partition.timestamp-pattern path primary-key query-auth.enabled read.batch-size
    record-level.expire-time record-level.time-field scan.bounded.watermark scan.creation-time-millis
    scan.fallback-branch scan.file-creation-time-millis scan.manifest.parallelism scan.max-splits-per-task scan.mode
    scan.plan-sort-partition scan.timestamp scan.version scan.watermark sink.process-time-zone
    sink.watermark-time-zone snapshot.clean-empty-directories snapshot.expire.execution-mode
    snapshot.watermark-idle-timeout sort-compaction.local-sample.magnification sort-compaction.range-strategy
    sort-engine sort-spill-buffer-size sort-spill-threshold source.split.open-file-cost source.split.target-size
    spill-compression.zstd-level stream-scan-mode streaming-read-append-overwrite streaming-read-mode
    streaming-read-overwrite streaming.read.snapshot.delay tag.automatic-completion tag.automatic-creation
    tag.batch.customized-name tag.create-success-file tag.creation-delay tag.creation-period
    tag.creation-period-duration tag.default-time-retained tag.num-retained-max tag.period-formatter type upsert-key
    write-buffer-for-append write-max-writers-to-spill write.batch-memory write.batch-size
    zorder.var-length-contribution
"""
"""Keys that Paimon knows and lakebed keeps for it without acting on them."""

OPTIONS = OptionSet(
    [
        *(value for value in list(vars().values()) if isinstance(value, Option)),
        *(_text(key, "Kept for Paimon.") for key in _OTHERS.split()),
    ],
    "Paimon tables",
    ("lakebed.storage.", "fields.", "file-index.", "commit.callback.", "tag.callback.", "parquet.", "orc.", "avro."),
)
"""Every key that may be given."""

CALL_ONLY = ("lakebed.storage.", SCRATCH_DIR.key, "read.tasks", "branch", "path", "overwrite.partition")
"""Keys that say how to reach a table and are no property of it."""


def table_options(stored: Mapping[str, str], given: Mapping[str, str] = {}) -> Options:
    """The options that hold: those of the schema, and over them those of the caller.

    A stored key that nobody knows is left alone, since a newer Paimon may have put it there; OptionError for a given
    one.
    """
    OPTIONS.parse(given)
    known = {key: value for key, value in stored.items() if OPTIONS.knows(key)}
    lowered = {key.lower() for key in given}
    return OPTIONS.parse({**{key: value for key, value in known.items() if key.lower() not in lowered}, **given})


def stored_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a new table as its schema keeps them: keys in Paimon's spelling. OptionError as
    `OptionSet.parse`."""
    parsed = OPTIONS.parse(given)
    return {key: value for key, value in parsed.raw.items() if not key.lower().startswith(CALL_ONLY)}


def refuse(key: Option[Any], value: object, why: str) -> OptionError:
    """The error for an option whose value does not go with the table."""
    return OptionError(f"option {key.key!r} is {value!r}", key=key.key, why=why)
