"""The context that every verb that changes a Hudi table works in: store, settings, options, locks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lakebed.formats.hudi.commit.exclusive import Held, exclusive
from lakebed.formats.hudi.commit.lock import shared_lock
from lakebed.formats.hudi.commit.options import ELSEWHERE, Concurrency
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.timeline.active import MetadataFiles, Timeline
from lakebed.formats.hudi.timeline.writing import list_timeline
from lakebed.kernel import clock
from lakebed.kernel.commit.turns import turn
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import Scratch


@dataclass
class WriteContext:
    """A table for a writer: its files, its settings, and the write options, in which the table's properties stand below
    what the caller gave."""

    store: Store
    config: TableConfig
    options: Options
    files: MetadataFiles
    scratch: Scratch
    storage: Mapping[str, str] = field(default_factory=dict)

    def location_of(self, path: str) -> str:
        """The full location of a file or folder in the table, as Hudi's plans and records spell it."""
        local = self.store.local_path(path)
        return f"file:{local}" if local is not None else self.store.url(path)

    def timeline(self) -> Timeline:
        """The active timeline, listed now."""
        return list_timeline(self.store, self.config)

    @property
    def concurrency(self) -> Concurrency:
        """The options about other writers."""
        return Concurrency.of(self.options)

    @contextmanager
    def locked(self, *, chooses: bool = False, completes: str = "") -> Iterator[Held]:
        """Hold the table's lock in the block: lakebed's own, and the one of Hudi that the options name. `completes` is
        the instant that the block completes.

        A block that `chooses` an instant or a completion time holds Hudi's lock for as long as clocks may differ, so
        that whoever comes next reads a later time, as Hudi's `SkewAdjustingTimeGenerator` does. CommitConflictError
        when others hold one of the locks for too long.
        """
        place = f"{self.config.timeline_folder}/{completes}" if completes else ""
        if not self.concurrency.shared_lock:
            with turn(self.store.location), exclusive(self.store, place) as held:
                yield held
            return
        lost = "Nothing of this is visible: write again"
        with turn(self.store.location), shared_lock(self.store, self.options, lost, elsewhere=ELSEWHERE) as shared:
            with exclusive(self.store, place) as own:
                yield replace(own, shared=shared)
            if chooses:
                clock.pause(self.concurrency.skew)
