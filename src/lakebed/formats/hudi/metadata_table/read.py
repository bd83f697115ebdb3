"""Read the file listing that the metadata table keeps, in place of listing the table's folders.

Rules: Hudi's `HoodieBackedTableMetadata` and `HoodieMetadataPayload`. The partition `files` has one record per
partition of the table, from file name to size, and one with all partitions. A newer record adds files, and its
tombstones take files away. A block counts when its delta commit did and the table's own timeline completed the same
instant: the metadata table is written first, so it can be ahead of a write that failed.

The listing is taken only where it is certain: the table names `files` as maintained, every completed instant of the
table is in the metadata table, and each block is of a kind that Hudi writes there. Otherwise there is none, and folders
are listed. Table version 6 is not read here.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import fastavro

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.hfile import open_hfile
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock, parse_log
from lakebed.formats.hudi.codec.properties import parse_properties
from lakebed.formats.hudi.config import PROPERTIES, TableConfig, config_from
from lakebed.formats.hudi.layout import HOODIE, file_path
from lakebed.formats.hudi.metadata_table.update import INFLIGHT, PARTITIONS, partitions_of
from lakebed.formats.hudi.slices import FileSlice, WrittenFiles, file_groups, slice_of
from lakebed.formats.hudi.timeline.active import Timeline, timeline_from, view_of
from lakebed.kernel.avro.records import parsed_schema
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import FileInfo, Store

FOLDER = f"{HOODIE}/metadata"
_FILES = "files"
_ALL_PARTITIONS = "__all_partitions__"
_NO_PARTITION = "."
"""The name of the one partition of a table without partitions."""
_BOOTSTRAP = "00000000000000"
_EMPTY_DELETES = b"\x00\x00\x00\x03\x00\x00\x00\x01\x00"
"""The delete block that begins each file group: no deletes."""

_Sizes = dict[str, tuple[int, bool]]


class _Uncertain(Exception):
    """The metadata table cannot be relied on."""


def listed_files(store: Store, config: TableConfig, timeline: Timeline) -> dict[str, tuple[FileInfo, ...]] | None:
    """The data files of each partition as the metadata table has them, None where it is not certain that it has all.

    `timeline` is the table's own. No folder of the table's partitions is listed.
    """
    if not keeps_listing(config):
        return None
    try:
        return _listed(store, timeline)
    except (_Uncertain, FileNotFoundError, CorruptError, UnsupportedError):
        return None


def keeps_listing(config: TableConfig) -> bool:
    """Whether a table says that its metadata table has its files, in a form that `listed_files` reads."""
    maintained = _FILES in partitions_of(config, PARTITIONS) and _FILES not in partitions_of(config, INFLIGHT)
    return maintained and config.completion_times


def _listed(store: Store, timeline: Timeline) -> dict[str, tuple[FileInfo, ...]]:
    own = config_from(parse_properties(store.read(f"{FOLDER}/{PROPERTIES}")), table=store.location)
    folders = [f"{FOLDER}/{own.timeline_folder}", f"{FOLDER}/{_FILES}"]
    instants, files = store.list_many(folders)
    theirs = timeline_from(instants, own)
    _check_complete(timeline, theirs)
    slices = _slices(files.files, theirs)
    merged: dict[str, _Sizes] = {}
    for file_slice in slices:
        for key, sizes in _records(store, file_slice, timeline, theirs):
            _merge(merged.setdefault(key, {}), sizes)
    partitions = merged.pop(_ALL_PARTITIONS, {})
    return {
        _path(name): tuple(FileInfo(file_path(_path(name), file), size) for file, size in _live(merged.get(name, {})))
        for name, _ in _live(partitions)
    }


def _check_complete(timeline: Timeline, theirs: Timeline) -> None:
    """_Uncertain unless each completed instant of the table that changed files is in the metadata table, or is older
    than what its timeline shows."""
    known = {entry.time for entry in theirs.entries if entry.done}
    oldest = min((time for time in known if not time.startswith(_BOOTSTRAP)), default="")
    if not known:
        raise _Uncertain
    for entry in timeline.entries:
        changes = entry.writes or entry.action in ("clean", "rollback", "restore")
        if entry.done and changes and entry.time not in known and (not oldest or entry.time > oldest):
            raise _Uncertain


def _slices(files: Iterable[FileInfo], theirs: Timeline) -> list[FileSlice]:
    """The newest slice of each file group. _Uncertain where a log file that may belong to it is of an instant that the
    metadata table's timeline no longer has."""
    view, slices = view_of(theirs), []
    for group in file_groups(files).values():
        file_slice = slice_of(_FILES, group, view, WrittenFiles({}, {}, frozenset()))
        base = file_slice.base.instant if file_slice is not None and file_slice.base is not None else ""
        if any(log.instant not in theirs.by_time and log.instant >= base for log in group.logs):
            raise _Uncertain
        if file_slice is not None:
            slices.append(file_slice)
    return slices


def _records(store: Store, file_slice: FileSlice, timeline: Timeline, theirs: Timeline) -> Iterator[tuple[str, _Sizes]]:
    """The records of a file slice, oldest first: (key, sizes by file name)."""
    if file_slice.base is not None:
        image = store.read(f"{FOLDER}/{_FILES}/{file_slice.base.name}")
        yield from _image_records(image, "")
    logs = store.read_many([f"{FOLDER}/{_FILES}/{log.name}" for log in file_slice.logs])
    completed = {entry.time for entry in timeline.entries if entry.done}
    for data in logs:
        scan = parse_log(data)
        if scan.corrupt:
            raise _Uncertain
        for block in scan.blocks:
            if _holds_records(block) and _counts(block.instant_time, completed, timeline):
                yield from _image_records(bytes(block.content), block.schema)


def _holds_records(block: LogBlock) -> bool:
    if block.kind is BlockKind.DELETE and bytes(block.content) == _EMPTY_DELETES:
        return False
    if block.kind is not BlockKind.HFILE_DATA or block.compacted_instants:
        raise _Uncertain
    return True


def _counts(instant: str, completed: set[str], timeline: Timeline) -> bool:
    """Whether the table completed an instant, or it is older than the table's timeline."""
    return instant in completed or instant.startswith(_BOOTSTRAP) or instant < timeline.start


def _image_records(image: bytes, schema: str) -> Iterator[tuple[str, _Sizes]]:
    hfile = open_hfile(lambda start, length: image[start : start + length], len(image))
    with decoding("a record of the metadata table cannot be read"):
        parsed = parsed_schema(schema or hfile.info["schema"])
        entries = hfile.scan()
        for key, value in zip(entries["key"].to_pylist(), entries["value"].to_pylist(), strict=True):
            record: Any = fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
            files: Mapping[str, Mapping[str, Any]] = record["filesystemMetadata"] or {}
            yield key.decode(), {name: (int(info["size"]), bool(info["isDeleted"])) for name, info in files.items()}


def _merge(before: _Sizes, after: _Sizes) -> None:
    """Files of a newer record over those before: a log file grows, and a tombstone takes a file away."""
    for name, (size, gone) in after.items():
        old = before.get(name)
        if gone or old is None or old[1]:
            before[name] = (size, gone)
        else:
            before[name] = (max(size, old[0]), False)


def _live(sizes: _Sizes) -> list[tuple[str, int]]:
    return sorted((name, size) for name, (size, gone) in sizes.items() if not gone)


def _path(name: str) -> str:
    return "" if name == _NO_PARTITION else name
