"""Options of a write, read once from those of the table and of the call.

Rules: Paimon's CoreOptions; `lakebed.formats.paimon.options` declares the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon import file_options
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.definition import BucketMode, bucket_mode
from lakebed.formats.paimon.file_indexes import FileIndexRules
from lakebed.formats.paimon.layout import POSTPONE_BUCKET
from lakebed.formats.paimon.options import split_names
from lakebed.formats.paimon.write.formats import FileFormat, of_level
from lakebed.formats.paimon.write.statistics.modes import StatsMode, StatsRules, own_modes
from lakebed.kernel.options import Options
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.kernel.scratch import SCRATCH_DIR
from lakebed.model.rowkind import RowKind


@dataclass(frozen=True, slots=True)
class SpillOptions:
    """How a task spills rows: whether it may, to which folder ("" for the system's), how many bytes at most (None: any
    number), and the compression (None: none)."""

    allowed: bool
    folder: str
    max_bytes: int | None
    compression: str | None


@dataclass(frozen=True, slots=True)
class DynamicBucketOptions:
    """Rows per dynamic bucket, buckets per partition at most (-1: no bound) and at the beginning (0: one per task), and
    tasks that assign buckets at most (0: all)."""

    target_rows: int
    max_buckets: int
    initial_buckets: int
    assigners: int


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write needs to know of a table's options. Picklable.

    - `table`: all options, for merge functions, partition folders and commits, which read them themselves.
    - `format`, `stats`: how data files are encoded, and which statistics manifests get of them. `changelog_format` and
      `changelog_stats`: the same of changelog files.
    - `indexes`: the file indexes of data files.
    - `buffer_bytes`: the rows that one task holds, in bytes of Arrow data.
    - `merge_bytes`: the bytes of small files that the driver itself merges.
    - `sequence_fields`: columns that order the rows of a key, each with whether it is descending.
    - `input_changelog`: whether every row is also written as it came, into changelog files.
    """

    table: Options
    mode: BucketMode
    buckets: int
    bucket_function: str
    dynamic: DynamicBucketOptions
    format: FileFormat
    stats: StatsRules
    changelog_format: FileFormat
    changelog_stats: StatsRules
    indexes: FileIndexRules
    data_prefix: str
    changelog_prefix: str
    thin_mode: bool
    merge_engine: str
    sequence_fields: tuple[tuple[str, bool], ...]
    input_changelog: bool
    buffer_bytes: int
    spill: SpillOptions
    merge_bytes: int

    @classmethod
    def of(cls, schema: TableSchema, options: Options) -> WriteOptions:
        """Read the options of a table. OptionError for a value that no file can be written with."""
        buckets = options[opt.BUCKET]
        compression = options[opt.SPILL_COMPRESSION]
        descending = options[opt.SEQUENCE_ORDER] == "descending"
        return cls(
            table=options,
            mode=bucket_mode(schema, options),
            buckets=buckets,
            bucket_function=options[opt.BUCKET_FUNCTION],
            dynamic=DynamicBucketOptions(
                options[opt.DYNAMIC_TARGET_ROWS],
                options[opt.DYNAMIC_MAX_BUCKETS],
                options[opt.DYNAMIC_INITIAL_BUCKETS] or 0,
                options[opt.DYNAMIC_ASSIGNERS] or 0,
            ),
            format=FileFormat.of(options, bool(schema.primary_keys)),
            stats=_rules(schema, options, "none" if buckets == POSTPONE_BUCKET else _stats(options, 0)),
            changelog_format=FileFormat.of(options, bool(schema.primary_keys), changelog=True),
            changelog_stats=_rules(schema, options, options[compaction.CHANGELOG_STATS] or _stats(options, 0)),
            indexes=FileIndexRules.of(schema, options.raw, options[file_options.FILE_INDEX_THRESHOLD]),
            data_prefix=options[opt.DATA_FILE_PREFIX],
            changelog_prefix=options[opt.CHANGELOG_FILE_PREFIX],
            thin_mode=options[opt.THIN_MODE],
            merge_engine=options[opt.MERGE_ENGINE],
            sequence_fields=tuple((name, descending) for name in split_names(options[opt.SEQUENCE_FIELD])),
            input_changelog=options[opt.CHANGELOG_PRODUCER] == "input",
            buffer_bytes=options[opt.WRITE_BUFFER_SIZE],
            spill=SpillOptions(
                options[opt.WRITE_BUFFER_SPILLABLE],
                options[SCRATCH_DIR],
                options[opt.SPILL_DISK_SIZE],
                None if compression == "none" else compression,
            ),
            merge_bytes=options[opt.GATHER_BYTES],
        )

    def at_level(self, level: int) -> WriteOptions:
        """These options for files of a level of a table with a primary key."""
        options = self.table
        return replace(
            self,
            format=FileFormat.of(options, True, level),
            stats=replace(self.stats, mode=StatsMode.parse(_stats(options, level))),
            changelog_format=FileFormat.of(options, True, level, changelog=True),
            changelog_stats=replace(
                self.changelog_stats,
                mode=StatsMode.parse(options[compaction.CHANGELOG_STATS] or _stats(options, level)),
            ),
        )

    @property
    def postpones(self) -> bool:
        """Whether rows wait in postponed buckets for real ones."""
        return self.mode is BucketMode.POSTPONE_MODE

    def row_kinds(self, default: RowKind = RowKind.INSERT) -> RowKindRule:
        """The rule that gives rows their kinds; `default` is the kind of rows without one."""
        options = self.table
        return RowKindRule(
            options[opt.ROWKIND_FIELD], default, options[opt.IGNORE_DELETE], options[opt.IGNORE_UPDATE_BEFORE]
        )


def _stats(options: Options, level: int) -> str:
    """Which statistics files of a level get."""
    return of_level(options[compaction.STATS_PER_LEVEL], level) or str(options[file_options.STATS_MODE])


def _rules(schema: TableSchema, options: Options, mode: str) -> StatsRules:
    """Which statistics columns get; `mode` is that of columns without one of their own."""
    first, dense = options[file_options.STATS_FIRST], options[file_options.STATS_DENSE]
    return StatsRules(StatsMode.parse(mode), own_modes(schema, options.raw), first, dense)
