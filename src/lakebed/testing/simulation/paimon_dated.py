"""Simulated Paimon tables whose partitions are times, and expire by them: some are too old soon, others later."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from typing import ClassVar

from lakebed.testing.simulation.paimon import PaimonSubject
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.subject import OLD_SECONDS, Options
from lakebed.testing.simulation.world import START

_LEFT = (10.0, 120.0)
"""In how many seconds after the beginning of a run its partitions are too old."""
_TIMES = [START - OLD_SECONDS + left for left in _LEFT]


def _text(seconds: float) -> str:
    """A time as the value of a partition, by the wall clock of this machine."""
    return f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


class DatedSubject(PaimonSubject):
    """A Paimon table with a partition for each time."""

    format = "paimon-dated"
    parts: ClassVar[Mapping[int, str]] = dict(enumerate(map(_text, _TIMES)))
    dues: ClassVar[Mapping[str, float]] = {_text(time): time + OLD_SECONDS for time in _TIMES}
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 2), ("upsert", 4), ("delete", 2), ("overwrite", 1), ("two_phase", 2), ("expire_partitions", 3),
            ("rewrite", 1), ("expire", 1), ("stream", 1), ("read", 1),
        ),
        "service": (("expire_partitions", 4), ("rewrite", 2), ("expire", 2), ("tag", 1), ("orphans", 1)),
        "reader": (("read", 3), ("read_old", 2), ("stream", 2)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("expire_partitions", 4), ("upsert", 4), ("append", 2), ("delete", 1), ("two_phase", 2),
                ("rewrite", 1), ("stream", 1),
            ),
            "service": (("expire_partitions", 4), ("rewrite", 2), ("expire", 1), ("tag", 1), ("rollback", 1)),
            "reader": (("read", 2), ("read_old", 2), ("stream", 2)),
        },
    )  # fmt: skip
    later_themes: ClassVar[Sequence[Verbs]] = ()
    partition_expiries: ClassVar[Options] = {
        "lakebed.expire.what": "partitions", "partition.expiration-strategy": "values-time",
        "partition.expiration-time": f"{OLD_SECONDS} s",
    }  # fmt: skip

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.partitioned = True
        self.expires_by_itself = chance.random() < 0.4

    def table_options(self) -> Options:
        """Some tables expire partitions after a commit, too."""
        if not self.expires_by_itself:
            return super().table_options()
        expiry = {key: value for key, value in self.partition_expiries.items() if not key.startswith("lakebed.")}
        return {**super().table_options(), **expiry, "partition.expiration-check-interval": "1 s"}
