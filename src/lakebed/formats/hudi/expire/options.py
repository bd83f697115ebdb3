"""Options of a clean, with the meaning and the defaults of Hudi's `HoodieCleanConfig`."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.formats.hudi.archive.options import CLEANER_POLICY, COMMITS_RETAINED, HOURS_RETAINED
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean

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
    "Accepted without effect: a clean looks at all partitions, so it finds what earlier ones spared",
    aliases=("hoodie.clean.incremental.enabled", "hoodie.clean.incremental.mode"),
)
PARALLELISM: Option[int] = Option(
    "hoodie.cleaner.parallelism",
    at_least(1),
    200,
    "Accepted without effect: the store decides how many deletions run at once",
    aliases=("hoodie.clean.parallelism",),
)
EXPIRE = OptionSet(
    (CLEANER_POLICY, COMMITS_RETAINED, HOURS_RETAINED, VERSIONS_RETAINED, INCREMENTAL, PARALLELISM),
    "cleaning Hudi tables",
)
"""The options of `table.expire`. They may stand in `hoodie.properties` too."""


def parse_options(given: Mapping[str, str], properties: Mapping[str, str]) -> Options:
    """The options of a call over those of the table's properties. OptionError for a key that is unknown."""
    stored = {EXPIRE.spelled(key): text for key, text in properties.items() if EXPIRE.knows(key) and text.strip()}
    spelled = {EXPIRE.spelled(key): text for key, text in given.items()}
    return EXPIRE.parse({**stored, **spelled})
