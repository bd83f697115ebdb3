"""The options of `table.expire`, beside the table's own, which a call may override."""

from __future__ import annotations

from lakebed.kernel.options import Option, OptionSet, duration_ms, one_of

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
