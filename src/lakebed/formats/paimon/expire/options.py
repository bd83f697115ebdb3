"""The options of `table.expire`, beside the table's own, which a call may override."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.formats.paimon import options as opt
from lakebed.kernel.options import Option, Options, OptionSet, duration_ms, one_of, option_texts

WHAT: Option[str] = Option(
    "lakebed.expire.what",
    one_of("snapshots", "partitions", "orphan-files", "tags"),
    "snapshots",
    "snapshots: old ones go, with the files that only they need. partitions: old ones are dropped. orphan-files: files "
    "go that no snapshot, tag or changelog names. tags: those go whose time to live is over",
)
ORPHANS_AGE: Option[int] = Option(
    "lakebed.expire.orphans.after",
    duration_ms,
    86_400_000,
    "How long after it was last written an orphan file may go",
)
OPTIONS = OptionSet((WHAT, ORPHANS_AGE), "an expiry of a Paimon table", prefixes=())
"""The keys that only an expiry has."""


def split(given: Mapping[str, object]) -> tuple[Options, dict[str, str]]:
    """The options of an expiry, and the table options that were given with them. OptionError for an unknown key,
    UsageError for what is not a mapping of keys to values."""
    (OPTIONS + opt.OPTIONS).parse(given)
    texts = option_texts(given)
    own = {key: value for key, value in texts.items() if OPTIONS.knows(key)}
    return OPTIONS.parse(own), {key: value for key, value in texts.items() if key not in own}
