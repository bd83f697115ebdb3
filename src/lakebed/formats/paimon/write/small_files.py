"""Merging small files: where several tasks wrote one bucket, their files become few before the commit names them.

Tasks between which rows were not routed each write a file of every bucket that they meet. The files of a bucket are
merged here until there are about as many as their bytes fill: sorted and merged where there is a key, one after the
other where there is none. Tasks count in the order given: of equal keys the later task's row wins. Tables without
buckets do not need it: see `staging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError, counted
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD
from lakebed.formats.paimon.codec.hash_index import hashes_of, index_bytes
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.leftovers import remove_files
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.layout import NameFactory
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.write.bucket import BucketFiles, run_schema
from lakebed.kernel.arrays import Int32s, to_numpy
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.files import Store
from lakebed.kernel.sizing.finalize import HERE_BYTES
from lakebed.verbs.write import Prepared

_FILES_PER_TASK = 4
"""Full files that one task writes of a bucket without an order, so that many tasks share a big bucket."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Messages of one bucket whose files are merged."""

    messages: tuple[PaimonMessage, ...]

    @property
    def files(self) -> list[DataFileMeta]:
        """The data files, the first task's first."""
        return [file for message in self.messages for file in message.new_files]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.file_size for message in self.messages for file in message.written_files())


def merge_small_files(files: BucketFiles, messages: Sequence[PaimonMessage], engine: Engine) -> Prepared:
    """Merge the files that several tasks wrote for one bucket, on an engine; the files merged are removed.

    In this process it reads at most `lakebed.gather.max-bytes`, the smallest buckets first. Files beyond that stay as
    they are, and a note says so.
    """
    target, most = files.options.format.target_size, files.options.merge_bytes
    groups = [group for group in _groups(files, messages, target) if _has_small_files(group, target)]
    chosen, left = _within(groups, most) if isinstance(engine, LocalEngine) else (groups, [])
    notes = (_note(left, most),) if left else ()
    if not chosen:
        return Prepared(_numbered(files, messages), notes)
    if sum(group.size for group in chosen) <= HERE_BYTES:
        engine = LocalEngine()
    merged_by_first = {
        id(group.messages[0]): merged for group, merged in zip(chosen, engine.map(_Merge(files), chosen), strict=True)
    }
    replaced = [message for group in chosen for message in group.messages]
    remove_files(files.store, replaced)
    others = {id(message) for message in replaced} - merged_by_first.keys()
    kept = [merged_by_first.get(id(message), message) for message in messages if id(message) not in others]
    return Prepared(_numbered(files, kept), notes)


def _numbered(files: BucketFiles, messages: Sequence[PaimonMessage]) -> tuple[PaimonMessage, ...]:
    """Messages whose rows are numbered on from one to the next in each bucket of a table without a key.

    All tasks begin with the same number, and readers take the files of such a bucket in the order of their numbers,
    which are in manifests only.
    """
    if files.schema.primary_keys or files.options.mode is not BucketMode.HASH_FIXED:
        return tuple(messages)
    following: dict[tuple[bytes, int], int] = {}
    numbered: list[PaimonMessage] = []
    for message in messages:
        place = (message.partition, message.bucket)
        renumbered: list[DataFileMeta] = []
        for file in message.new_files:
            first = following.get(place, file.min_sequence_number)
            following[place] = first + file.row_count
            last = first + file.row_count - 1
            renumbered.append(replace(file, min_sequence_number=first, max_sequence_number=last))
        numbered.append(replace(message, new_files=tuple(renumbered)))
    return tuple(numbered)


def refuse_scattered_keys(store: Store, messages: Sequence[PaimonMessage], mode: BucketMode) -> None:
    """Raise UnsupportedError when tasks between which rows were not routed may have put one key into two dynamic
    buckets. Nothing was committed, and their files are removed."""
    writers = {file.file_name.rpartition("-")[0] for message in messages for file in message.new_files}
    if len(writers) < 2 or (mode is BucketMode.HASH_DYNAMIC and not _shares_hashes(messages)):
        return
    remove_files(store, messages)
    raise UnsupportedError(
        "tasks between which rows were not routed put one key into two dynamic buckets",
        table=store.location,
        why="each saw only its own new keys" if mode is BucketMode.HASH_DYNAMIC else "any key may lie in any partition",
        todo="Nothing was committed. Write with lakebed.spark.write(df, location), which routes rows by their key",
    )


def _shares_hashes(messages: Sequence[PaimonMessage]) -> bool:
    """Whether a key hash is new in two buckets of one partition."""
    partitions: dict[bytes, dict[int, list[Int32s]]] = {}
    for message in messages:
        if message.new_hashes:
            buckets = partitions.setdefault(message.partition, {})
            buckets.setdefault(message.bucket, []).append(hashes_of(message.new_hashes))
    for buckets in partitions.values():
        by_bucket = [np.unique(np.concatenate(parts)) for parts in buckets.values()]
        if len(np.unique(np.concatenate(by_bucket))) < sum(map(len, by_bucket)):
            return True
    return False


def _groups(files: BucketFiles, messages: Sequence[PaimonMessage], target: int) -> Iterator[_Group]:
    """Messages that may become one, in the order of tasks."""
    buckets: dict[tuple[bytes, int], list[PaimonMessage]] = {}
    for message in messages:
        if message.new_files and not message.compacts and not message.deleted_files and not message.new_index_files:
            buckets.setdefault((message.partition, message.bucket), []).append(message)
    for of_bucket in buckets.values():
        if files.sorts:
            yield _Group(tuple(of_bucket))
        elif not files.schema.primary_keys:
            yield from _stretches(of_bucket, target * _FILES_PER_TASK)


def _stretches(messages: Sequence[PaimonMessage], most: int) -> Iterator[_Group]:
    """Neighbouring messages whose files have no more than `most` bytes together, at least one each."""
    taken: list[PaimonMessage] = []
    size = 0
    for message in messages:
        more = sum(file.file_size for file in message.new_files)
        if taken and size + more > most:
            yield _Group(tuple(taken))
            taken, size = [], 0
        taken.append(message)
        size += more
    yield _Group(tuple(taken))


def _has_small_files(group: _Group, target: int) -> bool:
    """Whether several tasks wrote a bucket, and more files than its bytes fill."""
    return len(group.messages) > 1 and len(group.files) > -(-sum(file.file_size for file in group.files) // target)


def _within(groups: Sequence[_Group], most: int) -> tuple[list[_Group], list[_Group]]:
    """The smallest groups, which have no more than `most` bytes together, and the others."""
    chosen: list[_Group] = []
    left: list[_Group] = []
    for group in sorted(groups, key=lambda group: group.size):
        most -= group.size
        (chosen if most >= 0 else left).append(group)
    return chosen, left


def _note(left: Sequence[_Group], most: int) -> str:
    count = sum(len(group.files) for group in left)
    size = sum(group.size for group in left)
    return (
        f"{counted(count, 'small file stays', 'small files stay')} in {counted(len(left), 'bucket')}, since the rows "
        f"were not routed and merging {size} bytes in one process would pass {opt.GATHER_BYTES.key} ({most}): write "
        "with lakebed.spark.write(df, location), which routes them, or raise that option"
    )


@dataclass(frozen=True, slots=True)
class _Merge:
    """Merges the files of one group: one message in place of many. Picklable."""

    files: BucketFiles

    def __call__(self, group: _Group) -> PaimonMessage:
        first = group.messages[0]
        names = NameFactory(self.files.options.data_prefix)
        if not self.files.sorts:
            return replace(first, new_files=self._appended(group, names))
        shifts = _shifts([message.new_files for message in group.messages])
        shifted = list(zip(group.messages, shifts, strict=True))
        runs = [self._run(first.folder, file, shift) for message, shift in shifted for file in message.new_files]
        files = self.files.write_merged(first.folder, runs, names)
        changes = [
            self._run(first.folder, file, shift) for message, shift in shifted for file in message.changelog_files
        ]
        changelog = self.files.write_changes(first.folder, changes, names) if changes else ()
        hashes = [hashes_of(message.new_hashes) for message in group.messages if message.new_hashes]
        gained = index_bytes(np.unique(np.concatenate(hashes))) if hashes else b""
        return replace(first, new_files=files, changelog_files=changelog, new_hashes=gained)

    def _appended(self, group: _Group, names: NameFactory) -> tuple[DataFileMeta, ...]:
        """The rows of all files one after the other."""
        first = group.messages[0]
        least = min(file.min_sequence_number for file in group.files)
        writer = self.files.writer(first.folder, names, sequence=least, gathers=True)
        schema, store = self.files.schema, self.files.store
        try:
            for file in group.files:
                path = f"{first.folder}/{file.file_name}"
                batches = read_batches(store, path, schema, schema.fields, (), file.stated)
                rows = pa.Table.from_batches(batches, schema=arrow_schema(schema.fields))
                writer.write(self.files.file_rows(rows))
            return self.files.metas(writer.close())
        except BaseException:
            store.delete_many(writer.abort())
            raise

    def _run(self, folder: str, file: DataFileMeta, shift: int) -> Iterator[pa.RecordBatch]:
        """A file's rows, with sequence numbers after those of earlier tasks."""
        schema, system = self.files.schema, (SEQUENCE_FIELD, KIND_FIELD)
        path = f"{folder}/{file.file_name}"
        for batch in read_batches(self.files.store, path, schema, schema.fields, system, file.stated):
            numbers = pa.array(to_numpy(batch.column(0)) + shift)
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns[1:]], schema=run_schema(schema))


def _shifts(tasks: Sequence[Sequence[DataFileMeta]]) -> list[int]:
    """What to add to the sequence numbers of each task. All tasks begin with the same one, and those of a later task
    shall be greater."""
    shifts: list[int] = []
    shift = 0
    for files in tasks:
        shifts.append(shift)
        least, greatest = min(f.min_sequence_number for f in files), max(f.max_sequence_number for f in files)
        shift += greatest - least + 1
    return shifts
