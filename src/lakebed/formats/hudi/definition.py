"""A new table's definition: the properties that Hudi's own writers of each table version give it.

The schema is kept in `hoodie.table.create.schema`, so that an empty table has columns. Only what lakebed can write is
created; anything else is refused by name.

Rules: Hudi's `HoodieTableMetaClient.TableBuilder` and `HoodieTableConfig` (which property belongs to which version, the
checksum of the name), `HoodieWriterUtils` (the key generator that fits the key and partition columns).
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakebed.errors import (
    CommitUnknownError,
    OptionError,
    SchemaError,
    TableExistsError,
    UnsupportedError,
    UsageError,
    known_columns,
)
from lakebed.formats.hudi import table_options as opt
from lakebed.formats.hudi.codec.avro_schema import avro_schema
from lakebed.formats.hudi.codec.properties import properties_text
from lakebed.formats.hudi.config import PROPERTIES, config_from, load_config
from lakebed.formats.hudi.keygen import check_kinds, field_kinds
from lakebed.formats.hudi.layout import HOODIE, META_COLUMNS, PARTITION_METADATA
from lakebed.formats.hudi.merge.rules import check_known, rules_of
from lakebed.formats.hudi.timeline.writing import list_timeline
from lakebed.formats.hudi.timestamp_partitions import TimestampPartitions, check_zones
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store
from lakebed.kernel.options import Options
from lakebed.kernel.rows.columns import check_names
from lakebed.model.rowkind import ROW_KIND_COLUMN

_MODEL = "org.apache.hudi.common.model."
_EVENT_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_COMMIT_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
_GENERATORS = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "TIMESTAMP": "TimestampBasedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
    "GLOBAL_DELETE": "GlobalDeleteKeyGenerator",
}
_TIMED = ("TIMESTAMP", "CUSTOM")
_REFUSED = {
    opt.METAFILE_BASE_FORMAT: True,
    opt.LOGICAL_TIMESTAMPS: True,
}
"""Settings that lakebed does not write, by option."""
_KEEP = ".keep"
"""A file that makes the folder of instants exist, also in an object store. No engine takes it for an instant."""


def create_table(
    store: Store,
    schema: pa.Schema,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, str],
    kept: Mapping[str, str] = {},
) -> None:
    """Put the properties of a new, empty table, and further ones that it keeps.

    Raises SchemaError, UsageError or OptionError for a definition that makes no table, UnsupportedError for one that
    lakebed does not write, TableExistsError where there is a table already.
    """
    given = opt.TABLE.parse(options)
    properties = {**new_properties(store.location, schema, primary_key, partition_by, given), **kept}
    config = config_from(properties, table=store.location)
    check_known(rules_of(config), store.location)
    config.check_dropped(store.location)
    config.check_virtual(schema, store.location)
    now = clock.moment(datetime.UTC)
    outcome = store.put_if_absent(
        PROPERTIES, properties_text(properties, f"Properties saved on {now.isoformat()}", now)
    )
    if outcome is PutOutcome.EXISTS:
        raise TableExistsError("there is already a hudi table", table=store.location, todo="Open it with lakebed.open")
    if outcome is PutOutcome.UNKNOWN:
        raise CommitUnknownError(
            "the store does not say whether the table was created",
            table=store.location,
            todo="Try to open it with lakebed.open before you create it again",
        )
    if config.layout >= 2:  # Hudi's own engine lists the folder before there is an instant, and fails where it is not
        store.write(f"{config.timeline_folder}/{_KEEP}", b"")


def new_properties(
    location: str, schema: pa.Schema, primary_key: Sequence[str], partition_by: Sequence[str], options: Options
) -> dict[str, str]:
    """The properties of a new table."""
    keys = _fields(primary_key, options[opt.RECORD_KEYS], "primary_key", opt.RECORD_KEYS.key, location)
    partitions = _fields(
        partition_by, options[opt.PARTITION_FIELDS], "partition_by", opt.PARTITION_FIELDS.key, location
    )
    ordering = [name.strip() for name in options[opt.ORDERING].split(",") if name.strip()]
    kinds = field_kinds(",".join(partitions))
    partitions = [name.partition(":")[0] for name in partitions] if kinds else partitions
    check_names(schema.names, location)
    _check_reserved(schema, (*keys, *partitions, *ordering), location)
    _check_plain(keys, partitions, location)
    _check_columns(schema, {"primary_key": keys, "partition_by": partitions, opt.ORDERING.key: ordering}, location)
    check_kinds(schema, (*keys, *partitions), location)
    _check_served(options, location)
    version, name = options[opt.TABLE_VERSION], options[opt.TABLE_NAME] or location.rstrip("/").rpartition("/")[2]
    database = options[opt.DATABASE]
    generator = _generator(keys, partitions, bool(kinds), options, location)
    times = _time_properties(schema, generator, kinds or dict.fromkeys(partitions, "TIMESTAMP"), options, location)
    if generator == "COMPLEX" and len(keys) == 1 and version < 9:
        _check_bare_keys(version, options, location)
    text = avro_schema(pa.schema([field for field in schema if field.name not in META_COLUMNS]), name)
    properties = {
        "hoodie.table.name": name,
        **({"hoodie.database.name": database} if database else {}),
        "hoodie.table.type": options[opt.TABLE_TYPE],
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": "1" if version < 8 else "2",
        **({"hoodie.table.recordkey.fields": ",".join(keys)} if keys else {}),
        **_partition_properties(version, partitions, kinds),
        **times,
        **_merge_properties(version, ordering, options),
        **_generator_properties(version, generator),
        "hoodie.datasource.write.hive_style_partitioning": str(options[opt.HIVE_STYLE]).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(options[opt.URL_ENCODE]).lower(),
        opt.DROP_PARTITION_COLUMNS.key: str(options[opt.DROP_PARTITION_COLUMNS]).lower(),
        opt.META_FIELDS.key: str(options[opt.META_FIELDS]).lower(),
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.cdc.enabled": str(options[opt.CDC]).lower(),
        **({opt.CDC_MODE.key: options[opt.CDC_MODE]} if options[opt.CDC] else {}),
        "hoodie.table.timeline.timezone": options[opt.TIME_ZONE],
        "hoodie.archivelog.folder": options[opt.ARCHIVE_FOLDER] or ("archived" if version < 8 else "history"),
        "hoodie.table.checksum": str(zlib.crc32(f"{database}.{name}".encode())),
        "hoodie.table.create.schema": text,
    }
    if version >= 8:
        properties |= {
            "hoodie.table.initial.version": str(version),
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.table.multiple.base.file.formats.enable": "false",
        }
    if version >= 9:
        properties["hoodie.table.format"] = "native"
    return properties


def _check_served(options: Options, location: str) -> None:
    """Raise UnsupportedError for what no table of lakebed's has."""
    for option, value in _REFUSED.items():
        if options[option] is value:
            raise UnsupportedError(
                f"lakebed does not write tables with {option.key}={str(value).lower()}",
                table=location,
                todo="Leave the option out, or create and write the table with Hudi's own engine",
            )
    if options[opt.BASE_FORMAT] != "PARQUET":
        raise UnsupportedError(
            f"lakebed does not write {options[opt.BASE_FORMAT]} base files", table=location, todo="Take PARQUET"
        )


def _check_bare_keys(version: int, options: Options, location: str) -> None:
    """Raise UnsupportedError where complex keys of one column are to have its name."""
    if options.given(opt.COMPLEX_ENCODING) and not options[opt.COMPLEX_ENCODING]:
        raise UnsupportedError(
            f"lakebed does not write keys with the column's name in table version {version}",
            table=location,
            why=f"the option {opt.COMPLEX_ENCODING.key} is false",
            todo="Leave the option out: keys are then those of releases 0.15 and 1.0. Or use table version 9",
        )


def _fields(named: Sequence[str], text: str, argument: str, key: str, location: str) -> list[str]:
    stated = [part.strip() for part in text.split(",") if part.strip()]
    if named and stated and list(named) != stated:
        raise UsageError(
            f"{argument} and the option {key} name different columns",
            table=location,
            why=f"{', '.join(named)} and {', '.join(stated)}",
            todo="Give one of them",
        )
    return list(named) or stated


def _check_plain(keys: Sequence[str], partitions: Sequence[str], location: str) -> None:
    odd = next((column for column in (*keys, *partitions) if ":" in column or "(" in column), "")
    if odd:
        raise UnsupportedError(
            f"lakebed does not make partitions by {odd!r}",
            table=location,
            todo="Partition by columns, or as column:SIMPLE and column:TIMESTAMP, each of them",
        )


def _partition_properties(version: int, partitions: Sequence[str], kinds: Mapping[str, str]) -> dict[str, str]:
    """The partition fields. Before version 8 the kinds of a custom key generator's have no place of their own."""
    if not partitions:
        return {}
    typed = ",".join(f"{name}:{kind}" for name, kind in kinds.items())
    plain = {"hoodie.table.partition.fields": ",".join(partitions)}
    if not kinds or version >= 8:
        return {"hoodie.table.partition.fields": typed} if kinds else plain
    return {**plain, opt.PARTITION_FIELDS.key: typed}


def _time_properties(
    schema: pa.Schema, generator: str, kinds: Mapping[str, str], options: Options, location: str
) -> dict[str, str]:
    """The settings of a timestamp-based key generator, which are kept with the table."""
    timed = [name for name, kind in kinds.items() if kind == "TIMESTAMP"] if generator in _TIMED else []
    if not timed:
        return {}
    check_zones(options, location)
    times = TimestampPartitions.of({}, options, location)
    for name in timed:
        times.check_column(schema.field(name), location)
    return {option.key: str(options[option]) for option in opt.TIMESTAMP_BASED if options.given(option)}


def _check_reserved(schema: pa.Schema, used: Sequence[str], location: str) -> None:
    """SchemaError for columns that a write gives another meaning: Hudi's meta columns where rows are found or ordered
    by them, and the row kind."""
    odd = next((name for name in used if name in META_COLUMNS), "")
    if odd:
        raise SchemaError(
            f"no row can be found or ordered by {odd!r}",
            table=location,
            why="it is one of Hudi's meta columns, which each write makes anew",
            todo="Name a column of your own",
        )
    if ROW_KIND_COLUMN in schema.names:
        raise SchemaError(
            f"the column name {ROW_KIND_COLUMN!r} is reserved for the row kind",
            table=location,
            todo="Rename the column",
        )


def _check_columns(schema: pa.Schema, wanted: Mapping[str, Sequence[str]], location: str) -> None:
    for what, names in wanted.items():
        for name in names:
            if name not in schema.names:
                raise SchemaError(
                    f"{what} names the unknown column {name!r}",
                    table=location,
                    todo=known_columns(name, schema.names),
                )


def _generator(keys: Sequence[str], partitions: Sequence[str], typed: bool, options: Options, location: str) -> str:
    given = options[opt.KEY_GENERATOR_TYPE] or options[opt.KEY_GENERATOR_CLASS].rpartition(".")[2]
    is_single = len(keys) <= 1 and len(partitions) == 1
    fits = "CUSTOM" if typed else "NON_PARTITION" if not partitions else "SIMPLE" if is_single else "COMPLEX"
    kinds = {name: kind for kind, name in _GENERATORS.items()}
    kind = kinds.get(given, given) or fits
    if kind not in _GENERATORS:
        raise UnsupportedError(
            f"lakebed does not write tables with the key generator {given}",
            table=location,
            todo=f"Use one of {', '.join(_GENERATORS)}",
        )
    also = {
        "COMPLEX": bool(partitions) and not typed and len(keys) > 1,
        "TIMESTAMP": is_single and not typed,
        "CUSTOM": not partitions,
        "GLOBAL_DELETE": bool(keys) and not partitions,
    }
    if kind != fits and not also.get(kind, False):
        raise OptionError(
            f"the key generator {kind} does not fit {len(keys)} key and {len(partitions)} partition columns",
            key=opt.KEY_GENERATOR_TYPE.key,
            table=location,
            todo=f"Leave the option out: {fits} fits"
            + ("; a custom one takes fields as column:SIMPLE or column:TIMESTAMP" if kind == "CUSTOM" else ""),
        )
    return kind


def _generator_properties(version: int, kind: str) -> dict[str, str]:
    if version >= 8:
        return {"hoodie.table.keygenerator.type": kind}
    return {"hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{_GENERATORS[kind]}"}


def _merge_properties(version: int, ordering: Sequence[str], options: Options) -> dict[str, str]:
    """Which row of a key wins: by event time where there are ordering columns, else the last one."""
    fields = {"hoodie.table.ordering.fields" if version >= 9 else "hoodie.table.precombine.field": ",".join(ordering)}
    payload = options[opt.PAYLOAD]
    by_event = bool(ordering) and not payload.endswith("OverwriteWithLatestAvroPayload")
    mode = options[opt.MERGE_MODE] or ("EVENT_TIME_ORDERING" if by_event else "COMMIT_TIME_ORDERING")
    name = "DefaultHoodieRecordPayload" if mode == "EVENT_TIME_ORDERING" else "OverwriteWithLatestAvroPayload"
    properties = fields if ordering else {}
    if version >= 9:
        properties["hoodie.record.merge.mode"] = mode
        if options[opt.PARTIAL_UPDATES] not in ("NONE", "KEEP_VALUES"):
            properties["hoodie.table.partial.update.mode"] = options[opt.PARTIAL_UPDATES]
        return properties
    properties["hoodie.compaction.payload.class"] = payload or f"{_MODEL}{name}"
    if version >= 8:
        properties["hoodie.record.merge.mode"] = "CUSTOM" if payload and not payload.endswith(name) else mode
        properties["hoodie.record.merge.strategy.id"] = (
            _EVENT_STRATEGY if mode == "EVENT_TIME_ORDERING" else _COMMIT_STRATEGY
        )
    return properties


def remove_without_commits(store: Store) -> None:
    """Remove a table to which nothing was ever written, with what failed writes left: `.hoodie`, and the files that
    mark partitions. It stays where a write is pending or has completed."""
    if not any(entry.writes for entry in list_timeline(store, load_config(store)).entries):
        marks = [info.path for info in store.walk() if info.name.startswith(PARTITION_METADATA)]
        store.delete_many(marks)
        store.delete_folder(HOODIE)
