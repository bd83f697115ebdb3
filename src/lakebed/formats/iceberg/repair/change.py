"""The snapshot of a repair: the head without its lost files, and without the deletes that only they needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CommitConflictError
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.change import Change
from lakebed.formats.iceberg.commit.loop import Produced
from lakebed.formats.iceberg.data_files import delete_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.read.plan import unpartitioned
from lakebed.formats.iceberg.repair.check import PUFFIN, Checker, NamedFile
from lakebed.formats.iceberg.repair.scan import DELETE_COLUMNS, Findings, readable
from lakebed.kernel.options import is_number


class NothingLostError(Exception):
    """Nothing that is lost is named by the head any more, or all of it came back. Nothing was written."""


@dataclass(slots=True)
class WithoutLost:
    """Makes the snapshot of a repair, anew in each attempt.

    `lost` is what was found lost in the branch's head. With `drops_rows` the data files to which a lost delete applies
    go too. `new_branch` is the branch to be created, "" for none. After an attempt `removed` has the paths of the
    entries that went, and `rows` the rows of the data files among them.
    """

    lost: Findings
    checker: Checker
    drops_rows: bool
    new_branch: str = ""
    removed: set[str] = field(default_factory=set)
    rows: int = 0

    def __call__(self, attempt: Attempt) -> Produced:
        """The new snapshot on top of the attempt's head. CommitConflictError when the new branch exists by now."""
        if self.new_branch in attempt.metadata.refs:
            raise CommitConflictError(
                f"another writer made the branch {self.new_branch!r}", table=attempt.metadata.location
            )
        attempt.written.filtered.clear()  # what is lost is looked at anew, so earlier choices are void
        self.removed, self.rows = set(), 0
        dropped = self._still_lost_manifests(attempt)
        attempt.existing = [manifest for manifest in attempt.existing if manifest not in dropped]
        data = self._still_lost_data()
        deletes = self._still_lost_deletes()
        applying = self._index(attempt) if self.drops_rows and deletes else None
        gone: set[str] = set()

        def choose_data(entries: pa.Table) -> pa.Array:
            mask = pc.is_in(entries["file_path"], value_set=pa.array(sorted(data), pa.string())).to_numpy().copy()
            if applying is not None:
                rows = applying.touched(entries)
                for row, task in zip(rows, applying.tasks(entries, rows), strict=True):
                    mask[row] |= any((each.path, each.content_offset) in deletes for each in task.deletes)
            chosen = entries.filter(pa.array(mask))
            gone.update(chosen["file_path"].to_pylist())
            self.rows += pc.sum(chosen["record_count"]).as_py() or 0
            return pa.array(mask)

        def choose_deletes(entries: pa.Table) -> pa.Array:
            files = delete_files(entries)
            mask = [(file.path, file.content_offset) in deletes or file.referenced_data_file in gone for file in files]
            self.removed.update(file.path for file, is_chosen in zip(files, mask, strict=True) if is_chosen)
            return pa.array(mask, pa.bool_())

        returned = bool(deletes) and not self.drops_rows
        change = Change(choose_data=choose_data, choose_deletes=choose_deletes)
        produced = change.produce(attempt, "overwrite" if returned else "delete")
        self.removed |= gone | {manifest.path for manifest in dropped}
        if not self.removed:
            raise NothingLostError
        if not dropped:
            return produced
        self.rows += sum(_rows(manifest) for manifest in dropped if manifest.content == 0)
        return replace(produced, summary=_with_manifests(produced.summary, dropped, attempt))

    def _still_lost_data(self) -> set[str]:
        """The paths of data files that are lost now, too: somebody may have brought some back."""
        files = [NamedFile(f.path, f.format, f.size, f.record_count) for f, _ in self.lost.data.values()]
        return {files[place].path for place, verdict in self.checker(files) if verdict.is_lost}

    def _still_lost_deletes(self) -> set[tuple[str, int | None]]:
        places = [*self.lost.deletes]
        files = [
            NamedFile(d.path, d.format, d.size, d.record_count, d.content_offset, d.content_size)
            for d, _ in self.lost.deletes.values()
        ]
        return {places[place] for place, verdict in self.checker(files) if verdict.is_lost}

    def _still_lost_manifests(self, attempt: Attempt) -> set[ManifestFile]:
        """The manifests of the head that are lost now, too."""
        lost: dict[ManifestFile, str] = {}
        named = [manifest for manifest in self.lost.manifests if manifest in attempt.existing]
        for _ in readable(attempt.files, attempt.metadata, named, lost):
            pass
        return {*lost}

    @staticmethod
    def _index(attempt: Attempt) -> DeleteIndex:
        """The index of the head's deletes by the data that they apply to."""
        deletes = [file for entries in attempt.entries(1, columns=DELETE_COLUMNS) for file in delete_files(entries)]
        return DeleteIndex(deletes, unpartitioned(attempt.metadata))


def _rows(manifest: ManifestFile) -> int:
    return (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)


def _with_manifests(
    counts: Mapping[str, str], dropped: Collection[ManifestFile], attempt: Attempt
) -> Mapping[str, str]:
    """The counts of the snapshot, with those of manifests that were dropped unread: their list has files and rows, and
    their bytes are what the totals before have and the manifests that were read have not."""
    summary = {key: int(value) if is_number(value) else value for key, value in counts.items()}
    more: dict[str, int] = {}
    for manifest in dropped:
        files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
        kind = "removed-delete-files" if manifest.content else "deleted-data-files"
        more[kind] = more.get(kind, 0) + files
        if not manifest.content:
            more["deleted-records"] = more.get("deleted-records", 0) + _rows(manifest)
    before = attempt.head.summary.get("total-files-size", "") if attempt.head is not None else ""
    if is_number(before):
        more["removed-files-size"] = max(0, int(before) - _bytes_named(attempt))
    for key, count in more.items():
        summary[key] = int(summary.get(key, 0)) + count
    return {key: str(value) for key, value in summary.items()}


def _bytes_named(attempt: Attempt) -> int:
    """The bytes of the files that the head's other manifests name; of a deletion vector those of its blob."""
    columns = ("file_path", "file_format", "file_size_in_bytes", "content_size_in_bytes")
    size = 0
    for content in (0, 1):
        for entries in attempt.entries(content, columns=columns):
            of_file = entries["file_size_in_bytes"]
            is_vector = pc.equal(entries["file_format"], PUFFIN)
            of_blob = pc.coalesce(entries["content_size_in_bytes"], of_file)
            size += pc.sum(pc.if_else(is_vector, of_blob, of_file)).as_py() or 0
    return size
