"""The options that say what is read: which snapshot, which range of changes, and where a stream starts and ends.

Keys, types and defaults are those of Paimon's CoreOptions. The keys `read.stream.*` and `read.changelog` are those of
Paimon's own Spark source (SparkConnectorOptions), and `read.start-commit`, `read.commits.limit`, `read.splits.limit`
and `read.bytes.limit` are the ones that streams of every format take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakebed.kernel.options import Option, at_least, boolean, duration_ms, memory_size, one_of


def _text(key: str, doc: str, default: str = "") -> Option[str]:
    return Option(key, str, default, doc)


def _optional(key: str, parse: Callable[[str], int | bool], doc: str) -> Option[Any]:
    return Option(key, parse, None, doc)


SCAN_MODE = Option(
    "scan.mode",
    one_of(
        "default", "latest-full", "full", "latest", "from-snapshot", "from-snapshot-full", "from-timestamp",
        "compacted-full", "latest-delta", "incremental", "from-creation-timestamp", "from-file-creation-time",
    ),
    "default",
    "Which snapshot a batch reads: the newest (`latest-full`, `full`, `latest`), the one that another option names "
    "(`from-snapshot`, `from-snapshot-full`, `from-timestamp`), or that of the last compaction (`compacted-full`). "
    "`default` follows the other options. Streams start there, and take the further modes too.",
    aliases=("log.scan",),
)  # fmt: skip
SCAN_SNAPSHOT_ID = _optional("scan.snapshot-id", at_least(1), "Read as of this snapshot.")
SCAN_TAG_NAME = _text("scan.tag-name", "Read as of this tag.")
SCAN_VERSION = _text("scan.version", "Read as of this tag, `watermark-N` or snapshot.")
SCAN_WATERMARK = _optional("scan.watermark", int, "Read as of the first snapshot whose watermark is at least this.")
SCAN_TIMESTAMP = _text("scan.timestamp", "Read as of this time, `2024-01-02 03:04:05`, in UTC unless it has an offset.")
SCAN_TIMESTAMP_MILLIS = Option(
    "scan.timestamp-millis",
    at_least(0),
    None,
    "Read as of this time, in milliseconds since 1970.",
    aliases=("log.scan.timestamp-millis",),
)
INCREMENTAL_BETWEEN = _text(
    "incremental-between",
    "`5,9`: read the changes after snapshot 5 up to snapshot 9. Two tags are compared.",
)
INCREMENTAL_BETWEEN_TIMESTAMP = _text(
    "incremental-between-timestamp",
    "As `incremental-between`, for two times, in milliseconds or as in `scan.timestamp`.",
)
INCREMENTAL_MODE = Option(
    "incremental-between-scan-mode",
    one_of("auto", "delta", "changelog", "diff"),
    "auto",
    "What a range reads: the files of its appends (`delta`), its changelog files (`changelog`), or what differs "
    "between its ends (`diff`). `auto` is `changelog` where the table has a changelog producer, else `delta`.",
)
INCREMENTAL_TAGS = Option(
    "incremental-between-tag-to-snapshot",
    boolean,
    False,
    "A range between two tags reads its snapshots, as one between two ids does, instead of comparing its ends.",
)
INCREMENTAL_TO_AUTO_TAG = _text(
    "incremental-to-auto-tag",
    "Read the changes from the automatic tag before this one up to this one; nothing where either is missing.",
)
SEQUENCE_NUMBERS = Option(
    "table-read.sequence-number.enabled",
    boolean,
    False,
    "Changes have a column `_SEQUENCE_NUMBER`, with a primary key.",
)
CREATION_TIME = _optional(
    "scan.creation-time-millis",
    at_least(0),
    "Start with the first snapshot at or after this time, milliseconds since 1970; where older ones are gone, with the "
    "files of the newest snapshot that were created since.",
)
FILE_CREATION_TIME = _optional(
    "scan.file-creation-time-millis", at_least(0), "Read only files that were created at or after this time."
)
FALLBACK_BRANCH = _text(
    "scan.fallback-branch", "A read of a snapshot takes partitions that the branch does not have from this branch."
)
BOUNDED_WATERMARK = _optional(
    "scan.bounded.watermark", int, "A stream ends before the first snapshot whose watermark is greater."
)
SNAPSHOT_DELAY = _optional(
    "streaming.read.snapshot.delay", duration_ms, "A stream reads a snapshot only when it is this old."
)
DISCOVERY_INTERVAL = _optional(
    "continuous.discovery-interval",
    duration_ms,
    "After a look that found nothing new, a stream does not look again for so long. By default it looks when asked.",
)
STREAM_OVERWRITES = Option(
    "streaming-read-overwrite", boolean, False, "Streams deliver what an overwrite of a primary-key table changed."
)
STREAM_APPEND_OVERWRITES = Option(
    "streaming-read-append-overwrite", boolean, False, "Streams deliver the new rows of overwrites of append tables."
)
CONSUMER_ID = _text("consumer-id", "The name under which a stream keeps its progress in the table.")
CONSUMER_MODE = Option(
    "consumer.mode",
    one_of("exactly-once", "at-least-once"),
    "exactly-once",
    "How exactly progress is kept. lakebed keeps it after each batch in both modes.",
)
CONSUMER_IGNORE_PROGRESS = Option(
    "consumer.ignore-progress", boolean, False, "A new stream starts where `scan.mode` says, whatever the progress."
)
START_COMMIT = _text(
    "read.start-commit",
    "Where a stream starts: a snapshot id or ISO time, inclusive, or `earliest`: the oldest snapshot in full, then its "
    "successors.",
)
COMMITS_LIMIT = _optional("read.commits.limit", at_least(1), "How many snapshots a batch of a stream takes at most.")
SPLITS_LIMIT = _optional(
    "read.splits.limit", at_least(1), "A batch takes no further snapshot that brings it above this number of files."
)
BYTES_LIMIT = _optional(
    "read.bytes.limit", memory_size, "A batch takes no further snapshot that brings it above this number of bytes."
)
MAX_FILES = _optional(
    "read.stream.maxFilesPerTrigger",
    at_least(1),
    "A batch takes no more than this number of files: a piece of a snapshot that has more.",
)
MAX_BYTES = _optional(
    "read.stream.maxBytesPerTrigger",
    at_least(1),
    "A batch takes no more than this number of bytes: a piece of a snapshot that has more.",
)
MAX_ROWS = _optional(
    "read.stream.maxRowsPerTrigger",
    at_least(1),
    "A batch takes no more than this number of rows: a piece of a snapshot that has more.",
)
MIN_ROWS = _optional(
    "read.stream.minRowsPerTrigger",
    at_least(1),
    "A batch waits for so many rows, or `read.stream.maxTriggerDelayMs`.",
)
MAX_DELAY = _optional(
    "read.stream.maxTriggerDelayMs", at_least(1), "How long a batch waits for `read.stream.minRowsPerTrigger` at most."
)
READ_CHANGELOG = Option(
    "read.changelog", boolean, False, 'With format("paimon"): every row with its kind, in a first column `rowkind`.'
)
