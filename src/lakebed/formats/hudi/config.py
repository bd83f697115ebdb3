"""A table's own settings: `hoodie.properties` as typed values.

Rules: Hudi's `HoodieTableConfig`. Where a property is absent, the default is that of the table's version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lakebed.errors import TableNotFoundError, UnsupportedError
from lakebed.formats.hudi.codec.properties import parse_properties
from lakebed.formats.hudi.codec.record_keys import KeyForm, has_key_text, is_spelled_alike
from lakebed.formats.hudi.keygen import GeneratorKind, KeyGenerator
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store
from lakebed.kernel.options import is_number

PROPERTIES = f"{HOODIE}/hoodie.properties"
_URL_ENCODED = "hoodie.datasource.write.partitionpath.urlencode"
_SLASHED_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
_VIRTUAL = (GeneratorKind.SIMPLE, GeneratorKind.COMPLEX, GeneratorKind.NON_PARTITION)
"""The key generators of tables without meta columns."""
VERSIONS = (5, 6, 8, 9)
"""Table versions that lakebed reads. 7 was a step on the way to 8, and no release writes it."""


@dataclass(frozen=True, slots=True)
class TableConfig:
    """The content of `hoodie.properties`. Field lists are in the order of the key generator; `properties` has every key
    as it stands in the file."""

    name: str
    version: int
    merge_on_read: bool
    layout: int
    record_keys: tuple[str, ...]
    partition_fields: tuple[str, ...]
    generator: KeyGenerator
    plain_partitions: bool
    """Whether partition paths certainly hold the partition fields' own text. False for dates or timestamps in a format
    of their own, and for a key generator that lakebed does not know or that the table does not name."""
    ordering: tuple[str, ...]
    meta_fields: bool
    hive_style: bool
    url_encoded: bool | None
    """Whether partition paths are URL-encoded; None where the table does not say."""
    drops_partition_columns: bool
    base_format: str
    create_schema: str
    cdc: bool
    timezone: str
    properties: Mapping[str, str]

    @property
    def completion_times(self) -> bool:
        """Whether file slices and ranges are ordered by completion times (table version 8 and later)."""
        return self.version >= 8

    @property
    def slashed_dates(self) -> bool:
        """Whether partition paths spell dates as 2026/01/06, as release 1.2 does where it is asked to."""
        return _true(self.properties, _SLASHED_DATES, False)

    @property
    def key_form(self) -> KeyForm:
        """The form of record keys in delete blocks and in the meta column."""
        value_only = self.properties.get("hoodie.table.complex.keygen.encoding", "").strip().upper() == "VALUE_ONLY"
        return KeyForm(self.generator, value_only)

    def check_dropped(self, table: str, more: Mapping[str, bool] = {}) -> None:
        """Raise UnsupportedError for a table whose files leave out the partition columns, where lakebed does not write
        it so. `more` are further reasons, and whether they hold."""
        if not self.drops_partition_columns:
            return
        named = [name for name in self.ordering if name in self.partition_fields]
        reasons = {
            "its paths do not hold the columns' own text": not self.plain_partitions and bool(self.partition_fields),
            f"the ordering column {', '.join(named)} is one of them": bool(named),
            "it has change logs": self.cdc,
            "it is merge-on-read, and releases before 1.1 read nulls from its logs": self.merge_on_read
            and self.version < 9,
            **more,
        }
        why = next((reason for reason, holds in reasons.items() if holds), "")
        if why:
            raise UnsupportedError(
                "lakebed does not write this table without its partition columns",
                table=table,
                why=why,
                todo="Keep the partition columns in the files (hoodie.datasource.write.drop.partition.columns=false)",
            )

    def check_virtual(self, schema: pa.Schema, table: str) -> None:
        """Raise UnsupportedError for a table without meta columns that lakebed does not write, with these columns.

        Hudi takes three key generators for one (`BaseHoodieWriteClient.validateAgainstTableProperties`). Logs hold the
        keys of deletes as texts, which releases spell in several ways for some types.
        """
        if self.meta_fields:
            return
        kinds = {name: schema.field(name).type for name in self.record_keys if name in schema.names}
        spelled = is_spelled_alike if self.merge_on_read else has_key_text
        bare = self.generator.kind is GeneratorKind.COMPLEX and len(self.record_keys) == 1 and self.version < 9
        odd = [f"{name} ({kind})" for name, kind in kinds.items() if not spelled(kind)]
        reasons = {
            "it has no record key": not self.record_keys,
            f"its key generator is {self.generator.name or 'not named'}": self.generator.kind not in _VIRTUAL,
            "it has change logs": self.cdc,
            "its files leave out the partition columns": self.drops_partition_columns,
            f"keys of {', '.join(odd)} are not certain": bool(odd),
            "its key generator is COMPLEX with one column, whose name some releases put before keys": bare
            and self.merge_on_read,
        }
        why = next((reason for reason, holds in reasons.items() if holds), "")
        if why:
            raise UnsupportedError(
                "lakebed does not write this table without meta columns",
                table=table,
                why=why,
                todo="Write the rows to a table with meta columns (hoodie.populate.meta.fields=true)",
            )

    @property
    def timeline_folder(self) -> str:
        """The folder of the active timeline."""
        if self.layout < 2:
            return HOODIE
        return f"{HOODIE}/{self.properties.get('hoodie.timeline.path') or 'timeline'}"

    @property
    def archive_folders(self) -> tuple[str, ...]:
        """Folders where an archived timeline can lie, the one for new files first. In layout 2 that is the LSM history,
        in layout 1 the folder that the properties name; the default folders follow."""
        if self.layout >= 2:
            return (f"{self.timeline_folder}/{self.properties.get('hoodie.timeline.history.path') or 'history'}",)
        named = self.properties.get("hoodie.archivelog.folder") or "archived"
        return tuple(dict.fromkeys(f"{HOODIE}/{folder}" for folder in (named, "archived", "history")))


def load_config(store: Store) -> TableConfig:
    """Read a table's settings.

    A writer that updates the properties first copies them to `hoodie.properties.backup`. That copy is read while the
    file itself is missing or cut short. Raises TableNotFoundError where there is neither, and UnsupportedError for a
    table version that lakebed does not read.
    """
    properties: dict[str, str] = {}
    for name in (PROPERTIES, f"{PROPERTIES}.backup"):
        try:
            properties = parse_properties(store.read(name))
        except FileNotFoundError:
            continue
        if "hoodie.table.name" in properties and "hoodie.table.version" in properties:
            break
    if "hoodie.table.name" not in properties:
        raise TableNotFoundError(
            "not a Hudi table",
            table=store.location,
            file=PROPERTIES,
            why="the file is missing or names no table",
            todo="Give the table's root folder",
        )
    with decoding("the table's properties cannot be read", table=store.location, file=PROPERTIES):
        return _config(tuple(properties.items()), store.location)


@lru_cache(64)
def _config(properties: tuple[tuple[str, str], ...], table: str) -> TableConfig:
    return config_from(dict(properties), table=table)


@decoding("the table's properties cannot be read", file=PROPERTIES)
def config_from(properties: Mapping[str, str], *, table: str = "") -> TableConfig:
    """Settings from properties. UnsupportedError for a table version that lakebed does not read,
    CorruptError where one lacks or is no number."""
    text = properties.get("hoodie.table.version", "")
    version = int(text) if is_number(text) else 0
    if version not in VERSIONS:
        raise UnsupportedError(
            f"Hudi table version {text or 'unknown'} is not supported",
            table=table,
            file=PROPERTIES,
            why=f"lakebed reads versions {', '.join(map(str, VERSIONS))}",
            todo="Upgrade the table with Hudi's own engine" if version < VERSIONS[0] else "Use a newer lakebed",
        )
    raw_partitions = _listed(properties.get("hoodie.table.partition.fields", ""))
    kinds = tuple(field.partition(":")[2].upper() for field in raw_partitions)
    generator = KeyGenerator.of(properties)
    return TableConfig(
        name=properties["hoodie.table.name"],
        version=version,
        merge_on_read=properties.get("hoodie.table.type", "COPY_ON_WRITE").upper() == "MERGE_ON_READ",
        layout=int(properties.get("hoodie.timeline.layout.version") or (2 if version >= 8 else 1)),
        record_keys=_listed(properties.get("hoodie.table.recordkey.fields", "")),
        partition_fields=tuple(field.partition(":")[0] for field in raw_partitions),
        generator=generator,
        plain_partitions=generator.copies_partition_values(kinds) and not _true(properties, _SLASHED_DATES, False),
        ordering=_listed(
            properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field") or ""
        ),
        meta_fields=_true(properties, "hoodie.populate.meta.fields", True),
        hive_style=_true(properties, "hoodie.datasource.write.hive_style_partitioning", False),
        url_encoded=_true(properties, _URL_ENCODED, False) if _URL_ENCODED in properties else None,
        drops_partition_columns=_true(properties, "hoodie.datasource.write.drop.partition.columns", False),
        base_format=properties.get("hoodie.table.base.file.format", "PARQUET").upper(),
        create_schema=properties.get("hoodie.table.create.schema", ""),
        cdc=_true(properties, "hoodie.table.cdc.enabled", False),
        timezone=properties.get("hoodie.table.timeline.timezone", "LOCAL").upper(),
        properties=dict(properties),
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _true(properties: Mapping[str, str], key: str, default: bool) -> bool:
    return properties.get(key, str(default)).strip().lower() == "true"
