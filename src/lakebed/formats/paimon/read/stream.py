"""The driver's half of a stream: which snapshots a batch takes, and the position after it.

Rules: Paimon's DataTableStreamScan. A position is the snapshot that is read next (`read/position.py`). Each snapshot
gives what it wrote, in the order of the snapshots: its changelog where the table has a changelog producer, else the new
files of an APPEND. Compactions and overwrites give nothing; with `streaming-read-overwrite` (append tables:
`streaming-read-append-overwrite`) an overwrite gives the rows that it removed and added. Rows of postponed buckets come
from the commit that wrote them. `scan.mode` says where a stream starts (`read/start.py`).

A batch takes whole snapshots, and at least one with rows where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.layout import POSTPONE_BUCKET
from lakebed.formats.paimon.read.batch_end import Look, Source, source_of
from lakebed.formats.paimon.read.change_task import KindColumn
from lakebed.formats.paimon.read.changes import Steps, full_phase, written_entries
from lakebed.formats.paimon.read.consumers import set_next_snapshot
from lakebed.formats.paimon.read.plan import ReadRequest
from lakebed.formats.paimon.read.position import StreamPosition
from lakebed.formats.paimon.read.readable import ReadableSnapshots
from lakebed.formats.paimon.read.split import ChangeSplit
from lakebed.formats.paimon.read.start import start_of_stream
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import Limits


@dataclass(slots=True)
class _Known:
    """What a stream remembers between calls.

    `request` and `snapshots` are what the last look at the table found, for the plan of a batch that it ended at one of
    `ends`. It may look again from `rests_until` on; the last batch was at `last_batch`, both in steady seconds.
    `consumer` is its consumer, "" for none, and `progress` what that has kept. `columns` are those of its first look.
    """

    ends: frozenset[str] = frozenset()
    request: ReadRequest | None = None
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    rests_until: float | None = None
    last_batch: float | None = None
    consumer: str | None = None
    progress: int | None = None
    columns: Sequence[str] | None = None

    def found(self, look: Look, *ends: str) -> None:
        """Keep what a look found, for the plan of a batch that ends at one of `ends`."""
        self.ends, self.request, self.snapshots = frozenset(ends), look.request, look.snapshots

    def taken(self, end: str) -> tuple[ReadRequest | None, dict[int, Snapshot]]:
        """What the look found that gave an end. It is used once: a plan that meets a file which is gone reads anew."""
        request, snapshots = (self.request, self.snapshots) if end in self.ends else (None, {})
        self.ends, self.request, self.snapshots = frozenset(), None, {}
        return request, snapshots


@dataclass(frozen=True, slots=True)
class PaimonStream:
    """A stream of one branch. `load` reads the table's newest schema and the options that hold with it, and takes the
    columns that are asked for (None: all).

    `default` is the mode of a stream whose options name no start. A column that is added to the table comes with the
    next stream: this one keeps those that it began with.
    """

    load: Callable[[Sequence[str] | None], ReadRequest]
    default: str
    kinds: KindColumn = KindColumn.LAST
    _known: _Known = field(default_factory=_Known, init=False, repr=False)

    @property
    @looks_again
    def schema(self) -> pa.Schema:
        """The table's columns, then the row kind."""
        return Steps(self._load()).plan(self.kinds).schema

    @looks_again
    def initial(self) -> str:
        """The position before the first row that the options ask for."""
        request = self._load()
        _refuse_contradictions(request)
        return start_of_stream(request.history, request.options, self.default).text()

    @looks_again
    def latest(self, start: str, limits: Limits) -> str:
        """The position after the snapshots of the next batch; `start` itself when there are none.

        Raises DataCleanedError when the next snapshot has expired, NotInHistoryError when the table was rolled back.
        """
        known = self._known
        if known.rests_until is not None and clock.steady() < known.rests_until:
            return start
        look = Look(self._load(), limits, _splits_of)
        end = self._end(look, start)
        if end != start and self._waits_for_rows(look):
            end = start
        interval = look.request.options[opt.DISCOVERY_INTERVAL]
        known.found(look, end)
        known.rests_until = None
        if end != start:
            known.last_batch = clock.steady()
        elif interval is not None:
            known.rests_until = clock.steady() + interval / 1000
        return end

    @looks_again
    def ends(self, start: str, limits: Limits) -> Sequence[str]:
        """The positions after all batches up to what is there now."""
        look, ends, position = Look(self._load(), limits, _splits_of), [], start
        while (end := self._end(look, position)) != position:
            ends.append(end)
            position = end
        self._known.found(look, *ends)
        return tuple(ends)

    @looks_again
    def after_everything(self) -> str:
        """The position after the snapshots that are there now, and that the stream may read already."""
        request = self._load()
        end = Look(request, Limits(), _splits_of).after_everything()
        if end is None:
            end = start_of_stream(request.history, request.options, self.default)
        if end.next is None:
            raise UnsupportedError(
                "a stream that starts at a time cannot start on a table without a snapshot here",
                table=request.table,
                why="Spark does not tell it where a batch begins, and the table has no snapshot yet",
                todo="Write to the table first, or name no time",
            )
        return end.text()

    @looks_again
    def plan(self, start: str, end: str) -> ReadPlan[ChangeSplit]:
        """The changes after `start`, up to and including `end`, in the order of the snapshots for each bucket."""
        request, snapshots = self._known.taken(end)
        request = request or self._load()
        before, after = StreamPosition.parse(start), StreamPosition.parse(end)
        steps = Steps(request)
        if before.next is None or after.next is None:
            return steps.plan(self.kinds)
        if before.index or after.index:
            return replace(steps.plan(self.kinds), splits=_piece(request, before, after, snapshots))
        ids = range(before.next, after.next)
        missing = [number for number in ids if number not in snapshots]
        snapshots = {**snapshots, **{one.id: one for one in ReadableSnapshots(request.history).all_of(missing)}}
        if ids:
            after.check_read(snapshots[ids[-1]], request.table)
        if before.whole and ids:
            _read_whole(steps, before, snapshots[before.next])
        _read_changes(steps, [snapshots[number] for number in ids[before.whole :]])
        return steps.plan(self.kinds)

    def processed(self, position: str) -> None:
        """Keep the progress of the stream's consumer, if it has one."""
        known, following = self._known, StreamPosition.parse(position)
        if known.consumer == "" or following.next in (None, known.progress) or following.whole:
            return  # a consumer's progress can't say that a snapshot is read in full first
        request = self._load()
        known.consumer = request.options[opt.CONSUMER_ID]
        if known.consumer and following.next is not None:
            set_next_snapshot(request.history, known.consumer, following.next)
            known.progress = following.next

    # ---- helpers ----

    def _load(self) -> ReadRequest:
        request = self.load(self._known.columns)
        self._known.columns = request.columns
        return request

    def _end(self, look: Look, start: str) -> str:
        position = StreamPosition.parse(start)
        if position.next is None:
            request = look.request
            return start_of_stream(request.history, request.options, self.default).text()
        end = look.end(position)
        return start if end == position else end.text()

    def _waits_for_rows(self, look: Look) -> bool:
        """Whether a batch has too few rows yet, by `read.stream.minRowsPerTrigger`."""
        options, last = look.request.options, self._known.last_batch
        least, longest = options[opt.MIN_ROWS], options[opt.MAX_DELAY]
        return least is not None and look.rows < least and last is not None and clock.steady() - last <= longest / 1000


def _refuse_contradictions(request: ReadRequest) -> None:
    options = request.options
    if (options[opt.MIN_ROWS] is None) != (options[opt.MAX_DELAY] is None):
        raise OptionError(
            f"{opt.MIN_ROWS.key} and {opt.MAX_DELAY.key} belong together",
            key=opt.MIN_ROWS.key,
            why="one says for how many rows a batch waits, the other for how long",
            todo="Give both or neither",
        )
    if options[opt.STREAM_OVERWRITES] and options[opt.CHANGELOG_PRODUCER] in ("lookup", "full-compaction"):
        raise opt.refuse(
            opt.STREAM_OVERWRITES,
            True,
            f"with changelog-producer {options[opt.CHANGELOG_PRODUCER]} changes would come twice",
        )


def _splits_of(request: ReadRequest, position: StreamPosition, snapshot: Snapshot) -> Sequence[ChangeSplit]:
    """The splits of one snapshot, read in full or for its changes as a position before it says."""
    steps = Steps(request)
    if position.whole:
        _read_whole(steps, position, snapshot)
    else:
        _read_changes(steps, [snapshot])
    return steps.plan().splits


def _piece(
    request: ReadRequest, before: StreamPosition, after: StreamPosition, snapshots: dict[int, Snapshot]
) -> tuple[ChangeSplit, ...]:
    """The splits between two positions, of which at least one is inside a snapshot: what comes before it has no
    rows."""
    inside = before if before.index else after
    number = inside.next or 0
    snapshot = snapshots.get(number) or ReadableSnapshots(request.history).all_of([number])[0]
    inside.check_read(snapshot, request.table)
    splits = _splits_of(request, inside, snapshot)
    return tuple(splits[before.index : after.index or None])


def _read_whole(steps: Steps, position: StreamPosition, snapshot: Snapshot) -> None:
    request = replace(steps.request, created_since=position.created_since)
    steps.whole(snapshot, full_phase(request, lambda entry: _is_real(request, entry) and request.was_created(entry)))


def _read_changes(steps: Steps, snapshots: Sequence[Snapshot]) -> None:
    """Add the steps of snapshots, whose manifests are read together."""
    request = steps.request
    sources = {snapshot.id: source_of(request, snapshot) for snapshot in snapshots}
    read: dict[int, list[ManifestEntry]] = {}
    for changelog in (False, True):
        chosen = [
            snapshot
            for snapshot in snapshots
            if sources[snapshot.id] is not Source.NOTHING and (sources[snapshot.id] is Source.CHANGELOG) is changelog
        ]
        entries = written_entries(request, chosen, changelog, deletes=True)
        read.update((snapshot.id, of_one) for snapshot, of_one in zip(chosen, entries, strict=True))
    for snapshot in snapshots:
        entries_of_one = [entry for entry in read.get(snapshot.id, ()) if _is_real(request, entry)]
        steps.passes_over |= sources[snapshot.id] is Source.NOTHING and snapshot.commit_kind is CommitKind.OVERWRITE
        if sources[snapshot.id] is Source.OVERWRITE:
            steps.replaced(entries_of_one)
        else:
            steps.written(entry for entry in entries_of_one if entry.kind == ADD)


def _is_real(request: ReadRequest, entry: ManifestEntry) -> bool:
    """Whether a stream reads a file: postponed rows come with the compaction's changelog where there is one."""
    options = request.options
    hides = options[opt.BUCKET] == POSTPONE_BUCKET and options[opt.CHANGELOG_PRODUCER] != "none"
    return not (hides and entry.bucket == POSTPONE_BUCKET)
