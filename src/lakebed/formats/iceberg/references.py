"""Which of some files the table's snapshots hold: those must never be removed as leftovers.

A snapshot that has expired cannot be asked, but its files live on in the snapshots after it. So the manifests of every
snapshot of every branch and tag are looked through.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, NotInHistoryError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of

_LOOKS = 5


def held_files(operations: TableOperations, paths: Collection[str]) -> set[str]:
    """Those of the paths that are live data or delete files of any snapshot.

    Raises what reading the metadata raises; then nothing is known and nothing may be removed.
    """
    metadata = operations.load().metadata
    for _ in range(_LOOKS):
        try:
            return _held(operations.files, metadata, paths)
        except (CorruptError, NotInHistoryError):
            before, metadata = metadata, operations.load().metadata
            if before.snapshots.keys() <= metadata.snapshots.keys():
                raise  # nothing expired meanwhile: a file is missing
    return _held(operations.files, metadata, paths)


def _held(files: Files, metadata: TableMetadata, paths: Collection[str]) -> set[str]:
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots.values():
        manifests |= {one.path: one for one in manifests_of(files, metadata, snapshot)}
    wanted = pa.array(sorted(set(paths)), pa.string())
    held: set[str] = set()
    for spec_id in {one.spec_id for one in manifests.values()}:
        of_spec = [one for one in manifests.values() if one.spec_id == spec_id]
        for entries in iter_entries(files, metadata, of_spec, ("file_path",)):
            found = entries["file_path"]
            held.update(found.filter(pc.is_in(found, value_set=wanted)).to_pylist())
    return held
