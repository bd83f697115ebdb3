"""The plan of a write: what its tasks need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakebed.formats.iceberg.write.task import LITTLE_BYTES, IcebergTaskWriter, TaskTarget


@dataclass(frozen=True, slots=True)
class IcebergWritePlan:
    """Implements `lakebed.verbs.write.WritePlan`. `scratch` is a folder on this machine for rows that are staged in the
    process that finalizes."""

    target: TaskTarget
    scratch: str

    @property
    def routing(self) -> None:
        """None: tasks take rows as they come and stage them, whatever their partition."""
        return

    def task_writer(self, threads: int | None = None) -> IcebergTaskWriter:
        """A writer for one task. With `threads` it is the only one: its rows stay in memory while they fit into the
        buffer, and go to the machine's temporary folder then."""
        if threads is None:
            return IcebergTaskWriter(self.target)
        inline = self.target.buffer
        return IcebergTaskWriter(replace(self.target, staging=self.scratch, inline=inline, memory=LITTLE_BYTES))
