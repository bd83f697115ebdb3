"""What a Hive metastore shows of a Paimon table: columns, options, place, partitions.

Rules: Paimon's HiveCatalog (newHmsTable, updateHmsTable, createPartitions), its location helpers, and
AddPartitionCommitCallback.
"""

from __future__ import annotations

import copy
import getpass
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import NotInHistoryError
from lakebed.formats.paimon.catalog.metastore import Metastore
from lakebed.formats.paimon.catalog.reported import partition_texts
from lakebed.formats.paimon.catalog.settings import CASCADE, LOCATION_IN_PROPERTIES, SYNC_ALL, Settings
from lakebed.formats.paimon.codec.hive_types import hive_type
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.layout import TableName, partition_level
from lakebed.kernel import clock
from lakebed.kernel.files import parse_location

PLACE = "paimon_location"
"""The parameter that has the place of a table, a partition or a database with `location-in-properties`."""
_INPUT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_ROWS = "org.apache.paimon.hive.PaimonSerDe"
_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
_OF_THE_CATALOG = (PLACE, "table_type", "storage_handler", "EXTERNAL")
"""Parameters that a table's own options must not change."""
_PARTITIONED = "metastore.partitioned-table"


def is_paimon(table: Any) -> bool:
    """Whether a table of the metastore is Paimon's."""
    return table.sd is not None and (table.sd.inputFormat, table.sd.outputFormat) == (_INPUT, _OUTPUT)


def is_external(table: Any) -> bool:
    """Whether the files of a table stay when its name goes."""
    return bool(table.tableType == "EXTERNAL_TABLE")


def place_of(table: Any, in_properties: bool) -> str:
    """The place of a table, "" where the metastore has none."""
    inside = (table.parameters or {}).get(PLACE) if in_properties else None
    return str(inside or table.sd.location or "")


def written_place(place: str) -> str:
    """A place as the metastore gets it. A path of this machine says so."""
    location = parse_location(place)
    return f"file:{location.text}" if location.is_local else place


@dataclass(frozen=True)
class HiveTables:
    """One table, as the metastore shows it."""

    metastore: Metastore
    name: TableName

    def new(self, schema: TableSchema, place: str, external: bool) -> Any:
        """The metastore's table for a schema."""
        types, now = self.metastore.types, clock.now_ms() // 1000
        table = types.Table(
            tableName=self.name.table,
            dbName=self.name.database,
            owner=getpass.getuser(),
            createTime=now,
            lastAccessTime=now,
            retention=2**31 - 1,
            partitionKeys=[],
            parameters={
                "table_type": "PAIMON",
                "storage_handler": _HANDLER,
            },
            tableType="EXTERNAL_TABLE" if external else "MANAGED_TABLE",
            sd=types.StorageDescriptor(cols=[], serdeInfo=types.SerDeInfo()),
        )
        if external:
            table.parameters["EXTERNAL"] = "TRUE"
        if self.metastore.settings.asks(LOCATION_IN_PROPERTIES):
            table.parameters[PLACE] = place
        else:
            table.sd.location = place
        self._fill(table, schema)
        return table

    def show(self, before: TableSchema, schema: TableSchema) -> None:
        """Show a schema in place of the one before it."""
        table = self.metastore.ask("get_table", self.name.database, self.name.table)
        for key in before.options.keys() - schema.options.keys() - set(_OF_THE_CATALOG):
            table.parameters.pop(key, None)
        self._fill(table, schema)
        properties = {"DO_NOT_UPDATE_STATS": "false"}
        if self.metastore.settings.asks(CASCADE):
            properties["CASCADE"] = "true"
        context = self.metastore.types.EnvironmentContext(properties=properties)
        self.metastore.ask("alter_table_with_environment_context", self.name.database, self.name.table, table, context)

    def _fill(self, table: Any, schema: TableSchema) -> None:
        """Write a schema's columns and options into the metastore's table."""
        types = self.metastore.types
        table.parameters.update(_parameters(schema, self.metastore.settings))
        table.sd.inputFormat, table.sd.outputFormat = _INPUT, _OUTPUT
        table.sd.serdeInfo = table.sd.serdeInfo or types.SerDeInfo()
        table.sd.serdeInfo.serializationLib, table.sd.serdeInfo.parameters = _ROWS, {}
        columns = {
            item.name: types.FieldSchema(name=item.name, type=hive_type(item.type), comment=item.description)
            for item in schema.fields
        }
        apart = schema.partition_keys if _shows_partitions(schema) else ()
        if apart:
            table.partitionKeys = [columns[name] for name in apart]
        table.sd.cols = [column for name, column in columns.items() if name not in apart]


@dataclass(frozen=True)
class HivePartitions:
    """Enters the partitions that a snapshot adds files to, where the table says `metastore.partitioned-table`."""

    metastore: Metastore
    name: TableName
    _entered: set[bytes] = field(default_factory=set, compare=False, repr=False)

    def __call__(self, entries: Sequence[ManifestEntry], schema: TableSchema) -> None:
        """Enter those that this process has not entered before."""
        if not _shows_partitions(schema):
            return
        added = {entry.partition for entry in entries if entry.kind == ADD} - self._entered
        if not added:
            return
        types, settings = self.metastore.types, self.metastore.settings
        table = self.metastore.ask("get_table", self.name.database, self.name.table)
        inside = settings.asks(LOCATION_IN_PROPERTIES)
        root, now = place_of(table, inside).rstrip("/"), clock.now_ms() // 1000
        parts = []
        for partition in sorted(added):
            texts = partition_texts(schema, partition)
            place = f"{root}/{''.join(partition_level(*pair) for pair in texts.items())}".rstrip("/")
            descriptor = copy.deepcopy(table.sd)
            if not inside:
                descriptor.location = place
            parts.append(
                types.Partition(
                    values=list(texts.values()),
                    dbName=self.name.database,
                    tableName=self.name.table,
                    createTime=now,
                    lastAccessTime=now,
                    parameters={PLACE: place} if inside else {},
                    sd=descriptor,
                )
            )
        request = types.AddPartitionsRequest(
            dbName=self.name.database, tblName=self.name.table, parts=parts, ifNotExists=True, needResult=False
        )
        self.metastore.ask("add_partitions_req", request)
        self._entered.update(added)

    def dropped(self, partitions: Iterable[bytes], schema: TableSchema) -> None:
        """Remove partitions that are there. Their files are not the metastore's to delete."""
        if not _shows_partitions(schema):
            return
        for partition in partitions:
            values = list(partition_texts(schema, partition).values())
            gone = NotInHistoryError("the metastore has no such partition")
            with suppress(NotInHistoryError):
                self.metastore.ask("drop_partition", self.name.database, self.name.table, values, False, missing=gone)
            self._entered.discard(partition)


def _shows_partitions(schema: TableSchema) -> bool:
    return bool(schema.partition_keys) and schema.options.get(_PARTITIONED, "false").strip().lower() == "true"


def _parameters(schema: TableSchema, settings: Settings) -> dict[str, str]:
    """The options of a schema that the metastore shows, and its comment."""
    if settings.asks(SYNC_ALL):
        shown = {key: text for key, text in schema.options.items() if key not in _OF_THE_CATALOG}
        keys = (("primary-key", schema.primary_keys), ("partition", schema.partition_keys))
        shown.update({key: ",".join(names) for key, names in (*keys, ("bucket-key", schema.bucket_keys)) if names})
    else:
        shown = {key: text for key, text in schema.options.items() if key == "partition.expiration-time"}
    return {**shown, **({"comment": schema.comment} if schema.comment is not None else {})}
