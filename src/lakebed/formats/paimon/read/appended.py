"""The rows that were appended between two snapshots to a table without a primary key (`incremental-between`).

Rule: Paimon's IncrementalDeltaStartingScanner. A range reads the new files of its APPEND snapshots, after the first
snapshot and up to and including the second, even if later snapshots changed their rows. It skips compactions and
overwrites. Tables with a primary key are refused: their rows have kinds, and a batch read has no column for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.errors import CorruptError, NotInHistoryError, OptionError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import CommitKind
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.instants import milliseconds
from lakebed.formats.paimon.manifests import delta_list, entries_by_manifest, manifest_file, metas_of_lists
from lakebed.formats.paimon.read.plan import ReadRequest, plan_files
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.travel import travel_keys
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.options import Options
from lakebed.verbs.read import ReadPlan

_RANGES = (opt.INCREMENTAL_BETWEEN, opt.INCREMENTAL_BETWEEN_TIMESTAMP)


def names_a_range(options: Options) -> bool:
    """Whether the options ask for the rows between two snapshots instead of a snapshot."""
    return any(options[option] for option in _RANGES) or options[opt.SCAN_MODE] == "incremental"


def plan_appended(request: ReadRequest) -> ReadPlan[PaimonSplit]:
    """Plan a read of the range that the request's options name.

    Raises OptionError for options that contradict each other, NotInHistoryError for snapshots that are not in the
    history, UnsupportedError for tables with a primary key and for ranges of other kinds than appends.
    """
    history, schema, options, table = request.history, request.schema, request.options, request.table
    refuse_unserved(schema, options, Use.READ, table)
    key = _range_key(options)
    if schema.primary_keys:
        raise UnsupportedError(
            f"option {key!r} works only on tables without a primary key",
            table=table,
            why="a batch read has no column for row kinds",
        )
    if options[opt.INCREMENTAL_MODE] not in ("auto", "delta"):
        raise UnsupportedError(
            f"lakebed does not support {options[opt.INCREMENTAL_MODE]!r} as {opt.INCREMENTAL_MODE.key!r}",
            table=table,
            todo="Use auto or delta",
        )
    ids = history.snapshot_ids()
    if not ids:
        after = until = 0
    elif key == opt.INCREMENTAL_BETWEEN.key:
        after, until = _snapshot_range(history, options, ids, table)
    else:
        after, until = _time_range(history, options[opt.INCREMENTAL_BETWEEN_TIMESTAMP], ids, table)
    return plan_files(request, [*_appended(history, range(after + 1, until + 1), table)])


def _range_key(options: Options) -> str:
    """The key of the option that names the range. OptionError unless exactly one option names what to read."""
    given = [*(option.key for option in _RANGES if options[option]), *travel_keys(options)]
    if not given or given[0] not in (option.key for option in _RANGES):
        raise OptionError(
            f"option {opt.SCAN_MODE.key!r} is 'incremental', but no range is given",
            key=opt.SCAN_MODE.key,
            todo=f"Give {opt.INCREMENTAL_BETWEEN.key} or {opt.INCREMENTAL_BETWEEN_TIMESTAMP.key}",
        )
    if len(given) > 1:
        raise OptionError(
            f"{' and '.join(given)} are given together",
            key=given[1],
            why="a read has one range",
            todo="Give one of them",
        )
    if options[opt.SCAN_MODE] not in ("default", "incremental"):
        raise OptionError(
            f"option {opt.SCAN_MODE.key!r} is {options[opt.SCAN_MODE]!r}, but {given[0]} is given",
            key=opt.SCAN_MODE.key,
            todo=f"Leave out {opt.SCAN_MODE.key} or {given[0]}",
        )
    return given[0]


def _pair(key: str, text: str) -> tuple[str, str]:
    first, comma, second = (part.strip() for part in text.partition(","))
    if not (first and comma and second) or "," in second:
        raise OptionError.ill_typed(key, text, "START,END, where the start itself is not read")
    return first, second


def _snapshot_range(history: History, options: Options, ids: Sequence[int], table: str) -> tuple[int, int]:
    key, text = opt.INCREMENTAL_BETWEEN.key, options[opt.INCREMENTAL_BETWEEN]
    first, second = _pair(key, text)
    tags = history.tags()
    if first in tags and second in tags:
        if not options[opt.INCREMENTAL_TAGS]:
            raise UnsupportedError(
                f"option {key!r} is {text!r}, and lakebed cannot compare two tags",
                table=table,
                todo=f"Give two snapshot ids, or {opt.INCREMENTAL_TAGS.key}=true to read the appends between the tags",
            )
        after, until = history.tag(first).id, history.tag(second).id
    elif first.isdecimal() and second.isdecimal():
        after, until = int(first), int(second)
    else:
        raise NotInHistoryError(
            f"{text!r} is neither two tags nor two snapshot ids", table=table, todo=f"Tags: {', '.join(tags) or 'none'}"
        )
    if until < after:
        raise OptionError.ill_typed(key, text, "an end that is not before the start")
    if after != until and (after < ids[0] - 1 or until > ids[-1]):
        raise NotInHistoryError(
            f"the history does not have all snapshots after {after} up to {until}",
            table=table,
            instant=str(until if until > ids[-1] else after),
            todo=f"Snapshots: {ids[0]} to {ids[-1]}",
        )
    return after, until


def _time_range(history: History, text: str, ids: Sequence[int], table: str) -> tuple[int, int]:
    key = opt.INCREMENTAL_BETWEEN_TIMESTAMP.key
    start, end = (int(part) if part.isdecimal() else milliseconds(part, table) for part in _pair(key, text))
    if end < start:
        raise OptionError.ill_typed(key, text, "an end that is not before the start")
    oldest, newest = (history.snapshot(number).time_millis for number in (ids[0], ids[-1]))
    if start == end or start > newest or end < oldest:
        return 0, 0
    after = ids[0] - 1 if oldest > start else history.at_time(start).id
    return after, history.at_time(end).id


def _appended(history: History, numbers: Sequence[int], table: str) -> Iterator[ManifestEntry]:
    """The new files of the APPENDs among these snapshots. CorruptError for an append that removes files."""
    store = history.store
    snapshots = store.together(history.snapshot, numbers)
    appends = [snapshot for snapshot in snapshots if snapshot.commit_kind is CommitKind.APPEND]
    of_lists = zip(appends, metas_of_lists(store, [*map(delta_list, appends)]), strict=True)
    manifests = [(snapshot.id, meta) for snapshot, metas in of_lists for meta in metas]
    read = entries_by_manifest(store, [manifest_file(meta) for _, meta in manifests])
    for (number, _), entries in zip(manifests, read, strict=True):
        if any(entry.kind != ADD for entry in entries):
            raise CorruptError("an APPEND snapshot removes files", table=table, instant=str(number))
        yield from entries
