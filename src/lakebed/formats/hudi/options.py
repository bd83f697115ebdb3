"""Options of Hudi tables, with the meaning and the defaults of the engine that each comes from.

`READ` has the options of `lakebed.open` and `format("lakebed")`: those of Hudi's Flink source (`FlinkOptions`). So a
stream that is started without any of them gives only the newest commit. `SPARK` has those of Hudi's own Spark source
(`DataSourceReadOptions`), for `format("hudi")`.
"""

from __future__ import annotations

from typing import Any

from lakebed.formats.hudi.unserved import UNSERVED_READS, refused_options
from lakebed.kernel.options import Option, OptionSet, at_least, boolean, idle_option, memory_size, one_of
from lakebed.kernel.scratch import SCRATCH_DIR


def _merge_type(text: str) -> str:
    """A merge type, given by its value or, as some jobs do, by the name of Hudi's constant for it."""
    return {
        "payload_combine": "payload_combine",
        "realtime_payload_combine": "payload_combine",
        "skip_merge": "skip_merge",
        "realtime_skip_merge": "skip_merge",
        "skip_combine": "skip_combine",
        "realtime_skip_combine": "skip_combine",
    }[text.lower()]


MERGE_TYPE: Option[str] = Option(
    "hoodie.datasource.merge.type",
    _merge_type,
    "payload_combine",
    "payload_combine merges base and log rows by the table's rules; skip_merge gives the base rows, then the log "
    "rows merged among themselves, skip_combine the base rows, then every log row unmerged",
    "payload_combine, skip_merge or skip_combine",
    aliases=("merge.type",),
)
QUERY_TYPE: Option[str] = Option(
    "hoodie.datasource.query.type",
    one_of("snapshot", "read_optimized", "incremental"),
    "snapshot",
    "snapshot merges base and log files, read_optimized reads base files only, incremental reads a range of commits: "
    "the newest one, where none is named",
    aliases=("hoodie.datasource.view.type",),
)
AS_OF: Option[str] = Option("as.of.instant", str, "", "Read a snapshot as of this instant or timestamp")
READ_TASKS: Option[int] = Option(
    "read.tasks", at_least(1), 0, "How many tasks read at once; by default as many as the engine runs"
)

STREAMING: Option[bool] = Option(
    "read.streaming.enabled", boolean, False, "Accepted without effect: a stream streams, a batch does not"
)
CHECK_INTERVAL: Option[int] = Option(
    "read.streaming.check-interval",
    at_least(1),
    60,
    "Accepted without effect: Spark's trigger says how often a stream looks (seconds)",
)
START_COMMIT: Option[str] = Option(
    "read.start-commit",
    str,
    "",
    "Where a stream, or a batch that reads a range, begins (inclusive): an instant, a timestamp or earliest; without "
    "it only the newest commit is read",
)
END_COMMIT: Option[str] = Option(
    "read.end-commit",
    str,
    "",
    "Where a stream, or a batch that reads a range, ends (inclusive): an instant or a timestamp",
)
COMMITS_LIMIT: Option[int | None] = Option("read.commits.limit", at_least(1), None, "The most commits in one batch")
SPLITS_LIMIT: Option[int | None] = Option(
    "read.splits.limit", at_least(1), None, "The most file groups in one batch; a batch always has at least one commit"
)
BYTES_LIMIT: Option[int | None] = Option(
    "read.bytes.limit",
    memory_size,
    None,
    "The most bytes written by the commits in one batch; a batch always has at least one commit",
)
SKIP_COMPACTION: Option[bool] = Option(
    "read.streaming.skip_compaction",
    boolean,
    True,
    "Skip compactions of merge-on-read tables: they only move rows",
)
SKIP_CLUSTERING: Option[bool] = Option(
    "read.streaming.skip_clustering", boolean, True, "Skip clusterings: they only move rows"
)
SKIP_INSERT_OVERWRITE: Option[bool] = Option(
    "read.streaming.skip_insertoverwrite", boolean, False, "Skip the commits of insert overwrites"
)
FALLBACK: Option[str] = Option(
    "read.streaming.fallback",
    one_of("fail", "full-scan"),
    "fail",
    "What to do when files that changes need were cleaned: fail, or scan the newest snapshot for rows of the range",
)
ROLLED_BACK: Option[str] = Option(
    "lakebed.stream.rolled-back",
    one_of("fail", "warn"),
    "fail",
    "What to do when commits that a stream has read were rolled back or restored away: fail, or warn and go on",
)
CHANGELOG: Option[bool] = Option(
    "changelog.enabled",
    boolean,
    False,
    "Give every change in the files with its row kind, unmerged and in order: in a batch the base rows and the logs of "
    "the newest slices, in changes and streams what each commit wrote",
)
CDC: Option[bool] = Option(
    "cdc.enabled",
    boolean,
    False,
    "Changes and streams give the rows before and after each commit (+I -U +U -D), from the table's change log or, "
    "where that is missing or incomplete, from the file slices before and after the commit",
)
CDC_FROM_CHANGELOG: Option[bool] = Option(
    "read.cdc.from.changelog",
    boolean,
    False,
    "With cdc.enabled on merge-on-read tables: take the changes in log files from the change logs of their "
    "compactions, as Flink does by default; otherwise they come with the commits that made them",
)

_FLINK: tuple[Option[Any], ...] = (
    MERGE_TYPE,
    QUERY_TYPE,
    AS_OF,
    READ_TASKS,
    STREAMING,
    CHECK_INTERVAL,
    START_COMMIT,
    END_COMMIT,
    COMMITS_LIMIT,
    SPLITS_LIMIT,
    BYTES_LIMIT,
    SKIP_COMPACTION,
    SKIP_CLUSTERING,
    SKIP_INSERT_OVERWRITE,
    FALLBACK,
    ROLLED_BACK,
    CHANGELOG,
    CDC,
    CDC_FROM_CHANGELOG,
    SCRATCH_DIR,
)
READ = OptionSet(_FLINK, "Hudi tables")
"""The options of `lakebed.open` and of `format("lakebed")`."""

BEGIN: Option[str] = Option(
    "hoodie.datasource.read.begin.instanttime",
    str,
    "",
    "Where an incremental read begins (exclusive); incremental reads need it",
    aliases=("hoodie.datasource.read.start.timestamp",),
)
END: Option[str] = Option(
    "hoodie.datasource.read.end.instanttime",
    str,
    "",
    "Where an incremental read ends (inclusive); by default the newest commit",
    aliases=("hoodie.datasource.read.end.timestamp",),
)
INCREMENTAL_FORMAT: Option[str] = Option(
    "hoodie.datasource.query.incremental.format",
    one_of("latest_state", "cdc"),
    "latest_state",
    "What an incremental read or a stream gives: latest_state is the newest row of each changed key; cdc is every "
    "commit's changes as op, ts_ms, before and after, with rows as JSON text",
)
START_OFFSET: Option[str] = Option(
    "hoodie.datasource.streaming.startoffset",
    str,
    "earliest",
    "Where a new stream begins: earliest, latest or an instant",
)
FULL_SCAN: Option[bool] = Option(
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
    boolean,
    False,
    "Scan the newest snapshot for rows of the range when files that an incremental read needs were cleaned",
    aliases=("hoodie.datasource.read.incr.fallback.fulltablescan",),
)
VALUES_FROM_PATH: Option[bool] = Option(
    "hoodie.datasource.read.extract.partition.values.from.path",
    boolean,
    False,
    "Refused when true: partition columns are read from the files, and from paths only where the files lack them",
)
SCHEMA_OF_END: Option[bool] = Option(
    "hoodie.datasource.read.schema.use.end.instanttime",
    boolean,
    False,
    "Refused when true: an incremental read has the columns of the newest schema",
)
TABLE_PATH: Option[str] = Option(
    "hoodie.datasource.read.table.path",
    str,
    "",
    "Refused when it names another location than the one that is loaded",
    aliases=("hoodie.base.path",),
)

_NAMES = ("path", "hoodie.table.name")
_ACCEPTED = (
    "hoodie.metadata.enable",
    "hoodie.enable.data.skipping",
    "hoodie.file.index.enable",
    "hoodie.file.group.reader.enabled",
    "hoodie.schema.on.read.enable",
    "hoodie.datasource.read.file.index.listing.mode",
    "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
    "hoodie.memory.merge.max.size",
    "hoodie.embed.timeline.server",
    "hoodie.datasource.read.use.new.parquet.file.format",
    "hoodie.datasource.read.incr.skip_cluster",
    "hoodie.datasource.read.incr.skip_compact",
    "hoodie.datasource.read.incr.table.version",
    "hoodie.datasource.read.streaming.table.version",
    "hoodie.datasource.read.file.index.list.partitions.from.catalog",
    "hoodie.datasource.read.file.index.optimize.listing.using.path.filter",
    "hoodie.spark.polaris.catalog.class",
)
SPARK = OptionSet(
    (
        MERGE_TYPE,
        QUERY_TYPE,
        AS_OF,
        READ_TASKS,
        BEGIN,
        END,
        INCREMENTAL_FORMAT,
        START_OFFSET,
        FULL_SCAN,
        VALUES_FROM_PATH,
        SCHEMA_OF_END,
        TABLE_PATH,
        ROLLED_BACK,
        SCRATCH_DIR,
        *(Option(key, str, "", "Accepted without effect: it changes no rows, and names the table") for key in _NAMES),
        *(idle_option(key, "Accepted without effect: it changes no rows here") for key in _ACCEPTED),
        *refused_options(UNSERVED_READS),
    ),
    "Hudi's Spark source",
)
"""The options of `format("hudi")`."""
