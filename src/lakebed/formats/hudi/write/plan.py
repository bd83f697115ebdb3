"""The plan of a write: what its tasks need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakebed.formats.hudi.write.task import HudiTaskWriter, TaskTarget
from lakebed.kernel.sizing.staging import BUFFER_BYTES, StagingLimits

_BUFFER = 16 << 20
"""What a task groups at a time where nothing leaves this machine: small pieces cost nothing there."""


@dataclass(frozen=True, slots=True)
class HudiWritePlan:
    """Implements `lakebed.verbs.write.WritePlan`. With `ends_here` rows that one process stages never leave it."""

    target: TaskTarget
    ends_here: bool

    @property
    def routing(self) -> None:
        """None: tasks take rows as they come and stage them, whatever their keys."""
        return

    def task_writer(self, threads: int | None = None) -> HudiTaskWriter:
        """A writer for one task. With `threads` it is the only one: its rows stay in memory while they fit into the
        buffer."""
        if threads is None:
            return HudiTaskWriter(self.target)
        limits = StagingLimits(_BUFFER, memory=BUFFER_BYTES)
        if not self.ends_here:
            limits = StagingLimits(inline=BUFFER_BYTES, memory=BUFFER_BYTES, compressed=True)  # they travel
        place = replace(self.target.place, local=self.ends_here)
        return HudiTaskWriter(replace(self.target, place=place, limits=limits))
