"""Merge small archive files of timeline layout 1, so that many runs do not leave many files.

Rules: Hudi's `HoodieTimelineArchiver.mergeArchiveFilesIfNecessary` of 0.x (1.x never merges). The newest files below
`hoodie.archive.merge.small.file.limit.bytes`, up to the first larger one, become one file with the next free number
when there are `hoodie.archive.merge.files.batch.size` of them. A plan beside them names the files and the merged one,
for a run that finds it after a crash.

A file is removed only after a check that the merged file holds all its records, whatever became of the lock. The merged
file is put whole; a merge that a crash interrupted is completed and not undone; an archiver that was overtaken stops.
Only a merged file that lacks something is removed. Hudi's engine can leave such a file, lakebed cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.conflicts import claim_name, overtaken
from lakebed.formats.hudi.archive.options import BATCH_BYTES, MERGE_BATCH, MERGE_ENABLE, MERGE_SMALL
from lakebed.formats.hudi.archive.write_v1 import State, archive_files, archive_name, next_number, put_archive
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.avro import record_run
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, LogBlock, parse_log
from lakebed.formats.hudi.codec.log_write import run_content, write_block
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.avro.records import RecordSchema, read_records, write_records
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import Scratch

PLAN = "mergeArchivePlan"
"""The file that says which files are merged, and into which one."""
_PLAN_SCHEMA = RecordSchema.of(
    {
        "type": "record",
        "name": "HoodieMergeArchiveFilePlan",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "version", "type": ["int", "null"], "default": 1},
            {"name": "candidate", "type": ["null", {"type": "array", "items": "string"}], "default": None},
            {"name": "mergedArchiveFileName", "type": ["null", "string"], "default": None},
        ],
    }
)


def recover(store: Store, folder: str, scratch: Scratch, held: StillHeld) -> None:
    """Complete or undo a merge that a crash interrupted, ours or Hudi's."""
    path = f"{folder}/{PLAN}"
    try:
        candidates, merged = _parse(store.read(path))
    except FileNotFoundError:
        return
    except CorruptError:  # the plan itself is torn, so nothing was merged by it
        held()
        store.delete(path)
        return
    names = {info.name for info in store.list(folder).files}
    left = [f"{folder}/{name}" for name in candidates if name in names and name != merged]
    held()
    if left and merged in names:
        states = _states(store, f"{folder}/{merged}", scratch)
        parts = [_states(store, path, scratch) for path in left]
        if states is not None and all(part is not None and part <= states for part in parts):
            store.delete_many(left)
        elif len(left) == len(candidates):
            store.delete(f"{folder}/{merged}")
    store.delete(path)


def merge_small(store: Store, folder: str, options: Options, held: StillHeld) -> tuple[str, ...]:
    """Merge the newest small files, if the options ask for it and there are enough; the paths of the new files.

    A merged file is put together in memory, so it has at most `lakebed.archive.batch-bytes`, or the size of a small
    file if that is more. Raises CommitConflictError when another archiver was at work in between; nothing is removed
    then.
    """
    if not options[MERGE_ENABLE]:
        return ()
    candidates = _candidates(archive_files(store, folder), options[MERGE_SMALL])
    if len(candidates) < options[MERGE_BATCH]:
        return ()
    return tuple(
        _merge(store, folder, part, options[BATCH_BYTES], held)
        for part in _parts(candidates, max(options[BATCH_BYTES], options[MERGE_SMALL]))
    )


def _merge(store: Store, folder: str, candidates: Sequence[FileInfo], most: int, held: StillHeld) -> str:
    held()
    merged = archive_name(next_number(store, folder))
    plan, path = _plan([store.url(info.path) for info in candidates], merged), f"{folder}/{merged}"
    if not claim_name(store, f"{folder}/{PLAN}", plan, "the plan of a merge"):
        raise overtaken(store, f"{folder}/{PLAN}", "it merges archive files")
    data = b"".join(_merged_blocks(store, candidates, most))
    held()
    put_archive(store, path, data)
    held()
    _check_stands(store, f"{folder}/{PLAN}", plan, path, len(data))
    store.delete_many(info.path for info in candidates)
    store.delete(f"{folder}/{PLAN}")
    return path


def _check_stands(store: Store, plan_path: str, plan: bytes, path: str, size: int) -> None:
    """CommitConflictError unless the plan and the merged file are there as we put them."""
    with suppress(FileNotFoundError):
        if store.size(path) == size and store.read(plan_path) == plan:
            return
    raise overtaken(store, path, "what was merged here is not there any more")


def _states(store: Store, path: str, scratch: Scratch) -> set[State] | None:
    """The states of instants in an archive file, in a torn one those in whole blocks; None where none can be read."""
    try:
        entries = parse_archive([store.read(path)], scratch).entries
    except (CorruptError, FileNotFoundError):
        return None
    return {(entry.instant, entry.action, entry.state.lower()) for entry in entries}


def _parts(files: Sequence[FileInfo], most: int) -> Iterator[list[FileInfo]]:
    """Groups of neighbours of at most `most` bytes together, in the files' order. A file alone stays as it is."""
    part: list[FileInfo] = []
    size = 0
    for info in files:
        if part and size + info.size > most:
            if len(part) > 1:
                yield part
            part, size = [], 0
        part.append(info)
        size += info.size
    if len(part) > 1:
        yield part


def _candidates(files: Sequence[FileInfo], small: int) -> list[FileInfo]:
    """The newest files below the limit, up to the first that is not; oldest first."""
    candidates: list[FileInfo] = []
    for info in reversed(files):
        if info.size >= small:
            break
        candidates.append(info)
    return candidates[::-1]


def _merged_blocks(store: Store, files: Sequence[FileInfo], most: int) -> Iterator[bytes]:
    """The files' records in blocks of at most `most` bytes and one schema each. Records are copied, not decoded."""
    schema = ""
    runs: list[tuple[int, memoryview]] = []
    size = 0
    for block in _blocks(store, files):
        count, body = record_run(block)
        if runs and (block.schema != schema or size + len(body) > most):
            yield write_block(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: schema}, run_content(runs))
            runs, size = [], 0
        schema = block.schema
        runs.append((count, body))
        size += len(body)
    if runs:
        yield write_block(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: schema}, run_content(runs))


def _blocks(store: Store, files: Sequence[FileInfo]) -> Iterator[LogBlock]:
    with store.fetching(files):
        for info in files:
            for block in parse_log(store.read(info.path)).blocks:
                if block.kind is BlockKind.AVRO_DATA:
                    yield block


def _plan(candidates: Sequence[str], merged: str) -> bytes:
    record = {"version": 1, "candidate": [*candidates], "mergedArchiveFileName": merged}
    return write_records(_PLAN_SCHEMA, [record], Framing.new())


def _parse(data: bytes) -> tuple[list[str], str]:
    """(names of the files to merge, name of the merged one)."""
    with decoding("the merge plan cannot be read", file=PLAN):
        record = next(read_records(data))
        names = [path.rpartition("/")[2] for path in record["candidate"] or ()]
        return names, record["mergedArchiveFileName"].rpartition("/")[2]
