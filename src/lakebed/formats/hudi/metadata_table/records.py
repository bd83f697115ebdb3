"""The records of the part `files`: which files each partition of the table has.

Rules: Hudi's `HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords` and
`convertFilesToFilesPartitionRecords`, `HoodieMetadataPayload.createPartitionFilesRecord`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.codec.metadata_records import RecordType, decode_records, encode_records
from lakebed.formats.hudi.metadata_table.change import MetadataChange
from lakebed.formats.hudi.metadata_table.opened import Image
from lakebed.kernel.arrays import from_values

FILES = "files"
FILES_GROUP = "files-0000-0"
"""The file id of the one file group of the part."""
ALL_PARTITIONS = "__all_partitions__"
NO_PARTITION = "."
"""The name of the one partition of a table without partitions."""

Sizes = dict[str, tuple[int, bool]]
"""Files by name: their bytes, and whether they are gone."""
_NOTHING = from_values([], pa.binary())


@dataclass(frozen=True, slots=True, eq=False)
class GroupRecords:
    """The records that one file group of the metadata table gets: keys that are unique and in the order of their bytes,
    with their Avro datums, both binary. `deleted` are keys whose records go."""

    part: str
    file_id: str
    keys: pa.Array
    values: pa.Array
    deleted: pa.Array = field(default_factory=lambda: _NOTHING)


def change_records(version: int, change: MetadataChange) -> GroupRecords:
    """What an instant changes in the part `files`."""
    files: dict[str, Sizes] = {}
    partitions: Sizes = {}
    for file in change.written:
        sizes = files.setdefault(file.partition, {})
        sizes[file.name] = (file.size, False)
        for path, size in file.changes.items():
            sizes[path.rpartition("/")[2]] = (size, False)
        partitions[named(file.partition)] = (0, False)
    for partition, added in change.added.items():
        files.setdefault(partition, {}).update({name: (size, False) for name, size in added.items()})
    for partition, deleted in change.deleted.items():
        files.setdefault(partition, {}).update(dict.fromkeys(deleted, (0, True)))
    for partition in change.dropped_partitions:
        partitions[named(partition)] = (0, True)
    records = {partition: sizes for partition, sizes in files.items() if sizes}
    commits = change.action not in ("clean", "rollback", "restore")
    return file_records(version, records, partitions if commits or partitions else None)


def file_records(version: int, files: Mapping[str, Sizes], partitions: Sizes | None) -> GroupRecords:
    """The records of files by partition path, and that of the partitions by name where there is one."""
    maps = {named(partition): (RecordType.FILES, sizes) for partition, sizes in files.items()}
    if partitions is not None:
        maps[ALL_PARTITIONS] = (RecordType.PARTITIONS, partitions)
    return GroupRecords(FILES, FILES_GROUP, *_encoded(version, maps))


def merge_files(version: int, images: Sequence[Image]) -> tuple[pa.Array, pa.Array]:
    """The keys and datums of a base file: the records of a slice, oldest first, merged, without tombstones."""
    merged: dict[str, Sizes] = {}
    for image in images:
        for key, sizes in records_of(image):
            merge(merged.setdefault(key, {}), sizes)
    live = {key: {name: size for name, size in sizes.items() if not size[1]} for key, sizes in merged.items()}
    kept = {key: sizes for key, sizes in live.items() if sizes or key == ALL_PARTITIONS}
    kinds = {key: RecordType.PARTITIONS if key == ALL_PARTITIONS else RecordType.FILES for key in kept}
    return _encoded(version, {key: (kinds[key], sizes) for key, sizes in kept.items()})


def records_of(image: Image) -> Iterator[tuple[str, Sizes]]:
    """The records of an image of the part: (key, sizes by file name)."""
    if image.hfile is not None:
        entries = image.hfile.scan()
        yield from sizes_of(image.schema, entries["key"], entries["value"])


def sizes_of(
    schema: str, keys: pa.Array | pa.ChunkedArray, values: pa.Array | pa.ChunkedArray
) -> Iterator[tuple[str, Sizes]]:
    """Records by their keys and datums: (key, sizes by file name)."""
    for key, record in zip(keys.to_pylist(), decode_records(schema, values), strict=True):
        files: Mapping[str, Mapping[str, int]] = record["filesystemMetadata"] or {}
        yield key.decode(), {name: (int(info["size"]), bool(info["isDeleted"])) for name, info in files.items()}


def merge(before: Sizes, after: Sizes) -> None:
    """Files of a newer record over those before: a log file grows, and a tombstone takes a file away."""
    for name, (size, gone) in after.items():
        old = before.get(name)
        if gone or old is None or old[1]:
            before[name] = (size, gone)
        else:
            before[name] = (max(size, old[0]), False)


def named(partition: str) -> str:
    """The key of a partition path."""
    return partition or NO_PARTITION


def _encoded(version: int, maps: Mapping[str, tuple[RecordType, Sizes]]) -> tuple[pa.Array, pa.Array]:
    keys = sorted((key.encode(), key) for key in maps)
    records = ((kind, {"filesystemMetadata": _infos(sizes)}) for kind, sizes in (maps[key] for _, key in keys))
    return pa.array([key for key, _ in keys], pa.binary()), encode_records(version, records)


def _infos(sizes: Sizes) -> dict[str, dict[str, Any]]:
    return {name: {"size": size, "isDeleted": gone} for name, (size, gone) in sizes.items()}
