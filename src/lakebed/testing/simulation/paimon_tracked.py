"""Simulated Paimon tables whose rows have ids: a row gets its own at its commit, and keeps it through compactions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from lakebed.testing.simulation.changes import Row
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.model import Seen
from lakebed.testing.simulation.paimon import PaimonSubject
from lakebed.testing.simulation.row_ids import Numbers
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.subject import Options
from lakebed.verbs.table import Table

_COLUMNS = ("id", "v", "_ROW_ID", "_SEQUENCE_NUMBER")


class TrackedSubject(PaimonSubject):
    """A Paimon table without a primary key whose rows are tracked. Some have data evolution, and no compactions."""

    format = "paimon-tracked"
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 5), ("two_phase", 3), ("overwrite", 1), ("prepare_and_abort", 1), ("rewrite", 3), ("read", 1),
            ("expire", 1), ("stream", 1),
        ),
        "service": (
            ("rewrite", 5), ("expire", 2), ("orphans", 1), ("tag", 2), ("untag", 1), ("rollback", 1),
        ),
        "reader": (("read", 3), ("read_old", 2), ("read_tag", 1), ("stream", 1)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (("append", 5), ("two_phase", 2), ("overwrite", 1), ("rewrite", 4)),
            "service": (("rewrite", 5), ("expire", 1), ("rollback", 1)),
            "reader": (("read", 2), ("read_old", 1), ("rewrite", 1)),
        },
        {
            "writer": (
                ("prepare", 5), ("commit_prepared", 4), ("abort_prepared", 2), ("append", 2), ("rewrite", 2),
                ("expire", 1),
            ),
            "service": (("commit_prepared", 3), ("abort_prepared", 1), ("rewrite", 3), ("expire", 1)),
            "reader": (("stream", 1), ("commit_prepared", 1), ("read", 1)),
        },
    )  # fmt: skip
    later_themes: ClassVar[Sequence[Verbs]] = ()

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.keyed, self.bucket, self.has_buckets = False, "-1", False
        self.producer, self.deletion_vectors, self.keeps_changelogs = "none", False, False
        self.tells_late = self.retells = self.tells_overwritten = False
        self.evolves = chance.random() < 0.2
        self.streams = not self.evolves
        self._numbers: dict[str, Mapping[int, Numbers]] = {}

    def table_options(self) -> Options:
        """Rows have ids."""
        evolution = {"data-evolution.enabled": "true"} if self.evolves else {}
        return {**super().table_options(), "row-tracking.enabled": "true", **evolution}

    def rewrites(self, chance: random.Random) -> Options:
        """Where files may have some of the columns alone, manifests are all that is rewritten."""
        options = super().rewrites(chance)
        return {"lakebed.rewrite.what": "manifests"} if self.evolves else options

    def see(self, store: MemoryStore) -> Seen:
        """The table as it is, with the numbers of its newest rows."""
        seen = super().see(store)
        return replace(seen, numbers=self._numbers[seen.newest] if seen.newest else {})

    def rows_before(self, store: MemoryStore, name: str) -> list[Row] | None:
        """Rows whose numbers are known, too."""
        return super().rows_before(store, name) if name in self._numbers else None

    def rows_seen(self, table: Table, snapshot: str) -> list[Row]:
        """The newest rows of a table, whose numbers are kept."""
        columns = (column.to_pylist() for column in table.read([*_COLUMNS]).read_all().columns)
        rows = [*zip(*columns, strict=True)]
        self._numbers[snapshot] = {value: Numbers(row_id, sequence) for _, value, row_id, sequence in rows}
        return [(key, value) for key, value, _, _ in rows]
