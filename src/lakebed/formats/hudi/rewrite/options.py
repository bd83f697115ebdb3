"""Options of a rewrite. Those under `hoodie.` have the meaning and the defaults of Hudi's `HoodieCompactionConfig` and
`HoodieClusteringConfig`; those under `lakebed.` are lakebed's own."""

from __future__ import annotations

import re

from lakebed.formats.hudi.commit.options import COMMIT
from lakebed.formats.hudi.index.options import RESIZING
from lakebed.formats.hudi.write.settings import MAX_FILE
from lakebed.kernel.options import Option, OptionSet, at_least, boolean, one_of

STRATEGIES = (
    "LogFileSizeBased",
    "LogFileNumBased",
    "BoundedIO",
    "UnBounded",
    "DayBased",
    "BoundedPartitionAware",
    "UnBoundedPartitionAware",
    "PartitionRegexBased",
)
_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
PLAN_STRATEGIES = ("SizeBased", "RecentDays", "SelectedPartitions", "SingleFileSort")


def _strategies(text: str) -> tuple[str, ...]:
    known = one_of(*STRATEGIES)
    return tuple(
        known(part.strip().removeprefix(_PACKAGE).removesuffix("CompactionStrategy")) for part in text.split(",")
    )


def _plan_strategy(text: str) -> str:
    name = text.strip().rpartition(".")[2]
    for end in ("ClusteringPlanStrategy", "PlanStrategy"):
        name = name.removesuffix(end)
    for engine in ("Spark", "Java", "Flink"):
        name = name.removeprefix(engine)
    return one_of(*PLAN_STRATEGIES)(name)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from error
    return text


WHAT: Option[str] = Option(
    "lakebed.rewrite.what",
    one_of("compaction", "clustering", "log-compaction"),
    "",
    "compaction merges log files into base files, log-compaction the blocks of a log into one; clustering joins and "
    "sorts small files; by default compaction of merge-on-read tables, clustering of copy-on-write ones",
)
STEP: Option[str] = Option(
    "lakebed.rewrite.step",
    one_of("all", "schedule", "run", "withdraw"),
    "all",
    "all schedules a plan and runs it with those that are pending; schedule and run do one of it; withdraw takes "
    "pending plans back that nobody has begun",
)
INSTANT: Option[str] = Option(
    "lakebed.rewrite.instant",
    str,
    "",
    "The pending plan to run or to withdraw. Named so, one that was begun is run anew: be sure that its run died",
)
STRATEGY: Option[tuple[str, ...]] = Option(
    "hoodie.compaction.strategy",
    _strategies,
    ("LogFileSizeBased",),
    "Which file groups a compaction takes: the largest logs first, those with many log files, or all, within the "
    "target of input and output or without bounds; or those of partitions by day or by a pattern. Several, with commas "
    "between, are applied one after the other",
    ", ".join(f"{name}CompactionStrategy" for name in STRATEGIES),
)
TARGET_IO: Option[int] = Option(
    "hoodie.compaction.target.io", at_least(0), 500 * 1024, "How many MB a compaction reads and writes, about"
)
LOG_NUMBER: Option[int] = Option(
    "hoodie.compaction.logfile.num.threshold", at_least(0), 0, "LogFileNumBased: take logs of so many files or more"
)
LOG_SIZE: Option[int] = Option(
    "hoodie.compaction.logfile.size.threshold",
    at_least(0),
    0,
    "LogFileSizeBased: take logs of so many bytes or more",
)
LOG_BLOCKS: Option[int] = Option(
    "hoodie.log.compaction.blocks.threshold",
    at_least(1),
    5,
    "log-compaction: file groups whose logs have so many blocks or more",
)
TARGET_PARTITIONS: Option[int] = Option(
    "hoodie.compaction.daybased.target.partitions",
    at_least(0),
    10,
    "DayBased: how many of the newest partitions; the PartitionAware strategies: up to how many days ago",
)
PARTITION_REGEX: Option[str] = Option(
    "hoodie.compaction.partition.path.regex",
    _pattern,
    "",
    "PartitionRegexBased: a regular expression that is found in the paths of the partitions",
    "a regular expression",
)
TRIGGER: Option[str] = Option(
    "hoodie.compact.inline.trigger.strategy",
    one_of("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
    "NUM_COMMITS",
    "When a compaction is due: by the delta commits since the last one, since the last request, by time, or by both",
)
MAX_DELTA_SECONDS: Option[int] = Option(
    "hoodie.compact.inline.max.delta.seconds",
    at_least(0),
    3600,
    "The triggers by time: how many seconds after the last compaction one is due",
)
CLUSTER_COMMITS: Option[int | None] = Option(
    "hoodie.clustering.inline.max.commits",
    at_least(1),
    None,
    "Cluster only after so many commits since the last clustering; by default a call always does",
)
_CLUSTERING = "hoodie.clustering.plan.strategy."
PLAN_STRATEGY: Option[str] = Option(
    "hoodie.clustering.plan.strategy.class",
    _plan_strategy,
    "SizeBased",
    "What a clustering takes: small files together, the same of the last partitions or of selected ones, or each file "
    "alone, to sort it",
    ", ".join(f"Spark{name}ClusteringPlanStrategy" for name in PLAN_STRATEGIES),
)
SELECTED: Option[str] = Option(
    f"{_CLUSTERING}partition.selected", str, "", "Only partitions with these paths, separated by commas"
)
CLUSTER_REGEX: Option[str] = Option(
    f"{_CLUSTERING}partition.regex.pattern",
    _pattern,
    "",
    "Only partitions whose whole paths the regular expression matches",
    "a regular expression",
)
SINGLE_GROUP: Option[bool] = Option(
    f"{_CLUSTERING}single.group.clustering.enabled", boolean, True, "Whether a lone file is sorted too"
)
SORT_COLUMNS: Option[str] = Option(
    f"{_CLUSTERING}sort.columns", str, "", "The columns by which a clustering sorts rows, with commas between"
)
LAYOUT: Option[str] = Option(
    "hoodie.layout.optimize.strategy",
    lambda text: {"linear": "linear", "zorder": "z-order", "hilbert": "hilbert"}[text.lower().replace("-", "")],
    "linear",
    "How a clustering sorts: one column after the other (linear), along a z-order or along a Hilbert curve",
    "linear, z-order or hilbert",
)
SMALL_FILE: Option[int] = Option(
    f"{_CLUSTERING}small.file.limit", at_least(0), 300 << 20, "A clustering takes base files below so many bytes"
)
TARGET_FILE: Option[int] = Option(
    f"{_CLUSTERING}target.file.max.bytes", at_least(1), 1 << 30, "The bytes at which a clustering begins a new file"
)
GROUP_BYTES: Option[int] = Option(
    f"{_CLUSTERING}max.bytes.per.group", at_least(1), 2 << 30, "The most bytes that are clustered together"
)
MAX_GROUPS: Option[int] = Option(f"{_CLUSTERING}max.num.groups", at_least(1), 30, "The most groups of one clustering")
FILTER: Option[str] = Option(
    "hoodie.clustering.plan.partition.filter.mode",
    one_of("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
    "NONE",
    "Which partitions are clustered: all, the last ones by name, those between two, or in each hour of the day another "
    "part of them",
)
LOOKBACK: Option[int] = Option(
    f"{_CLUSTERING}daybased.lookback.partitions", at_least(1), 2, "RECENT_DAYS: how many partitions"
)
SKIP_LATEST: Option[int] = Option(
    f"{_CLUSTERING}daybased.skipfromlatest.partitions", at_least(0), 0, "RECENT_DAYS: how many of the last to leave out"
)
BEGIN: Option[str] = Option(f"{_CLUSTERING}cluster.begin.partition", str, "", "SELECTED_PARTITIONS: the first one")
END: Option[str] = Option(f"{_CLUSTERING}cluster.end.partition", str, "", "SELECTED_PARTITIONS: the last one")
MAX_DELTA_COMMITS: Option[int | None] = Option(
    "hoodie.compact.inline.max.delta.commits",
    at_least(1),
    None,
    "Compact only after so many delta commits since the last compaction; by default a call always does",
)
REWRITE = OptionSet(
    (
        WHAT, STEP, INSTANT, STRATEGY, TARGET_IO, LOG_NUMBER, LOG_SIZE, SORT_COLUMNS, LAYOUT, SMALL_FILE, TARGET_FILE,
        GROUP_BYTES, MAX_GROUPS, FILTER, LOOKBACK, SKIP_LATEST, BEGIN, END, MAX_DELTA_COMMITS,
        TARGET_PARTITIONS, PARTITION_REGEX, TRIGGER, MAX_DELTA_SECONDS, CLUSTER_COMMITS, PLAN_STRATEGY, SELECTED,
        CLUSTER_REGEX, SINGLE_GROUP, LOG_BLOCKS, MAX_FILE, *RESIZING,
    ),
    "rewriting Hudi tables",
) + COMMIT  # fmt: skip
"""The options of `table.rewrite`. Those of Hudi may stand in `hoodie.properties` too."""
