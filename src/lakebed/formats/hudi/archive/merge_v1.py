"""Merges small archive files of timeline layout 1, so that many runs do not leave as many files.

Rules: Hudi's `HoodieTimelineArchiver.mergeArchiveFilesIfNecessary` of 0.x (1.x never merges): the newest files below
`hoodie.archive.merge.small.file.limit.bytes`, up to the first larger one, become one file with the next free number
when there are `hoodie.archive.merge.files.batch.size` of them. A plan beside them makes it safe: a run that finds a
plan whose files are all there removes what was merged, otherwise what is left of them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.lock import StillHeld
from lakebed.formats.hudi.archive.write_v1 import archive_files, archive_name, next_number
from lakebed.formats.hudi.codec.avro import record_run
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, LogBlock, parse_log
from lakebed.formats.hudi.codec.log_write import run_content, write_block
from lakebed.formats.hudi.options import BATCH_BYTES, MERGE_BATCH, MERGE_ENABLE, MERGE_SMALL
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.options import Options

PLAN = "mergeArchivePlan"
"""The file that says which files are being merged into which."""
_PLAN_SCHEMA = fastavro.parse_schema(
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


def recover(store: Store, folder: str) -> None:
    """Ends or undoes a merge that a crash left half done, ours or Hudi's."""
    path = f"{folder}/{PLAN}"
    try:
        candidates, merged = _parse(store.read(path))
    except FileNotFoundError:
        return
    except CorruptError:  # the plan itself was torn: nothing was merged by it
        store.delete(path)
        return
    there = {info.name for info in store.list(folder).files}
    if all(name in there for name in candidates):
        store.delete(f"{folder}/{merged}")
    else:
        store.delete_many(f"{folder}/{name}" for name in candidates)
    store.delete(path)


def merge_small(store: Store, folder: str, options: Options, held: StillHeld) -> str:
    """Merges the newest small files where that is asked for and there are enough; the new file's path, or ""."""
    if not options[MERGE_ENABLE]:
        return ""
    candidates = _candidates(archive_files(store, folder), options[MERGE_SMALL])
    if len(candidates) < options[MERGE_BATCH]:
        return ""
    held()
    merged = archive_name(next_number(store, folder))
    store.write(f"{folder}/{PLAN}", _plan([store.url(info.path) for info in candidates], merged))
    path = f"{folder}/{merged}"
    with store.open_output(path) as sink:
        for block in _merged_blocks(store, candidates, options[BATCH_BYTES]):
            sink.write(block)
    held()
    store.delete_many(info.path for info in candidates)
    store.delete(f"{folder}/{PLAN}")
    return path


def _candidates(files: Sequence[FileInfo], small: int) -> list[FileInfo]:
    """The newest files below the limit, up to the first that is not; oldest first."""
    found: list[FileInfo] = []
    for info in reversed(files):
        if info.size >= small:
            break
        found.append(info)
    return found[::-1]


def _merged_blocks(store: Store, files: Sequence[FileInfo], most: int) -> Iterator[bytes]:
    """The files' records in blocks of at most so many bytes, a schema a block; records are copied, not decoded."""
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
    for info in files:
        for block in parse_log(store.read(info.path)).blocks:
            if block.kind is BlockKind.AVRO_DATA:
                yield block


def _plan(candidates: Sequence[str], merged: str) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, _PLAN_SCHEMA, [{"version": 1, "candidate": [*candidates], "mergedArchiveFileName": merged}])
    return sink.getvalue()


def _parse(data: bytes) -> tuple[list[str], str]:
    """(names of the files that are merged, name of the merged one)."""
    try:
        record: Any = next(iter(fastavro.reader(io.BytesIO(data))))
        names = [path.rpartition("/")[2] for path in record["candidate"] or ()]
        return names, record["mergedArchiveFileName"].rpartition("/")[2]
    # fastavro lets whatever its C code meets through: EOFError, IndexError, UnicodeDecodeError, ...
    except Exception as error:
        raise CorruptError("the merge plan cannot be read", file=PLAN, why=str(error)) from error
