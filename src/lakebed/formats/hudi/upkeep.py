"""What follows a write to a Hudi table: compaction, clustering, partition TTL, clean and archival, where they are due.

Rules: Hudi's `BaseHoodieWriteClient.postCommit` and `runTableServicesInline`. As there, a write cleans and archives
unless told otherwise, and runs or only plans the other services when told so. There is no thread beside the writer, so
a service that is asked for as asynchronous runs after the write too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lakebed.formats.hudi.archive.options import ARCHIVE, ARCHIVE_AUTOMATIC, KEEP_MAX, KEEP_MIN, MAX_DELTA_COMMITS
from lakebed.formats.hudi.commit.options import COMMIT, commit_options
from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.expire.options import EXPIRE, WHAT
from lakebed.formats.hudi.metadata_table.named import PARTITIONS
from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.metadata_table.options import COMPACT_AFTER, METADATA_ENABLE, METADATA_OPTIONS
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.rewrite.options import REWRITE, STEP
from lakebed.formats.hudi.rewrite.options import WHAT as REWRITTEN
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.writing import list_timeline
from lakebed.formats.hudi.write.settings import LEFT_OUT, WRITE
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import InnerStore
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, idle_option
from lakebed.verbs.table import Table

CLEAN_AUTOMATIC: Option[bool] = Option("hoodie.clean.automatic", boolean, True, "Whether a write cleans afterwards")
CLEAN_EVERY: Option[int] = Option(
    "hoodie.clean.max.commits",
    at_least(1),
    1,
    "After how many commits since the last clean a write cleans",
    aliases=("hoodie.clean.trigger.max.commits",),
)
ENABLED: Option[bool] = Option(
    "hoodie.table.services.enabled", boolean, True, "Whether anything follows a write at all"
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
COMPACT_SCHEDULE: Option[bool] = Option(
    "hoodie.compact.schedule.inline", boolean, False, "Whether a write only plans a compaction, for another job to run"
)
COMPACT_ASYNC: Option[bool] = Option(
    "hoodie.datasource.compaction.async.enable", boolean, False, "The same as hoodie.compact.inline here"
)
CLUSTER_INLINE: Option[bool] = Option(
    "hoodie.clustering.inline",
    boolean,
    False,
    "Whether a write clusters afterwards, when enough commits came since",
    aliases=("hoodie.datasource.clustering.inline.enable",),
)
CLUSTER_ASYNC: Option[bool] = Option(
    "hoodie.clustering.async.enabled",
    boolean,
    False,
    "The same as hoodie.clustering.inline here",
    aliases=("hoodie.datasource.clustering.async.enable",),
)
CLUSTER_SCHEDULE: Option[bool] = Option(
    "hoodie.clustering.schedule.inline", boolean, False, "Whether a write only plans a clustering"
)
CLUSTER_EVERY: Option[int] = Option(
    "hoodie.clustering.inline.max.commits", at_least(1), 4, "After how many commits a clustering is due"
)
CLUSTER_ASYNC_EVERY: Option[int] = Option(
    "hoodie.clustering.async.max.commits", at_least(1), 4, "The same, with hoodie.clustering.async.enabled"
)
LOG_COMPACT_INLINE: Option[bool] = Option(
    "hoodie.log.compaction.inline",
    boolean,
    False,
    "Whether a write merges the blocks of logs afterwards, where these are many",
)
TTL_INLINE: Option[bool] = Option(
    "hoodie.partition.ttl.inline", boolean, False, "Whether a write deletes partitions that are too old"
)
_METADATA = frozenset(option.key for option in METADATA_OPTIONS)
_ACCEPTED = (
    "hoodie.clean.async",
    "hoodie.clean.async.enabled",
    "hoodie.archive.async",
    "hoodie.clustering.max.parallelism",
    "hoodie.clustering.group.read.parallelism",
)
_OWN = OptionSet(
    (
        ENABLED,
        CLEAN_AUTOMATIC,
        CLEAN_EVERY,
        COMPACT_INLINE,
        COMPACT_EVERY,
        COMPACT_SCHEDULE,
        COMPACT_ASYNC,
        CLUSTER_INLINE,
        CLUSTER_ASYNC,
        CLUSTER_SCHEDULE,
        CLUSTER_EVERY,
        CLUSTER_ASYNC_EVERY,
        LOG_COMPACT_INLINE,
        TTL_INLINE,
        *METADATA_OPTIONS,
        *(idle_option(key, "Accepted without effect: services run after the write") for key in _ACCEPTED),
    ),
    "the upkeep of Hudi tables",
)
_SERVICES = tuple(option for option in (ARCHIVE + EXPIRE + REWRITE).options if option.key.startswith("hoodie."))
UPKEEP = OptionSet(_SERVICES, _OWN.where) + _OWN + COMMIT
"""The options of a write that say what follows it."""
OPEN = READ + WRITE + UPKEEP
"""The options of `lakebed.open`: those of reads, and those of the writes that the opened table is used for."""


def split_options(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of a write apart: those of the write itself, and those of its upkeep. Those of commits are both."""
    write = {
        key: text
        for key, text in given.items()
        if not UPKEEP.knows(key) or (WRITE.knows(key) and not LEFT_OUT.knows(key))
    }
    both = {*commit_options(given), *(key for key in given if UPKEEP.spelled(key) in _METADATA)}
    return write, {UPKEEP.spelled(key): text for key, text in given.items() if key not in write or key in both}


def upkeep_options(given: Mapping[str, str], config: TableConfig) -> Options:
    """The options of upkeep: the caller's over the table's properties. Raises OptionError."""
    return UPKEEP.over(config.properties, given, "hoodie.")


def after_commit(table: Table, config: TableConfig, given: Mapping[str, str]) -> tuple[str, ...]:
    """Run the services that are due after a commit. A failure becomes a note, the commit stays, and the next commit
    tries again."""
    options = upkeep_options(given, config)
    if not options[ENABLED]:
        return ()
    notes = _rewritten(table, config, options, given)
    if options[TTL_INLINE]:
        old = {**_known(EXPIRE, given), WHAT.key: "partitions"}
        notes += afterwards("no partition was deleted for its age", lambda: table.expire(options=old))
    timeline = list_timeline(table.store, config)
    notes += _cleaned(table, timeline, options, given)
    if options[ARCHIVE_AUTOMATIC] and len(timeline.entries) > options[KEEP_MAX]:
        notes += afterwards("the timeline was not archived", lambda: table.archive(options=_known(ARCHIVE, given)))
        if options[METADATA_ENABLE]:
            notes += afterwards(
                "the metadata table's timeline was not archived", lambda: _archive_metadata(table, options, given)
            )
    return notes


def cleaned(table: Table, config: TableConfig, given: Mapping[str, str]) -> tuple[str, ...]:
    """Clean where that is due after a commit. A failure is a note."""
    return _cleaned(table, list_timeline(table.store, config), upkeep_options(given, config), given)


def _cleaned(table: Table, timeline: Timeline, options: Options, given: Mapping[str, str]) -> tuple[str, ...]:
    last = max((entry.time for entry in timeline.entries if entry.action == "clean"), default="")
    if not options[CLEAN_AUTOMATIC] or sum(entry.time > last for entry in timeline.commits) < options[CLEAN_EVERY]:
        return ()
    return afterwards("the table was not cleaned", lambda: table.expire(options=_known(EXPIRE, given)))


def _rewritten(table: Table, config: TableConfig, options: Options, given: Mapping[str, str]) -> tuple[str, ...]:
    """Compact and cluster, or plan it where nothing is planned yet."""
    plans = options[COMPACT_SCHEDULE] or options[CLUSTER_SCHEDULE]
    pending = {entry.action for entry in list_timeline(table.store, config).pending} if plans else set()
    notes: tuple[str, ...] = ()
    compacts, clusters = options[COMPACT_INLINE] or options[COMPACT_ASYNC], options[CLUSTER_INLINE]
    if config.merge_on_read and (compacts or (options[COMPACT_SCHEDULE] and "compaction" not in pending)):
        wanted = {COMPACT_EVERY.key: str(options[COMPACT_EVERY]), **_known(REWRITE, given)}
        wanted |= {REWRITTEN.key: "compaction", STEP.key: "all" if compacts else "schedule"}
        notes += afterwards("the table was not compacted", lambda: table.rewrite(options=wanted))
    if config.merge_on_read and options[LOG_COMPACT_INLINE]:
        logs = {**_known(REWRITE, given), REWRITTEN.key: "log-compaction"}
        notes += afterwards("the logs were not compacted", lambda: table.rewrite(options=logs))
    every = options[CLUSTER_EVERY]
    if options[CLUSTER_ASYNC] and not clusters:
        clusters, every = True, options[CLUSTER_ASYNC_EVERY]
    if clusters or (options[CLUSTER_SCHEDULE] and not pending & {"clustering", "replacecommit"}):
        more = {**_known(REWRITE, given), CLUSTER_EVERY.key: str(every)}
        more |= {REWRITTEN.key: "clustering", STEP.key: "all" if clusters else "schedule"}
        notes += afterwards("the table was not clustered", lambda: table.rewrite(options=more))
    return notes


def _archive_metadata(table: Table, options: Options, given: Mapping[str, str]) -> None:
    """Archive the timeline of the metadata table. As with Hudi's own, one instant more stays than of the table."""
    config = load_config(table.store)
    if not config.properties.get(PARTITIONS):
        return
    kept = {KEEP_MIN.key: options[KEEP_MIN] + 1, KEEP_MAX.key: options[KEEP_MAX] + 1}
    wanted = {**_known(ARCHIVE, given), **kept, MAX_DELTA_COMMITS.key: options[COMPACT_AFTER]}
    run: Any = import_module("lakebed.formats.hudi.archive.run")  # which reads and opening a table do without
    run.archive(InnerStore(table.store, FOLDER), wanted, LocalEngine(), storage=dict(table.options))


def _known(options: OptionSet, given: Mapping[str, str]) -> dict[str, Any]:
    return {key: text for key, text in given.items() if options.knows(key)}
