"""Rows of a table without buckets, from tasks that put them aside to files of the right number and size.

No task knows how many rows of a partition the others have, so none writes files: it stages its rows by partition
(`kernel/sizing/staging.py`). Once all tasks are done the bytes of each partition are known, and
`kernel/sizing/finalize.py` makes as many files of it as these fill, a partition with much data by several tasks. Where
the rows wait: below the table, in `layout.STAGING_FOLDER`; where one process does it all in its memory, as far as
`write-buffer-size` goes, and in its scratch folder.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import STAGING_FOLDER, NameFactory
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.files import piece_bytes
from lakebed.formats.paimon.write.formats import ENCODERS, FileFormat, check_values, dictionary_columns
from lakebed.formats.paimon.write.task import TOTAL_BUCKETS, TaskTarget
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import SCRATCH_DIR
from lakebed.kernel.sizing.finalize import FileSize, finalize
from lakebed.kernel.sizing.staging import (
    BUFFER_BYTES,
    INLINE_BYTES,
    Grouped,
    Place,
    Run,
    Staged,
    StagedBuckets,
    Stager,
    StagingLimits,
    grouped,
)
from lakebed.model.commit import CommitMessage

_BUCKET = 0
"""The bucket of all rows."""
_LEAST_BUFFER = 64 << 10


@dataclass(frozen=True, slots=True, eq=False)
class StagedMessage(CommitMessage):
    """Rows that a task put aside, to become files once all tasks are done. `scratch` is the folder of this machine that
    the paths lie in, "" for the table. Picklable."""

    rows: Staged
    scratch: str = ""


@dataclass(frozen=True, slots=True)
class Folder:
    """A partition as a bucket of the routing: the serialized row and the folder of its files."""

    partition: bytes
    path: str


class StagingTaskWriter:
    """Implements `lakebed.verbs.write.TaskWriter`. `alone`: it is the only task, in the process that settles. `write`
    is what names of staged files begin with."""

    def __init__(self, target: TaskTarget, alone: bool, write: str) -> None:
        self._target, self._write = target, write
        self._scratch = _scratch(target.options) if alone and target.options[opt.WRITE_BUFFER_SPILLABLE] else ""
        self._memory = target.options[opt.WRITE_BUFFER_SIZE] if alone else 0
        self._format = FileFormat.of(target.options, has_key=False)
        self._stager: Stager | None = None

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take rows of the sink's input schema."""
        data = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if not len(data):
            return
        rows, _ = self._target.accepted(data)
        check_values(rows, self._format.name, self._target.store.location)
        if self._stager is None:
            self._stager = self._new_stager(rows.schema)
        self._stager.write(rows)

    def finish(self) -> tuple[StagedMessage, ...]:
        """Say what was put aside since the last call. The writer may be used on."""
        staged = self._stager.finish() if self._stager is not None else None
        self._stager = None
        return () if staged is None else (StagedMessage(staged, self._scratch),)

    def abort(self) -> None:
        """Remove what was put aside since the last `finish`."""
        if self._stager is not None:
            self._stager.abort()
        self._stager = None

    def _new_stager(self, schema: pa.Schema) -> Stager:
        name = f"{self._write}-{uuid.uuid4()}.arrow"
        path = f"lakebed-{name}" if self._scratch else f"{STAGING_FOLDER}/{name}"
        limit = max(_LEAST_BUFFER, self._target.options[opt.WRITE_BUFFER_SIZE])
        buffer = limit // 2 if self._memory else min(BUFFER_BYTES, limit)  # half, so that what is kept has room too
        place = _place(self._target.store, self._scratch)
        inline = 0 if self._scratch else INLINE_BYTES
        return Stager(place, path, schema, self._group, StagingLimits(buffer, inline, self._memory))

    def _group(self, rows: pa.Table) -> Grouped:
        """The partition of each row."""
        found = self._target.router.partitions(rows)
        folders = [
            Folder(key, self._target.folder(rows, row, _BUCKET))
            for key, row in zip(found.keys, found.first.tolist(), strict=True)
        ]
        return grouped(found.codes.astype("int64"), folders)


def make_files(files: BucketFiles, waiting: Sequence[StagedMessage], engine: Engine) -> list[PaimonMessage]:
    """Files of all rows that tasks have staged, one message a partition. What was staged is removed, also when it
    fails."""
    try:
        if not waiting:
            return []
        buckets = StagedBuckets([message.rows for message in waiting], arrow_schema(files.schema.fields))
        maker = AppendFileMaker(files, _place(files.store, waiting[0].scratch))
        target = FileFormat.of(files.options, has_key=False).target_size
        made: dict[Folder, list[DataFileMeta]] = {}
        for file in finalize(buckets, maker, engine, target, greatest_size(target)):
            made.setdefault(file.folder, []).append(file.meta)
    finally:
        drop_staged(files.store, waiting)
    total = TOTAL_BUCKETS[BucketMode.BUCKET_UNAWARE]
    return [PaimonMessage(f.partition, _BUCKET, total, f.path, tuple(metas)) for f, metas in made.items()]


def greatest_size(target: int) -> int:
    """The bytes up to which a file may grow: cut in two above that, none of them is less than the 7/10 of the target
    below which a compaction of Paimon takes files for small."""
    return target * 14 // 10


def sweep_staged(store: Store, write: str) -> None:
    """Remove what tasks of a write put aside, those too that no message names."""
    store.delete_many([info.path for info in store.list(STAGING_FOLDER).files if info.name.startswith(f"{write}-")])


def drop_staged(store: Store, messages: Sequence[StagedMessage]) -> None:
    """Remove what tasks put aside."""
    for message in messages:
        if message.rows.path:
            _place(store, message.scratch).delete_many([message.rows.path])


def told_apart(messages: Sequence[CommitMessage]) -> tuple[list[PaimonMessage], list[StagedMessage]]:
    """Messages that name files, and those whose rows wait; UsageError for another format's."""
    for message in messages:
        if not isinstance(message, PaimonMessage | StagedMessage):
            raise UsageError(f"a {type(message).__name__} is no commit message of a Paimon table")
    return (
        [message for message in messages if isinstance(message, PaimonMessage)],
        [message for message in messages if isinstance(message, StagedMessage)],
    )


@dataclass(frozen=True, slots=True)
class AppendedFile:
    """A file that is written and not committed."""

    folder: Folder
    meta: DataFileMeta


@dataclass(frozen=True, slots=True)
class AppendFileMaker:
    """The `FileMaker` of append tables: rows of a partition in the order given, one file per run."""

    files: BucketFiles
    place: Place

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        """What files of such rows take."""
        rows = pa.Table.from_batches(run.batches(self.place), run.schema).combine_chunks()
        return FileSize.measured(self.files.file_rows(rows), self._encoded)

    def make(self, bucket: Hashable, run: Run) -> AppendedFile:
        """Write the file of a run."""
        folder = cast(Folder, bucket)
        writer = self.files.writer(folder.path, NameFactory(self.files.options[opt.DATA_FILE_PREFIX]), rolls=False)
        try:
            for rows in self._pieces(run):
                writer.write(self.files.file_rows(rows))
            (meta,) = self.files.metas(writer.close())
        except BaseException:
            self.files.store.delete_many(writer.abort())
            raise
        return AppendedFile(folder, meta)

    def size(self, made: AppendedFile) -> int:
        """The bytes of a file."""
        return made.meta.file_size

    def remove(self, made: Sequence[AppendedFile]) -> None:
        """Delete files."""
        self.files.store.delete_many([f"{one.folder.path}/{one.meta.file_name}" for one in made])

    def _pieces(self, run: Run) -> Iterator[pa.Table]:
        """The rows as row groups hold them."""
        most, size = piece_bytes(self._format.target_size), 0
        held: list[pa.RecordBatch] = []
        for batch in run.batches(self.place):
            if held and size + batch.nbytes > most:
                yield pa.Table.from_batches(held).combine_chunks()
                held, size = [], 0
            held.append(batch)
            size += batch.nbytes
        yield pa.Table.from_batches(held).combine_chunks()

    def _encoded(self, rows: pa.Table) -> int:
        sink = pa.MockOutputStream()
        encoder = ENCODERS[self._format.name](sink, rows.schema, self._format, dictionary_columns(rows))
        encoder.write(rows)
        encoder.close()
        return int(sink.size())

    @property
    def _format(self) -> FileFormat:
        return FileFormat.of(self.files.options, has_key=False)


def _place(store: Store, scratch: str) -> Store:
    return open_store(scratch) if scratch else store


def _scratch(options: Options) -> str:
    return options[SCRATCH_DIR] or tempfile.gettempdir()
