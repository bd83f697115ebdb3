"""Read the file listing that the metadata table keeps, in place of listing the table's folders.

Rules: Hudi's `HoodieMetadataPayload`. The part `files` has one record per partition of the table, from file name to
size, and one with all partitions. A newer record adds files, and its tombstones take files away.

The listing is taken only where it is certain (`opened.py`). Otherwise there is none, and folders are listed.
"""

from __future__ import annotations

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import file_path
from lakebed.formats.hudi.metadata_table.named import REBUILD
from lakebed.formats.hudi.metadata_table.opened import UNUSABLE, MetadataTable, maintains
from lakebed.formats.hudi.metadata_table.records import ALL_PARTITIONS, NO_PARTITION, Sizes, merge, records_of
from lakebed.formats.hudi.metadata_table.records import FILES as FILES
from lakebed.kernel.files import FileInfo


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
    merged: dict[str, Sizes] = {}
    slices = table.slices(FILES)
    if not slices:  # the instant that built it is not there as completed
        raise UnsupportedError("the metadata table has no listing of files", todo=REBUILD)
    for file_slice in slices:
        for image in table.images(file_slice, whole=True):
            if image.hfile is None:
                raise UnsupportedError("a delete block in the listing of the metadata table is not read", todo=REBUILD)
            for key, sizes in records_of(image):
                merge(merged.setdefault(key, {}), sizes)
    partitions = merged.pop(ALL_PARTITIONS, {})
    return {
        _path(name): tuple(FileInfo(file_path(_path(name), file), size) for file, size in _live(merged.get(name, {})))
        for name, _ in _live(partitions)
    }


def _live(sizes: Sizes) -> list[tuple[str, int]]:
    return sorted((name, size) for name, (size, gone) in sizes.items() if not gone)


def _path(name: str) -> str:
    return "" if name == NO_PARTITION else name
