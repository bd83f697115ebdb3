"""The compaction that a sink runs on the buckets that it writes to, before it commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.write.state import WriteState
from lakebed.kernel.engine import Engine
from lakebed.verbs.write import Prepared


class CompactionOfWrites(Protocol):
    """Compacts buckets together with the new files of a write. It pickles."""

    def compact(self, state: WriteState, prepared: Prepared, engine: Engine, replaces: bool) -> Prepared:
        """Add to messages what a compaction makes of their buckets. `state` is what the write was planned on;
        `replaces`: the new files are all that their partitions will have."""
        ...

    def forget(self, messages: Sequence[PaimonMessage]) -> None:
        """These messages were committed, or never will be."""
        ...
