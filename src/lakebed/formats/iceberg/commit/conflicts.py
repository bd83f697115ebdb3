"""Conflicts: changes of other writers that a commit cannot be applied on top of.

Rules: the `validate...` methods of the reference engine's MergingSnapshotProducer and BaseRewriteFiles. Every attempt
runs all of its checks again. Each check raises CommitConflictError.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CommitConflictError, NotInHistoryError, counted
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile, delete_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.manifests import ALL_COLUMNS
from lakebed.formats.iceberg.snapshot import between
from lakebed.kernel.arrays import from_values


def since(attempt: Attempt, start_id: int | None) -> list[Snapshot]:
    """The snapshots of other writers after the one that the commit was made from, oldest first.

    CommitConflictError when the history since then has expired.
    """
    if attempt.head is None or attempt.head.snapshot_id == start_id:
        return []
    try:
        return between(attempt.metadata, start_id, attempt.head)
    except NotInHistoryError as error:
        raise _conflict(
            attempt,
            f"the history since snapshot {start_id} is not known",
            why=error.why,
            todo="Plan again from the newest snapshot, and expire snapshots less eagerly",
        ) from error


def check_no_new_deletes(
    attempt: Attempt, start_id: int | None, replaced: Sequence[DataFile], ignore_equality: bool
) -> None:
    """Fail when others added a delete since `start_id` that applies to one of the `replaced` data files.

    Equality deletes may be ignored where the new files keep the old sequence number, since they apply to these too.
    A rewrite of delete files leaves the deletes of other writers in files of its own, which have the greatest data
    sequence number of those that they replace: only where that is no later than `start_id` they delete nothing new.
    """
    added = _deletes_since(attempt, start_id)
    deletes = [file for file in added if not (ignore_equality and file.content is Content.EQUALITY_DELETES)]
    index = DeleteIndex(deletes, unpartitioned(attempt.metadata))
    for file in () if index.is_empty else replaced:
        for delete in index.applying(file):
            raise _conflict(
                attempt,
                "rows of a file to be replaced were deleted meanwhile",
                file=file.path,
                why=f"snapshot {delete.snapshot_id} added {delete.path}",
            )


def check_no_new_vectors(
    attempt: Attempt, added: Sequence[DeleteFile], removed: Collection[tuple[str, int | None]]
) -> None:
    """Fail when a data file already has a deletion vector, and the commit adds one without removing it.

    `removed` has (path, content offset) pairs.
    """
    targets = from_values([file.referenced_data_file for file in added if file.is_vector], pa.string())
    if not len(targets):
        return
    for entries in attempt.entries(content=1):
        vectors = entries.filter(pc.is_in(entries["referenced_data_file"], value_set=targets))
        for file in delete_files(vectors):
            if file.is_vector and (file.path, file.content_offset) not in removed:
                raise _conflict(
                    attempt,
                    "another writer deleted rows of the same data file",
                    file=file.referenced_data_file or "",
                    why=f"it has the deletion vector in {file.path}",
                )


def check_no_old_data(attempt: Attempt, start_id: int | None, removed: Sequence[DeleteFile]) -> None:
    """Fail when others brought a data file since `start_id` that one of the `removed` equality deletes applies to.

    It is as old as what it was made from, as files of a rewrite are, and may still have rows that the delete names.
    """
    snapshots = since(attempt, start_id) if removed else []
    if not snapshots:
        return
    index = DeleteIndex(removed, unpartitioned(attempt.metadata))
    ids = from_values([s.snapshot_id for s in snapshots], pa.int64())
    for entries in attempt.entries(0, _manifests_since(attempt, snapshots, 0)):
        for task in index.tasks(entries.filter(pc.is_in(entries["snapshot_id"], value_set=ids))):
            if task.deletes:
                raise _conflict(
                    attempt,
                    "another writer rewrote a file that equality deletes still apply to",
                    file=task.data.path,
                    why=f"its rows are older than {task.deletes[0].path}",
                )


def check_files_exist(attempt: Attempt, paths: Collection[str]) -> None:
    """Fail when one of these data files is no longer live."""
    if not paths:
        return
    missing = _missing(attempt, paths, 0)
    if missing:
        of = "to be replaced or deleted from"
        raise _conflict(
            attempt,
            counted(len(missing), f"file {of} is", f"files {of} are") + " gone",
            file=missing[0],
            why="another writer rewrote or removed them",
        )


def check_deletes_exist(attempt: Attempt, paths: Collection[str]) -> None:
    """Fail when one of these delete files is no longer live."""
    if not paths:
        return
    missing = _missing(attempt, paths, 1)
    if missing:
        raise _conflict(
            attempt,
            counted(len(missing), "delete file to be replaced is", "delete files to be replaced are") + " gone",
            file=missing[0],
            why="another writer rewrote or removed them",
        )


def _missing(attempt: Attempt, paths: Collection[str], content: int) -> list[str]:
    """The paths that are not those of live data files (`content` 0) or delete files (1)."""
    wanted = from_values(sorted(paths), pa.string())
    live: set[str] = set()
    for entries in attempt.entries(content, columns=("file_path",)):
        live.update(entries["file_path"].filter(pc.is_in(entries["file_path"], value_set=wanted)).to_pylist())
    return sorted(set(paths) - live)


def unpartitioned(metadata: TableMetadata) -> set[int]:
    """The ids of the specs under which equality deletes apply to the whole table."""
    return {id for id, spec in metadata.specs.items() if all(str(f.transform) == "void" for f in spec.fields)}


def _deletes_since(attempt: Attempt, start_id: int | None) -> list[DeleteFile]:
    """The live delete files that others added since `start_id`, without those of rewrites that delete nothing new."""
    snapshots = since(attempt, start_id)
    start = attempt.metadata.snapshots.get(start_id) if start_id is not None else None
    seen = start.sequence_number if start is not None else 0
    ids = from_values([s.snapshot_id for s in snapshots], pa.int64())
    rewrites = {s.snapshot_id for s in snapshots if s.operation == "replace"}
    files: list[DeleteFile] = []
    for entries in attempt.entries(1, _manifests_since(attempt, snapshots, 1), ALL_COLUMNS):
        added = delete_files(entries.filter(pc.is_in(entries["snapshot_id"], value_set=ids)))
        files += [f for f in added if f.snapshot_id not in rewrites or (f.sequence_number or 0) > seen]
    return files


def _manifests_since(attempt: Attempt, snapshots: Sequence[Snapshot], content: int) -> list[ManifestFile]:
    """The manifests of data files (0) or delete files (1) of the head that may hold what these snapshots added: those
    written since the first one."""
    if not snapshots:
        return []
    least = min(s.sequence_number for s in snapshots)
    ids = {s.snapshot_id for s in snapshots}
    later = {id for id, s in attempt.metadata.snapshots.items() if s.sequence_number >= least}
    return [m for m in attempt.existing if m.content == content and m.added_snapshot_id in (ids | later)]


def _conflict(attempt: Attempt, what: str, *, file: str = "", why: str = "", todo: str = "") -> CommitConflictError:
    return CommitConflictError(
        what,
        table=attempt.metadata.location,
        file=file,
        why=why,
        todo=todo or "Nothing of this commit is visible. Plan again from the newest snapshot",
    )


def check_kinds_of_deletes(attempt: Attempt, deletes: Sequence[DeleteFile]) -> None:
    """CommitConflictError for position delete files of a table that another writer upgraded to format version 3
    meanwhile: it takes new deletes of positions only as deletion vectors."""
    if takes_deletes(attempt.metadata, deletes):
        return
    raise CommitConflictError(
        f"another writer upgraded the table to format version {attempt.metadata.format_version}",
        table=attempt.metadata.location,
        why="it takes no position delete files any more, and some were written for it",
        todo="Do it again",
    )


def takes_deletes(metadata: TableMetadata, deletes: Sequence[DeleteFile]) -> bool:
    """Whether a table's format version takes these new deletes."""
    by_position = [file for file in deletes if file.content is Content.POSITION_DELETES and not file.is_vector]
    return metadata.format_version < 3 or not by_position
