"""Simulated Iceberg tables that lose data files, and are repaired beside those who write to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.testing.simulation.iceberg import IcebergSubject
from lakebed.testing.simulation.leftovers import live_data_files
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.schedule import Verbs


class LossySubject(IcebergSubject):
    """An Iceberg table whose store loses files."""

    format = "iceberg-lossy"
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 3), ("upsert", 4), ("delete", 2), ("overwrite", 1), ("two_phase", 2), ("lose", 2), ("mend", 3),
            ("read", 1), ("rewrite", 2), ("expire", 1),
        ),
        "service": (
            ("mend", 4), ("lose", 2), ("rewrite", 3), ("expire", 2), ("orphans", 1), ("tag", 1), ("rollback", 1),
        ),
        "reader": (("read", 3), ("mend", 2), ("read_old", 1)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (("append", 3), ("upsert", 4), ("delete", 1), ("lose", 3), ("mend", 3), ("rewrite", 1)),
            "service": (("mend", 4), ("lose", 2), ("rewrite", 2), ("expire", 1)),
            "reader": (("read", 2), ("mend", 2)),
        },
    )
    later_themes: ClassVar[Sequence[Verbs]] = ()
    newest_themes: ClassVar[Sequence[Verbs]] = ()

    def losable(self, store: MemoryStore) -> Mapping[str, frozenset[int]]:
        """The data files. Where delete files are lost, a repair asks what to do."""
        by_name = {path.rpartition("/")[2]: path for path in store.files}
        names = live_data_files(store.files, self.current(store))
        paths = [by_name[name] for name in names if name in by_name]
        return {path: _values(store.files[path].data) for path in paths}


@lru_cache(512)
def _values(data: bytes) -> frozenset[int]:
    return frozenset(pq.read_table(pa.BufferReader(data), columns=["v"], partitioning=None)["v"].to_pylist())
