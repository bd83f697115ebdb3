"""Options of archival. Those under `hoodie.` have the meaning and the defaults of Hudi's writers
(`HoodieArchivalConfig`, `HoodieCleanConfig`); those under `lakebed.` are lakebed's own."""

from __future__ import annotations

from lakebed.formats.hudi.commit.options import COMMIT
from lakebed.formats.hudi.metadata_table.options import METADATA_ENABLE as METADATA_ENABLE
from lakebed.kernel.options import Option, OptionSet, at_least, boolean, duration_ms, memory_size, one_of
from lakebed.kernel.scratch import SCRATCH_DIR

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
    "The most records per block of an archive file (table version 6 and older); not a threshold",
)
ARCHIVE_AUTOMATIC: Option[bool] = Option(
    "hoodie.archive.automatic", boolean, True, "Whether post_commit archives; a call of archive always does"
)
BEYOND_SAVEPOINT: Option[bool] = Option(
    "hoodie.archive.beyond.savepoint",
    boolean,
    False,
    "Archive past savepoints: savepointed commits stay, later ones may go",
)
ARCHIVE_STRICT: Option[bool] = Option(
    "hoodie.fail.on.timeline.archiving",
    boolean,
    True,
    "Whether an unreadable instant file stops the archival; with false it is left where it is",
)
LIMIT_INSTANTS: Option[int | None] = Option(
    "hoodie.archive.limit.instants", at_least(1), None, "The most instants that one run archives"
)
MERGE_ENABLE: Option[bool] = Option(
    "hoodie.archive.merge.enable", boolean, False, "Merge small archive files (table version 6 and older)"
)
MERGE_BATCH: Option[int] = Option(
    "hoodie.archive.merge.files.batch.size", at_least(2), 10, "How many small archive files it takes to merge them"
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
    "hoodie.archive.delete.parallelism",
    at_least(1),
    100,
    "Accepted without effect: the store decides how many deletions run at once",
)
ARCHIVE_ASYNC: Option[bool] = Option(
    "hoodie.archive.async", boolean, False, "Accepted without effect: an archival runs when it is called"
)
CLEANER_POLICY: Option[str] = Option(
    "hoodie.cleaner.policy",
    one_of("KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS", "KEEP_LATEST_BY_HOURS"),
    "KEEP_LATEST_COMMITS",
    "What the table's cleaner retains; archival keeps the instants that it needs",
    aliases=("hoodie.clean.policy",),
)
COMMITS_RETAINED: Option[int] = Option(
    "hoodie.cleaner.commits.retained",
    at_least(1),
    10,
    "How many commits the cleaner retains with the policy KEEP_LATEST_COMMITS",
    aliases=("hoodie.clean.commits.retained",),
)
HOURS_RETAINED: Option[int] = Option(
    "hoodie.cleaner.hours.retained",
    at_least(1),
    24,
    "How many hours the cleaner retains with the policy KEEP_LATEST_BY_HOURS",
    aliases=("hoodie.clean.hours.retained",),
)
MAX_DELTA_COMMITS: Option[int] = Option(
    "hoodie.compact.inline.max.delta.commits",
    at_least(1),
    5,
    "Delta commits between two compactions; so many stay, since a compaction is scheduled by them (merge-on-read)",
)
COMPACTION_TRIGGER: Option[str] = Option(
    "hoodie.compact.inline.trigger.strategy",
    one_of("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
    "NUM_COMMITS",
    "What schedules a compaction; where it counts delta commits, archival keeps these",
)
ARCHIVE_LOCK: Option[str] = Option(
    "lakebed.archive.lock",
    one_of("auto", "lease", "none"),
    "auto",
    "auto takes the lock that hoodie.write.lock.provider names, or else a lease; lease takes lakebed's own lease; none "
    "is for a caller that holds the table's lock",
)
LEASE_TIME: Option[int] = Option(
    "lakebed.archive.lease", duration_ms, 600_000, "How long the lease of an archiver that died still holds"
)
MIN_INSTANTS: Option[int] = Option(
    "lakebed.archive.min-instants",
    at_least(0),
    0,
    "A run that would archive fewer instants does nothing; old releases took hoodie.commits.archival.batch for it",
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
    "How long to keep archived instants, such as 30 d; by default forever",
)

ARCHIVE = (
    OptionSet(
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
    + COMMIT
)
"""The options of `table.archive` and `lakebed.hudi.post_commit`. Those of Hudi may stand in `hoodie.properties` too."""
