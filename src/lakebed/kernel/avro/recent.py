"""Keep the small record batches and tables that were decoded last.

Manifests, archived instants and log blocks never change, and most work on a table reads the same ones again: a commit
that is tried again, a stream that looks for news, an expiry after a commit. DataFusion takes some 4 ms to plan and
decode even one record, which a lookup by the bytes' digest saves.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pyarrow as pa

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

MOST_BYTES = 8 << 20
"""The most memory that all kept batches together may take, in bytes of decoded batches."""
EACH_BYTES = 256 << 10
"""A batch is kept if neither it nor the bytes that it comes from take more than this."""


class Recent:
    """Batches by what they were decoded from, the one that was used longest ago dropped first. Threads may share it."""

    def __init__(self, most: int = MOST_BYTES, each: int = EACH_BYTES) -> None:
        self._most, self._each = most, each
        self._batches: OrderedDict[bytes, pa.RecordBatch | pa.Table] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0
        """The memory that the kept batches take, in bytes."""

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
        return self.rows(lambda: (schema, repr((tuple(wanted), count)).encode()), chunks, decode)

    def rows(
        self, about: Callable[[], Sequence[bytes]], contents: Sequence[bytes | memoryview], decode: Callable[[], Rows]
    ) -> Rows:
        """What `decode` gives for these contents; what is kept already when they and what `about` gives are the same:
        all else that `decode` goes by. Raises what `decode` raises, each time."""
        sizes = [len(content) for content in contents]
        if sum(sizes) > self._each:
            return decode()
        parts = about()
        key = _digest(repr((sizes, [len(part) for part in parts])).encode(), *parts, *contents)
        with self._lock:
            if key in self._batches:
                self._batches.move_to_end(key)
                return cast(Rows, self._batches[key])
        decoded = decode()
        size = decoded.nbytes + len(key)
        if size <= self._each:
            with self._lock:
                if key not in self._batches:
                    self._batches[key] = decoded
                    self.bytes += size
                while self.bytes > self._most:
                    _, dropped = self._batches.popitem(last=False)
                    self.bytes -= dropped.nbytes + len(key)
        return decoded


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        digest.update(part)
    return digest.digest()
