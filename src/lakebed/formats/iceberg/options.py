"""Options of `lakebed.open` for Iceberg tables, and table properties that lakebed honours, with their defaults.

Rule: the reference engine's TableProperties. A table keeps its properties as text in its metadata; options given to a
call lie over them for that call. Unknown table properties are kept and ignored, as every Iceberg reader does; an
unknown option is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.errors import OptionError
from lakebed.formats.iceberg.unserved import REFUSED, TUNING
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, memory_size

BRANCH = Option("branch", str, "main", "The branch to read and to commit to.")
READ_TASKS = Option("read.tasks", at_least(1), None, "Files read at once; as many as there are processors.")
SNAPSHOT_ID = Option("snapshot-id", int, None, "The snapshot that `read` gives where it is not told another.")
AS_OF_TIMESTAMP = Option(
    "as-of-timestamp", int, None, "`read` gives the snapshot that was current then, milliseconds since 1970."
)
TAG = Option("tag", str, None, "The tag whose snapshot `read` gives.")
START_SNAPSHOT = Option(
    "start-snapshot-id", int, None,
    "`read` gives only the rows that appends after this snapshot added, whatever became of them since.",
)  # fmt: skip
END_SNAPSHOT = Option("end-snapshot-id", int, None, "The last snapshot of such a read; the newest when not given.")
SPLIT_SIZE = Option(
    "read.split.target-size", at_least(1), 128 << 20, "Larger Parquet files are read in several tasks, bytes.",
    aliases=("split-size",),
)  # fmt: skip
DELETE_MEMORY = Option(
    "lakebed.read.equality-delete-memory", memory_size, 256 << 20,
    "What the equality deletes of one data file hold at a time; more of them are applied in several passes.",
)  # fmt: skip
START_COMMIT = Option(
    "read.start-commit", str, "",
    "Where a stream starts: a snapshot id or ISO time, inclusive, or earliest; none given, the newest snapshot only.",
)  # fmt: skip
STREAM_FROM = Option(
    "stream-from-timestamp", int, None, "A stream starts with the first snapshot from then on, milliseconds since 1970."
)
MAX_FILES = Option(
    "streaming-max-files-per-micro-batch",
    at_least(1),
    None,
    "A batch ends with the snapshot that reaches so many files.",
)
MAX_ROWS = Option(
    "streaming-max-rows-per-micro-batch", at_least(1), None, "A batch ends with the snapshot that reaches so many rows."
)
SKIP_DELETES = Option(
    "streaming-skip-delete-snapshots", boolean, False, "Whether a stream passes over snapshots that only delete."
)
SKIP_OVERWRITES = Option(
    "streaming-skip-overwrite-snapshots", boolean, False, "Whether a stream passes over snapshots that overwrite."
)
COMMITS_LIMIT = Option("read.commits.limit", at_least(1), None, "Most snapshots that one batch of a stream takes.")
SPLITS_LIMIT = Option(
    "read.splits.limit", at_least(1), None, "A batch of a stream takes no snapshot with which it adds more files."
)
BYTES_LIMIT = Option(
    "read.bytes.limit", memory_size, None, "A batch of a stream takes no snapshot with which it adds more bytes."
)
POSITIONS: tuple[Option[Any], ...] = (SNAPSHOT_ID, AS_OF_TIMESTAMP, TAG)
"""Each names the snapshot to read."""
READING = (
    COMMITS_LIMIT, SPLITS_LIMIT, BYTES_LIMIT, SNAPSHOT_ID, AS_OF_TIMESTAMP, TAG, START_SNAPSHOT, END_SNAPSHOT,
    SPLIT_SIZE, DELETE_MEMORY, START_COMMIT, STREAM_FROM, MAX_FILES, MAX_ROWS, SKIP_DELETES, SKIP_OVERWRITES,
)  # fmt: skip

RETRIES = Option("commit.retry.num-retries", at_least(0), 4, "How often a commit that lost a race is tried again.")
RETRY_MIN_WAIT = Option("commit.retry.min-wait-ms", at_least(0), 100, "Shortest wait before a retry, milliseconds.")
RETRY_MAX_WAIT = Option("commit.retry.max-wait-ms", at_least(0), 60_000, "Longest wait before a retry, milliseconds.")
RETRY_TIMEOUT = Option("commit.retry.total-timeout-ms", at_least(0), 1_800_000, "When retries end, milliseconds.")
CHECKS = Option(
    "commit.status-check.num-retries", at_least(0), 3, "How often the table is looked at after an unknown outcome."
)
CHECK_MIN_WAIT = Option("commit.status-check.min-wait-ms", at_least(0), 1_000, "Wait before a look, milliseconds.")
CHECK_MAX_WAIT = Option("commit.status-check.max-wait-ms", at_least(0), 60_000, "Longest wait, milliseconds.")
MERGE = Option("commit.manifest-merge.enabled", boolean, True, "Whether commits merge small manifests.")
MERGE_COUNT = Option(
    "commit.manifest.min-count-to-merge", at_least(0), 100, "Manifests that gather before they are merged."
)
MANIFEST_SIZE = Option("commit.manifest.target-size-bytes", at_least(1), 8 << 20, "Size of merged manifests, bytes.")
PARTITION_LIMIT = Option(
    "write.summary.partition-limit", at_least(0), 0,
    "A snapshot that changes no more partitions than this has counts of each in its summary.",
)  # fmt: skip
GC_ENABLED = Option("gc.enabled", boolean, True, "Whether files may be deleted by upkeep.")
MAX_SNAPSHOT_AGE = Option(
    "history.expire.max-snapshot-age-ms", at_least(0), 432_000_000, "Age at which snapshots expire, milliseconds."
)
MIN_SNAPSHOTS = Option(
    "history.expire.min-snapshots-to-keep", at_least(1), 1, "Snapshots of a branch that stay, however old."
)
MAX_REF_AGE = Option("history.expire.max-ref-age-ms", at_least(0), None, "Age at which refs but main go, milliseconds.")

CALLBACKS = Option("commit.callbacks", str, "", "Classes to call after a commit, as package.module:Class.")
CALLBACK_PARAMETERS = "commit.callback."
"""`commit.callback.NAME.param` is what a class is made with."""

OPENING = OptionSet(
    (BRANCH, READ_TASKS, *READING, CALLBACKS, *TUNING, *REFUSED), "an iceberg table",
    ("lakebed.storage.", "lakebed.catalog.", CALLBACK_PARAMETERS),
)  # fmt: skip
"""What `lakebed.open` takes beside the properties below."""
PROPERTIES = (
    RETRIES, RETRY_MIN_WAIT, RETRY_MAX_WAIT, RETRY_TIMEOUT, CHECKS, CHECK_MIN_WAIT, CHECK_MAX_WAIT, MERGE, MERGE_COUNT,
    MANIFEST_SIZE, PARTITION_LIMIT, GC_ENABLED, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, MAX_REF_AGE,
)  # fmt: skip
OPTIONS = OPENING + OptionSet(PROPERTIES, "an iceberg table", ())


def properties(found: Mapping[str, str], given: Mapping[str, str] = {}) -> Options:
    """The table properties of this module, typed; options of the call lie over them.

    OptionError for a value that is not of its type.
    """
    known = OptionSet(PROPERTIES, "an iceberg table", ("",))
    return known.parse({**{k: v for k, v in found.items() if known_property(k)}, **_only_known(given)})


def refuse_positions(options: Options, what: str, instead: str) -> None:
    """Raise OptionError for an option that names snapshots to read, where they are named in another way."""
    for option in (*POSITIONS, START_SNAPSHOT, END_SNAPSHOT):
        if options.given(option):
            raise OptionError(
                f"option {option.key!r} is given, which {what} cannot follow", key=option.key, todo=instead
            )


def known_property(key: str) -> bool:
    """Whether a table property is one of this module's."""
    return key.lower() in _KEYS


def _only_known(given: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if known_property(key)}


_KEYS = frozenset(option.key for option in PROPERTIES)
