"""The removal of one tag from its snapshot, and of the files that only it needs.

Rules: Paimon's TagManager.deleteTag and TagDeletion, except for the order. What the tag may have held alone is written
down first, then the tag goes, and only then it is found what nothing else needs. So a branch that was made of the tag
keeps its files, and what a crash leaves, the next expiry or rollback deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.errors import LakebedError, StorageError
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.journal import write_journal
from lakebed.formats.paimon.layout import tag_path
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.again import looks_again
from lakebed.kernel.options import Options
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.paimon")


def remove_tag(history: History, schema: TableSchema, options: Options, name: str) -> tuple[str, ...]:
    """Remove a tag. Returns the paths of the files that went with it: none where its snapshot, or another tag of it,
    is there.

    Where it cannot be told what the tag alone needs, its files stay, and the log says why.
    """
    path = tag_path(history.branch, name)
    return release_files(history, schema, options, name, lambda: history.store.delete(path))


def release_files(
    history: History, schema: TableSchema, options: Options, name: str, release: Callable[[], None]
) -> tuple[str, ...]:
    """Do `release`, which takes a tag off its snapshot, and remove the files that nothing needs then. As
    `remove_tag`."""
    store = history.store
    try:
        tagged, candidates = _candidates(history, schema, options, name)
    except StorageError:
        raise
    except (LakebedError, FileNotFoundError) as error:
        _LOG.warning("%s: files of tag %r stay, as orphans: %s", store.location, name, error)
        release()
        return ()
    if not candidates:
        release()
        return ()
    journal = write_journal(store, history.branch, (), candidates)
    release()
    needed = _needed_now(history, schema, options, tagged)
    files = tuple(file for file in candidates if file not in needed)
    store.delete_many(files)
    store.delete(journal)
    return files


def files_of_tag(history: History, schema: TableSchema, options: Options, name: str) -> tuple[str, ...]:
    """The paths of the files that would go with a tag, none where it cannot be told. Changes nothing."""
    try:
        tagged, candidates = _candidates(history, schema, options, name)
        needed = UnusedFiles(history, schema, options).needed_beside(tagged, name) if candidates else set()
    except StorageError:
        raise
    except (LakebedError, FileNotFoundError):
        return ()
    return tuple(file for file in candidates if file not in needed)


@looks_again
def _needed_now(history: History, schema: TableSchema, options: Options, tagged: Snapshot) -> set[str]:
    """The paths that something else needs. An expiry beside it may take a snapshot that was just looked at."""
    return UnusedFiles(history, schema, options).needed_beside(tagged)


def _candidates(history: History, schema: TableSchema, options: Options, name: str) -> tuple[Snapshot, Sequence[str]]:
    """The snapshot of a tag, and its files where no snapshot and no other tag has that id."""
    tagged = history.tag(name)
    others = [snapshot for other, snapshot in history.tagged().items() if other != name]
    if any(other.id == tagged.id for other in others) or history.find(tagged.id) is not None:
        return tagged, ()
    refuse_unserved(schema, options, Use.UPKEEP, history.store.location)
    return tagged, UnusedFiles(history, schema, options).of_tag(tagged)
