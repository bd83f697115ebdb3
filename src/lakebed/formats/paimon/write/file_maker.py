"""Data files of staged rows: as many per partition as its bytes fill, a partition with much data by several tasks.

The number of rows of each file is decided before (`lakebed.kernel.sizing.finalize`), so a file is never rolled: it
holds its run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import NameFactory
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.formats import ENCODERS, dictionary_columns
from lakebed.formats.paimon.write.staging import ONLY_BUCKET, Folder, StagedMessage, drop_staged
from lakebed.formats.paimon.write.task import TOTAL_BUCKETS
from lakebed.kernel.engine import Engine
from lakebed.kernel.sizing.finalize import FileSize, finalize
from lakebed.kernel.sizing.staging import Place, Run, StagedBuckets


def make_files(files: BucketFiles, staged: Sequence[StagedMessage], engine: Engine) -> list[PaimonMessage]:
    """Write files of all rows that tasks have staged, on an engine: one message per partition. What was staged is
    removed, also when it fails."""
    try:
        if not staged:
            return []
        buckets = StagedBuckets([message.rows for message in staged], arrow_schema(files.schema.fields))
        maker = PaimonFileMaker(files, staged[0].place(files.store))
        target = files.options.format.target_size
        metas: dict[Folder, list[DataFileMeta]] = {}
        for file in finalize(buckets, maker, engine, target, greatest_size(target)):
            metas.setdefault(file.folder, []).append(file.meta)
    finally:
        drop_staged(files.store, staged)
    total = TOTAL_BUCKETS[BucketMode.BUCKET_UNAWARE]
    return [PaimonMessage(f.partition, ONLY_BUCKET, total, f.path, tuple(m)) for f, m in metas.items()]


def greatest_size(target: int) -> int:
    """The bytes up to which a file may grow. Cut in two above that, no file is smaller than the 7/10 of the target,
    below which a compaction of Paimon takes files for small."""
    return target * 14 // 10


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that is written and not committed."""

    folder: Folder
    meta: DataFileMeta


@dataclass(frozen=True, slots=True)
class PaimonFileMaker:
    """Implements `lakebed.kernel.sizing.finalize.FileMaker`: rows of a partition in the order given, one file per
    run."""

    files: BucketFiles
    place: Place

    @property
    def at_once(self) -> int:
        """How many requests the table's store takes at once."""
        return self.files.store.at_once

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        """The estimated size of files with such rows."""
        rows = pa.Table.from_batches(run.batches(self.place), run.schema).combine_chunks()
        return FileSize.measured(self.files.file_rows(rows), self._encoded)

    def make(self, bucket: Hashable, run: Run) -> StagedFile:
        """Write the file of a run."""
        folder = cast(Folder, bucket)
        writer = self.files.writer(folder.path, NameFactory(self.files.options.data_prefix), rolls=False)
        try:
            for rows in self._pieces(run):
                writer.write(self.files.file_rows(rows))
            (meta,) = self.files.metas(writer.close())
        except BaseException:
            self.files.store.delete_many(writer.abort())
            raise
        return StagedFile(folder, meta)

    def size(self, file: StagedFile) -> int:
        """The bytes of a file."""
        return file.meta.file_size

    def remove(self, files: Sequence[StagedFile]) -> None:
        """Delete files."""
        self.files.store.delete_many([f"{f.folder.path}/{name}" for f in files for name in f.meta.names])

    def _pieces(self, run: Run) -> Iterator[pa.Table]:
        """The rows as row groups hold them."""
        most, size = self.files.options.format.piece_bytes, 0
        held: list[pa.RecordBatch] = []
        for batch in run.batches(self.place):
            if held and size + batch.nbytes > most:
                yield pa.Table.from_batches(held).combine_chunks()
                held, size = [], 0
            held.append(batch)
            size += batch.nbytes
        yield pa.Table.from_batches(held).combine_chunks()

    def _encoded(self, rows: pa.Table) -> int:
        """The bytes of a file of these rows."""
        file_format, sink = self.files.options.format, pa.MockOutputStream()
        encoder = ENCODERS[file_format.name](sink, rows.schema, file_format, dictionary_columns(rows))
        encoder.write(rows)
        encoder.close()
        return int(sink.size())
