"""Staged rows of a table without buckets: what each task sets aside before any file is made.

No task knows how many rows of a partition the others have, so none writes files: it stages its rows by partition
(`lakebed.kernel.sizing.staging`). Once all tasks are done `file_maker` turns them into files.

Staged rows lie below the table, in `layout.STAGING_FOLDER`. Where one process does it all, they wait in its memory up
to `write-buffer-size`, then in its scratch folder.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.layout import STAGING_FOLDER
from lakebed.formats.paimon.write.formats import check_values
from lakebed.formats.paimon.write.task import TaskTarget
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.sizing.staging import (
    BUFFER_BYTES,
    INLINE_BYTES,
    Grouped,
    Staged,
    Stager,
    StagingLimits,
    grouped,
)
from lakebed.model.commit import CommitMessage

ONLY_BUCKET = 0
"""The bucket of all rows."""
_LEAST_BUFFER = 64 << 10


@dataclass(frozen=True, slots=True, eq=False)
class StagedMessage(CommitMessage):
    """Rows that a task staged. Picklable. `scratch` is the folder of this machine in which their paths lie, "" for the
    table."""

    rows: Staged
    scratch: str = ""

    def place(self, store: Store) -> Store:
        """The store that paths are relative to: the table's, or the scratch folder."""
        return _place(store, self.scratch)


@dataclass(frozen=True, slots=True)
class Folder:
    """A partition as a bucket of staged rows: the serialized row, and the folder of its files."""

    partition: bytes
    path: str


class StagingTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`. `alone`: it is the only task, in the process that finalizes.
    `write_id` begins the names of staged files."""

    def __init__(self, target: TaskTarget, alone: bool, write_id: str) -> None:
        self._target, self._write_id, self._alone = target, write_id, alone
        spill = target.options.spill
        self._scratch = (spill.folder or tempfile.gettempdir()) if alone and spill.allowed else ""
        self._stager: Stager | None = None

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        rows, _ = self._target.conformed(data)
        check_values(rows, self._target.options.format.name, self._target.store.location)
        if self._stager is None:
            self._stager = self._new_stager(rows.schema)
        self._stager.write(rows)

    def finish(self) -> tuple[StagedMessage, ...]:
        """Report what was staged since the last call. The writer may be used again."""
        staged = self._stager.finish() if self._stager is not None else None
        self._stager = None
        return () if staged is None else (StagedMessage(staged, self._scratch),)

    def abort(self) -> None:
        """Remove what was staged since the last `finish`."""
        if self._stager is not None:
            self._stager.abort()
        self._stager = None

    def _new_stager(self, schema: pa.Schema) -> Stager:
        name = f"{self._write_id}-{uuid.uuid4()}.arrow"
        path = f"lakebed-{name}" if self._scratch else f"{STAGING_FOLDER}/{name}"
        memory = self._target.options.buffer_bytes if self._alone else 0
        limit = max(_LEAST_BUFFER, self._target.options.buffer_bytes)
        buffer = limit // 2 if memory else min(BUFFER_BYTES, limit)  # half, so that what is kept has room too
        inline = 0 if self._scratch else INLINE_BYTES
        limits = StagingLimits(buffer, inline, memory)
        return Stager(_place(self._target.store, self._scratch), path, schema, self._group, limits)

    def _group(self, rows: pa.Table) -> Grouped:
        """The partition of each row."""
        partitions = self._target.router.partitions(rows)
        folders = [
            Folder(key, self._target.folder(rows, row, ONLY_BUCKET))
            for key, row in zip(partitions.keys, partitions.first.tolist(), strict=True)
        ]
        return grouped(partitions.codes.astype("int64"), folders)


def split_staged(messages: Sequence[CommitMessage]) -> tuple[list[PaimonMessage], list[StagedMessage]]:
    """The messages that name files, and those whose rows are staged. UsageError for another format's."""
    for message in messages:
        if not isinstance(message, PaimonMessage | StagedMessage):
            raise UsageError(f"a {type(message).__name__} is not a commit message of a Paimon table")
    return (
        [message for message in messages if isinstance(message, PaimonMessage)],
        [message for message in messages if isinstance(message, StagedMessage)],
    )


def drop_staged(store: Store, messages: Sequence[StagedMessage]) -> None:
    """Remove what tasks staged, all of one place together."""
    paths: dict[str, list[str]] = {}
    for message in messages:
        if message.rows.path:
            paths.setdefault(message.scratch, []).append(message.rows.path)
    for scratch, of_place in paths.items():
        _place(store, scratch).delete_many(of_place)


def sweep_staged(store: Store, write_id: str) -> None:
    """Remove all that the tasks of a write staged, also files that no message names."""
    files = store.list(STAGING_FOLDER).files
    store.delete_many([info.path for info in files if info.name.startswith(f"{write_id}-")])


def _place(store: Store, scratch: str) -> Store:
    return open_store(scratch) if scratch else store
