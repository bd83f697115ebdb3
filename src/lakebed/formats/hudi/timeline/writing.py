"""State files of a timeline, written: new instants, and the steps requested, inflight, completed.

Each step is one file that is put if its name is free. An instant is greater than any time on the timeline, requested or
completed, whatever this machine's clock says; so is a completion time. Two writers that look at the same time could
still choose the same instant, and a requested file of a commit is empty, so its bytes do not tell whose it is. Whoever
may have company holds the table's lock while an instant is chosen and requested, and while it is completed.

Rules: Hudi's `HoodieInstantTimeGenerator`, `ActiveTimelineV1` and `ActiveTimelineV2` (names, and which actions complete
under another name), `SkewAdjustingTimeGenerator`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from lakebed.errors import CommitConflictError, CommitUnknownError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import COMPLETES_AS, INSTANT_FORMAT, WRITES, parse_state_name
from lakebed.formats.hudi.timeline.active import Entry, Timeline, timeline_from
from lakebed.kernel import clock
from lakebed.kernel.commit.claim import claim
from lakebed.kernel.files import PutOutcome, Store

_DIGITS = 17
_MILLISECOND = datetime.timedelta(milliseconds=1)


def list_timeline(store: Store, config: TableConfig) -> Timeline:
    """The active timeline as it is now."""
    return timeline_from(store.list(config.timeline_folder), config)


def new_instant(config: TableConfig, timeline: Timeline, after: str = "") -> str:
    """A time for a new instant, or for the completion of one: now in the table's time zone, or the next millisecond
    after all times on the timeline and after `after`."""
    zone = datetime.UTC if config.timezone == "UTC" else None
    now = clock.moment(zone).strftime(INSTANT_FORMAT)[:_DIGITS]
    return max(now, following(greatest(timeline, after)))


def greatest(timeline: Timeline, after: str = "") -> str:
    """The greatest time on a timeline, requested or completed, "" where there is none."""
    times: Iterable[str] = (time for entry in timeline.entries for time in (entry.time, entry.completed))
    return max((*times, after))


def following(time: str) -> str:
    """The millisecond after an instant; "" for one that is no clock time, as those of a bootstrap are. Anything that
    comes before that millisecond in the order of texts, however long, comes before the result."""
    head = time[:_DIGITS].ljust(_DIGITS, "9")
    try:
        moment = datetime.datetime.strptime(head, INSTANT_FORMAT)
    except ValueError:
        return ""
    return (moment + _MILLISECOND).strftime(INSTANT_FORMAT)[:_DIGITS]


def requested_file(config: TableConfig, time: str, action: str) -> str:
    """The path of an instant's requested file."""
    return f"{config.timeline_folder}/{time}.{action}.requested"


def inflight_file(config: TableConfig, time: str, action: str) -> str:
    """The path of an instant's inflight file."""
    name = f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight"
    return f"{config.timeline_folder}/{name}"


def completed_file(config: TableConfig, time: str, completed: str, action: str) -> str:
    """The path of an instant's completed file. `action` is that of the requested file."""
    name = time if config.layout < 2 else f"{time}_{completed}"
    return f"{config.timeline_folder}/{name}.{COMPLETES_AS.get(action, action)}"


def request(store: Store, config: TableConfig, time: str, action: str, plan: bytes = b"") -> None:
    """Put the requested file. CommitConflictError where another writer has the instant."""
    _put(store, requested_file(config, time, action), plan, time)


def inflight(store: Store, config: TableConfig, time: str, action: str, content: bytes = b"") -> None:
    """Put the inflight file; a step that was made before is not an error, since its writer may run again."""
    path = inflight_file(config, time, action)
    if claim(store, path, content) is PutOutcome.UNKNOWN:
        raise _unknown(store, path, time)


def complete(store: Store, config: TableConfig, time: str, completed: str, action: str, content: bytes) -> None:
    """Put the completed file: from here on the instant is committed.

    CommitConflictError where the name holds other bytes, CommitUnknownError where the store gave no answer: then the
    instant is in the table's history or it is not, and reading the timeline again tells.
    """
    _put(store, completed_file(config, time, completed, action), content, time)


def completed_files(store: Store, config: TableConfig, time: str, action: str) -> list[str]:
    """The paths of an instant's completed files: one, unless several processes have just completed it."""
    states = map(parse_state_name, store.list(config.timeline_folder).names)
    known = COMPLETES_AS.get(action, action)
    return sorted(
        f"{config.timeline_folder}/{state.name}"
        for state in states
        if state is not None and (state.time, state.action, state.state) == (time, known, "completed")
    )


def remove_pending(store: Store, config: TableConfig, entry: Entry) -> None:
    """Delete the state files of a pending instant, the requested one last: a crash in between leaves a requested
    instant, which the next rollback ends."""
    files = [inflight_file(config, entry.time, entry.action), entry.file, entry.requested]
    files.append(requested_file(config, entry.time, entry.action))
    store.delete_in_order(dict.fromkeys(path for path in files if path))


def remove_strays(store: Store, timeline: Timeline, time: str) -> None:
    """Delete the completed file of an instant that a crash left empty: another run completes the instant."""
    store.delete_many([path for path in timeline.stray if path.rpartition("/")[2].startswith((f"{time}.", f"{time}_"))])


def remove_instant(store: Store, config: TableConfig, entry: Entry) -> None:
    """Delete the state files of a writing instant in any state: the completed one first, the requested one last."""
    names = [name for path in store.list(config.timeline_folder).files if (name := parse_state_name(path.name))]
    states = sorted((n for n in names if n.time == entry.time and n.action in WRITES), key=lambda n: n.state)
    store.delete_in_order(f"{config.timeline_folder}/{state.name}" for state in states)


def _put(store: Store, path: str, content: bytes, time: str) -> None:
    outcome = claim(store, path, content)
    if outcome is PutOutcome.EXISTS:
        raise CommitConflictError(
            "another writer has this instant",
            table=store.location,
            instant=time,
            file=path,
            todo="Nothing of this write is visible: write again",
        )
    if outcome is PutOutcome.UNKNOWN:
        raise _unknown(store, path, time)


def _unknown(store: Store, path: str, time: str) -> CommitUnknownError:
    return CommitUnknownError(
        "the store did not say whether a state file was written",
        table=store.location,
        instant=time,
        file=path,
        todo="Look at the table's history: if the instant is completed, the write stands. If it is pending, the next "
        "write rolls it back",
    )
