"""Options of a new Hudi table, under the names that Hudi's sink, its SQL and `hoodie.properties` give them.

Rules: `HoodieTableConfig`, `KeyGeneratorOptions`, `TimestampKeyGeneratorConfig` and `DataSourceWriteOptions`, with the
defaults of Hudi's Spark sink. Only the keys of this module are stored with a table.
"""

from __future__ import annotations

from lakebed.kernel.options import Option, OptionSet, boolean, one_of

TABLE_NAME: Option[str] = Option(
    "hoodie.table.name",
    str,
    "",
    "The table's name; by default the last part of its location",
    aliases=("hoodie.datasource.write.table.name",),
)
DATABASE: Option[str] = Option("hoodie.database.name", str, "", "The table's database")
TABLE_TYPE: Option[str] = Option(
    "hoodie.datasource.write.table.type",
    one_of("COPY_ON_WRITE", "MERGE_ON_READ"),
    "COPY_ON_WRITE",
    "Whether updates rewrite base files or go to log files",
    aliases=("hoodie.table.type", "hoodie.datasource.write.storage.type"),
)
TABLE_VERSION: Option[int] = Option(
    "hoodie.write.table.version",
    lambda text: {"6": 6, "8": 8, "9": 9, "SIX": 6, "EIGHT": 8, "NINE": 9}[text.upper()],
    9,
    "The table version: 6 for releases up to 0.15, 8 for 1.0, 9 for 1.1. The default is that of the newest release",
    "6, 8 or 9",
    aliases=("hoodie.table.version",),
)
RECORD_KEYS: Option[str] = Option(
    "hoodie.datasource.write.recordkey.field",
    str,
    "",
    "The columns of the record key, separated by commas",
    aliases=("hoodie.table.recordkey.fields", "primaryKey"),
)
PARTITION_FIELDS: Option[str] = Option(
    "hoodie.datasource.write.partitionpath.field",
    str,
    "",
    "The partition columns, separated by commas; with the custom key generator as column:SIMPLE or column:TIMESTAMP",
    aliases=("hoodie.table.partition.fields",),
)
ORDERING: Option[str] = Option(
    "hoodie.table.ordering.fields",
    str,
    "",
    "The columns whose greatest value wins when rows of one key are merged, separated by commas",
    aliases=(
        "hoodie.datasource.write.precombine.field",
        "hoodie.table.precombine.field",
        "hoodie.payload.ordering.field",
        "orderingFields",
        "preCombineField",
    ),
)
MERGE_MODE: Option[str] = Option(
    "hoodie.write.record.merge.mode",
    one_of("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING", "CUSTOM"),
    "",
    "How rows of one key are merged; by default by event time where the table has ordering columns",
    aliases=("hoodie.record.merge.mode",),
)
PAYLOAD: Option[str] = Option(
    "hoodie.datasource.write.payload.class",
    str,
    "",
    "The payload class, which says how rows of one key are merged",
    aliases=("hoodie.compaction.payload.class",),
)
MERGE_STRATEGY: Option[str] = Option(
    "hoodie.write.record.merge.strategy.id",
    str.lower,
    "",
    "The id of the merge strategy",
    aliases=(
        "hoodie.record.merge.strategy.id",
        "hoodie.datasource.write.record.merger.strategy",
        "hoodie.compaction.record.merger.strategy",
    ),
)
PARTIAL_UPDATES: Option[str] = Option(
    "hoodie.table.partial.update.mode",
    one_of("NONE", "KEEP_VALUES", "IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
    "NONE",
    "Which values of a newer row keep those of the older one (table version 9)",
)
KEY_GENERATOR_CLASS: Option[str] = Option(
    "hoodie.datasource.write.keygenerator.class",
    str,
    "",
    "The class that makes record keys and partition paths; by default chosen by the key and partition columns",
    aliases=("hoodie.table.keygenerator.class",),
)
KEY_GENERATOR_TYPE: Option[str] = Option(
    "hoodie.datasource.write.keygenerator.type",
    str.upper,
    "",
    "The type of the key generator, in place of its class",
    aliases=("hoodie.table.keygenerator.type",),
)
HIVE_STYLE: Option[bool] = Option(
    "hoodie.datasource.write.hive_style_partitioning", boolean, False, "Partition folders are named column=value"
)
URL_ENCODE: Option[bool] = Option(
    "hoodie.datasource.write.partitionpath.urlencode", boolean, False, "Partition values are URL-encoded in paths"
)
DROP_PARTITION_COLUMNS: Option[bool] = Option(
    "hoodie.datasource.write.drop.partition.columns",
    boolean,
    False,
    "Whether files leave out the partition columns, so that only paths have their values",
)
META_FIELDS: Option[bool] = Option(
    "hoodie.populate.meta.fields",
    boolean,
    True,
    "Whether rows have values in Hudi's five meta columns. Without them keys are made from the key columns each time",
)
BASE_FORMAT: Option[str] = Option(
    "hoodie.table.base.file.format",
    one_of("PARQUET", "ORC", "HFILE"),
    "PARQUET",
    "The format of base files; only PARQUET is served",
    aliases=("hoodie.table.ro.file.format", "hoodie.base.file.format"),
)
LOG_FORMAT: Option[str] = Option(
    "hoodie.table.log.file.format",
    one_of("HOODIE_LOG"),
    "HOODIE_LOG",
    "The format of log files",
    aliases=("hoodie.table.rt.file.format",),
)
TABLE_FORMAT: Option[str] = Option(
    "hoodie.table.format", one_of("native"), "native", "The table format; only Hudi's own is served"
)
CDC: Option[bool] = Option("hoodie.table.cdc.enabled", boolean, False, "Whether writes keep change logs")
CDC_MODE: Option[str] = Option(
    "hoodie.table.cdc.supplemental.logging.mode",
    one_of("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"),
    "DATA_BEFORE_AFTER",
    "What a change log holds of each change: its key, also the row before, or the rows before and after",
)
TIME_ZONE: Option[str] = Option(
    "hoodie.table.timeline.timezone",
    one_of("LOCAL", "UTC"),
    "LOCAL",
    "The time zone of instant times: that of each writer's machine, or UTC",
)
METAFILE_BASE_FORMAT: Option[bool] = Option(
    "hoodie.partition.metafile.use.base.format",
    boolean,
    False,
    "Refused when true: the metadata file of a partition is a property file",
)
ARCHIVE_FOLDER: Option[str] = Option(
    "hoodie.archivelog.folder", str, "", "The folder of archive files below .hoodie (table version 6)"
)
LOGICAL_TIMESTAMPS: Option[bool] = Option(
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
    boolean,
    False,
    "Record keys and partition paths hold timestamps as texts in place of numbers",
)
COMPLEX_ENCODING: Option[bool] = Option(
    "hoodie.write.complex.keygen.new.encoding",
    boolean,
    False,
    "Keys of a complex key generator with one column lack the column's name. Table version 9 has the name in any case; "
    "in older ones false is refused",
)

_OLD, _NEW = "hoodie.deltastreamer.keygen.", "hoodie.keygen."


def _timebased(name: str, default: str, doc: str) -> Option[str]:
    return Option(f"{_NEW}{name}", str, default, doc, aliases=(f"{_OLD}{name}",))


TIMESTAMP_TYPE: Option[str] = Option(
    f"{_NEW}timebased.timestamp.type",
    one_of("UNIX_TIMESTAMP", "DATE_STRING", "MIXED", "EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "SCALAR"),
    "",
    "What the column of a timestamp-based key generator holds: UNIX_TIMESTAMP (seconds), EPOCHMILLISECONDS, "
    "EPOCHMICROSECONDS, SCALAR (what the time unit says), DATE_STRING or MIXED (texts)",
    aliases=(f"{_OLD}timebased.timestamp.type",),
)
TIME_UNIT: Option[str] = Option(
    f"{_NEW}timebased.timestamp.scalar.time.unit",
    one_of("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"),
    "SECONDS",
    "The unit of SCALAR timestamps",
    aliases=(f"{_OLD}timebased.timestamp.scalar.time.unit",),
)
INPUT_FORMAT = _timebased("timebased.input.dateformat", "", "The formats of DATE_STRING timestamps")
INPUT_DELIMITER = _timebased(
    "timebased.input.dateformat.list.delimiter.regex", ",", "What separates the formats of DATE_STRING timestamps"
)
INPUT_ZONE = _timebased("timebased.input.timezone", "", "The time zone of DATE_STRING timestamps without one")
OUTPUT_FORMAT = _timebased("timebased.output.dateformat", "", "The format of partition paths")
OUTPUT_ZONE = _timebased("timebased.output.timezone", "", "The time zone of partition paths")
BOTH_ZONES = _timebased(
    "timebased.timezone", "", "The time zone of both texts and partition paths; by default that of the machine"
)
DATE_PARSER = _timebased(
    "datetime.parser.class", "org.apache.hudi.keygen.parser.HoodieDateTimeParser", "The parser of dates"
)
TIMESTAMP_BASED = (
    TIMESTAMP_TYPE,
    TIME_UNIT,
    INPUT_FORMAT,
    INPUT_DELIMITER,
    INPUT_ZONE,
    OUTPUT_FORMAT,
    OUTPUT_ZONE,
    BOTH_ZONES,
    DATE_PARSER,
)
"""The options of timestamp-based key generators, which are stored with the table as they were given."""

TABLE = OptionSet(
    (
        TABLE_NAME,
        DATABASE,
        TABLE_TYPE,
        TABLE_VERSION,
        RECORD_KEYS,
        PARTITION_FIELDS,
        ORDERING,
        MERGE_MODE,
        PAYLOAD,
        MERGE_STRATEGY,
        PARTIAL_UPDATES,
        KEY_GENERATOR_CLASS,
        KEY_GENERATOR_TYPE,
        HIVE_STYLE,
        URL_ENCODE,
        DROP_PARTITION_COLUMNS,
        META_FIELDS,
        BASE_FORMAT,
        LOG_FORMAT,
        TABLE_FORMAT,
        CDC,
        CDC_MODE,
        TIME_ZONE,
        METAFILE_BASE_FORMAT,
        ARCHIVE_FOLDER,
        LOGICAL_TIMESTAMPS,
        COMPLEX_ENCODING,
        *TIMESTAMP_BASED,
    ),
    "Hudi tables",
)
"""The options that describe a table."""
