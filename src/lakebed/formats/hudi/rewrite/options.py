"""Options of a rewrite. Those under `hoodie.` have the meaning and the defaults of Hudi's `HoodieCompactionConfig`;
those under `lakebed.` are lakebed's own."""

from __future__ import annotations

from lakebed.kernel.options import Option, OptionSet, at_least, one_of

STRATEGIES = ("LogFileSizeBased", "LogFileNumBased", "BoundedIO", "UnBounded")
_PACKAGE = "org.apache.hudi.table.action.compact.strategy."


def _strategy(text: str) -> str:
    return one_of(*STRATEGIES)(text.removeprefix(_PACKAGE).removesuffix("CompactionStrategy"))


WHAT: Option[str] = Option(
    "lakebed.rewrite.what", one_of("compaction"), "compaction", "What is rewritten: compaction merges log files"
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
REWRITE = OptionSet(
    (WHAT, STEP, INSTANT, STRATEGY, TARGET_IO, LOG_NUMBER, LOG_SIZE),
    "rewriting Hudi tables",
)
"""The options of `table.rewrite`. Those of Hudi may stand in `hoodie.properties` too."""
