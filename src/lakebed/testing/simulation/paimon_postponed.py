"""Simulated Paimon tables with postponed buckets (`bucket=-2`): rows wait in files of their own, and a compaction moves
them into real buckets, where readers see them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from lakebed.kernel.avro.records import read_records
from lakebed.testing.simulation.changes import state_of
from lakebed.testing.simulation.leftovers import live_entries
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.model import Seen
from lakebed.testing.simulation.paimon import PaimonSubject
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.subject import Options
from lakebed.testing.simulation.waiting import WaitingFile, overlaid
from lakebed.verbs.table import Table

_POSTPONED = -2
_FOLDER = "bucket-postpone"
_KINDS = ("+I", "-U", "+U", "-D")


class PostponedSubject(PaimonSubject):
    """A Paimon table with a primary key whose writers choose no bucket."""

    format = "paimon-postponed"
    postpones = True
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 2), ("upsert", 5), ("delete", 2), ("overwrite", 1), ("two_phase", 3), ("prepare_and_abort", 1),
            ("rewrite", 4), ("read", 1), ("expire", 1), ("stream", 1),
        ),
        "service": (
            ("rewrite", 6), ("rescale", 2), ("expire", 2), ("orphans", 1), ("tag", 1), ("untag", 1), ("rollback", 1),
        ),
        "reader": (("read", 4), ("read_old", 2), ("read_tag", 1), ("stream", 2)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (("upsert", 5), ("delete", 2), ("two_phase", 2), ("rewrite", 4), ("overwrite", 1)),
            "service": (("rewrite", 5), ("rescale", 1), ("expire", 1)),
            "reader": (("read", 2), ("stream", 2), ("rewrite", 1)),
        },
    )
    later_themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("prepare", 5), ("commit_prepared", 4), ("abort_prepared", 2), ("upsert", 2), ("rewrite", 3),
                ("expire", 1),
            ),
            "service": (("commit_prepared", 3), ("rewrite", 3), ("rescale", 1), ("expire", 1)),
            "reader": (("stream", 2), ("commit_prepared", 1), ("read", 1)),
        },
        {
            "writer": (
                ("expire_partitions", 2), ("upsert", 4), ("delete", 1), ("overwrite", 2), ("rewrite", 3),
                ("rescale", 2), ("stream", 1),
            ),
            "service": (("rewrite", 3), ("rescale", 2), ("expire_partitions", 2), ("expire", 1)),
            "reader": (("read", 2), ("read_old", 1), ("stream", 2)),
        },
    )  # fmt: skip

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.keyed, self.bucket, self.has_buckets = True, "-2", True
        self.producer = chance.choice(["none", "none", "input", "lookup"])
        self.deletion_vectors = chance.random() < 0.15
        self.tells_late = self.producer != "none"
        self.retells = self.producer == "lookup"
        self.tells_overwritten = not self.tells_late
        self.keeps_changelogs = self.producer != "none" and chance.random() < 0.5

    def see(self, store: MemoryStore) -> Seen:
        """The rows that the table will show once all that waits is compacted, and what waits."""
        seen = super().see(store)
        waiting = tuple(_waiting(store, seen.newest)) if seen.newest else ()
        shown = state_of(seen.rows, "in the real buckets")
        return replace(seen, rows=[*overlaid(shown, waiting)], shown=seen.rows, waiting=waiting)

    def complete(self, table: Table) -> None:
        """All that waits moves into real buckets."""
        table.rewrite()

    def rewrites(self, chance: random.Random) -> Options:
        """All that waits moves into real buckets, as much as a bound lets pass, or manifests are merged."""
        if chance.random() < 0.1:
            return {"lakebed.rewrite.what": "manifests"}
        bound = {"lakebed.rewrite.max-files": chance.randrange(1, 4)} if chance.random() < 0.15 else {}
        return {"postpone.default-bucket-num": chance.randrange(1, 4), **bound}


def _waiting(store: MemoryStore, snapshot: str) -> Iterator[WaitingFile]:
    """The postponed files of a snapshot."""
    root = json.loads(store.files[f"snapshot/snapshot-{snapshot}"].data)
    entries = [entry for entry in live_entries(store.files, root) if entry["_BUCKET"] == _POSTPONED]
    paths = {path.rpartition("/")[2]: path for path in store.files if f"{_FOLDER}/" in path} if entries else {}
    for file in (entry["_FILE"] for entry in entries):
        name = file["_FILE_NAME"]
        yield WaitingFile(name, file["_CREATION_TIME"], _events(store.files[paths[name]].data))


@lru_cache(512)
def _events(data: bytes) -> tuple[tuple[str, int, int], ...]:
    """The rows of a postponed file."""
    return tuple((_KINDS[record["_VALUE_KIND"]], record["id"], record["v"]) for record in read_records(data))
