"""Simulated Hudi tables with consistent hashing: clusterings split and merge the buckets of a partition, whose ring
says which file group holds a key."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from lakebed.testing.simulation.hudi import HudiSubject
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.subject import Options

_ALWAYS = {"hoodie.bucket.index.split.threshold": "0.0000001", "hoodie.bucket.index.merge.threshold": "1000"}


class ConsistentSubject(HudiSubject):
    """A Hudi table, merge-on-read, whose buckets are resized."""

    format = "hudi-consistent"
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 2), ("upsert", 6), ("delete", 2), ("overwrite", 1), ("two_phase", 2), ("prepare_and_abort", 1),
            ("read", 1), ("rewrite", 4), ("drop_partitions", 1), ("expire", 1),
        ),
        "service": (
            ("rewrite", 6), ("schedule", 2), ("withdraw", 1), ("expire", 2), ("archive", 2), ("failed_writes", 1),
            ("orphans", 1), ("tag", 1),
        ),
        "reader": (("read", 3), ("read_old", 2), ("stream", 2)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (("upsert", 5), ("delete", 2), ("rewrite", 4), ("schedule", 2), ("withdraw", 1)),
            "service": (("rewrite", 5), ("schedule", 2), ("withdraw", 1), ("archive", 1), ("expire", 1)),
            "reader": (("read", 2), ("stream", 1)),
        },
        {
            "writer": (
                ("upsert", 5), ("overwrite", 2), ("overwrite_table", 1), ("drop_partitions", 2), ("rewrite", 3),
                ("archive", 1),
            ),
            "service": (("rewrite", 4), ("archive", 1), ("expire", 1), ("failed_writes", 1)),
            "reader": (("read", 2), ("read_old", 1)),
        },
    )  # fmt: skip
    later_themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("prepare", 5), ("commit_prepared", 4), ("abort_prepared", 2), ("upsert", 2), ("rewrite", 3),
            ),
            "service": (("commit_prepared", 3), ("abort_prepared", 1), ("rewrite", 3), ("failed_writes", 1)),
            "reader": (("stream", 2), ("commit_prepared", 1)),
        },
        {
            "writer": (("upsert", 5), ("delete", 1), ("tag", 4), ("restore", 2), ("rewrite", 4), ("overwrite", 1)),
            "service": (("rewrite", 3), ("restore", 1), ("tag", 1), ("untag", 1), ("archive", 1)),
            "reader": (("read", 2), ("stream", 1)),
        },
    )  # fmt: skip

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.merge_on_read, self.index = True, "CONSISTENT_HASHING"
        self.buckets = chance.choice([1, 2, 3])
        self.metadata = chance.random() < 0.25

    def index_options(self) -> Options:
        """The ring of a partition begins with few buckets."""
        return {
            "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": self.buckets,
            "hoodie.index.bucket.engine": self.index,
        }  # fmt: skip

    def rewrites(self, chance: random.Random) -> Options:
        """A compaction, or a clustering that splits buckets, merges or rewrites them."""
        due: Options = {"hoodie.compact.inline.max.delta.commits": chance.choice([1, 2])}
        what = chance.choice(["", "clustering", "clustering", "clustering", "log-compaction"])
        if what == "clustering":
            least, most = chance.choice([(1, 1), (1, 2), (1, 6), (4, 6)])
            sort = {"hoodie.clustering.plan.strategy.sort.columns": "v"} if chance.random() < 0.2 else {}
            bounds = {"hoodie.bucket.index.min.num.buckets": least, "hoodie.bucket.index.max.num.buckets": most}
            return {"lakebed.rewrite.what": what, **bounds, **_ALWAYS, **sort}
        return {**due, "lakebed.rewrite.what": what, "hoodie.log.compaction.blocks.threshold": 2} if what else due
