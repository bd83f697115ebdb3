"""What follows a write to a Hudi table: compaction, clean and archival, where they are due.

Rules: Hudi's `BaseHoodieWriteClient.postCommit` and `runTableServicesInline`. As there, a write cleans and archives
unless told otherwise, and compacts when told so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.formats.hudi.archive.options import ARCHIVE, ARCHIVE_AUTOMATIC, KEEP_MAX
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.expire.options import EXPIRE
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.rewrite.options import REWRITE
from lakebed.formats.hudi.timeline.writing import list_timeline
from lakebed.formats.hudi.write.settings import WRITE
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean
from lakebed.verbs.table import Table

CLEAN_AUTOMATIC: Option[bool] = Option("hoodie.clean.automatic", boolean, True, "Whether a write cleans afterwards")
CLEAN_EVERY: Option[int] = Option(
    "hoodie.clean.max.commits", at_least(1), 1, "After how many commits since the last clean a write cleans"
)
COMPACT_INLINE: Option[bool] = Option(
    "hoodie.compact.inline",
    boolean,
    False,
    "Whether a write to a merge-on-read table compacts afterwards, when enough delta commits came since",
)
COMPACT_EVERY: Option[int] = Option(
    "hoodie.compact.inline.max.delta.commits", at_least(1), 5, "After how many delta commits a compaction is due"
)
_ACCEPTED = ("hoodie.clean.async", "hoodie.clean.async.enabled", "hoodie.datasource.compaction.async.enable")
_OWN = OptionSet(
    (
        CLEAN_AUTOMATIC,
        CLEAN_EVERY,
        COMPACT_INLINE,
        COMPACT_EVERY,
        *(Option(key, str, "", "Accepted without effect: services run after the write") for key in _ACCEPTED),
    ),
    "the upkeep of Hudi tables",
)
_SERVICES = tuple(option for option in (ARCHIVE + EXPIRE + REWRITE).options if option.key.startswith("hoodie."))
UPKEEP = OptionSet(_SERVICES, _OWN.where) + _OWN
"""The options of a write that say what follows it."""
OPEN = READ + WRITE + UPKEEP
"""The options of `lakebed.open`: those of reads, and those of the writes that the opened table is used for."""


def split_options(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of a write apart: those of the write itself, and those of its upkeep."""
    write = {key: text for key, text in given.items() if WRITE.knows(key) or not UPKEEP.knows(key)}
    return write, {UPKEEP.spelled(key): text for key, text in given.items() if key not in write}


def upkeep_options(given: Mapping[str, str], config: TableConfig) -> Options:
    """The options of upkeep: those that the caller gave over those of the table's properties. OptionError."""
    return UPKEEP.over(config.properties, given, "hoodie.")


def after_commit(table: Table, config: TableConfig, given: Mapping[str, str]) -> tuple[str, ...]:
    """Run what is due after a commit. The commit stands whatever happens: a failure is a note, and the next commit
    tries again."""
    options = upkeep_options(given, config)
    timeline = list_timeline(table.store, config)
    notes: tuple[str, ...] = ()
    if options[COMPACT_INLINE] and config.merge_on_read:
        wanted = {COMPACT_EVERY.key: str(options[COMPACT_EVERY]), **_known(REWRITE, given)}
        notes += afterwards("the table was not compacted", lambda: table.rewrite(options=wanted))
    last = max((entry.time for entry in timeline.entries if entry.action == "clean"), default="")
    if options[CLEAN_AUTOMATIC] and sum(entry.time > last for entry in timeline.commits) >= options[CLEAN_EVERY]:
        notes += afterwards("the table was not cleaned", lambda: table.expire(options=_known(EXPIRE, given)))
    if options[ARCHIVE_AUTOMATIC] and len(timeline.entries) > options[KEEP_MAX]:
        notes += afterwards("the timeline was not archived", lambda: table.archive(options=_known(ARCHIVE, given)))
    return notes


def _known(options: OptionSet, given: Mapping[str, str]) -> dict[str, Any]:
    return {key: text for key, text in given.items() if options.knows(key)}
