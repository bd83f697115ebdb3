"""The work of a rewrite of position delete files: one task turns delete files of a group into new ones.

A row is kept where its delete file applies to a live data file of that path. A new file gets the greatest data sequence
number of its group, so it applies to the same data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakebed.formats.iceberg.data_files import DeleteFile, FileTask, partition_key
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.deletes import deleted_positions, positions_by_path
from lakebed.formats.iceberg.rewrite.new_deletes import NewDeletes, remove_delete_files
from lakebed.formats.iceberg.write.file_sizes import FileSizes
from lakebed.formats.iceberg.write.row_deletes import DeleteWriter
from lakebed.kernel.arrays import Int64s


@dataclass(frozen=True, slots=True)
class PositionDeleteTask:
    """Delete files that are rewritten together.

    `inputs` are the live data files, each with those of the delete files that apply to it.
    """

    deletes: tuple[DeleteFile, ...]
    inputs: tuple[FileTask, ...]


@dataclass(frozen=True, slots=True)
class PositionDeleteRunner:
    """The function that runs tasks on an engine. Picklable."""

    files: Files
    writer: DeleteWriter
    sizes: FileSizes

    def __call__(self, task: PositionDeleteTask) -> NewDeletes:
        """Write the new delete files of a task; after an error none of them stays."""
        written: list[DeleteFile] = []
        read = {delete.path: delete.size for file in task.inputs for delete in file.deletes}
        read |= {delete.path: delete.size for delete in task.deletes}
        try:
            with self.files.fetching(read.items()):
                if self.writer.vectors:
                    written += self._vectors(task)
                else:
                    self._write_files(task, written)
        except Exception as error:  # noqa: BLE001  # reported to the caller, who cleans up after all tasks
            remove_delete_files(self.files, written)
            return NewDeletes(error=error)
        return NewDeletes(written)

    def _vectors(self, task: PositionDeleteTask) -> Iterable[DeleteFile]:
        """A deletion vector per data file."""
        deletions = []
        sequence_numbers = {}
        for data_file in task.inputs:
            positions = deleted_positions(self.files, data_file)
            if positions is not None:
                deletions.append((replace(data_file, deletes=()), positions))
                sequence_numbers[data_file.data.path] = max(delete.sequence_number or 0 for delete in data_file.deletes)
        for vector in self.writer.write(deletions).added:
            yield replace(vector, sequence_number=sequence_numbers[vector.referenced_data_file or ""])

    def _write_files(self, task: PositionDeleteTask, written: list[DeleteFile]) -> None:
        """Position delete files, per partition or per data file. Each is added to `written` once it is there."""
        sequence_number = max(delete.sequence_number or 0 for delete in task.deletes)
        size = sum(delete.size for delete in task.deletes)
        rows = sum(delete.record_count for delete in task.deletes)
        groups: dict[object, list[tuple[FileTask, Int64s]]] = {}
        for data_file, positions in self._positions(task):
            partition = (data_file.data.spec_id, partition_key(data_file.data.partition))
            key = partition if self.writer.by_partition else (partition, data_file.data.path)
            groups.setdefault(key, []).append((data_file, positions))
        runs: list[list[tuple[FileTask, Int64s]]] = []
        for deletions in groups.values():
            kept = sum(len(positions) for _, positions in deletions)
            runs += _even_runs(deletions, self.sizes.expected(size * kept // max(1, rows)))

        def write(run: list[tuple[FileTask, Int64s]]) -> None:
            written.append(replace(self.writer.position_file(run), sequence_number=sequence_number))

        self.files.together(write, runs)

    def _positions(self, task: PositionDeleteTask) -> list[tuple[FileTask, Int64s]]:
        """The positions that really delete rows, by data file in the order of paths."""
        inputs = {data_file.data.path: data_file for data_file in task.inputs}
        applying = {(data_file.data.path, delete.path) for data_file in task.inputs for delete in data_file.deletes}
        parts: dict[str, list[Int64s]] = {}
        for delete in task.deletes:
            for path, positions in positions_by_path(self.files, delete, delete.referenced_data_file).items():
                if (path, delete.path) in applying:
                    parts.setdefault(path, []).append(positions)
        return [(inputs[path], np.unique(np.concatenate(parts[path]))) for path in sorted(parts)]


def _even_runs(deletions: Sequence[tuple[FileTask, Int64s]], count: int) -> Iterator[list[tuple[FileTask, Int64s]]]:
    """Deleted positions in `count` runs of about as many rows each; a data file may be in several runs."""
    rows = sum(len(positions) for _, positions in deletions)
    ends = [rows * (number + 1) // count for number in range(count)]
    run: list[tuple[FileTask, Int64s]] = []
    done = 0
    for data_file, positions in deletions:
        while len(positions):
            taken = positions[: ends[0] - done]
            if len(taken):
                run.append((data_file, taken))
            done, positions = done + len(taken), positions[len(taken) :]
            if done == ends[0]:
                if run:
                    yield run
                ends, run = ends[1:], []
