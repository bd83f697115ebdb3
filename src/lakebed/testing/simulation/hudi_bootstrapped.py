"""Simulated Hudi tables that a bootstrap began, with all its rows: its instant is older than any clock."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar
from unittest.mock import patch

from lakebed.formats.hudi.commit import transaction
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.writing import new_instant
from lakebed.kernel.files import Store
from lakebed.testing.simulation.changes import State
from lakebed.testing.simulation.hudi import HudiSubject
from lakebed.testing.simulation.schedule import Verbs

_FULL_RECORD = "00000000000002"
"""The instant of a bootstrap that copies rows, as Hudi's own engine names it."""


class BootstrappedSubject(HudiSubject):
    """A Hudi table whose first commit is a bootstrap."""

    format = "hudi-bootstrapped"
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (("upsert", 8), ("stream", 3), ("archive", 3), ("expire", 2), ("rewrite", 1)),
            "service": (("archive", 4), ("expire", 3), ("rewrite", 1), ("overwrite", 1)),
            "reader": (("stream", 4), ("read_old", 1)),
        },
        {
            "writer": (("upsert", 5), ("delete", 1), ("tag", 4), ("restore", 2), ("rewrite", 2), ("archive", 1)),
            "service": (("restore", 1), ("tag", 2), ("untag", 1), ("archive", 2), ("expire", 1)),
            "reader": (("read", 2), ("read_old", 2), ("stream", 1)),
        },
    )

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.index, self.metadata = "", False  # they come with lakebed's first write, not with the bootstrap

    @property
    def begins_with(self) -> State:
        """A row of each id."""
        return frozenset((key, 1 + key) for key in range(self.ids))

    def create(self, store: Store) -> None:
        """Create the table, with its first rows."""
        super().create(store)
        with patch.object(transaction, "new_instant", _instant):
            options = {"hoodie.datasource.write.operation": "bulk_insert", "hoodie.metadata.enable": "false"}
            self.open(store).write(self.data(sorted(self.begins_with)), options=options)


def _instant(config: TableConfig, timeline: Timeline, after: str = "") -> str:
    """The instant of the bootstrap, or the time at which it is completed."""
    return new_instant(config, timeline, after) if after else _FULL_RECORD
