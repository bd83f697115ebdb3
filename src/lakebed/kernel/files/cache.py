"""Bytes of files that never change, kept by the process: manifests and the like, read once and not once per call.

The key is who asks (location and credentials), the path and the size. A file without a name that is unique for ever
does not belong here: a table that is dropped and made again would get the bytes of the old one.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

_LARGEST_PART = 8
"""A file larger than this part of the limit is not kept."""


class ByteCache:
    """The most recently used bytes, up to a limit. Safe for threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def get(self, key: Hashable) -> bytes | None:
        """The bytes of a key, None when they are not kept."""
        with self._lock:
            data = self._kept.get(key)
            if data is not None:
                self._kept.move_to_end(key)
            return data

    def put(self, key: Hashable, data: bytes, limit: int) -> None:
        """Keep bytes, and drop the least recently used ones until all are within the limit."""
        if len(data) * _LARGEST_PART > limit:
            return
        with self._lock:
            self.size += len(data) - len(self._kept.pop(key, b""))
            self._kept[key] = data
            while self.size > limit:
                self.size -= len(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._kept.clear()
            self.size = 0


CACHE = ByteCache()
"""The cache of this process."""


def _after_fork() -> None:
    global CACHE  # the lock of the parent may be held for ever
    CACHE = ByteCache()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
