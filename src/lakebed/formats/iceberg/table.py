"""The public face of an Iceberg table, over the format's own modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebed.errors import CommitUnknownError, TableExistsError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import LostRaceError, OutcomeUnknownError
from lakebed.formats.iceberg.face.branches_and_tags import BranchesAndTags
from lakebed.formats.iceberg.face.maintenance import Maintenance
from lakebed.formats.iceberg.face.opened import OPTIONS
from lakebed.formats.iceberg.face.reads import Reads
from lakebed.formats.iceberg.face.statistics import Statistics
from lakebed.formats.iceberg.face.writes import Writes
from lakebed.formats.iceberg.layout import places_of
from lakebed.kernel.files import Store

if TYPE_CHECKING:
    from lakebed.model.alter import AlterResult, Change


class IcebergTable(Statistics, Reads, Writes, BranchesAndTags, Maintenance):
    """An Iceberg table, opened by its path or from a catalog. The option `branch` chooses a branch."""

    @classmethod
    def of_catalog(cls, name: str, options: Mapping[str, str] = {}) -> IcebergTable:
        """Open the table `catalog:namespace.table` of one of pyiceberg's catalogs.

        Options `lakebed.catalog.*` are properties of the catalog. They take precedence over pyiceberg's configuration.
        """
        from lakebed.formats.iceberg.catalog.table import CatalogTable, parse_identifier

        OPTIONS.parse(options)
        operations = CatalogTable(parse_identifier(name), options)
        return cls(operations.files.home, options, operations)

    @classmethod
    def create(
        cls, store: Store, schema: pa.Schema, primary_key: Sequence[str] = (), partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> IcebergTable:  # fmt: skip
        """Create a table at a path, without a snapshot. Options are table properties, and `format-version` (2).

        Raises SchemaError, UsageError and OptionError for a definition that Iceberg does not allow, TableExistsError
        when there is already a table, CommitUnknownError when the store does not say whether it was created.
        """
        from lakebed.formats.iceberg.definition import new_metadata, new_schema, new_spec, table_properties

        version, properties = table_properties(options)
        columns = new_schema(schema, primary_key, version, store.location)
        spec = new_spec(columns, partition_by, store.location)
        operations = HadoopTable(store, options, places_of(properties))  # the caller names these places in this call
        try:
            operations.create(new_metadata(store.location, columns, spec, version, properties))
        except LostRaceError as error:
            raise TableExistsError(
                "there is already an iceberg table", table=store.location, todo="Open it with lakebed.open"
            ) from error
        except OutcomeUnknownError as error:
            raise CommitUnknownError(
                "the store does not say whether the table was created",
                table=store.location,
                todo="Try to open it with lakebed.open before you create it again",
            ) from error
        return cls(store, _opening(options), operations)

    @classmethod
    def create_in_catalog(
        cls, name: str, schema: pa.Schema, primary_key: Sequence[str] = (), partition_by: Sequence[str] = (),
        options: Mapping[str, str] = {},
    ) -> IcebergTable:  # fmt: skip
        """Create the table `catalog:namespace.table`. The catalog chooses its location.

        Raises what `create` raises.
        """
        from lakebed.formats.iceberg.catalog.table import CatalogTable, parse_identifier
        from lakebed.formats.iceberg.definition import new_schema, new_spec, table_properties

        version, properties = table_properties(options)
        columns = new_schema(schema, primary_key, version, name)
        operations = CatalogTable(parse_identifier(name), options)
        operations.create(columns, new_spec(columns, partition_by, name), version, properties)
        return cls(operations.files.home, _opening(options), operations)

    def leave_catalog(self) -> None:
        """Remove the table from its catalog, if it has one. Its files stay."""
        from lakebed.formats.iceberg.catalog.table import CatalogTable

        if isinstance(self.operations, CatalogTable):
            self.operations.drop()

    def alter(self, changes: Change | Sequence[Change], dry_run: bool = False) -> AlterResult:
        """Change columns, identifier fields, partition fields, sort order, properties and format version
        (docs/iceberg-alter.md).

        `version` of the result is the schema's id. Raises SchemaError and OptionError for what Iceberg refuses,
        CommitConflictError when another alteration was faster.
        """
        from lakebed.formats.iceberg.alter.run import alter_table

        return alter_table(self.operations, changes, dry_run)


def _opening(options: Mapping[str, str]) -> dict[str, str]:
    """The options of `create` that say how to open the table."""
    return {key: value for key, value in options.items() if opt.OPENING.knows(key)}
