"""One attempt at a new snapshot: manifests without the removed files, manifests of the added files, small ones merged.

Rules: the reference engine's SnapshotProducer, ManifestFilterManager, ManifestMergeManager and MergingSnapshotProducer.
A retry uses the manifests of earlier attempts again where it can. Those that are not part of the committed snapshot are
removed in the end.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.codec.manifest import ADDED, COLUMNS, DELETED, EXISTING, decode_entries
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.manifest_write import UNASSIGNED, ManifestEncoder, assigned, encode_manifest_list
from lakebed.formats.iceberg.codec.metadata import Document, TableMetadata
from lakebed.formats.iceberg.codec.partition_type import partition_type
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.commit.added_entries import added_entries
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, data_files, delete_files
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import (
    ALL_COLUMNS,
    fetched,
    iter_entries,
    manifests_of,
    read_entries,
    runs_of,
)
from lakebed.kernel import clock
from lakebed.kernel.arrays import from_numpy, scalar_of, to_numpy
from lakebed.kernel.options import Options

_WAITING_BYTES = 32 << 20
"""With more bytes of new manifests than this, they are written before the manifest list is known."""

Chooser = Callable[[pa.Table], pa.Array]
"""Says which entries a commit removes, as booleans; the argument has live entries of one spec."""


@dataclass(slots=True)
class WrittenManifests:
    """The manifests and manifest lists that a commit has written so far, over all its attempts.

    `new` has the manifests of added files by (content, spec id). `filtered` has, by the path of a manifest and the
    choice, the manifests that replace it and the files that they lack; `merged` those that replace others, by their
    paths. `waiting` are files by path that the next snapshot needs and that are not in the store yet.
    """

    commit: str = field(default_factory=lambda: str(uuid.uuid4()))
    paths: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    waiting: dict[str, bytes] = field(default_factory=dict)
    new: dict[tuple[int, int], list[ManifestFile]] = field(default_factory=dict)
    filtered: dict[tuple[str, bytes], tuple[list[ManifestFile], list[DataFile] | list[DeleteFile]]] = field(
        default_factory=dict
    )
    merged: dict[tuple[str, ...], list[ManifestFile]] = field(default_factory=dict)

    def take(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The files among these paths that are not in the store yet. They are about to be written, so they no longer
        wait."""
        return {path: self.waiting.pop(path) for path in [*paths] if path in self.waiting}

    def forget_new_deletes(self) -> None:
        """Do not use the manifests of added delete files again."""
        for key in [key for key in self.new if key[0] == 1]:
            del self.new[key]


@dataclass(slots=True)
class Attempt:
    """The next snapshot on top of `head`, the newest of its branch in `metadata`."""

    files: Files
    metadata: TableMetadata
    head: Snapshot | None
    snapshot_id: int
    options: Options
    written: WrittenManifests
    existing: list[ManifestFile] = field(init=False)
    """The manifests of `head`."""

    def __post_init__(self) -> None:
        self.existing = manifests_of(self.files, self.metadata, self.head) if self.head is not None else []

    @property
    def sequence_number(self) -> int:
        """The sequence number of the new snapshot; 0 in format version 1."""
        return self.metadata.last_sequence_number + 1 if self.metadata.format_version > 1 else 0

    def entries(
        self, content: int, manifests: Sequence[ManifestFile] | None = None, columns: Collection[str] = COLUMNS
    ) -> Iterator[pa.Table]:
        """The live entries of data files (`content` 0) or delete files (1), in tables of one spec each.

        They are those of the head, or of some of its manifests.
        """
        chosen = [m for m in (self.existing if manifests is None else manifests) if m.content == content and m.has_live]
        for spec_id in {m.spec_id for m in chosen}:
            of_spec = [m for m in chosen if m.spec_id == spec_id]
            yield from iter_entries(self.files, self.metadata, of_spec, columns)

    def new_manifests(
        self, added: Sequence[DataFile] | Sequence[DeleteFile], content: int, sequence_number: int | None = None
    ) -> list[ManifestFile]:
        """Manifests of added files, per spec. Those of an earlier attempt are used again."""
        by_spec: dict[int, list[DataFile | DeleteFile]] = {}
        for file in added:
            by_spec.setdefault(file.spec_id, []).append(file)
        manifests: list[ManifestFile] = []
        for spec_id, files in by_spec.items():
            key = (content, spec_id)
            if key not in self.written.new:
                kind = partition_type(self.metadata, self.metadata.specs[spec_id])
                entries = added_entries(files, kind, self.snapshot_id, sequence_number)
                self.written.new[key] = self.write(entries, spec_id, content)
            manifests += self.written.new[key]
        return manifests

    def write(self, entries: pa.Table, spec_id: int, content: int) -> list[ManifestFile]:
        """New manifests with these entries, each of about the target size. Small ones are written with the commit."""
        encoder = ManifestEncoder(self.metadata, self.metadata.specs[spec_id], content, self.snapshot_id)
        manifests = []
        for encoded in encoder.write(entries, self.options[opt.MANIFEST_SIZE]):
            folder = layout.metadata_folder(self.metadata.location, self.metadata.properties)
            path = f"{folder}/{layout.manifest_name(self.written.commit, len(self.written.paths))}"
            self.written.paths.append(path)
            self.written.waiting[path] = encoded.data
            manifests.append(replace(encoded.file, path=path))
            if sum(map(len, self.written.waiting.values())) > _WAITING_BYTES:
                self.files.write_many(self.written.take(self.written.waiting))
        return manifests

    def filtered(
        self, manifests: Sequence[ManifestFile], choose: Chooser, what: bytes, look_at: Callable[[ManifestFile], bool]
    ) -> tuple[list[ManifestFile], list[DataFile] | list[DeleteFile]]:
        """Manifests without the entries that `choose` picks, and the files of these entries.

        Only manifests that `look_at` accepts are read. One with removals is replaced: its new manifest records the
        removed entries as deleted by this snapshot, and the others as existing. `what` names the choice: a retry does
        not filter the same manifest for the same choice again. Manifests without live entries are left out, since
        their records of removals belong to older snapshots.
        """
        kept: list[ManifestFile] = []
        removed: list[DataFile | DeleteFile] = []
        live = [manifest for manifest in manifests if manifest.has_live]
        looked_at = {manifest.path for manifest in live if look_at(manifest)}
        filtered = self.written.filtered
        for run in runs_of(m for m in live if m.path in looked_at and (m.path, what) not in filtered):
            for manifest, data in zip(run, fetched(self.files, run), strict=True):
                filtered[manifest.path, what] = self._filter(manifest, data, choose)
        for manifest in live:
            replacing, gone = filtered[manifest.path, what] if manifest.path in looked_at else ([], [])
            kept += replacing or [manifest]
            removed += gone
        return kept, removed  # type: ignore[return-value]  # a manifest holds one kind

    def _filter(
        self, manifest: ManifestFile, data: bytes, choose: Chooser
    ) -> tuple[list[ManifestFile], list[DataFile] | list[DeleteFile]]:
        gone = choose(self._entries_in([manifest], [data], ALL_COLUMNS if manifest.content else COLUMNS))
        if not pc.any(gone).as_py():
            return [], []
        entries = self._entries_in([manifest], [data], ALL_COLUMNS)
        removed = entries.filter(gone)
        status = from_numpy(np.where(to_numpy(gone), DELETED, EXISTING).astype(np.int8, copy=False))
        entries = _set(entries, "status", status)
        ours = from_numpy(np.full(len(entries), self.snapshot_id).astype(np.int64, copy=False))
        entries = _set(entries, "snapshot_id", pc.if_else(gone, ours, entries["snapshot_id"]))
        manifests = self.write(entries, manifest.spec_id, manifest.content)
        return manifests, delete_files(removed) if manifest.content else data_files(removed.select([*COLUMNS]))

    def merged(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The manifests, with small ones of a spec merged into larger ones (ManifestMergeManager).

        Bins are packed from the oldest manifest on. The bin with the newest one is merged only when it has
        `commit.manifest.min-count-to-merge` manifests.
        """
        if not self.options[opt.MERGE] or not manifests:
            return [*manifests]
        merged: list[ManifestFile] = []
        for spec_id in sorted({m.spec_id for m in manifests}, reverse=True):
            group = [m for m in manifests if m.spec_id == spec_id]
            for packed in _bins_from_the_end(group, self.options[opt.MANIFEST_SIZE]):
                young = manifests[0] in packed and len(packed) < self.options[opt.MERGE_COUNT]
                merged += packed if len(packed) == 1 or young else self._merged(packed)
        return merged

    def _merged(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        paths = tuple(manifest.path for manifest in manifests)
        if paths not in self.written.merged:
            self.written.merged[paths] = self._merge(manifests)
        return self.written.merged[paths]

    def _merge(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        first = manifests[0]
        entries = self._all_entries(_readable(manifests, self))
        status = to_numpy(entries["status"])
        ours = to_numpy(entries["snapshot_id"]) == self.snapshot_id
        keep = (status != DELETED) | ours
        state = np.where(ours & (status != EXISTING), status, EXISTING)
        entries = _set(entries, "status", from_numpy(state.astype(np.int8)))
        if self.metadata.format_version > 1:
            entries = self._inheriting(entries)
        return self.write(entries.filter(from_numpy(keep)), first.spec_id, first.content)

    def _all_entries(self, manifests: Sequence[ManifestFile]) -> pa.Table:
        """All entries of manifests of one spec, in order, including those of manifests that are not written yet."""
        waiting, pieces = self.written.waiting, []
        for unwritten, group in itertools.groupby(manifests, lambda manifest: manifest.path in waiting):
            run = [*group]
            if unwritten:
                data = [waiting[manifest.path] for manifest in run]
                pieces.append(self._entries_in(run, data, ALL_COLUMNS, live_only=False))
            else:
                pieces.append(read_entries(self.files, self.metadata, run, ALL_COLUMNS, live_only=False))
        return pa.concat_tables(pieces)

    def _entries_in(
        self, manifests: Sequence[ManifestFile], contents: Sequence[bytes], columns: Collection[str],
        live_only: bool = True,
    ) -> pa.Table:  # fmt: skip
        """The entries of manifests of one spec, from their bytes."""
        spec = self.metadata.specs[manifests[0].spec_id]
        kind = partition_type(self.metadata, spec)
        return decode_entries(manifests, contents, spec, kind, columns, live_only)

    def _inheriting(self, entries: pa.Table) -> pa.Table:
        """The entries. Those that this commit adds have no numbers yet: they inherit them from the commit."""
        status = to_numpy(entries["status"])
        new = from_numpy(status == ADDED)
        none = pa.nulls(1, pa.int64())[0]
        entries = _set(entries, "file_sequence_number", pc.if_else(new, none, entries["file_sequence_number"]))
        unassigned = pc.and_(new, pc.equal(entries["sequence_number"], scalar_of(UNASSIGNED, pa.int64())))
        entries = _set(entries, "sequence_number", pc.if_else(unassigned, none, entries["sequence_number"]))
        return _set(entries, "first_row_id", pc.if_else(new, none, entries["first_row_id"]))

    def snapshot(self, manifests: Sequence[ManifestFile], summary: dict[str, str], attempt: int) -> Document:
        """Encode the manifest list and give the snapshot as the REST specification has it. The list is written with the
        commit.

        In format version 3 data manifests without row ids get the next ones, as many as they have rows.
        """
        version = self.metadata.format_version
        placed = [
            assigned(m, m.path, self.sequence_number) if m.added_snapshot_id == self.snapshot_id else m
            for m in manifests
        ]
        first = following = self.metadata.next_row_id
        if first is not None and following is not None:
            for place, manifest in enumerate(placed):
                if manifest.content == 0 and manifest.first_row_id is None:
                    placed[place] = replace(manifest, first_row_id=following)
                    following += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        parent = self.head.snapshot_id if self.head is not None else None
        folder = layout.metadata_folder(self.metadata.location, self.metadata.properties)
        path = f"{folder}/{layout.manifest_list_name(self.snapshot_id, attempt, self.written.commit)}"
        self.written.lists.append(path)
        data = encode_manifest_list(version, placed, self.snapshot_id, parent, self.sequence_number, first)
        self.written.waiting[path] = data
        return {
            **({"sequence-number": self.sequence_number} if version > 1 else {}),
            "snapshot-id": self.snapshot_id,
            **({"parent-snapshot-id": parent} if parent is not None else {}),
            "timestamp-ms": _after(self.metadata),
            "summary": summary,
            "manifest-list": path,
            "schema-id": self.metadata.current_schema_id,
            **({"first-row-id": first, "added-rows": (following or 0) - first} if first is not None else {}),
        }


def remove_unused(
    files: Files, written: WrittenManifests, committed: Iterable[ManifestFile], manifest_list: str | None
) -> None:
    """Remove the manifests and manifest lists that were not committed. A failure leaves them to orphan-file removal."""
    used = {manifest.path for manifest in committed} | {manifest_list}
    with suppress(Exception):  # the commit has its outcome already
        written_paths = (path for path in (*written.paths, *written.lists) if path not in written.waiting)
        files.delete_many(path for path in written_paths if path not in used)


def _readable(manifests: Sequence[ManifestFile], attempt: Attempt) -> list[ManifestFile]:
    """Manifests ready to be read. Those of this commit have no sequence number yet and get a placeholder."""
    return [
        replace(m, sequence_number=UNASSIGNED) if m.added_snapshot_id == attempt.snapshot_id else m for m in manifests
    ]


def _bins_from_the_end(manifests: Sequence[ManifestFile], target: int) -> Iterator[list[ManifestFile]]:
    """Runs of neighbours of at most `target` bytes, in the manifests' order, filled from the last manifest on."""
    bins: list[list[ManifestFile]] = []
    size = 0
    for manifest in reversed(manifests):
        if not bins or size + manifest.length > target:
            bins.append([])
            size = 0
        bins[-1].insert(0, manifest)
        size += manifest.length
    yield from reversed(bins)


def _set(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def _after(metadata: TableMetadata) -> int:
    """Now, in milliseconds since 1970, but not before the last change: the clocks of writers differ."""
    return max(clock.now_ms(), int(metadata.document.get("last-updated-ms", 0)))
