"""The last step of a commit to a catalog that only names the current metadata file: it swaps one location for the next.

The client of each such catalog has its own swap (a lock, a condition, a row that is compared), which is used as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import StagedTable
from pyiceberg.table import Table as CatalogEntry

from lakebed.formats.iceberg.catalog.operations import Loaded


def publishing(catalog: MetastoreCatalog, stage: Callable[[CatalogEntry], tuple[Loaded, Any]]) -> MetastoreCatalog:
    """A copy of the catalog whose commit only swaps the location, to that of the metadata file that `stage` writes."""
    here: Any = copy.copy(catalog)

    def staged(current: CatalogEntry | None, identifier: Any, requirements: Any, updates: Any) -> StagedTable:
        if current is None:
            raise CommitFailedException("the table is gone")
        loaded, model = stage(current)
        return StagedTable(identifier, model, loaded.location, current.io, catalog)

    def written(*args: Any, **named: Any) -> None:
        """Does nothing: `stage` wrote the file."""

    here._update_and_stage_table = staged
    here._write_metadata = here._write_metadata_no_exist_check = written
    published: MetastoreCatalog = here
    return published
