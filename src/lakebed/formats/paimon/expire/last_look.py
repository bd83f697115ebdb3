"""When the commits of an open table last looked for partitions that are too old."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from lakebed.kernel import clock


@dataclass(slots=True)
class LastLook:
    """When the commits of an open table last looked for partitions that are too old.

    They begin as if they had looked at a random time before, as Paimon's do. So tables that are opened for a short
    time look too: about one of those that an interval has.
    """

    _time: float = field(default_factory=clock.steady)
    _share: float | None = field(default_factory=random.random)

    def is_due(self, interval: int) -> bool:
        """Whether an interval of milliseconds has passed. If so, the next one begins."""
        now, earlier = clock.steady(), (self._share or 0.0) * interval / 1000
        if now - self._time + earlier < interval / 1000:
            return False
        self._time, self._share = now, None
        return True
