"""The options of compactions and of the changelogs that they write, with the keys and defaults of Paimon's CoreOptions.

They are options of a table like those of `options`, which includes them.
"""

from __future__ import annotations

from typing import Any

from lakebed.kernel.options import Option, Options, at_least, boolean, decimal_number, duration_ms, memory_size, one_of

COMPACTION_TRIGGER = Option(
    "num-sorted-run.compaction-trigger",
    at_least(1),
    5,
    "Sorted runs of a bucket at which a commit compacts it: files of level 0 and levels above it that have files.",
)
NUM_LEVELS: Option[Any] = Option(
    "num-levels",
    at_least(2),
    None,
    "Levels of a bucket; by default one more than the runs that trigger a compaction.",
)
SIZE_AMPLIFICATION = Option(
    "compaction.max-size-amplification-percent",
    at_least(0),
    200,
    "A bucket is compacted whole when its other runs have more than this percentage of the oldest run's bytes.",
)
SIZE_RATIO = Option(
    "compaction.size-ratio",
    at_least(0),
    1,
    "A run is compacted with the newer ones unless it is larger than they are together by more than this percentage.",
)
OPTIMIZATION_INTERVAL: Option[Any] = Option(
    "compaction.optimization-interval",
    duration_ms,
    None,
    "A commit compacts a bucket whole when no file of its highest level is younger than this.",
)
TOTAL_SIZE_THRESHOLD: Option[Any] = Option(
    "compaction.total-size-threshold", memory_size, None, "A commit compacts buckets of fewer bytes whole."
)
FORCE_UP_LEVEL_0 = Option(
    "compaction.force-up-level-0", boolean, False, "Each commit compacts level 0 of the buckets that it writes to."
)
FORCE_REWRITE = Option(
    "compaction.force-rewrite-all-files", boolean, False, "A full compaction rewrites files that it could keep too."
)
OFFPEAK_START = Option(
    "compaction.offpeak.start.hour",
    at_least(-1, 23),
    -1,
    "The hour at which `compaction.offpeak-ratio` begins to hold.",
)
OFFPEAK_END = Option(
    "compaction.offpeak.end.hour", at_least(-1, 23), -1, "The hour at which `compaction.offpeak-ratio` ends to hold."
)
OFFPEAK_RATIO = Option(
    "compaction.offpeak-ratio",
    at_least(0, 100),
    0,
    "Added to `compaction.size-ratio` in the off-peak hours, which are those of this machine's time zone.",
)
FULL_COMPACTION_COMMITS: Option[Any] = Option(
    "full-compaction.delta-commits",
    at_least(1),
    None,
    "So many commits after the last full compaction, a commit compacts all buckets fully.",
)
FORCE_LOOKUP = Option(
    "force-lookup", boolean, False, "Each commit compacts level 0 of its buckets, and looks older rows up for it."
)
LOOKUP_MODE = Option(
    "lookup-compact",
    one_of("radical", "gentle"),
    "radical",
    "When tables that look older rows up compact level 0: with each commit, or `gentle`, once enough files wait there.",
)
LOOKUP_INTERVAL: Option[Any] = Option(
    "lookup-compact.max-interval",
    at_least(1),
    None,
    "Files of level 0 that wait in `gentle` mode at most; by default twice the runs that trigger a compaction.",
)
ROW_DEDUPLICATE = Option(
    "changelog-producer.row-deduplicate", boolean, False, "Leave out changes between equal rows of compactions."
)
ROW_DEDUPLICATE_IGNORED = Option(
    "changelog-producer.row-deduplicate-ignore-fields",
    str,
    "",
    "Columns that `changelog-producer.row-deduplicate` does not compare, separated by commas.",
)
CHANGELOG_FORMAT: Option[Any] = Option(
    "changelog-file.format",
    one_of("parquet", "orc", "avro"),
    None,
    "Format of changelog files; by default that of data files.",
)
CHANGELOG_COMPRESSION: Option[Any] = Option(
    "changelog-file.compression", str, None, "Compression of changelog files; by default that of data files."
)
CHANGELOG_STATS: Option[Any] = Option(
    "changelog-file.stats-mode", str, None, "Statistics of changelog files; by default those of data files."
)
COMPRESSION_PER_LEVEL = Option(
    "file.compression.per.level", str, "", "Compressions of single levels, for example `0:lz4,5:zstd`."
)
STATS_PER_LEVEL = Option("metadata.stats-mode.per.level", str, "", "Statistics of single levels, for example `0:none`.")
VECTORS_64 = Option(
    "deletion-vectors.bitmap64", boolean, False, "Write deletion vectors of 64 bits, as Iceberg has them."
)
DELETE_RATIO = Option(
    "compaction.delete-ratio-threshold",
    decimal_number,
    0.2,
    "A file of a table without a primary key is rewritten when more than this part of its rows are deleted.",
)
CLUSTERING_COLUMNS = Option(
    "clustering.columns",
    str,
    "",
    "Columns that a rewrite with `order_strategy=auto` sorts by, separated by commas.",
    aliases=("sink.clustering.by-columns",),
)
CLUSTERING_STRATEGY = Option(
    "clustering.strategy",
    one_of("auto", "zorder", "hilbert", "order"),
    "auto",
    "How it sorts: by a curve or by one column after the other. `auto`: one column in order, up to 4 by z-order, more "
    "by a Hilbert curve.",
    aliases=("sink.clustering.strategy",),
)
POSTPONE_TARGET_ROWS: Option[Any] = Option(
    "postpone.target-row-num-per-bucket",
    at_least(1),
    None,
    "Postponed rows per bucket of a partition that gets its first real buckets.",
)
POSTPONE_TARGET_SIZE = Option(
    "postpone.target-size-per-bucket",
    memory_size,
    1 << 30,
    "Postponed bytes per bucket of a partition that gets its first real buckets, unless rows are given.",
)
RECORD_EXPIRE_TIME: Option[Any] = Option(
    "record-level.expire-time",
    duration_ms,
    None,
    "Compactions drop rows whose `record-level.time-field` is older than this.",
)
RECORD_TIME_FIELD = Option(
    "record-level.time-field",
    str,
    "",
    "The column that says how old a row is: a timestamp, or seconds (BIGINT: or milliseconds) since 1970.",
)

COMPACTION_OPTIONS: tuple[Option[Any], ...] = tuple(
    value for value in list(vars().values()) if isinstance(value, Option)
)
"""All options of this module, in the order of the reference page."""


def top_level(options: Options) -> int:
    """The highest level of a table."""
    levels: int | None = options[NUM_LEVELS]
    return (options[COMPACTION_TRIGGER] + 1 if levels is None else levels) - 1
