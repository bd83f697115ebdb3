"""Keep the small record batches that were decoded last.

Manifests, archived instants and log blocks never change, and most work on a table reads the same ones again: a commit
that is tried again, a stream that looks for news, an expiry after a commit. DataFusion takes some 4 ms to plan and
decode even one record, which a lookup by the bytes' digest saves.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa

MOST_BYTES = 8 << 20
"""How much all that is kept may take in memory, in bytes of decoded batches."""
EACH_BYTES = 256 << 10
"""A batch is kept if neither it nor the bytes that it comes from take more than this."""


class Recent:
    """Batches by what they were decoded from, the one that was used longest ago dropped first. Threads may share it."""

    def __init__(self, most: int = MOST_BYTES, each: int = EACH_BYTES) -> None:
        self._most, self._each = most, each
        self._batches: OrderedDict[bytes, pa.RecordBatch] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0
        """What the kept batches take."""

    def batch(
        self,
        schema: bytes,
        wanted: Sequence[int],
        count: int,
        chunks: Sequence[bytes | memoryview],
        decode: Callable[[], pa.RecordBatch],
    ) -> pa.RecordBatch:
        """The batch that `decode` gives for the first `count` records in `chunks`, of this schema and these fields; one
        that is kept already when all of these are the same. Raises what `decode` raises, each time."""
        if sum(len(chunk) for chunk in chunks) > self._each:
            return decode()
        key = _digest(schema, repr((tuple(wanted), count, [len(chunk) for chunk in chunks])).encode(), *chunks)
        with self._lock:
            if key in self._batches:
                self._batches.move_to_end(key)
                return self._batches[key]
        batch = decode()
        size = batch.nbytes + len(key)
        if size <= self._each:
            with self._lock:
                if key not in self._batches:
                    self._batches[key] = batch
                    self.bytes += size
                while self.bytes > self._most:
                    _, dropped = self._batches.popitem(last=False)
                    self.bytes -= dropped.nbytes + len(key)
        return batch


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        digest.update(part)
    return digest.digest()
