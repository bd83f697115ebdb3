"""The deletion vectors of one bucket while it is compacted: those it had, and the rows that the compaction deletes.

Rules: Paimon's BucketedDvMaintainer and DeletionVectorsIndexFile. A bucket has one index file with all its vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lakebed.formats.paimon.codec.deletion_vectors import BLOCK_SLACK, VERSION, encode_vector
from lakebed.formats.paimon.codec.manifest import (
    ADD,
    DELETION_VECTORS,
    DataFileMeta,
    DeletionVectorRange,
    IndexManifestEntry,
)
from lakebed.formats.paimon.layout import NameFactory, index_path
from lakebed.formats.paimon.read.deletion_vectors import DeletionVectors
from lakebed.formats.paimon.read.split import DeletionFile
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.files import Store


class BucketVectors:
    """The deleted rows of a bucket's files by file name, positions ascending."""

    def __init__(self, store: Store, files: Sequence[DataFileMeta], deletions: Mapping[str, DeletionFile]) -> None:
        self._store = store
        marked = [file for file in files if file.file_name in deletions]
        reader = DeletionVectors(store, marked, deletions)
        vectors = ((file.file_name, reader.of(file)) for file in marked)
        self._positions: dict[str, Int64s] = {name: positions for name, positions in vectors if positions is not None}
        self._added: dict[str, list[Int64s]] = {}
        self.changed = False
        """Whether a row was deleted, or a vector forgotten, since the vectors were read."""

    def of(self, file: DataFileMeta) -> Int64s | None:
        """The rows of a file that were deleted before the compaction, None where there are none."""
        return self._positions.get(file.file_name)

    def delete(self, file: DataFileMeta, positions: Int64s) -> None:
        """Delete rows of a file that are not deleted yet, each once."""
        self._added.setdefault(file.file_name, []).append(positions)
        self.changed = True

    def forget(self, file: DataFileMeta) -> None:
        """Drop the vector of a file that was rewritten without its deleted rows."""
        if self._positions.pop(file.file_name, None) is not None:
            self.changed = True

    def write(self, partition: bytes, bucket: int, wide: bool) -> tuple[IndexManifestEntry, ...]:
        """Write the index file of the bucket; none where no row is deleted. `wide`: vectors of 64 bits."""
        deleted = {name: [positions] for name, positions in self._positions.items()}
        for name, added in self._added.items():
            deleted.setdefault(name, []).extend(added)
        if not deleted:
            return ()
        blocks = [VERSION]
        ranges: list[DeletionVectorRange] = []
        offset = len(VERSION)
        for name, parts in sorted(deleted.items()):
            positions = np.sort(np.concatenate(parts))
            block = encode_vector(positions, wide)
            length = len(block) - (0 if wide else BLOCK_SLACK)
            ranges.append(DeletionVectorRange(name, offset, length, len(positions)))
            blocks.append(block)
            offset += len(block)
        name = NameFactory("index-")()
        self._store.write_many({index_path(name): b"".join(blocks)})
        return (IndexManifestEntry(ADD, partition, bucket, DELETION_VECTORS, name, offset, len(ranges), tuple(ranges)),)
