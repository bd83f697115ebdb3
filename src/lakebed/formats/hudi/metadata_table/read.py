"""Read the file listing that the metadata table keeps, in place of listing the table's folders.

Rules: Hudi's `HoodieMetadataPayload`. The part `files` has one record per partition of the table, from file name to
size, and one with all partitions. A newer record adds files, and its tombstones take files away.

The listing is taken only where it is certain (`opened.py`). Otherwise there is none, and folders are listed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import fastavro

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import file_path
from lakebed.formats.hudi.metadata_table.opened import UNUSABLE, Image, MetadataTable, maintains
from lakebed.kernel.avro.records import parsed_schema
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import FileInfo

FILES = "files"
_ALL_PARTITIONS = "__all_partitions__"
_NO_PARTITION = "."
"""The name of the one partition of a table without partitions."""

_Sizes = dict[str, tuple[int, bool]]


def listed_files(table: MetadataTable) -> dict[str, tuple[FileInfo, ...]] | None:
    """The data files of each partition as the metadata table has them, None where it is not certain that it has all.

    No folder of the table's partitions is listed.
    """
    if not keeps_listing(table.config):
        return None
    try:
        return _listed(table)
    except UNUSABLE:
        return None


def keeps_listing(config: TableConfig) -> bool:
    """Whether a table says that its metadata table has its files, in a form that `listed_files` reads."""
    return maintains(config, FILES)


def _listed(table: MetadataTable) -> dict[str, tuple[FileInfo, ...]]:
    merged: dict[str, _Sizes] = {}
    for file_slice in table.slices(FILES):
        for image in table.images(file_slice):
            for key, sizes in _records(image):
                _merge(merged.setdefault(key, {}), sizes)
    partitions = merged.pop(_ALL_PARTITIONS, {})
    return {
        _path(name): tuple(FileInfo(file_path(_path(name), file), size) for file, size in _live(merged.get(name, {})))
        for name, _ in _live(partitions)
    }


def _records(image: Image) -> Iterator[tuple[str, _Sizes]]:
    """The records of an image: (key, sizes by file name)."""
    if image.hfile is None:
        raise UnsupportedError("a delete block in the listing of the metadata table is not read")
    with decoding("a record of the metadata table cannot be read"):
        parsed = parsed_schema(image.schema)
        entries = image.hfile.scan()
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
