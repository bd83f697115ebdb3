"""Option keys of Hudi tables, with the meaning and the defaults of the engine that each comes from.

`READ` are the keys of `lakebed.open` and `format("lakebed")`: those of Hudi's Flink source (`FlinkOptions`), so that a
stream started without any of them gives the newest commit only. `SPARK` are those of Hudi's own Spark source
(`DataSourceReadOptions`), for `format("hudi")`.
"""

from __future__ import annotations

from typing import Any

from lakebed.kernel.options import Option, OptionSet, at_least, boolean, duration_ms, memory_size, one_of
from lakebed.kernel.scratch import SCRATCH_DIR


def _merge_type(text: str) -> str:
    """A merge type by its value or, as some jobs give it, by the name of Hudi's constant for it."""
    return {
        "payload_combine": "payload_combine",
        "realtime_payload_combine": "payload_combine",
        "skip_merge": "skip_merge",
        "realtime_skip_merge": "skip_merge",
        "realtime_skip_combine": "skip_merge",
    }[text.lower()]


MERGE_TYPE: Option[str] = Option(
    "hoodie.datasource.merge.type",
    _merge_type,
    "payload_combine",
    "payload_combine merges base and log rows by the table's rules; skip_merge gives the base rows, then the log rows",
    "payload_combine or skip_merge",
    aliases=("merge.type",),
)
QUERY_TYPE: Option[str] = Option(
    "hoodie.datasource.query.type",
    one_of("snapshot", "read_optimized", "incremental"),
    "snapshot",
    "snapshot merges base and log files, read_optimized reads base files only, incremental reads a range of commits: "
    "the newest one, where none is named",
)
AS_OF: Option[str] = Option("as.of.instant", str, "", "The instant, or timestamp, that a snapshot is read as of")
READ_TASKS: Option[int] = Option(
    "read.tasks", at_least(1), 0, "How many tasks read at once; by default as many as the engine runs"
)

STREAMING: Option[bool] = Option(
    "read.streaming.enabled", boolean, False, "Accepted; a stream streams, a batch does not"
)
CHECK_INTERVAL: Option[int] = Option(
    "read.streaming.check-interval",
    at_least(1),
    60,
    "Accepted; Spark's trigger says how often a stream looks (seconds)",
)
START_COMMIT: Option[str] = Option(
    "read.start-commit",
    str,
    "",
    "Where a stream starts, or a batch that reads a range, inclusive: an instant, a timestamp or earliest; without it "
    "the newest commit only",
)
END_COMMIT: Option[str] = Option(
    "read.end-commit",
    str,
    "",
    "Where a stream ends, or a batch that reads a range, inclusive: an instant or a timestamp",
)
COMMITS_LIMIT: Option[int | None] = Option("read.commits.limit", at_least(1), None, "The most commits of one batch")
SPLITS_LIMIT: Option[int | None] = Option(
    "read.splits.limit", at_least(1), None, "The most file groups of one batch; a batch always holds a commit"
)
BYTES_LIMIT: Option[int | None] = Option(
    "read.bytes.limit",
    memory_size,
    None,
    "The most bytes written by the commits of one batch; a batch always holds a commit",
)
SKIP_COMPACTION: Option[bool] = Option(
    "read.streaming.skip_compaction",
    boolean,
    True,
    "Pass over compactions of merge-on-read tables: they only move rows",
)
SKIP_CLUSTERING: Option[bool] = Option(
    "read.streaming.skip_clustering", boolean, True, "Pass over clusterings: they only move rows"
)
SKIP_INSERT_OVERWRITE: Option[bool] = Option(
    "read.streaming.skip_insertoverwrite", boolean, False, "Pass over the commits of insert overwrites"
)
FALLBACK: Option[str] = Option(
    "read.streaming.fallback",
    one_of("fail", "full-scan"),
    "fail",
    "When files that changes need were cleaned: fail, or scan the newest snapshot for rows of the range",
)
ROLLED_BACK: Option[str] = Option(
    "lakebed.stream.rolled-back",
    one_of("fail", "warn"),
    "fail",
    "When commits that a stream has read were rolled back, or a restore took them back: fail, or warn and go on",
)
CHANGELOG: Option[bool] = Option("changelog.enabled", boolean, False, "Give every change that the log holds, unmerged")
CDC: Option[bool] = Option(
    "cdc.enabled",
    boolean,
    False,
    "Changes and streams give every commit's rows before and after it (+I -U +U -D), from the table's change log or, "
    "where that is missing or leaves rows out, from the file slices on both sides of the commit",
)
CDC_FROM_CHANGELOG: Option[bool] = Option(
    "read.cdc.from.changelog",
    boolean,
    False,
    "With cdc.enabled on merge-on-read tables: take the changes of log files from the change logs of their "
    "compactions, as Flink does by default; else they come with the commits that made them",
)

_FLINK: tuple[Option[Any], ...] = (
    MERGE_TYPE,
    QUERY_TYPE,
    AS_OF,
    READ_TASKS,
    STREAMING,
    CHECK_INTERVAL,
    START_COMMIT,
    END_COMMIT,
    COMMITS_LIMIT,
    SPLITS_LIMIT,
    BYTES_LIMIT,
    SKIP_COMPACTION,
    SKIP_CLUSTERING,
    SKIP_INSERT_OVERWRITE,
    FALLBACK,
    ROLLED_BACK,
    CHANGELOG,
    CDC,
    CDC_FROM_CHANGELOG,
    SCRATCH_DIR,
)
READ = OptionSet(_FLINK, "Hudi tables")
"""The keys of `lakebed.open` and of `format("lakebed")`."""

BEGIN: Option[str] = Option(
    "hoodie.datasource.read.begin.instanttime",
    str,
    "",
    "Where an incremental read begins, exclusive; needed by incremental",
    aliases=("hoodie.datasource.read.start.timestamp",),
)
END: Option[str] = Option(
    "hoodie.datasource.read.end.instanttime",
    str,
    "",
    "Where an incremental read ends, inclusive; by default the newest commit",
    aliases=("hoodie.datasource.read.end.timestamp",),
)
INCREMENTAL_FORMAT: Option[str] = Option(
    "hoodie.datasource.query.incremental.format",
    one_of("latest_state", "cdc"),
    "latest_state",
    "What an incremental read or a stream gives: latest_state the newest row of each changed key, cdc every commit's "
    "changes as op, ts_ms, before and after, rows as JSON text",
)
START_OFFSET: Option[str] = Option(
    "hoodie.datasource.streaming.startoffset",
    str,
    "earliest",
    "Where a new stream starts: earliest, latest or an instant",
)
FULL_SCAN: Option[bool] = Option(
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
    boolean,
    False,
    "Scan the newest snapshot for rows of the range when files that an incremental read needs were cleaned",
    aliases=("hoodie.datasource.read.incr.fallback.fulltablescan",),
)
VALUES_FROM_PATH: Option[bool] = Option(
    "hoodie.datasource.read.extract.partition.values.from.path",
    boolean,
    False,
    "Refused when true: partition columns are read from the files, from paths only where the files leave them out",
)
SCHEMA_OF_END: Option[bool] = Option(
    "hoodie.datasource.read.schema.use.end.instanttime",
    boolean,
    False,
    "Refused when true: an incremental read gives the columns of the newest schema",
)
TABLE_PATH: Option[str] = Option(
    "hoodie.datasource.read.table.path",
    str,
    "",
    "Refused when it names another place than the one that is loaded",
    aliases=("hoodie.base.path",),
)

_ACCEPTED = (
    "path",
    "hoodie.metadata.enable",
    "hoodie.enable.data.skipping",
    "hoodie.file.index.enable",
    "hoodie.file.group.reader.enabled",
    "hoodie.schema.on.read.enable",
    "hoodie.table.name",
    "hoodie.datasource.read.file.index.listing.mode",
    "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
    "hoodie.memory.merge.max.size",
    "hoodie.embed.timeline.server",
    "hoodie.datasource.read.use.new.parquet.file.format",
)
SPARK = OptionSet(
    (
        MERGE_TYPE,
        QUERY_TYPE,
        AS_OF,
        READ_TASKS,
        BEGIN,
        END,
        INCREMENTAL_FORMAT,
        START_OFFSET,
        FULL_SCAN,
        VALUES_FROM_PATH,
        SCHEMA_OF_END,
        TABLE_PATH,
        ROLLED_BACK,
        SCRATCH_DIR,
        *(Option(key, str, "", "Accepted; it changes no rows here") for key in _ACCEPTED),
    ),
    "Hudi's Spark source",
)
"""The keys of `format("hudi")`."""

# ---- archival -------------------------------------------------------------------------------------------------------

KEEP_MAX: Option[int] = Option(
    "hoodie.keep.max.commits", at_least(1), 150, "Commits are archived when the active timeline holds more than this"
)
KEEP_MIN: Option[int] = Option(
    "hoodie.keep.min.commits", at_least(1), 145, "How many commits an archival leaves in the active timeline"
)
ARCHIVAL_BATCH: Option[int] = Option(
    "hoodie.commits.archival.batch",
    at_least(1),
    10,
    "The most records of one block of an archive file (table version 6 and older); not a threshold",
)
ARCHIVE_AUTOMATIC: Option[bool] = Option(
    "hoodie.archive.automatic", boolean, True, "Whether post_commit archives; a call of archive always does"
)
BEYOND_SAVEPOINT: Option[bool] = Option(
    "hoodie.archive.beyond.savepoint",
    boolean,
    False,
    "Archive past savepoints: the savepointed commits stay, those after them may go",
)
ARCHIVE_STRICT: Option[bool] = Option(
    "hoodie.fail.on.timeline.archiving",
    boolean,
    True,
    "Whether an unreadable instant file stops the archival; false leaves it and goes on",
)
LIMIT_INSTANTS: Option[int | None] = Option(
    "hoodie.archive.limit.instants", at_least(1), None, "The most instants that one run moves"
)
MERGE_ENABLE: Option[bool] = Option(
    "hoodie.archive.merge.enable", boolean, False, "Merge small archive files (table version 6 and older)"
)
MERGE_BATCH: Option[int] = Option(
    "hoodie.archive.merge.files.batch.size", at_least(2), 10, "How many small archive files make a merge worth while"
)
MERGE_SMALL: Option[int] = Option(
    "hoodie.archive.merge.small.file.limit.bytes", at_least(1), 20 << 20, "Archive files below this are small (bytes)"
)
TIMELINE_COMPACTION_BATCH: Option[int] = Option(
    "hoodie.timeline.compaction.batch.size",
    at_least(2),
    10,
    "How many archive files of a level are merged into the next one (table version 8 and later)",
)
DELETE_PARALLELISM: Option[int] = Option(
    "hoodie.archive.delete.parallelism", at_least(1), 100, "Accepted; the store says how many deletions run at once"
)
ARCHIVE_ASYNC: Option[bool] = Option(
    "hoodie.archive.async", boolean, False, "Accepted; an archival runs when it is called"
)
CLEANER_POLICY: Option[str] = Option(
    "hoodie.cleaner.policy",
    one_of("KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS", "KEEP_LATEST_BY_HOURS"),
    "KEEP_LATEST_COMMITS",
    "What the table's cleaner retains; archival leaves what it needs",
    aliases=("hoodie.clean.policy",),
)
COMMITS_RETAINED: Option[int] = Option(
    "hoodie.cleaner.commits.retained",
    at_least(1),
    10,
    "How many commits the cleaner retains, by its policy KEEP_LATEST_COMMITS",
    aliases=("hoodie.clean.commits.retained",),
)
HOURS_RETAINED: Option[int] = Option(
    "hoodie.cleaner.hours.retained",
    at_least(1),
    24,
    "How many hours the cleaner retains, by its policy KEEP_LATEST_BY_HOURS",
    aliases=("hoodie.clean.hours.retained",),
)
MAX_DELTA_COMMITS: Option[int] = Option(
    "hoodie.compact.inline.max.delta.commits",
    at_least(1),
    5,
    "Delta commits between two compactions: that many stay for the compaction's schedule (merge-on-read)",
)
COMPACTION_TRIGGER: Option[str] = Option(
    "hoodie.compact.inline.trigger.strategy",
    one_of("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
    "NUM_COMMITS",
    "What schedules a compaction; delta commits are kept for it where their number counts",
)
METADATA_ENABLE: Option[bool] = Option(
    "hoodie.metadata.enable", boolean, True, "Whether the table's metadata table, if it has one, bounds archival"
)
LOCK_PROVIDER: Option[str] = Option(
    "hoodie.write.lock.provider",
    str,
    "",
    "The lock that the table's writers share; a lease of lakebed's own without it",
)
LOCK_FOLDER: Option[str] = Option(
    "hoodie.write.lock.filesystem.path", str, "", "The folder of the file system lock; by default .hoodie"
)
LOCK_EXPIRE: Option[int] = Option(
    "hoodie.write.lock.filesystem.expire", at_least(0), 0, "Accepted; an abandoned lock file is never broken by lakebed"
)
LOCK_WAIT: Option[int] = Option(
    "hoodie.write.lock.wait_time_ms", at_least(0), 60_000, "How long to wait for the lock (milliseconds)"
)
ARCHIVE_LOCK: Option[str] = Option(
    "lakebed.archive.lock",
    one_of("auto", "lease", "none"),
    "auto",
    "auto takes the lock that hoodie.write.lock.provider names, else a lease; lease takes lakebed's own; none is for a "
    "caller that holds the table's lock",
)
LEASE_TIME: Option[int] = Option(
    "lakebed.archive.lease", duration_ms, 600_000, "After how long an archiver that died loses its lease"
)
MIN_INSTANTS: Option[int] = Option(
    "lakebed.archive.min-instants",
    at_least(0),
    0,
    "A run that would move fewer instants does nothing; old releases took hoodie.commits.archival.batch for it",
)
BATCH_BYTES: Option[int] = Option(
    "lakebed.archive.batch-bytes", memory_size, 16 << 20, "How many bytes of instant files are held in memory at once"
)
RETAIN_INSTANTS: Option[int | None] = Option(
    "lakebed.archive.retain-instants", at_least(0), None, "How many archived instants to keep; by default all"
)
RETAIN_TIME: Option[int | None] = Option(
    "lakebed.archive.retain-time",
    duration_ms,
    None,
    "How long to keep archived instants, such as 30 d; by default ever",
)

ARCHIVE = OptionSet(
    (
        KEEP_MAX,
        KEEP_MIN,
        ARCHIVAL_BATCH,
        ARCHIVE_AUTOMATIC,
        BEYOND_SAVEPOINT,
        ARCHIVE_STRICT,
        LIMIT_INSTANTS,
        MERGE_ENABLE,
        MERGE_BATCH,
        MERGE_SMALL,
        TIMELINE_COMPACTION_BATCH,
        DELETE_PARALLELISM,
        ARCHIVE_ASYNC,
        CLEANER_POLICY,
        COMMITS_RETAINED,
        HOURS_RETAINED,
        MAX_DELTA_COMMITS,
        COMPACTION_TRIGGER,
        METADATA_ENABLE,
        LOCK_PROVIDER,
        LOCK_FOLDER,
        LOCK_EXPIRE,
        LOCK_WAIT,
        ARCHIVE_LOCK,
        LEASE_TIME,
        MIN_INSTANTS,
        BATCH_BYTES,
        RETAIN_INSTANTS,
        RETAIN_TIME,
        SCRATCH_DIR,
    ),
    "archiving Hudi timelines",
)
"""The keys of `table.archive` and `lakebed.hudi.post_commit`; those of Hudi may stand in `hoodie.properties` too."""
