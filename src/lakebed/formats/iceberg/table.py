"""An Iceberg table: the face, over the format's own modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog import CatalogTable, PathTable, TableAccess, parse_identifier
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.snapshot import history
from lakebed.kernel.files import Store
from lakebed.kernel.predicates import Where
from lakebed.model.instant import Instant
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.table import Position, Table


class IcebergTable(Table):
    """An Iceberg table, by path or of a catalog; the option `branch` picks a branch."""

    format: ClassVar[str] = "iceberg"
    unknown_to_format: ClassVar[Mapping[str, str]] = {"archive": "Its history is bounded by expiring snapshots"}

    def __init__(self, store: Store, options: Mapping[str, str] = {}, access: TableAccess | None = None) -> None:
        super().__init__(store, options)
        self.branch = opt.OPTIONS.parse(options)[opt.BRANCH]
        self.access = access or PathTable(store, options)
        self.metadata.head(self.branch)

    @classmethod
    def of_catalog(cls, name: str, options: Mapping[str, str] = {}) -> IcebergTable:
        """The table `catalog:namespace.table` of one of pyiceberg's catalogs.

        Options `lakebed.catalog.*` are properties of the catalog, over pyiceberg's own configuration.
        """
        opt.OPTIONS.parse(options)
        access = CatalogTable(parse_identifier(name), options)
        return cls(access.files.home, options, access)

    @property
    def metadata(self) -> TableMetadata:
        """The current metadata, read anew."""
        return self.access.load().metadata

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        raise self._lacks("schema")

    def history(self, archived: bool = False) -> list[Instant]:
        """All snapshots, oldest first, also those of other branches; `summary["refs"]` names branches and tags."""
        return history(self.metadata)

    def plan_read(
        self, columns: Sequence[str] | None = None, where: Where = None, as_of: Position = None
    ) -> ReadPlan[Any]:
        """The splits of a snapshot."""
        raise self._lacks("reads")
