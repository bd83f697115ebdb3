"""What stands in the way of a commit: changes of other writers since the snapshot that it was made from.

Rules: the `validate...` methods of the reference engine's MergingSnapshotProducer and BaseRewriteFiles. All are run
again by every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CommitConflictError, NotInHistoryError
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile, delete_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.snapshot import between

Touched = Callable[[pa.Table], pa.Array]
"""From columns of entries of one spec: which of them stand in the way, as booleans."""


def since(attempt: Attempt, start_id: int | None) -> list[Snapshot]:
    """The snapshots of other writers on top of the one that the commit was made from, oldest first.

    CommitConflictError when the way from there is not known any more.
    """
    if attempt.head is None or attempt.head.snapshot_id == start_id:
        return []
    try:
        return between(attempt.metadata, start_id, attempt.head)
    except NotInHistoryError as error:
        raise _conflict(
            attempt, f"the history since snapshot {start_id} is not known", why=error.why,
            todo="Plan again from the newest snapshot, and expire snapshots less eagerly",
        ) from error  # fmt: skip


def check_no_new_deletes(
    attempt: Attempt, start_id: int | None, replaced: Sequence[DataFile], ignore_equality: bool
) -> None:
    """Fail when a delete was added since `start_id` that applies to one of these data files.

    Equality deletes may be passed over where the new files keep an older sequence number, since they apply to them too.
    """
    snapshots = [s for s in since(attempt, start_id) if s.operation != "replace"]
    added = _deletes_of(attempt, snapshots)
    deletes = [file for file in added if not (ignore_equality and file.content is Content.EQUALITY_DELETES)]
    index = DeleteIndex(deletes, unpartitioned(attempt.metadata))
    for file in () if index.is_empty else replaced:
        for delete in index.applying(file):
            raise _conflict(
                attempt, "rows of a file to be replaced were deleted meanwhile", file=file.path,
                why=f"snapshot {delete.snapshot_id} added {delete.path}",
            )  # fmt: skip


def check_no_new_vectors(
    attempt: Attempt, added: Sequence[DeleteFile], removed: Collection[tuple[str, int | None]]
) -> None:
    """Fail when a data file has a deletion vector already that the commit does not replace by its own."""
    mine = pa.array([file.referenced_data_file for file in added if file.is_vector], pa.string())
    if not len(mine):
        return
    for entries in attempt.entries(content=1):
        vectors = entries.filter(pc.is_in(entries["referenced_data_file"], value_set=mine))
        for file in delete_files(vectors):
            if file.is_vector and (file.path, file.content_offset) not in removed:
                raise _conflict(
                    attempt, "another writer deleted rows of the same data file", file=file.referenced_data_file or "",
                    why=f"it has the deletion vector in {file.path}",
                )  # fmt: skip


def check_files_exist(attempt: Attempt, paths: Collection[str], found: int | None = None) -> None:
    """Fail when one of these data files is not live any more; `found` is how many of them are, where that is known."""
    if not paths or found == len(paths):
        return
    missing = _missing(attempt, paths, 0)
    if missing:
        raise _conflict(
            attempt, f"{len(missing)} files to be replaced or deleted from are gone", file=missing[0],
            why="another writer rewrote or removed them",
        )  # fmt: skip


def check_deletes_exist(attempt: Attempt, paths: Collection[str]) -> None:
    """Fail when one of these delete files is not live any more."""
    if not paths:
        return
    missing = _missing(attempt, paths, 1)
    if missing:
        raise _conflict(
            attempt, f"{len(missing)} delete files to be replaced are gone", file=missing[0],
            why="another writer rewrote or removed them",
        )  # fmt: skip


def _missing(attempt: Attempt, paths: Collection[str], content: int) -> list[str]:
    """Those of the paths that are no live data files (0) or delete files (1)."""
    wanted = pa.array(sorted(paths), pa.string())
    live: set[str] = set()
    for entries in attempt.entries(content, columns=("file_path",)):
        live.update(entries["file_path"].filter(pc.is_in(entries["file_path"], value_set=wanted)).to_pylist())
    return sorted(set(paths) - live)


def check_nothing_touched(attempt: Attempt, start_id: int | None, touched: Touched, content: int) -> None:
    """Fail when other writers added data files (0) or delete files (1) since `start_id` that `touched` picks."""
    snapshots = [s for s in since(attempt, start_id) if s.operation != "replace"]
    ids = pa.array([s.snapshot_id for s in snapshots], pa.int64())
    for entries in attempt.entries(content, manifests=_written_by(attempt, snapshots, content), stats=True):
        new = entries.filter(pc.is_in(entries["snapshot_id"], value_set=ids))
        hit = new.filter(touched(new))
        if len(hit):
            row = hit.slice(0, 1).to_pylist()[0]
            raise _conflict(
                attempt, "another writer added rows that this commit would have had to see", file=row["file_path"],
                why=f"snapshot {row['snapshot_id']} added it",
            )  # fmt: skip


def unpartitioned(metadata: TableMetadata) -> set[int]:
    """The ids of specs under which equality deletes are global."""
    return {id for id, spec in metadata.specs.items() if all(str(f.transform) == "void" for f in spec.fields)}


def _deletes_of(attempt: Attempt, snapshots: Sequence[Snapshot]) -> list[DeleteFile]:
    """The live delete files that some snapshots added."""
    ids = pa.array([s.snapshot_id for s in snapshots], pa.int64())
    found: list[DeleteFile] = []
    for entries in attempt.entries(1, manifests=_written_by(attempt, snapshots, 1), stats=True):
        found += delete_files(entries.filter(pc.is_in(entries["snapshot_id"], value_set=ids)))
    return found


def _written_by(attempt: Attempt, snapshots: Sequence[Snapshot], content: int) -> list[ManifestFile]:
    """The manifests of the head that can hold what these snapshots added: those written since the first of them."""
    if not snapshots:
        return []
    least = min(s.sequence_number for s in snapshots)
    ids = {s.snapshot_id for s in snapshots}
    later = {id for id, s in attempt.metadata.snapshots.items() if s.sequence_number >= least}
    return [m for m in attempt.existing if m.content == content and m.added_snapshot_id in (ids | later)]


def _conflict(attempt: Attempt, what: str, *, file: str = "", why: str = "", todo: str = "") -> CommitConflictError:
    return CommitConflictError(
        what, table=attempt.metadata.location, file=file, why=why,
        todo=todo or "Nothing of this commit is visible. Plan again from the newest snapshot",
    )  # fmt: skip
