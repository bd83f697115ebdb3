"""The partitions of a table: their files, the column values that their paths hold, and pruning by a predicate.

A folder is a partition when it holds `.hoodie_partition_metadata` (Hudi's `FSUtils.getAllPartitionPaths`), or when a
commit names it. Each folder is listed once: the listing that shows what the folder is also gives its files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import OLD_NULL_PARTITION, PARTITION_METADATA, partition_values
from lakebed.kernel.arrays import to_numpy
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

    def beginning(self, folder: str, field: pa.Field) -> object:
        """The value of a partition column below a folder, as its path tells it; a text may be the beginning of the
        value. None where the path does not tell."""
        if not folder:
            return None
        place, parts = self.fields.index(field.name), folder.split("/")
        if len(self.fields) == 1:
            parts = [folder]  # one field whose value holds slashes
        if place >= len(parts) or len(parts) > len(self.fields):
            return None
        certain = place == 0 or self.url_encoded or parts[place].startswith(f"{field.name}=")
        values = partition_values(parts[place], (field.name,), bool(self.url_encoded))
        if not certain or values is None or not (self.dropped or self._is_certain(field.name, values[0], parts[place])):
            return None
        try:
            return pa.scalar(values[0], pa.string()).cast(field.type).as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

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

    def keeping(self, predicate: Node | None, schema: pa.Schema) -> Keeping | None:
        """What tells partitions that can hold rows for which the predicate is true; None where nothing does."""
        if predicate is None or not self.fields or not (self.plain or self.dropped):
            return None
        return Keeping(self, predicate, schema)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Tells by their paths which partitions can hold rows for which a predicate is true."""

    columns: PartitionColumns
    predicate: Node
    schema: pa.Schema

    def kept(self, partitions: Iterable[str]) -> list[str]:
        """The partitions that can hold such rows."""
        return self._chosen([*partitions], self._values)

    def leading(self, folders: Iterable[str]) -> list[str]:
        """The folders that are such partitions, or can have them below."""
        return self._chosen([*folders], self._beginnings)

    def _chosen(self, paths: list[str], facts: Callable[[pa.Field, Sequence[str]], Facts]) -> list[str]:
        if not paths:
            return paths

        def known(path: tuple[str, ...]) -> list[Facts]:
            name = path[0]
            if len(path) > 1 or name not in self.columns.fields or name not in self.schema.names:
                return []
            field = self.schema.field(name)
            return [facts(field, paths)] if any(is_kind(field.type) for is_kind in _PRUNABLE) else []

        chosen = can_hold(self.predicate, known, len(paths))
        return [path for path, wanted in zip(paths, chosen, strict=True) if wanted]

    def _values(self, field: pa.Field, partitions: Sequence[str]) -> Facts:
        """The values of one partition column, as far as the paths tell them."""
        column = pa.schema([field])
        values = [self.columns.values(partition, column).get(field.name) for partition in partitions]
        texts = [None if value is None else value.as_py() for value in values]
        unknown = np.array([text is None for text in texts], np.bool_)
        return Facts.constant(pa.array(texts, field.type), unknown)

    def _beginnings(self, field: pa.Field, folders: Sequence[str]) -> Facts:
        """What the paths of folders tell of one partition column in all that lies below them.

        A text in the path can be the beginning of a value that holds slashes.
        """
        lower = pa.array([self.columns.beginning(folder, field) for folder in folders], field.type)
        unknown = to_numpy(lower.is_null())
        known = Facts.constant(lower, unknown)
        if not pa.types.is_string(field.type):
            return known
        return replace(known, upper=pc.binary_join_element_wise(known.lower, "/\U0010ffff", ""))


def list_partitions(
    store: Store,
    named: Collection[str],
    folders: Sequence[str] | None = None,
    listed: Mapping[str, Listing] = {},
    keeping: Keeping | None = None,
) -> dict[str, tuple[FileInfo, ...]]:
    """The files of each partition, level by level; with `keeping` of those that it keeps, and perhaps of others.

    `named` are partitions that commits name: they are listed first. `folders` are those of the root, None where that
    was not listed yet; `listed` has folders that were listed already. No folder is listed twice.
    """
    files: dict[str, tuple[FileInfo, ...]] = {}
    seen = {*named}
    pending = sorted(named if keeping is None else keeping.kept(named))
    below: list[str] = [""] if folders is None else [*folders]
    while pending or below:
        fresh = [folder for folder in below if folder not in seen]
        pending += fresh if keeping is None else keeping.leading(fresh)
        missing = [folder for folder in pending if folder not in listed]
        listings = {**listed, **dict(zip(missing, store.list_many(missing), strict=True))}
        below = []
        for folder in pending:
            if folder in named or is_partition(listings[folder]):
                files[folder] = listings[folder].files
            else:
                below += inner_folders(folder, listings[folder])
        seen.update(pending)
        pending = []
    return files


def inner_folders(folder: str, listing: Listing) -> list[str]:
    """The folders inside a folder that can be partitions or lead to some."""
    return [f"{folder}/{name}" if folder else name for name in listing.folders if folder or not name.startswith(".")]


def first_folders(root: Listing | None) -> tuple[str, ...] | None:
    """The folders in the table's root where partitions are looked for; None where there was no look, or the root is a
    partition itself."""
    return None if root is None or is_partition(root) else tuple(inner_folders("", root))


def list_named(store: Store, partitions: Collection[str]) -> dict[str, tuple[FileInfo, ...]]:
    """The files of some partitions, one listing each. A partition that is gone has none."""
    paths = sorted(partitions)
    return dict(zip(paths, (listing.files for listing in store.list_many(paths)), strict=True))


def is_partition(listing: Listing) -> bool:
    """Whether a folder says that it is a partition."""
    return any(name.partition(".parquet")[0].partition(".orc")[0] == PARTITION_METADATA for name in listing.names)
