"""Options of a rewrite. Those under `hoodie.` have the meaning and the defaults of Hudi's `HoodieCompactionConfig` and
`HoodieClusteringConfig`; those under `lakebed.` are lakebed's own."""

from __future__ import annotations

from lakebed.kernel.options import Option, OptionSet, at_least, one_of

STRATEGIES = ("LogFileSizeBased", "LogFileNumBased", "BoundedIO", "UnBounded")
_PACKAGE = "org.apache.hudi.table.action.compact.strategy."


def _strategy(text: str) -> str:
    return one_of(*STRATEGIES)(text.removeprefix(_PACKAGE).removesuffix("CompactionStrategy"))


WHAT: Option[str] = Option(
    "lakebed.rewrite.what",
    one_of("compaction", "clustering"),
    "",
    "compaction merges log files, clustering joins and sorts small files; by default compaction of merge-on-read "
    "tables, clustering of copy-on-write ones",
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
STRATEGY: Option[str] = Option(
    "hoodie.compaction.strategy",
    _strategy,
    "LogFileSizeBased",
    "Which file groups a compaction takes: the largest logs first, those with many log files, or all, within the "
    "target of input and output or without bounds",
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
_CLUSTERING = "hoodie.clustering.plan.strategy."
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
    one_of("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS"),
    "NONE",
    "Which partitions are clustered: all, the last ones by name, or those between two",
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
    ),
    "rewriting Hudi tables",
)  # fmt: skip
"""The options of `table.rewrite`. Those of Hudi may stand in `hoodie.properties` too."""
