"""The plan of a write into an Iceberg table: what its tasks need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakebed.formats.iceberg.write.task import IcebergTaskWriter, TaskTarget


@dataclass(frozen=True, slots=True)
class IcebergWritePlan:
    """Implements `lakebed.verbs.write.WritePlan`. `scratch` is the folder for rows that wait in the process that
    finalizes."""

    target: TaskTarget
    scratch: str

    @property
    def routing(self) -> None:
        """None: tasks stage rows where they are, and sizes decide what follows."""
        return

    def task_writer(self, threads: int | None = None) -> IcebergTaskWriter:
        """A writer for one task. With `threads` it is the only one: its rows wait in memory while they fit into the
        buffer, then in the machine's temporary folder."""
        if threads is None:
            return IcebergTaskWriter(self.target)
        return IcebergTaskWriter(replace(self.target, staging=self.scratch, inline=self.target.buffer))
