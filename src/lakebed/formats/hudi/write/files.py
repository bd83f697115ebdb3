"""What all files of one write share, and the names that they get.

Rules: Hudi's `FSUtils.makeBaseFileName` and `makeLogFileName`, `HoodiePartitionMetadata`, `HoodieFileWriterFactory`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from lakebed.formats.hudi.codec.bloom import FilterSettings
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import META_COLUMNS, PARTITION_METADATA, file_path
from lakebed.kernel.files import PutOutcome, Store


class Markers(Protocol):
    """Notes on storage which file a write is going to make, before it does. Picklable."""

    def __call__(self, path: str, kind: str) -> None:
        """Note a file by its path inside the table; `kind` is CREATE, MERGE or APPEND."""
        ...


_BLOOM = FilterSettings()


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files are encoded. Sizes are in bytes. `block` is the kind of data blocks in logs: avro or parquet."""

    compression: str = "gzip"
    row_group: int = 120 << 20
    dictionary: bool = True
    bloom: FilterSettings | None = _BLOOM
    block: str = "avro"
    block_bytes: int = 256 << 20
    log_bytes: int = 1 << 30
    positions: bool = False

    @property
    def compression_level(self) -> int | None:
        """The level of the codec. Gzip at its lowest level takes a quarter of the time that its highest takes (a
        twentieth for decimals), and files are 2 % larger."""
        return 1 if self.compression == "gzip" else None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the metadata table wants to know of new files: the columns with statistics (None: none, (): all), bloom
    filters, and record keys."""

    columns: tuple[str, ...] | None = None
    bloom: bool = False
    keys: bool = False


@dataclass(frozen=True, slots=True)
class FileTarget:
    """What all files of one write share. Picklable.

    `schema` are the user's columns, `avro` is the writer's Avro schema of them as JSON text, without meta columns.
    """

    store: Store
    config: TableConfig
    instant: str
    schema: pa.Schema
    avro: str
    options: FileOptions
    markers: Markers
    wanted: Wanted = Wanted()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of base files: the meta columns, then the user's."""
        return with_meta_columns(self.schema)

    @property
    def kept_schema(self) -> pa.Schema:
        """The columns that a new file takes from older ones: all but the name of the file."""
        return pa.schema([field for field in self.file_schema if field.name != META_COLUMNS[4]])

    def prepare(self, partition: str) -> None:
        """Say in a partition's folder that it is one, before its first file."""
        path = file_path(partition, PARTITION_METADATA)
        if self.store.exists(path):
            return
        depth = len(partition.split("/")) if partition else 0
        text = f"#partition metadata\ncommitTime={self.instant}\npartitionDepth={depth}\n"
        if self.store.put_if_absent(path, text.encode()) is PutOutcome.UNKNOWN:
            self.store.write(path, text.encode())


def with_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of base files, for the user's."""
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])


def new_token(number: int) -> str:
    """A write token of a task: the number of the task, and a number that no other attempt at it has."""
    return f"{number}-{secrets.randbelow(1 << 20)}-{secrets.randbelow(1 << 30)}"


def base_name(file_id: str, token: str, instant: str) -> str:
    """The name of a base file."""
    return f"{file_id}_{token}_{instant}.parquet"
