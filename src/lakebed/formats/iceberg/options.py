"""Options of `lakebed.open` for Iceberg tables, and the table properties that lakebed honours, with their defaults.

Rule: the reference engine's TableProperties. A table keeps its properties as text in its metadata. Options of a call
take precedence over them for that call. Unknown table properties are kept and ignored, as by every Iceberg reader. An
unknown option is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakebed.errors import OptionError, UsageError
from lakebed.formats.iceberg.unserved import REFUSED, TUNING
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, memory_size, moment_ms
from lakebed.redaction import names_secret

_OF_COLUMNS = ("write.", "read.")
"""How properties begin that may have the name of a column in their keys."""

BRANCH = Option("branch", str, "main", "The branch to read and to commit to.")
WAP_BRANCH = Option(
    "wap.branch",
    str,
    "",
    "Writes go to this branch, which the first one creates at the head of main; reads are of it once it is there. The "
    "table must have write.wap.enabled. Iceberg's Spark has it as the session's spark.wap.branch.",
)
READ_TASKS = Option(
    "read.tasks", at_least(1), None, "How many files are read at once. Default: the number of processors."
)
SNAPSHOT_ID = Option("snapshot-id", int, None, "The snapshot to read, where the call names no other.")
AS_OF_TIMESTAMP = Option(
    "as-of-timestamp", int, None, "Reads the snapshot that was current then, milliseconds since 1970."
)
TAG = Option("tag", str, None, "Reads the snapshot of this tag.")
VERSION_AS_OF = Option("versionAsOf", str, None, "Reads the snapshot of this id, or the branch or tag of this name.")
TIMESTAMP_AS_OF = Option(
    "timestampAsOf",
    moment_ms,
    None,
    "Reads the snapshot that was current then. The time names its offset, as 2026-11-30T10:00:00Z does, since a source "
    "does not see the time zone of a Spark session.",
    "a time with its offset, such as 2026-11-30T10:00:00Z",
)
START_SNAPSHOT = Option(
    "start-snapshot-id",
    int,
    None,
    "Reads only the rows that appends after this snapshot added, whatever became of them since.",
)
END_SNAPSHOT = Option(
    "end-snapshot-id", int, None, "The last snapshot of a read with start-snapshot-id. Default: the newest."
)
SPLIT_SIZE = Option(
    "read.split.target-size",
    at_least(1),
    128 << 20,
    "Parquet files of more bytes are read in several tasks.",
    aliases=("split-size",),
)
DELETE_MEMORY = Option(
    "lakebed.read.equality-delete-memory",
    memory_size,
    256 << 20,
    "Memory for the equality deletes of one data file. More of them are applied in several passes.",
)
START_COMMIT = Option(
    "read.start-commit",
    str,
    "",
    "Where a stream starts: a snapshot id or ISO time, inclusive, or earliest. Default: the newest snapshot.",
)
STREAM_FROM = Option(
    "stream-from-timestamp",
    int,
    None,
    "Starts a stream with the first snapshot at or after this time, milliseconds since 1970.",
)
MAX_FILES = Option(
    "streaming-max-files-per-micro-batch",
    at_least(1),
    None,
    "A batch ends with the snapshot that reaches this number of files.",
)
MAX_ROWS = Option(
    "streaming-max-rows-per-micro-batch",
    at_least(1),
    None,
    "A batch ends with the snapshot that reaches this number of rows.",
)
SKIP_DELETES = Option(
    "streaming-skip-delete-snapshots", boolean, False, "Whether a stream skips snapshots that only delete."
)
SKIP_OVERWRITES = Option(
    "streaming-skip-overwrite-snapshots", boolean, False, "Whether a stream skips snapshots that overwrite."
)
COMMITS_LIMIT = Option("read.commits.limit", at_least(1), None, "How many snapshots a batch of a stream takes at most.")
SPLITS_LIMIT = Option(
    "read.splits.limit",
    at_least(1),
    None,
    "A batch of a stream takes no further snapshot that would bring it above this number of added files.",
)
BYTES_LIMIT = Option(
    "read.bytes.limit",
    memory_size,
    None,
    "A batch of a stream takes no further snapshot that would bring it above this number of added bytes.",
)
POSITIONS: tuple[Option[Any], ...] = (SNAPSHOT_ID, AS_OF_TIMESTAMP, TAG, VERSION_AS_OF, TIMESTAMP_AS_OF)
"""Options that each name the snapshot to read."""
READING = (
    COMMITS_LIMIT, SPLITS_LIMIT, BYTES_LIMIT, *POSITIONS, START_SNAPSHOT, END_SNAPSHOT, SPLIT_SIZE, DELETE_MEMORY,
    START_COMMIT, STREAM_FROM, MAX_FILES, MAX_ROWS, SKIP_DELETES, SKIP_OVERWRITES,
)  # fmt: skip

RETRIES = Option("commit.retry.num-retries", at_least(0), 4, "How often a commit that lost a race is retried.")
RETRY_MIN_WAIT = Option("commit.retry.min-wait-ms", at_least(0), 100, "Shortest wait before a retry, milliseconds.")
RETRY_MAX_WAIT = Option("commit.retry.max-wait-ms", at_least(0), 60_000, "Longest wait before a retry, milliseconds.")
RETRY_TIMEOUT = Option(
    "commit.retry.total-timeout-ms", at_least(0), 1_800_000, "How long a commit is retried, milliseconds."
)
CHECKS = Option(
    "commit.status-check.num-retries", at_least(0), 3, "How often the table is checked again after an unknown outcome."
)
CHECK_MIN_WAIT = Option(
    "commit.status-check.min-wait-ms", at_least(0), 1_000, "Shortest wait before such a check, milliseconds."
)
CHECK_MAX_WAIT = Option(
    "commit.status-check.max-wait-ms", at_least(0), 60_000, "Longest wait before such a check, milliseconds."
)
MERGE = Option("commit.manifest-merge.enabled", boolean, True, "Whether commits merge small manifests.")
MERGE_COUNT = Option(
    "commit.manifest.min-count-to-merge", at_least(0), 100, "How many manifests accumulate before they are merged."
)
MANIFEST_SIZE = Option(
    "commit.manifest.target-size-bytes", at_least(1), 8 << 20, "Target size of merged manifests, bytes."
)
PARTITION_LIMIT = Option(
    "write.summary.partition-limit",
    at_least(0),
    0,
    "The summary of a snapshot has counts per partition when no more partitions than this changed.",
)
WAP_ENABLED = Option("write.wap.enabled", boolean, False, "Whether writes may be staged: wap.id, wap.branch.")
GC_ENABLED = Option("gc.enabled", boolean, True, "Whether maintenance may delete files.")
MAX_SNAPSHOT_AGE = Option(
    "history.expire.max-snapshot-age-ms", at_least(0), 432_000_000, "Age at which snapshots expire, milliseconds."
)
MIN_SNAPSHOTS = Option(
    "history.expire.min-snapshots-to-keep", at_least(1), 1, "How many snapshots of a branch stay, whatever their age."
)
MAX_REF_AGE = Option(
    "history.expire.max-ref-age-ms", at_least(0), None, "Age at which branches and tags except main go, milliseconds."
)

CALLBACKS = Option("commit.callbacks", str, "", "Classes to call after a commit, as package.module:Class.")
CALLBACK_PARAMETERS = "commit.callback."
"""Prefix of `commit.callback.NAME.param`, the text that a callback class is created with."""

OPENING = OptionSet(
    (BRANCH, WAP_BRANCH, READ_TASKS, *READING, CALLBACKS, *TUNING, *REFUSED),
    "an iceberg table",
    ("lakebed.storage.", "lakebed.catalog.", CALLBACK_PARAMETERS),
)
"""The options of `lakebed.open` besides the properties below."""
PROPERTIES = (
    RETRIES, RETRY_MIN_WAIT, RETRY_MAX_WAIT, RETRY_TIMEOUT, CHECKS, CHECK_MIN_WAIT, CHECK_MAX_WAIT, MERGE, MERGE_COUNT,
    MANIFEST_SIZE, PARTITION_LIMIT, WAP_ENABLED, GC_ENABLED, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, MAX_REF_AGE,
)  # fmt: skip
OPTIONS = OPENING + OptionSet(PROPERTIES, "an iceberg table", ())


def properties(stored: Mapping[str, str], given: Mapping[str, str] = {}) -> Options:
    """The table properties of this module, typed. Those given to a call take precedence over the stored ones.

    OptionError for a value of the wrong type.
    """
    option_set = OptionSet(PROPERTIES, "an iceberg table", ("",))
    return option_set.parse({key: value for key, value in {**stored, **given}.items() if known_property(key)})


def refuse_secrets(keys: Iterable[str], table: str = "") -> None:
    """OptionError for a property that would put a secret into metadata, where everybody who reads the table finds it.

    The names of columns in properties of writes and reads may be any.
    """
    for key in keys:
        if names_secret(key) and not key.startswith(_OF_COLUMNS):
            raise OptionError(
                f"property {key!r} is not kept in a table",
                key=key,
                table=table,
                why="everyone who can read the table could read the secret",
                todo="Give it to lakebed.open, as lakebed.storage.setting.KEY, or to the catalog",
            )


def refuse_positions(options: Options, what: str, instead: str) -> None:
    """OptionError for an option that names a snapshot to read. `what` cannot have it; `instead` says what to do."""
    for option in (*POSITIONS, START_SNAPSHOT, END_SNAPSHOT):
        if options.given(option):
            raise OptionError(f"option {option.key!r} cannot be used with {what}", key=option.key, todo=instead)


def refuse_without_audit(stored: Mapping[str, str], given: Mapping[str, str], option: str, table: str) -> None:
    """UsageError where a write is to be staged by an option, and the table is not made for that."""
    if not properties(stored, given)[WAP_ENABLED]:
        raise UsageError(
            f"the option {option} needs a table with {WAP_ENABLED.key}=true",
            table=table,
            why="without it, other engines ignore this setting and publish at once",
            todo=f"Set the table property {WAP_ENABLED.key}, or write to a branch with the option {BRANCH.key}",
        )


def known_property(key: str) -> bool:
    """Whether a table property is one of this module's."""
    return key.lower() in _KEYS


_KEYS = frozenset(option.key for option in PROPERTIES)
