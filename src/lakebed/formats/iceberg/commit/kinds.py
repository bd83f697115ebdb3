"""The commits of an Iceberg table: append, overwrite, row delta and replace, each one new snapshot of a branch.

Rules: the reference engine's MergeAppend, BaseOverwriteFiles, BaseReplacePartitions, BaseRowDelta and BaseRewriteFiles.
How a commit is retried and what becomes of its files is in `committing.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import MAIN
from lakebed.formats.iceberg.commit import conflicts
from lakebed.formats.iceberg.commit.attempt import Attempt, Chooser
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.summary import counts
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, Partition, in_places, partition_key
from lakebed.formats.iceberg.options import PARTITION_LIMIT
from lakebed.model.commit import CommitResult, Outcome

Drop = Collection[tuple[int, Partition]] | None
"""What an overwrite replaces: these (spec id, partition)s; None is all there is."""
_NOTHING = CommitResult("", Outcome.SKIPPED)


def append(
    operations: TableOperations, added: Sequence[DataFile], *, branch: str = MAIN, properties: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
) -> CommitResult:  # fmt: skip
    """Add data files. Never conflicts; nothing is committed when there are none."""
    if not added:
        return _NOTHING
    change = Change(added_data=tuple(added))
    return commit_snapshot(operations, lambda a: change.produce(a, "append"), branch, properties, options)


def overwrite(
    operations: TableOperations, added: Sequence[DataFile], drop: Drop = None, *, branch: str = MAIN,
    properties: Mapping[str, str] = {}, options: Mapping[str, str] = {}, dynamic: bool = False,
) -> CommitResult:  # fmt: skip
    """Replace all files (`drop` None), or those of some partitions, by new ones.

    `dynamic` says in the snapshot that the partitions of the new files were replaced. What is dropped is looked up anew
    by each attempt, so that files which others added meanwhile go too, as the reference engine's overwrites do.
    """
    change = Change(added_data=tuple(added), choose_data=dropping(drop), choose_deletes=dropping(drop))

    def produce(attempt: Attempt) -> Produced:
        made = change.produce(attempt, "overwrite")
        if not added and not dynamic:
            made.operation = "delete"
        if dynamic:
            made.summary["replace-partitions"] = "true"
        return made

    return commit_snapshot(operations, produce, branch, properties, options)


def row_delta(
    operations: TableOperations, added: Sequence[DataFile], deletes: Sequence[DeleteFile], *,
    removed: Iterable[DataFile | DeleteFile] = (), start_snapshot_id: int | None = None,
    referenced: Collection[str] = (), touched: conflicts.Touched | None = None,
    touched_deletes: conflicts.Touched | None = None, branch: str = MAIN, properties: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
) -> CommitResult:  # fmt: skip
    """Add data files and delete files (and remove files) in one snapshot.

    `referenced` are data files that must still be live (those that position deletes name). `touched` picks, among data
    files that others added since `start_snapshot_id`, those that the commit would have had to see (serializable
    isolation); `touched_deletes` the same among delete files. Raises CommitConflictError.
    """
    gone = tuple(removed)
    if not (added or deletes or gone):
        return _NOTHING
    change = Change(tuple(added), tuple(deletes), gone)
    named = set(referenced) | {file.referenced_data_file for file in deletes if file.is_vector}
    vectors = {(f.path, f.content_offset) for f in gone if isinstance(f, DeleteFile)}

    def produce(attempt: Attempt) -> Produced:
        conflicts.check_files_exist(attempt, {path for path in named if path is not None})
        conflicts.check_no_new_vectors(attempt, deletes, vectors)
        if touched is not None:
            conflicts.check_nothing_touched(attempt, start_snapshot_id, touched, 0)
        if touched_deletes is not None:
            conflicts.check_nothing_touched(attempt, start_snapshot_id, touched_deletes, 1)
        only_adds = added and not deletes and not change.removed_data
        only_deletes = not added and (deletes or change.removed_data)
        return change.produce(attempt, "append" if only_adds else "delete" if only_deletes else "overwrite")

    return commit_snapshot(operations, produce, branch, properties, options)


def replace(
    operations: TableOperations, start_snapshot_id: int | None, removed: Iterable[DataFile | DeleteFile],
    added: Sequence[DataFile], properties: Mapping[str, str] = {}, *, starting_sequence_number: bool = True,
    added_deletes: Sequence[DeleteFile] = (), branch: str = MAIN, options: Mapping[str, str] = {},
) -> CommitResult:  # fmt: skip
    """Put files with the same rows in the place of others: no row may change.

    With `starting_sequence_number` new data files get the data sequence number of the snapshot that they were made
    from, so that equality deletes of later snapshots apply to them. Deletion vectors of removed data files go in the
    same commit. `added_deletes` (rewritten delete files) must carry their sequence numbers.

    Raises CommitConflictError when a data file to be removed is gone or a delete for it came in since
    `start_snapshot_id`; with `added_deletes` also when a delete file to be removed is gone, or a data file got a
    deletion vector meanwhile for which one is added.
    """
    change = Change(tuple(added), tuple(added_deletes), tuple(removed))
    if not (change.added_data or change.added_deletes or change.removed):
        return _NOTHING

    def produce(attempt: Attempt) -> Produced:
        replaced = change.removed_data
        keeps_number = starting_sequence_number and attempt.metadata.format_version > 1
        conflicts.check_no_new_deletes(attempt, start_snapshot_id, replaced, keeps_number and bool(added))
        if change.added_deletes:
            gone = {(file.path, file.content_offset) for file in change.removed_deletes}
            conflicts.check_no_new_vectors(attempt, change.added_deletes, gone)
            conflicts.check_deletes_exist(attempt, {path for path, _ in gone})
        start = attempt.metadata.snapshots.get(start_snapshot_id or 0)
        number = start.sequence_number if keeps_number and start is not None else None
        made = change.produce(attempt, "replace", number)
        return made

    return commit_snapshot(operations, produce, branch, properties, options)


@dataclass(frozen=True, slots=True)
class Change:
    """Files to add and to remove. `choose_...` pick more to remove among what is there when the commit is made.

    `found_on` is the snapshot that `removed` was found on, where each attempt looks for it anew: manifests without the
    files of one search are of no use to the next.
    """

    added_data: tuple[DataFile, ...] = ()
    added_deletes: tuple[DeleteFile, ...] = ()
    removed: tuple[DataFile | DeleteFile, ...] = ()
    choose_data: Chooser | None = None
    choose_deletes: Chooser | None = None
    found_on: int | None = None

    @property
    def removed_data(self) -> list[DataFile]:
        """The data files among `removed`."""
        return [file for file in self.removed if isinstance(file, DataFile)]

    @property
    def removed_deletes(self) -> list[DeleteFile]:
        """The delete files among them."""
        return [file for file in self.removed if isinstance(file, DeleteFile)]

    def produce(self, attempt: Attempt, operation: str, sequence_number: int | None = None) -> Produced:
        """The manifests after the change, and what the snapshot says of it. CommitConflictError when a data file to be
        removed is gone."""
        data, gone = self._remaining_data(attempt)
        least = self._least_number(attempt, data, sequence_number)
        deletes, gone_deletes = self._remaining_deletes(attempt, gone, least)
        new_data = attempt.new_manifests(self.added_data, 0, sequence_number)
        new_deletes = attempt.new_manifests(self.added_deletes, 1)
        manifests = [*attempt.merged([*new_data, *data]), *attempt.merged([*new_deletes, *deletes])]
        figures = counts(
            [*self.added_data, *self.added_deletes], [*gone, *gone_deletes], attempt.metadata.specs,
            attempt.options[PARTITION_LIMIT],
        )  # fmt: skip
        return Produced(operation, manifests, figures)

    def _remaining_data(self, attempt: Attempt) -> tuple[list[ManifestFile], list[DataFile]]:
        manifests = [m for m in attempt.existing if m.content == 0]
        removed = self.removed_data
        if not removed and self.choose_data is None:
            return [m for m in manifests if m.has_live], []
        choose, specs = self.choose_data, {file.spec_id for file in removed}
        if choose is None:
            choose = _named({file.path for file in removed})
        kept, gone = attempt.filtered(
            manifests, choose, f"{self.found_on}".encode(), lambda m: self.choose_data is not None or m.spec_id in specs
        )
        found = [file for file in gone if isinstance(file, DataFile)]
        if removed and len(found) != len({file.path for file in removed}):
            conflicts.check_files_exist(attempt, {file.path for file in removed})
        return kept, found

    def _remaining_deletes(
        self, attempt: Attempt, gone: Sequence[DataFile], least: int | None
    ) -> tuple[list[ManifestFile], list[DeleteFile]]:
        """Without the delete files to remove, deletion vectors of removed data files, and deletes that are older than
        all data."""
        manifests = [m for m in attempt.existing if m.content == 1]
        named = {(file.path, file.content_offset) for file in self.removed_deletes}
        gone_paths = {file.path for file in gone}
        older = any(least is not None and m.min_sequence_number < least for m in manifests)
        if not (named or gone_paths or self.choose_deletes or older):
            return [m for m in manifests if m.has_live], []
        choose = _deletes_to_drop(self.choose_deletes, named, gone_paths, least)
        key = f"{self.found_on} {least}".encode()
        kept, found = attempt.filtered(manifests, choose, key, lambda m: True)
        return kept, [file for file in found if isinstance(file, DeleteFile)]

    def _least_number(self, attempt: Attempt, data: Sequence[ManifestFile], number: int | None) -> int | None:
        """The least data sequence number of any data file after the commit, None where nothing can be said."""
        if attempt.metadata.format_version == 1:
            return None
        numbers = [m.min_sequence_number for m in data if m.has_live]
        if self.added_data:
            numbers.append(attempt.sequence_number if number is None else number)
        return min([attempt.metadata.last_sequence_number, *numbers])


def _named(paths: Collection[str]) -> Chooser:
    wanted = pa.array(sorted(paths), pa.string())
    return lambda entries: pc.is_in(entries["file_path"], value_set=wanted).combine_chunks()


def dropping(drop: Drop) -> Chooser:
    """All entries, or those of some partitions."""
    if drop is None:
        return lambda entries: pa.array(np.ones(len(entries), bool))
    places = {(spec_id, partition_key(partition)) for spec_id, partition in drop}

    return lambda entries: pa.array(in_places(entries, places))


def _deletes_to_drop(
    also: Chooser | None, named: Collection[tuple[str, int | None]], gone: Collection[str], least: int | None
) -> Chooser:
    names = pa.array(sorted({path for path, _ in named}), pa.string())
    data = pa.array(sorted(gone), pa.string())

    def choose(entries: pa.Table) -> pa.Array:
        vector = pc.equal(entries["file_format"], "PUFFIN")
        orphaned = pc.and_(vector, pc.is_in(entries["referenced_data_file"], value_set=data))
        by_name = pc.is_in(entries["file_path"], value_set=names).to_numpy().copy()
        rows = np.flatnonzero(by_name)
        paths, offsets = (entries[name].take(pa.array(rows)).to_pylist() for name in ("file_path", "content_offset"))
        by_name[rows] = [place in named for place in zip(paths, offsets, strict=True)]
        found: pa.Array = pc.or_(pc.fill_null(orphaned, False), pa.array(by_name)).combine_chunks()
        if least is not None:
            number = entries["sequence_number"]
            old = pc.and_(pc.greater(number, 0), pc.less(number, least))
            found = pc.or_(found, pc.fill_null(old, False)).combine_chunks()
        return pc.or_(found, also(entries)) if also is not None else found

    return choose
