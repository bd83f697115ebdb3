"""What a Hudi writer runs after each commit: remove its markers, clean and archive if that is due, stop its heartbeat.

The steps are those of Hudi's `BaseHoodieWriteClient.postCommit`; there, too, the heartbeat stops whatever happens
before. A job that writes with another engine can call it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakebed.errors import UsageError
from lakebed.formats.hudi.archive.bounds import check_given, with_properties
from lakebed.formats.hudi.archive.delete import delete_markers
from lakebed.formats.hudi.archive.options import ARCHIVE_AUTOMATIC
from lakebed.formats.hudi.archive.run import archive
from lakebed.formats.hudi.archive.state_files import load_active
from lakebed.formats.hudi.commit.heartbeat import heartbeat_file
from lakebed.formats.hudi.config import load_config
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.engine import Engine
from lakebed.kernel.files import Store
from lakebed.model.upkeep import ArchiveResult, Blocker
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.hudi")


def post_commit(
    store: Store,
    instant: str,
    given: Mapping[str, object],
    engine: Engine,
    storage: Mapping[str, str],
    clean: Callable[[], Sequence[str]] = tuple,
) -> ArchiveResult:
    """Run the steps that follow the commit of `instant`; the result says what archival did and did not do. `clean`
    cleans where that is due, and gives notes.

    Raises UsageError, before anything is touched, while the instant is pending: its markers and its heartbeat belong to
    a writer at work. With `hoodie.archive.automatic=false` nothing is archived. The commit stands whatever fails here,
    and an error would make the caller write again; so a failure becomes a note of the result and of the log, and the
    next call does the step. Markers that cannot be removed are left to the next archival.
    """
    asked = check_given(given)
    config = load_config(store)
    options = with_properties(asked, config)
    for active in load_active(store, config.timeline_folder):
        if active.time == instant and active.writes and not active.done:
            raise UsageError(
                f"instant {instant} is {active.last.state}",
                table=store.location,
                instant=instant,
                why="post_commit removes its markers and stops its heartbeat, which a pending write needs",
                todo="Call it after the commit completed",
            )
    result = ArchiveResult((), (), ())

    def archived() -> None:
        nonlocal result
        result = archive(store, given, engine, storage=storage, config=config)

    notes = [*afterwards("its markers stay", lambda: delete_markers(store, instant)), *clean()]
    if options[ARCHIVE_AUTOMATIC]:
        notes += afterwards("the timeline was not archived", archived)
    else:
        blocker = Blocker(instant, f"{ARCHIVE_AUTOMATIC.key} is false", "Call archive, or leave the option out")
        result = ArchiveResult((), (), (blocker,))
    notes += afterwards("its heartbeat file stays", lambda: store.delete(heartbeat_file(instant)))
    for note in notes:
        _LOG.warning("%s: %s", store.location, note)
    return replace(result, notes=(*result.notes, *notes))
