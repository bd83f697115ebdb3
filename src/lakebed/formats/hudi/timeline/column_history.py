"""The files of a table's column ids: `.hoodie/.schema/<instant>.schemacommit`, one for each commit that kept them.

They are named as the timeline's own: from version 8 on the completion time follows the instant. A file counts once its
commit is complete: the newest one that does is the history. Rules: Hudi's `FileBasedInternalSchemaStorageManager`, and
`BaseHoodieWriteClient.saveInternalSchema`, which writes one with each commit, so that the history outlives the archival
of the commit that began a schema.
"""

from __future__ import annotations

from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import HOODIE
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.writing import new_instant
from lakebed.kernel.files import Store

_FOLDER = f"{HOODIE}/.schema"
_DONE = ".schemacommit"


def newest_history(store: Store, timeline: Timeline) -> str:
    """The newest history that counts, "" where the table keeps none."""
    names = [info.name for info in store.list(_FOLDER).files if info.name.endswith(_DONE)]
    counting = (name for name in sorted(names, reverse=True) if _counts(_instant(name), timeline))
    newest = next(counting, "")
    return store.read(f"{_FOLDER}/{newest}").decode() if newest else ""


def keep_history(store: Store, config: TableConfig, timeline: Timeline, instant: str, text: str) -> None:
    """Write the history of an instant that is about to complete, and remove those of writes that failed.

    The caller must hold the table's lock, so that each file is that of a commit, of a failed write or its own.
    """
    files = store.list(_FOLDER).files
    store.delete_many(info.path for info in files if not _counts(_instant(info.name), timeline))
    for step in ("requested", "inflight"):
        store.write(f"{_FOLDER}/{instant}{_DONE}.{step}", b"")
    time = instant if config.layout < 2 else f"{instant}_{new_instant(config, timeline, instant)}"
    store.write(f"{_FOLDER}/{time}{_DONE}", text.encode())


def _instant(name: str) -> str:
    return name.partition(".")[0].partition("_")[0]


def _counts(instant: str, timeline: Timeline) -> bool:
    """Whether the commit of a file is complete: on the timeline, or so old that it is archived."""
    entry = timeline.by_time.get(instant)
    return entry.done if entry is not None else instant < timeline.start
