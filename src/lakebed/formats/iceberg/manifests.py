"""The manifests of a snapshot and their entries, read from the table's files.

Entries stay columns: a table of a million data files is planned without one Python object a file. Manifests are
fetched several at a time and decoded many at once, in pieces of bounded size, on all processors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.avro_file import open_container
from lakebed.formats.iceberg.codec.manifest import COLUMNS, STATS, decode_entries, entry_schema
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile, decode_manifest_list
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.partition_type import knows_partitions, learn, partition_type
from lakebed.formats.iceberg.files import Files
from lakebed.kernel.engine import LocalEngine

R = TypeVar("R")
_FETCHES = 8
_PIECE_BYTES = 16 << 20
"""Bytes of compressed manifests that are decoded at once."""

Entries = dict[int, pa.Table]
"""Entries by the id of their partition spec."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The live files of a snapshot: entries of data files and of delete files, by spec id, in manifest order."""

    data: Entries
    deletes: Entries


def read_manifest_list(files: Files, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot, in order. CorruptError when its list is missing or damaged."""
    if not snapshot.manifest_list:
        return [_bare(files, path) for path in snapshot.manifests]
    try:
        return decode_manifest_list(files.read(snapshot.manifest_list), snapshot.manifest_list)
    except FileNotFoundError as error:
        raise CorruptError("a manifest list is missing", file=snapshot.manifest_list, why=files.why_missing) from error


def manifests_of(files: Files, metadata: TableMetadata, snapshot: Snapshot) -> list[ManifestFile]:
    """The same, where their entries are read with the table's metadata: what that has forgotten is learned from them.

    Cleaning of metadata may take away the only schema with the column of a partition field, or a partition spec. A
    manifest's own header has both. One header is read for each spec that the metadata does not know whole.
    """
    found = read_manifest_list(files, snapshot)
    unknown = {one.spec_id: one for one in reversed(found) if not knows_partitions(metadata, one.spec_id)}
    for manifest in unknown.values():
        (data,) = _fetched(files, [manifest])
        learn(metadata, manifest.spec_id, open_container(data, manifest.path).metadata, manifest.path)
    return found


def iter_entries(
    files: Files, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: Collection[str] = COLUMNS,
    stats: bool = False, live_only: bool = True,
) -> Iterator[pa.Table]:  # fmt: skip
    """The entries of manifests of one spec, in order, in pieces of bounded size.

    `columns` are names of `codec.manifest.COLUMNS` and `STATS`; `stats` adds all of the latter. Entries that record a
    removal are left out unless `live_only` is False. What entries inherit is filled in.
    """
    if any(manifest.spec_id != manifests[0].spec_id for manifest in manifests):
        raise ValueError("manifests of several specs do not make one table of entries")
    names = {*columns, *(STATS if stats else ())}
    yield from map_runs(files, metadata, list(runs_of(manifests)), lambda _, entries: entries, names, live_only)


def runs_of(manifests: Iterable[ManifestFile]) -> Iterator[tuple[ManifestFile, ...]]:
    """Neighbours of one spec that are read at once: as many as a piece of bounded size takes."""
    run: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        if run and (size >= _PIECE_BYTES or manifest.spec_id != run[0].spec_id):
            yield tuple(run)
            run, size = [], 0
        run.append(manifest)
        size += manifest.length
    if run:
        yield tuple(run)


def map_runs(
    files: Files, metadata: TableMetadata, runs: Sequence[Sequence[ManifestFile]], work: Callable[[int, pa.Table], R],
    columns: Collection[str] = COLUMNS, live_only: bool = True,
) -> Iterator[R]:  # fmt: skip
    """What `work` makes of each run (its number, its entries), in order. It is done where the run is decoded, on all
    processors, so that only its result takes memory for longer; no more than twice as many runs as there are
    processors are under way."""

    def made(number: int) -> R:
        run = runs[number]
        spec = metadata.specs[run[0].spec_id]
        kind = partition_type(metadata, spec)
        return work(number, decode_entries(run, _fetched(files, run), spec, kind, columns, live_only))

    yield from LocalEngine().map(made, range(len(runs))) if len(runs) > 1 else map(made, range(len(runs)))


def read_entries(
    files: Files, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: Collection[str] = COLUMNS,
    stats: bool = False, live_only: bool = True, spec_id: int | None = None,
) -> pa.Table:  # fmt: skip
    """The same as one table. Without manifests it is empty, of spec `spec_id` or the table's default."""
    pieces = list(iter_entries(files, metadata, manifests, columns, stats, live_only))
    if pieces:
        return pa.concat_tables(pieces)
    spec = metadata.specs[metadata.default_spec_id if spec_id is None else spec_id]
    return entry_schema({*columns, *(STATS if stats else ())}, partition_type(metadata, spec)).empty_table()


def scan(
    files: Files, metadata: TableMetadata, snapshot: Snapshot | None,
    keep: Callable[[ManifestFile], bool] | None = None, columns: Collection[str] = COLUMNS, stats: bool = False,
    delete_stats: bool = True,
) -> Scan:  # fmt: skip
    """The live files of a snapshot; None has none. `keep` rules manifests out by their partition summaries.

    `stats` adds the per-column figures of data files, `delete_stats` those of delete files.
    """
    data: dict[int, list[ManifestFile]] = {}
    deletes: dict[int, list[ManifestFile]] = {}
    for manifest in manifests_of(files, metadata, snapshot) if snapshot is not None else ():
        if manifest.has_live and (keep is None or keep(manifest)):
            (deletes if manifest.content else data).setdefault(manifest.spec_id, []).append(manifest)
    return Scan(
        {spec: read_entries(files, metadata, some, columns, stats) for spec, some in data.items()},
        {spec: read_entries(files, metadata, some, columns, delete_stats) for spec, some in deletes.items()},
    )


def _fetched(files: Files, manifests: Sequence[ManifestFile]) -> list[bytes]:
    """The bytes of some manifests, in order, fetched several at a time."""

    def fetch(manifest: ManifestFile) -> bytes:
        try:
            return files.read(manifest.path)
        except FileNotFoundError as error:
            raise CorruptError("a manifest is missing", file=manifest.path, why=files.why_missing) from error

    if len(manifests) == 1:
        return [fetch(manifests[0])]
    with ThreadPoolExecutor(_FETCHES) as pool:
        return list(pool.map(fetch, manifests))


def _bare(files: Files, path: str) -> ManifestFile:
    """A manifest that a version 1 snapshot names itself, without a list: its spec is in its own header."""
    data = files.read(path)
    return ManifestFile(path, len(data), _spec_of(data, path))


def _spec_of(data: bytes, path: str) -> int:
    """The id of the partition spec that a manifest says it has."""
    return int(open_container(data, path).metadata.get("partition-spec-id", b"0"))
