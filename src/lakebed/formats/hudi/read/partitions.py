"""The partitions of a table: their files, the column values that their paths hold, and pruning by a predicate.

A folder is a partition when it holds `.hoodie_partition_metadata` (Hudi's `FSUtils.getAllPartitionPaths`), or when a
commit names it. Each folder is listed once: the listing that shows what the folder is also gives its files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import OLD_NULL_PARTITION, PARTITION_METADATA, partition_values
from lakebed.kernel.files import FileInfo, Listing, Store
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.tree import Node

_PRUNABLE = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)


@dataclass(frozen=True, slots=True)
class PartitionColumns:
    """How the paths of a table hold its partition columns.

    `dropped` says that data files leave the columns out, so that only the path has them. `plain` says that a path
    certainly holds a column's own text. `url_encoded` is None where the table does not say.
    """

    fields: tuple[str, ...]
    hive_style: bool
    url_encoded: bool | None
    dropped: bool
    plain: bool
    table: str = ""

    @classmethod
    def of(cls, config: TableConfig, table: str) -> PartitionColumns:
        """From the configuration of a table at the location `table`."""
        return cls(
            config.partition_fields,
            config.hive_style,
            config.url_encoded,
            config.drops_partition_columns,
            config.plain_partitions,
            table,
        )

    def values(self, partition: str, schema: pa.Schema) -> dict[str, pa.Scalar]:
        """The typed values of a partition's columns, as far as its path tells them for certain.

        A folder name that two texts could have made tells nothing: the null folder of old releases, a value that looks
        like a Hive-style folder, an escape where the table does not say whether paths are encoded.
        """
        if not self.plain and not self.dropped:
            return {}
        values: dict[str, pa.Scalar] = {}
        for name, text in zip(self.fields, self._texts(partition) or (), strict=False):
            if name not in schema.names or not (self.dropped or self._is_certain(name, text, partition)):
                continue
            try:
                values[name] = pa.scalar(text, pa.string()).cast(schema.field(name).type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
        return values

    def constants(self, partition: str, wanted: pa.Schema) -> Mapping[str, pa.Scalar]:
        """The values of wanted columns that data files leave out, {} where the files hold the partition columns.

        Raises UnsupportedError where the path does not tell a value or its text does not fit the column.
        """
        lacking = [name for name in self.fields if self.dropped and name in wanted.names]
        values = self.values(partition, wanted) if lacking else {}
        for name in lacking:
            if name not in values:
                texts = self._texts(partition)
                if texts is None:
                    raise self._refused(partition, f"it does not have one folder for each of {', '.join(self.fields)}")
                kind, text = wanted.field(name).type, texts[self.fields.index(name)]
                raise self._refused(partition, f"{text!r} does not fit {kind}, the type of {name}")
        return values

    def _texts(self, partition: str) -> tuple[str | None, ...] | None:
        return partition_values(partition, self.fields, bool(self.url_encoded)) if self.fields else None

    def _is_certain(self, name: str, text: str | None, partition: str) -> bool:
        if text is None or text == OLD_NULL_PARTITION or (self.url_encoded is None and "%" in text):
            return False
        return self.hive_style or f"{name}=" not in partition

    def _refused(self, partition: str, why: str) -> UnsupportedError:
        return UnsupportedError(
            "a partition's path does not tell the values of its columns",
            table=self.table,
            file=partition,
            why=f"{why}; data files leave the columns out (hoodie.datasource.write.drop.partition.columns)",
            todo="Rewrite the table with its partition columns in the files",
        )

    def kept(self, partitions: Iterable[str], predicate: Node | None, schema: pa.Schema) -> list[str]:
        """The partitions that can hold rows for which the predicate is true."""
        paths = list(partitions)
        if predicate is None or not self.fields or not (self.plain or self.dropped) or not paths:
            return paths

        def known(path: tuple[str, ...]) -> list[Facts]:
            return self._facts(path[0], paths, schema) if len(path) == 1 else []

        chosen = can_hold(predicate, known, len(paths))
        return [path for path, wanted in zip(paths, chosen, strict=True) if wanted]

    def _facts(self, name: str, partitions: Sequence[str], schema: pa.Schema) -> list[Facts]:
        """The values of one partition column, as far as the paths tell them."""
        if name not in self.fields or name not in schema.names:
            return []
        field = schema.field(name)
        if not any(is_kind(field.type) for is_kind in _PRUNABLE):
            return []
        column = pa.schema([field])
        values = [self.values(partition, column).get(name) for partition in partitions]
        texts = [None if value is None else value.as_py() for value in values]
        unknown = np.array([text is None for text in texts], np.bool_)
        return [Facts.constant(pa.array(texts, field.type), unknown)]


def list_partitions(store: Store, named: Collection[str]) -> dict[str, tuple[FileInfo, ...]]:
    """The files of each partition. `named` are partitions that commits name."""
    files: dict[str, tuple[FileInfo, ...]] = {}
    pending = [""]
    while pending:
        listings = store.list_many(pending)
        below: list[str] = []
        for folder, listing in zip(pending, listings, strict=True):
            if _is_partition(listing) or folder in named:
                files[folder] = listing.files
                continue
            below += [
                f"{folder}/{name}" if folder else name for name in listing.folders if folder or not name.startswith(".")
            ]
        pending = below
    return files


def list_named(store: Store, partitions: Collection[str]) -> dict[str, tuple[FileInfo, ...]]:
    """The files of some partitions, one listing each. A partition that is gone has none."""
    paths = sorted(partitions)
    return dict(zip(paths, (listing.files for listing in store.list_many(paths)), strict=True))


def _is_partition(listing: Listing) -> bool:
    return any(name.partition(".parquet")[0].partition(".orc")[0] == PARTITION_METADATA for name in listing.names)
