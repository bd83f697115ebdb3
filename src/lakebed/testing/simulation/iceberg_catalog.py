"""Simulated Iceberg tables of a catalog: a commit swaps the location of the metadata file in the catalog, or sends the
changes to it."""

from __future__ import annotations

import math
import random
from typing import ClassVar

import lakebed
from lakebed.kernel.files import Store
from lakebed.testing.simulation.catalog import COMMIT, POINTER, current_file
from lakebed.testing.simulation.iceberg import IcebergSubject
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.subject import Options
from lakebed.verbs.catalog import CATALOG_OPTIONS
from lakebed.verbs.table import Table

_NAME = "simulated:db.t"


class IcebergCatalogSubject(IcebergSubject):
    """An Iceberg table of a catalog."""

    format = "iceberg-catalog"
    pointers: ClassVar[tuple[str, ...]] = (POINTER,)
    forgets_after = math.inf
    forgets_times_after = math.inf
    """The catalog knows whose commits are there."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.kind = chance.choice(["SimulatedMetastore", "SimulatedRest"])
        """The catalog's class: whether its client writes the metadata file, or the catalog itself does."""
        self.tags_go_with_snapshots = self.kind == "SimulatedRest"

    def create(self, store: Store) -> None:
        """Create the table."""
        schema, keys, partitions, options = self.definition()
        given = {**options, **self._catalog(store), "location": store.location}
        lakebed.create(_NAME, "iceberg", schema, keys, partitions, given)

    def open(self, store: Store, branch: str = "") -> Table:
        """Open the table by its name."""
        return lakebed.open(_NAME, {**self._opening(branch), **self._catalog(store)})

    def publishes(self, verb: str, path: str) -> bool:
        """Commits to the catalog."""
        return verb == COMMIT

    def commits(self, verb: str, path: str) -> bool:
        """Commits to the catalog."""
        return verb == COMMIT

    def current(self, store: MemoryStore) -> str:
        """The path of the metadata file that the catalog names."""
        return current_file(store)

    def _catalog(self, store: Store) -> Options:
        """The options that open the catalog, whose table lies in the store."""
        settings = {"py-catalog-impl": f"lakebed.testing.simulation.catalog.{self.kind}", "warehouse": store.location}
        return {f"{CATALOG_OPTIONS}{key}": value for key, value in settings.items()}
