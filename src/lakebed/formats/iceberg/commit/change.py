"""A change of a table's files, and the manifests after it: what each kind of commit is made of.

Rules: the reference engine's MergingSnapshotProducer, and ManifestFilterManager for the delete files that go with a
change: deletion vectors of removed data files, and deletes that are older than all data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.commit import conflicts
from lakebed.formats.iceberg.commit.attempt import Attempt, Chooser
from lakebed.formats.iceberg.commit.loop import Produced
from lakebed.formats.iceberg.commit.summary import counts
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, Partition, in_places, partition_key
from lakebed.formats.iceberg.options import PARTITION_LIMIT
from lakebed.kernel.arrays import filled, from_numpy, from_values, scalar_of, to_numpy


@dataclass(frozen=True, slots=True)
class Change:
    """Files to add and to remove. `choose_data` and `choose_deletes` pick more files to remove, in each attempt anew,
    among those of the snapshot that the attempt builds on.

    `found_on` is the id of the snapshot in which `removed` was found, for a caller that searches again in each attempt.
    Manifests that were filtered for one search do not serve the next.
    """

    added_data: tuple[DataFile, ...] = ()
    added_deletes: tuple[DeleteFile, ...] = ()
    removed: tuple[DataFile | DeleteFile, ...] = ()
    choose_data: Chooser | None = None
    choose_deletes: Chooser | None = None
    found_on: int | None = None

    @property
    def removed_data(self) -> list[DataFile]:
        """The data files of `removed`."""
        return [file for file in self.removed if isinstance(file, DataFile)]

    @property
    def removed_deletes(self) -> list[DeleteFile]:
        """The delete files of `removed`."""
        return [file for file in self.removed if isinstance(file, DeleteFile)]

    def produce(self, attempt: Attempt, operation: str, sequence_number: int | None = None) -> Produced:
        """The manifests after the change, and the counts for the snapshot's summary.

        `sequence_number` is that of the added data files, None for that of the commit. CommitConflictError when a data
        file to remove is no longer live.
        """
        data, removed_data = self._remaining_data(attempt)
        least = self._least_number(attempt, data, sequence_number)
        deletes, removed_deletes = self._remaining_deletes(attempt, removed_data, least)
        new_data = attempt.new_manifests(self.added_data, 0, sequence_number)
        new_deletes = attempt.new_manifests(self.added_deletes, 1)
        manifests = [*attempt.merged([*new_data, *data]), *attempt.merged([*new_deletes, *deletes])]
        added: list[DataFile | DeleteFile] = [*self.added_data, *self.added_deletes]
        removed: list[DataFile | DeleteFile] = [*removed_data, *removed_deletes]
        summary = counts(added, removed, attempt.metadata.specs, attempt.options[PARTITION_LIMIT])
        return Produced(operation, manifests, summary)

    def _remaining_data(self, attempt: Attempt) -> tuple[list[ManifestFile], list[DataFile]]:
        """Data manifests without the files to remove, and these files."""
        manifests = [m for m in attempt.existing if m.content == 0]
        removed = self.removed_data
        if not removed and self.choose_data is None:
            return [m for m in manifests if m.has_live], []
        choose, specs = self.choose_data, {file.spec_id for file in removed}
        if choose is None:
            choose = _with_paths({file.path for file in removed})
        kept, files = attempt.filtered(
            manifests, choose, f"{self.found_on}".encode(), lambda m: self.choose_data is not None or m.spec_id in specs
        )
        data = [file for file in files if isinstance(file, DataFile)]
        if removed and len(data) != len({file.path for file in removed}):
            conflicts.check_files_exist(attempt, {file.path for file in removed})
        return kept, data

    def _remaining_deletes(
        self, attempt: Attempt, removed_data: Sequence[DataFile], least: int | None
    ) -> tuple[list[ManifestFile], list[DeleteFile]]:
        """Delete manifests without the files to remove, the deletion vectors of removed data files, and the deletes
        that are older than all data; and these files."""
        manifests = [m for m in attempt.existing if m.content == 1]
        named = {(file.path, file.content_offset) for file in self.removed_deletes}
        data_paths = {file.path for file in removed_data}
        older = any(least is not None and m.min_sequence_number < least for m in manifests)
        if not (named or data_paths or self.choose_deletes or older):
            return [m for m in manifests if m.has_live], []
        choose = _obsolete(self.choose_deletes, named, data_paths, least)
        key = f"{self.found_on} {least}".encode()
        kept, files = attempt.filtered(manifests, choose, key, lambda m: True)
        return kept, [file for file in files if isinstance(file, DeleteFile)]

    def _least_number(self, attempt: Attempt, data: Sequence[ManifestFile], number: int | None) -> int | None:
        """The least data sequence number after the commit; None below format version 2, which has none."""
        if attempt.metadata.format_version == 1:
            return None
        numbers = [m.min_sequence_number for m in data if m.has_live]
        if self.added_data:
            numbers.append(attempt.sequence_number if number is None else number)
        return min([attempt.metadata.last_sequence_number, *numbers])


def in_partitions(partitions: Collection[tuple[int, Partition]] | None) -> Chooser:
    """Chooses the entries of these (spec id, partition or `partition_key`) pairs; all entries for None."""
    if partitions is None:
        return lambda entries: from_numpy(np.ones(len(entries), bool))
    places = {(spec_id, partition_key(partition)) for spec_id, partition in partitions}
    return lambda entries: from_numpy(in_places(entries, places))


def _with_paths(paths: Collection[str]) -> Chooser:
    wanted = from_values(sorted(paths), pa.string())
    return lambda entries: pc.is_in(entries["file_path"], value_set=wanted).combine_chunks()


def _obsolete(
    also: Chooser | None, named: Collection[tuple[str, int | None]], data_paths: Collection[str], least: int | None
) -> Chooser:
    """Chooses delete files: those `named` by (path, content offset), the deletion vectors of `data_paths`, those older
    than the sequence number `least`, and those that `also` chooses."""
    names = from_values(sorted({path for path, _ in named}), pa.string())
    data = from_values(sorted(data_paths), pa.string())

    def choose(entries: pa.Table) -> pa.Array:
        vector = pc.equal(entries["file_format"], scalar_of("PUFFIN", pa.string()))
        orphaned = pc.and_(vector, pc.is_in(entries["referenced_data_file"], value_set=data))
        by_name = to_numpy(pc.is_in(entries["file_path"], value_set=names)).copy()
        rows = np.flatnonzero(by_name)
        paths, offsets = (entries[name].take(from_numpy(rows)).to_pylist() for name in ("file_path", "content_offset"))
        by_name[rows] = [place in named for place in zip(paths, offsets, strict=True)]
        chosen: pa.Array = pc.or_(filled(orphaned, False), from_numpy(by_name)).combine_chunks()
        if least is not None:
            number = entries["sequence_number"]
            first, limit = from_values([0, least], pa.int64())
            old = pc.and_(pc.greater(number, first), pc.less(number, limit))
            chosen = pc.or_(chosen, filled(old, False)).combine_chunks()
        return pc.or_(chosen, also(entries)) if also is not None else chosen

    return choose
