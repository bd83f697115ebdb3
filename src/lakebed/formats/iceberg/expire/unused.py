"""The files that only expired snapshots need.

Rule: the reference engine's ReachableFileCleanup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import iter_entries, lists_ahead, manifests_ahead, manifests_of
from lakebed.kernel.arrays import from_values


def unused_files(files: Files, metadata: TableMetadata, expired: set[int]) -> list[str]:
    """The files that only the snapshots with these ids need: data and delete files, then manifests, then manifest lists
    and statistics."""
    kept_lists: set[str] = set()
    kept: dict[str, ManifestFile] = {}
    unused: dict[str, ManifestFile] = {}
    lists: list[str] = []
    files = lists_ahead(files, metadata.snapshots.values())
    for snapshot in metadata.snapshots.values():
        manifests = {manifest.path: manifest for manifest in manifests_of(files, metadata, snapshot)}
        if snapshot.snapshot_id in expired:
            unused |= manifests
            lists.append(snapshot.manifest_list)
        else:
            kept |= manifests
            kept_lists.add(snapshot.manifest_list)
    unused = {path: manifest for path, manifest in unused.items() if path not in kept}
    if unused:
        files = manifests_ahead(files, chain(unused.values(), kept.values()))
    pieces = list(paths_in(files, metadata, unused.values()))
    contents = pc.unique(pa.concat_arrays(pieces)) if pieces else from_values([], pa.string())
    for paths in paths_in(files, metadata, kept.values()) if len(contents) else ():
        contents = contents.filter(pc.invert(pc.is_in(contents, value_set=paths)))
        if not len(contents):
            break
    statistics = {path for id, path in metadata.statistics_files if id in expired}
    statistics -= {path for id, path in metadata.statistics_files if id not in expired}
    unused_lists = [path for path in lists if path and path not in kept_lists]
    return [*contents.to_pylist(), *unused, *unused_lists, *sorted(statistics)]


def paths_in(
    files: Files, metadata: TableMetadata, manifests: Iterable[ManifestFile], live_only: bool = True
) -> Iterator[pa.Array]:
    """The paths of the files in manifests, in pieces of bounded size; without `live_only` also of removed files."""
    by_spec: dict[int, list[ManifestFile]] = {}
    for manifest in manifests:
        by_spec.setdefault(manifest.spec_id, []).append(manifest)
    files = manifests_ahead(files, chain.from_iterable(by_spec.values()))
    for of_spec in by_spec.values():
        for entries in iter_entries(files, metadata, of_spec, ("file_path",), live_only=live_only):
            yield from entries["file_path"].chunks
