"""What a Hudi writer runs after each commit: its markers go, the timeline is archived if it must be, its heartbeat
stops.

The flow is that of Hudi's `BaseHoodieWriteClient.postCommit`; there, too, the heartbeat stops whatever happens before.
A job that writes with another engine may call it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakebed.errors import UsageError
from lakebed.formats.hudi.archive.bounds import check_given, with_properties
from lakebed.formats.hudi.archive.delete import HEARTBEATS, delete_markers
from lakebed.formats.hudi.archive.options import ARCHIVE_AUTOMATIC
from lakebed.formats.hudi.archive.run import archive
from lakebed.formats.hudi.archive.state_files import load_active
from lakebed.formats.hudi.config import load_config
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store
from lakebed.model.upkeep import ArchiveResult, Blocker
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.hudi")


def post_commit(
    store: Store, instant: str, given: Mapping[str, object], engine: Engine, storage: Mapping[str, str]
) -> ArchiveResult:
    """The steps after the commit of `instant`; what archival did and did not do.

    Markers that cannot be removed are left to the next archival. With `hoodie.archive.automatic=false` nothing is
    archived. Raises UsageError, before anything is touched, while the instant is pending: its markers and its heartbeat
    are those of a writer at work. The commit stands: what fails after that is a note of the result, and goes to the
    log, for an error would make the caller write again. The next call does it.
    """
    asked = check_given(given)
    config = load_config(store)
    options = with_properties(asked, config)
    for found in load_active(store, config.timeline_folder):
        if found.time == instant and found.writes and not found.done:
            raise UsageError(
                f"instant {instant} is {found.last.state}",
                table=store.location,
                instant=instant,
                why="post_commit removes its markers and stops its heartbeat, which a pending write needs",
                todo="Call it after the commit completed",
            )
    result = ArchiveResult((), (), ())

    def archived() -> None:
        nonlocal result
        result = archive(store, given, engine, storage=storage)

    notes = list(afterwards("its markers stay", lambda: delete_markers(store, instant)))
    if options[ARCHIVE_AUTOMATIC]:
        notes += afterwards("the timeline was not archived", archived)
    else:
        held = Blocker(instant, f"{ARCHIVE_AUTOMATIC.key} is false", "Call archive, or leave the option out")
        result = ArchiveResult((), (), (held,))
    notes += afterwards("its heartbeat file stays", lambda: store.delete(f"{HEARTBEATS}/{instant}"))
    for note in notes:
        _LOG.warning("%s: %s", store.location, note)
    return replace(result, notes=(*result.notes, *notes))
