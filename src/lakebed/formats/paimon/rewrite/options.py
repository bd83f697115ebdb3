"""The options of a rewrite, beside the table's own options, which a call may override.

Keys: the arguments of Paimon's procedure `compact`, and lakebed's own.
"""

from __future__ import annotations

from lakebed.kernel.options import Option, OptionSet, at_least, one_of

WHAT = Option(
    "lakebed.rewrite.what",
    one_of("data-files", "manifests"),
    "data-files",
    "What is rewritten. `manifests` merges small manifests and drops deleted entries, and changes no data file.",
)
STRATEGY = Option(
    "compact_strategy",
    one_of("full", "minor"),
    "full",
    "`full` compacts every bucket whole. `minor` takes what a commit of a writer would take.",
)

ORDER_STRATEGY = Option(
    "order_strategy",
    one_of("none", "order", "zorder", "hilbert", "auto"),
    "none",
    "How all rows of a partition are sorted; `auto`: by `clustering.strategy`. Only tables without a primary key and "
    "without buckets.",
)
ORDER_BY = Option("order_by", str, "", "The columns to sort by; by default `clustering.columns`.")
MAX_FILES = Option(
    "lakebed.rewrite.max-files",
    at_least(1),
    None,
    "Compact at most so many files in a call, by whole groups; the next call goes on. Other groups are named in "
    "`skipped`.",
)

OPTIONS = OptionSet((WHAT, STRATEGY, ORDER_STRATEGY, ORDER_BY, MAX_FILES), "a rewrite of Paimon files", prefixes=())
"""The keys that only a rewrite has."""
