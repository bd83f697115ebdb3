"""Options of a clean and of partition TTL, with the meaning and the defaults of Hudi's `HoodieCleanConfig` and
`HoodieTTLConfig`."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.formats.hudi.archive.options import CLEANER_POLICY, COMMITS_RETAINED, HOURS_RETAINED
from lakebed.formats.hudi.commit.options import COMMIT
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, duration_ms, one_of

VERSIONS_RETAINED: Option[int] = Option(
    "hoodie.cleaner.fileversions.retained",
    at_least(1),
    3,
    "How many file slices of each file group a clean retains with the policy KEEP_LATEST_FILE_VERSIONS",
    aliases=("hoodie.clean.fileversions.retained",),
)
INCREMENTAL: Option[bool] = Option(
    "hoodie.cleaner.incremental.mode",
    boolean,
    True,
    "Whether a clean looks only at partitions that were written to since what the last clean retained; with false at "
    "all of them",
    aliases=("hoodie.clean.incremental.enabled", "hoodie.clean.incremental.mode"),
)
PARALLELISM: Option[int] = Option(
    "hoodie.cleaner.parallelism",
    at_least(1),
    200,
    "Accepted without effect: the store decides how many deletions run at once",
    aliases=("hoodie.clean.parallelism",),
)
WHAT: Option[str] = Option(
    "lakebed.expire.what",
    one_of("files", "partitions", "failed-writes", "orphan-files"),
    "files",
    "files: a clean. partitions: whole partitions go that are too old, with their rows. failed-writes: pending writes "
    "are rolled back whose writers have died. orphan-files: files go that no state of the table has",
)
TTL_STRATEGY: Option[str] = Option(
    "hoodie.partition.ttl.management.strategy.type",
    one_of("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"),
    "KEEP_BY_TIME",
    "What the age of a partition is counted from: its last write or its first one",
    aliases=("hoodie.partition.ttl.strategy.type",),
)
TTL_DAYS: Option[int] = Option(
    "hoodie.partition.ttl.strategy.days.retain", at_least(-1), -1, "How many days a partition is kept"
)
TTL_PARTITIONS: Option[str] = Option(
    "hoodie.partition.ttl.strategy.partition.selected",
    str,
    "",
    "The partition paths that may go, separated by commas; none: all of them",
)
TTL_LIMIT: Option[int] = Option(
    "hoodie.partition.ttl.strategy.max.delete.partitions",
    at_least(1),
    1000,
    "The most partitions that a run deletes",
)
FAILED_AFTER: Option[int] = Option(
    "lakebed.expire.failed.after",
    duration_ms,
    3_600_000,
    "How long after its request a pending write counts as failed, unless its heartbeat is younger",
)
ORPHANS_AGE: Option[int] = Option(
    "lakebed.expire.orphans.after",
    duration_ms,
    86_400_000,
    "How long after it was last written an orphan file may go",
)
EXPIRE = (
    OptionSet(
        (
            CLEANER_POLICY,
            COMMITS_RETAINED,
            HOURS_RETAINED,
            VERSIONS_RETAINED,
            INCREMENTAL,
            PARALLELISM,
            WHAT,
            TTL_STRATEGY,
            TTL_DAYS,
            TTL_PARTITIONS,
            TTL_LIMIT,
            FAILED_AFTER,
            ORPHANS_AGE,
        ),
        "cleaning Hudi tables",
    )
    + COMMIT
)
"""The options of `table.expire`. Those of Hudi may stand in `hoodie.properties` too."""


def parse_options(given: Mapping[str, str], properties: Mapping[str, str]) -> Options:
    """The options of a call over those of the table's properties. OptionError for a key that is unknown."""
    return EXPIRE.over(properties, given, "hoodie.")
