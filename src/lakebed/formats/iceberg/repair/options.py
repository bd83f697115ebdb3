"""The options of `table.repair` for Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.formats.iceberg import options as opt
from lakebed.kernel.options import Option, Options, OptionSet, at_least, one_of

EXISTENCE, LENGTH, FOOTER, DATA = "existence", "length", "footer", "data"
DEPTHS = (EXISTENCE, LENGTH, FOOTER, DATA)
"""How much of a file a check looks at. Each looks at all that the ones before it look at."""
REFUSE, RETURN_ROWS, DROP_ROWS = "refuse", "return-rows", "drop-rows"

CHECK = Option(
    "lakebed.repair.check",
    one_of(*DEPTHS),
    FOOTER,
    "How files are checked: existence asks whether a file is there, length compares its bytes, footer opens it and "
    "compares its rows, data also decodes it whole and verifies the checksums that it has.",
)
SNAPSHOTS = Option(
    "lakebed.repair.snapshots",
    one_of("head", "all"),
    "head",
    "The snapshots whose files are checked: the head of the branch, or all that the table has.",
)
REQUESTS: Option[int | None] = Option(
    "lakebed.repair.requests",
    at_least(1, 4096),
    None,
    "How many files are checked at once. Default: what the store takes at once, for a disk the number of processors.",
)
LOST_DELETES = Option(
    "lakebed.repair.lost-deletes",
    one_of(REFUSE, RETURN_ROWS, DROP_ROWS),
    REFUSE,
    "What to do about a lost delete file, without which deleted rows come back: refuse, return-rows accepts that, "
    "drop-rows removes the data files to which it applies.",
)
BRANCH = Option(
    "lakebed.repair.to-branch",
    str,
    "",
    "A new branch that gets the snapshot without the lost files. The branch that is open stays as it is.",
)
COPY = Option(
    "lakebed.repair.copy",
    str,
    "",
    "A kept copy of the table's folder: a lost file that is whole there is copied back to its place.",
)
MOST_LOST = Option(
    "lakebed.repair.most-lost-percent",
    at_least(0, 100),
    50,
    "Refuses when more than this share of the checked files is lost: a disk that is not mounted looks like that.",
)
OPTIONS = OptionSet(
    (CHECK, SNAPSHOTS, REQUESTS, LOST_DELETES, BRANCH, COPY, MOST_LOST, *opt.PROPERTIES),
    "repair",
    ("lakebed.storage.", "lakebed.catalog."),
)


def parsed(options: Mapping[str, object]) -> Options:
    """The options of one call. OptionError for an unknown key or an ill-typed value."""
    return OPTIONS.parse(options)
