"""Contents of delete files that the tasks of a process share: each file is read once, also by concurrent tasks."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

from lakebed.kernel.files.waiting import waiting


class OnceCache:
    """A cache with a bound in bytes; the least recently used value goes first. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._empty()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._empty)  # the threads that were reading are not in the child

    def _empty(self) -> None:
        self._bytes, self._lock = 0, threading.Lock()
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._under_way: dict[Hashable, Future[Any]] = {}

    @property
    def largest(self) -> int:
        """The most bytes that one value may have."""
        return self._most // 4

    def has(self, name: Hashable) -> bool:
        """Whether a value is held or under way."""
        with self._lock:
            return name in self._held or name in self._under_way

    def get(self, name: Hashable) -> Any:
        """A value, None when it is not held."""
        with self._lock:
            return self._get(name)

    def put(self, name: Hashable, value: Any, size: int) -> None:
        """Hold a value of so many bytes, unless it is too large."""
        with self._lock:
            if size > self.largest or name in self._held:
                return
            self._held[name] = (value, size)
            self._bytes += size
            while self._bytes > self._most:
                _, (_, freed) = self._held.popitem(last=False)
                self._bytes -= freed

    def once(self, name: Hashable, read: Callable[[], tuple[Any, int]]) -> Any:
        """A value. When it is not held, `read` gives it with its size in bytes.

        Of several threads that ask for it at once, one reads. The others wait for its result or its error. `read` may
        ask for other values, but never in a circle.
        """
        with self._lock:
            if name in self._held:
                return self._get(name)
            others = self._under_way.get(name)
            if others is None:
                mine = self._under_way[name] = Future()
        if others is not None:
            with waiting():
                return others.result()
        try:
            value, size = read()
            self.put(name, value, size)
            mine.set_result(value)
            return value
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                self._under_way.pop(name, None)

    def _get(self, name: Hashable) -> Any:
        value = self._held.get(name)
        if value is None:
            return None
        self._held.move_to_end(name)
        return value[0]
