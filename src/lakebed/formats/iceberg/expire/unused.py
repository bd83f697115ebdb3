"""The files that only expired snapshots need.

Rule: the reference engine's ReachableFileCleanup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import iter_entries, lists_ahead, manifests_ahead, manifests_of
from lakebed.kernel.arrays import from_values


def unused_files(
    files: Files, before: TableMetadata, expired: Collection[int], after: TableMetadata, spared: Collection[int] = ()
) -> list[str]:
    """The files that only the snapshots with these ids need: data and delete files, then manifests, then manifest lists
    and statistics. The snapshots are in the metadata `before`. What stays is in the metadata `after`, as a whole, since
    others may have built on a snapshot meanwhile; and what the expired snapshots of `spared` need."""
    gone = [before.snapshots[id] for id in before.snapshots if id in expired and id not in spared]
    stays = [after.snapshots[id] for id in after.snapshots if after is not before or id not in expired]
    stays += [before.snapshots[id] for id in spared]
    files = lists_ahead(files, (*stays, *gone))
    kept: dict[str, ManifestFile] = {}
    for snapshot in stays:
        kept |= {manifest.path: manifest for manifest in manifests_of(files, after, snapshot)}
    kept_lists = {snapshot.manifest_list for snapshot in stays}
    unused: dict[str, ManifestFile] = {}
    for snapshot in gone:
        unused |= {manifest.path: manifest for manifest in manifests_of(files, before, snapshot)}
    lists = [snapshot.manifest_list for snapshot in gone]
    unused = {path: manifest for path, manifest in unused.items() if path not in kept}
    if unused:
        files = manifests_ahead(files, chain(unused.values(), kept.values()))
    pieces = list(paths_in(files, before, unused.values()))
    contents = pc.unique(pa.concat_arrays(pieces)) if pieces else from_values([], pa.string())
    for paths in paths_in(files, after, kept.values()) if len(contents) else ():
        contents = contents.filter(pc.invert(pc.is_in(contents, value_set=paths)))
        if not len(contents):
            break
    ids = {snapshot.snapshot_id for snapshot in stays}
    statistics = {path for id, path in before.statistics_files if id in expired}
    statistics -= {path for id, path in after.statistics_files if id in ids}
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
