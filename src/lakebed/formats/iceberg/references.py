"""The files that a table's snapshots hold, which must never be removed as leftovers.

An expired snapshot cannot be read, but its files live on in the snapshots after it. So the manifests of every snapshot
are searched, of every branch and tag.
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
from lakebed.formats.iceberg.manifests import iter_entries, lists_ahead, manifests_of
from lakebed.kernel.arrays import from_values

_LOOKS = 5
"""How often the snapshots are searched when some of them expire meanwhile."""


def held_files(operations: TableOperations, paths: Collection[str]) -> set[str]:
    """The paths that are those of live data or delete files of any snapshot.

    Raises what reading the metadata raises. Nothing is known then, and no file may be removed.
    """
    metadata = operations.load().metadata
    for _ in range(_LOOKS):
        try:
            return _held(operations.files, metadata, paths)
        except (CorruptError, NotInHistoryError):
            before, metadata = metadata, operations.load().metadata
            if before.snapshots.keys() <= metadata.snapshots.keys():
                raise  # no snapshot expired meanwhile: a file is really missing
    return _held(operations.files, metadata, paths)


def _held(files: Files, metadata: TableMetadata, paths: Collection[str]) -> set[str]:
    manifests: dict[str, ManifestFile] = {}
    files = lists_ahead(files, metadata.snapshots.values())
    for snapshot in metadata.snapshots.values():
        manifests |= {manifest.path: manifest for manifest in manifests_of(files, metadata, snapshot)}
    wanted = from_values(sorted(set(paths)), pa.string())
    held: set[str] = set()
    for spec_id in {manifest.spec_id for manifest in manifests.values()}:
        of_spec = [manifest for manifest in manifests.values() if manifest.spec_id == spec_id]
        for entries in iter_entries(files, metadata, of_spec, ("file_path",)):
            live = entries["file_path"]
            held.update(live.filter(pc.is_in(live, value_set=wanted)).to_pylist())
    return held
