"""The manifests of a snapshot and their entries, read from the table's files.

Entries stay columns: a table of a million data files is planned without a Python object per file. Manifests are
fetched together, and decoded in runs of bounded size on all processors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from lakebed.errors import CorruptError, counted
from lakebed.formats.iceberg.catalog.demands import planned_elsewhere
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.avro_file import open_container
from lakebed.formats.iceberg.codec.manifest import COLUMNS, STATS, decode_entries, entry_schema
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile, decode_manifest_list
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.partition_type import knows_partitions, learn, partition_type
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.files import Files
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.options import is_number

R = TypeVar("R")
_UNKNOWN_SIZE = -1
_PIECE_BYTES = 16 << 20
"""Bytes of compressed manifests in a run, which is decoded at once."""

ALL_COLUMNS = (*COLUMNS, *STATS)
"""The columns of entries, with the metrics of the files."""


def read_manifest_list(files: Files, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot, in order. CorruptError when its list is missing or damaged, UnsupportedError where
    the catalog lets nobody read them."""
    if files.planned_for:
        raise planned_elsewhere(files.planned_for)
    if not snapshot.manifest_list:
        return [*files.together(partial(_bare, files), snapshot.manifests)]
    try:
        (data,) = files.read_immutable([(snapshot.manifest_list, _UNKNOWN_SIZE)])
    except FileNotFoundError as error:
        raise CorruptError("a manifest list is missing", file=snapshot.manifest_list, why=files.why_missing) from error
    return decoded_list(snapshot, data)


def decoded_list(snapshot: Snapshot, data: bytes, file: str = "") -> list[ManifestFile]:
    """The manifests that the bytes of a snapshot's manifest list name, in order. CorruptError when it is damaged.

    Nothing states how long a list is, so one that was cut behind its header looks empty: that the snapshot counts data
    files tells. What it counts cannot tell more, since some writers count wrong.
    """
    file = file or snapshot.manifest_list
    manifests = decode_manifest_list(data, file)
    stated = snapshot.summary.get("total-data-files", "")
    if not manifests and is_number(stated) and int(stated):
        raise CorruptError(
            "a manifest list names no manifest",
            file=file,
            why="it was probably cut, since snapshot "
            f"{snapshot.snapshot_id} counts {counted(int(stated), 'data file')}",
            todo="Restore the file from a copy, or roll back to an older snapshot",
        )
    return manifests


def loaded_with_list(operations: TableOperations, branch: str) -> tuple[Loaded, Files]:
    """A table's current metadata, and its files with the manifest list of the branch's head at hand.

    The list of the head that was known before is read while the metadata is loaded: mostly it is the one needed.
    """
    last, files = operations.last, operations.files
    ref = last.metadata.refs.get(branch) if last is not None else None
    head = last.metadata.snapshots.get(ref.snapshot_id) if last is not None and ref is not None else None
    if head is None or files.home.at_once == 1:
        return operations.load(), operations.files
    acts: tuple[Callable[[], Loaded | Files], ...] = (operations.load, lambda: lists_ahead(files, [head]))
    loaded, ahead = files.together(lambda act: act(), acts)
    assert isinstance(loaded, Loaded) and isinstance(ahead, Files)
    return loaded, ahead if operations.files is files else operations.files


def lists_ahead(files: Files, snapshots: Iterable[Snapshot | None]) -> Files:
    """The files, with the manifest lists of these snapshots read together."""
    return files.ahead((s.manifest_list, _UNKNOWN_SIZE) for s in snapshots if s is not None and s.manifest_list)


def manifests_ahead(files: Files, manifests: Iterable[ManifestFile]) -> Files:
    """The files, with the bytes of these manifests read together."""
    return files.ahead((manifest.path, manifest.length) for manifest in manifests)


def manifests_of(files: Files, metadata: TableMetadata, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot, in order, whose entries can then be read with the table's metadata.

    Metadata cleanup may remove a partition spec, or the only schema with the column of a partition field. The header of
    a manifest has both, so one header is read for each spec that the metadata does not know whole, and the metadata
    learns it. Of a remote table the metadata keeps the manifests of the last list, for the commit that follows a plan.
    CorruptError when the manifest list is missing or damaged.
    """
    kept = metadata.last_manifests.get(snapshot.manifest_list)
    if kept is not None:
        return [*kept]
    manifests = read_manifest_list(files, snapshot)
    unknown = {m.spec_id: m for m in reversed(manifests) if not knows_partitions(metadata, m.spec_id)}
    for manifest, data in zip(unknown.values(), fetched(files, [*unknown.values()]), strict=True):
        learn(metadata, manifest.spec_id, open_container(data, manifest.path).metadata, manifest.path)
    if files.home.at_once > 1 and snapshot.manifest_list:
        metadata.last_manifests.clear()
        metadata.last_manifests[snapshot.manifest_list] = [*manifests]
    return manifests


def iter_entries(
    files: Files,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    columns: Collection[str] = COLUMNS,
    live_only: bool = True,
    piece_bytes: int | None = None,
) -> Iterator[pa.Table]:
    """The entries of manifests of one spec, in order, as tables of bounded size.

    `columns` are names of `ALL_COLUMNS`. Entries that record a removal are left out unless `live_only` is False. What
    entries inherit is filled in. A table has the entries of about `piece_bytes` of manifests, or of one larger one.
    None: as many as are quickest. With a number one run is decoded ahead, else two per processor.
    """
    if any(manifest.spec_id != manifests[0].spec_id for manifest in manifests):
        raise ValueError("manifests of several specs do not make one table of entries")
    runs = [*runs_of(manifests, piece_bytes)]
    threads = None if piece_bytes is None else 1
    yield from map_runs(files, metadata, runs, lambda _, entries: entries, columns, live_only, threads)


def runs_of(manifests: Iterable[ManifestFile], piece_bytes: int | None = None) -> Iterator[tuple[ManifestFile, ...]]:
    """Runs of neighbours of one spec that are decoded at once, each of about so many bytes; None: as is quickest."""
    enough = piece_bytes or _PIECE_BYTES
    run: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        if run and (size >= enough or manifest.spec_id != run[0].spec_id):
            yield tuple(run)
            run, size = [], 0
        run.append(manifest)
        size += manifest.length
    if run:
        yield tuple(run)


def map_runs(
    files: Files, metadata: TableMetadata, runs: Sequence[Sequence[ManifestFile]], work: Callable[[int, pa.Table], R],
    columns: Collection[str] = COLUMNS, live_only: bool = True, threads: int | None = None,
) -> Iterator[R]:  # fmt: skip
    """The results of `work` for each run, in order. It gets the number of the run and its entries.

    `work` runs where the run is decoded, on all processors or on so many `threads`, so that only its result stays in
    memory. At most twice as many runs as there are threads are under way.
    """

    def result(number: int) -> R:
        run = runs[number]
        spec = metadata.specs[run[0].spec_id]
        kind = partition_type(metadata, spec)
        return work(number, decode_entries(run, fetched(files, run), spec, kind, columns, live_only))

    yield from LocalEngine(threads).map(result, range(len(runs))) if len(runs) > 1 else map(result, range(len(runs)))


def read_entries(
    files: Files,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    columns: Collection[str] = COLUMNS,
    live_only: bool = True,
) -> pa.Table:
    """The entries of manifests of one spec, as `iter_entries` gives them, in one table.

    Without manifests it is an empty table of the table's default spec.
    """
    pieces = list(iter_entries(files, metadata, manifests, columns, live_only))
    if pieces:
        return pa.concat_tables(pieces)
    return entry_schema(set(columns), partition_type(metadata, metadata.spec)).empty_table()


def fetched(files: Files, manifests: Sequence[ManifestFile]) -> Sequence[bytes]:
    """The bytes of the manifests, in order, fetched together."""
    try:
        return files.read_immutable([(manifest.path, manifest.length) for manifest in manifests])
    except FileNotFoundError as error:
        missing = next((m.path for m in manifests if not files.exists(m.path)), manifests[0].path)
        raise CorruptError("a manifest is missing", file=missing, why=files.why_missing) from error


def _bare(files: Files, path: str) -> ManifestFile:
    """A manifest that a snapshot of format version 1 names without a manifest list. Its header has its spec."""
    data = files.read(path)
    return ManifestFile(path, len(data), _spec_of(data, path))


def _spec_of(data: bytes, path: str) -> int:
    """The id of the partition spec in the header of a manifest."""
    return int(open_container(data, path).metadata.get("partition-spec-id", b"0"))
