"""The options of a rewrite, beside the table's own options, which a call may override.

Keys: the arguments of Paimon's procedure `compact`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.formats.paimon import options as opt
from lakebed.kernel.options import Option, Options, OptionSet, one_of, option_texts

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

OPTIONS = OptionSet((STRATEGY, ORDER_STRATEGY, ORDER_BY), "a rewrite of Paimon files", prefixes=())
"""The keys that only a rewrite has."""


def split(given: Mapping[str, object]) -> tuple[Options, dict[str, str]]:
    """The options of a rewrite, and the table options that were given with them. OptionError for an unknown key,
    UsageError for what is not a mapping of keys to values."""
    (OPTIONS + opt.OPTIONS).parse(given)
    texts = option_texts(given)
    own = {key: value for key, value in texts.items() if OPTIONS.knows(key)}
    return OPTIONS.parse(own), {key: value for key, value in texts.items() if key not in own}
