"""Files fetched ahead of their reads, whole where they are small and from their end where they are large."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from lakebed.kernel.files.remote_file import End
from lakebed.kernel.files.store import FileInfo
from lakebed.kernel.files.waiting import Budget, waiting

WHOLE = 2 << 20
"""A file of at most so many bytes is fetched whole, by one request."""
TAIL = 256 << 10
"""Of a larger file the last bytes, so many, come first: they hold the footer."""


@dataclass(slots=True, eq=False)
class _Awaited:
    info: FileInfo
    block: object
    arriving: Future[End] | None = None
    taken: bool = False

    @property
    def cost(self) -> int:
        return self.info.size if self.info.size <= WHOLE else TAIL


class Fetching:
    """The files that running blocks are going to read, and their bytes as far as they are under way.

    `fetch` gets the end of a file, `submit` runs it on a thread for requests. Each block's files are fetched in order,
    while the budget lasts. A file that is read before its turn is fetched at once by its reader. One that a block
    announces twice is fetched once where the first of its reads is still to come.
    """

    def __init__(
        self, fetch: Callable[[str, int | None], End], submit: Callable[..., Future[Any]], budget: Budget
    ) -> None:
        self._fetch, self._submit, self._budget = fetch, submit, budget
        self._lock = threading.Lock()
        self._by_path: defaultdict[str, deque[_Awaited]] = defaultdict(deque)
        self._waiting: deque[_Awaited] = deque()

    def begin(self, files: Sequence[FileInfo]) -> list[_Awaited]:
        """Begin to fetch the files of a block."""
        name = object()
        block = [_Awaited(info, name) for info in files]
        with self._lock:
            for awaited in block:
                self._by_path[awaited.info.path].append(awaited)
            self._waiting.extend(block)
        self._start_more()
        return block

    def take(self, path: str) -> End | None:
        """The bytes of a file that a block announced, once: they are the reader's now. None when nobody fetched it.

        Raises what the request raised.
        """
        with self._lock:
            queue = self._by_path.get(path)
            if not queue:
                return None
            awaited = queue.popleft()
            if not queue:
                del self._by_path[path]
            awaited.taken = True
            arriving = awaited.arriving
        if arriving is None:
            return None
        try:
            with waiting():
                return arriving.result()
        finally:
            self._budget.give(awaited.cost)
            self._start_more()

    def end(self, block: Sequence[_Awaited]) -> None:
        """Drop what the block's files have left."""
        with self._lock:
            dropped = [awaited for awaited in block if not awaited.taken]
            for awaited in dropped:
                awaited.taken = True
                queue = self._by_path[awaited.info.path]
                queue.remove(awaited)
                if not queue:
                    del self._by_path[awaited.info.path]
        for awaited in dropped:
            if awaited.arriving is not None:
                awaited.arriving.cancel()
                self._budget.give(awaited.cost)
        self._start_more()

    def _start_more(self) -> None:
        with self._lock:
            while self._waiting:
                awaited = self._waiting[0]
                if not awaited.taken:
                    if not self._budget.take(awaited.cost):
                        return
                    awaited.arriving = self._under_way(awaited) or self._submit(
                        self._fetch, awaited.info.path, awaited.info.size
                    )
                self._waiting.popleft()

    def _under_way(self, awaited: _Awaited) -> Future[End] | None:
        """The request for the same file that its block has made before, and whose answer nobody has taken yet."""
        same = (other for other in self._by_path[awaited.info.path] if other.block is awaited.block)
        return next((other.arriving for other in same if other.arriving is not None), None)
