"""Where a batch of a stream ends: which snapshots it takes, by what they wrote and by the bounds of a batch.

Rules: Paimon's DataTableStreamScan.nextPlan and its follow-up scanners, and PaimonReadLimits of its Spark source. A
batch takes whole snapshots, and at least one with rows where there is one. Only `read.stream.max*PerTrigger` cut a
snapshot into pieces (`read/pieces.py`), and then a batch takes a piece of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.read.changes import written_entries
from lakebed.formats.paimon.read.pieces import PieceBounds
from lakebed.formats.paimon.read.plan import ReadRequest
from lakebed.formats.paimon.read.position import StreamPosition, went_back
from lakebed.formats.paimon.read.readable import ReadableSnapshots
from lakebed.formats.paimon.read.split import ChangeSplit
from lakebed.kernel import clock
from lakebed.kernel.options import Options
from lakebed.verbs.stream import Limits


class Source(Enum):
    """The files of a snapshot that a stream reads."""

    NOTHING = 0
    DELTA = 1
    CHANGELOG = 2
    OVERWRITE = 3


def source_of(request: ReadRequest, snapshot: Snapshot) -> Source:
    """The files of a snapshot that the stream of a request reads."""
    options = request.options
    reads_overwrites = opt.STREAM_OVERWRITES if request.schema.primary_keys else opt.STREAM_APPEND_OVERWRITES
    if snapshot.commit_kind is CommitKind.OVERWRITE and options[reads_overwrites]:
        return Source.OVERWRITE
    if options[opt.CHANGELOG_PRODUCER] != "none":
        return Source.CHANGELOG if snapshot.changelog_manifest_list is not None else Source.NOTHING
    return Source.DELTA if snapshot.commit_kind is CommitKind.APPEND else Source.NOTHING


SplitsOf = Callable[[ReadRequest, StreamPosition, Snapshot], Sequence[ChangeSplit]]
"""The splits of a snapshot, read in full or for its changes as a position before it says."""


class Look:
    """One look at the table, which finds the ends of a stream's batches."""

    def __init__(self, request: ReadRequest, limits: Limits, splits_of: SplitsOf) -> None:
        self.request, self._bounds = request, _Bounds.of(limits, request.options)
        self._pieces, self._splits_of = PieceBounds.of(request.options), splits_of
        self._splits: dict[tuple[int | None, bool], Sequence[ChangeSplit]] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.rows = 0
        self._newest = request.history.latest()

    def end(self, position: StreamPosition) -> StreamPosition:
        """Where the batch that begins at a position ends."""
        newest = self._newest
        if newest is None or position.next is None:
            return position
        self._check_line(position, newest)
        taken = _Taken(self.request, self._bounds)
        end = position
        if position.whole or position.index:
            first = self._snapshot(position.next)
            piece, end = self._piece(position, first), _after(first)
            if piece is not None or position.index:
                return piece or end
            taken.whole(first)
        for snapshot in self._following(position.first_change, newest):
            if self._must_wait(snapshot):
                break
            if not taken.commits and (piece := self._piece(replace(end, next=snapshot.id), snapshot)) is not None:
                return piece
            if not taken.has_room_for(snapshot):
                break
            end = _after(snapshot)
            if taken.commits == self._bounds.commits:
                break
        self.rows = taken.rows
        return end

    def after_everything(self) -> StreamPosition | None:
        """The position after all snapshots that a stream may read now, None where there is none. UnsupportedError where
        batches take pieces of snapshots: a piece begins where the one before it ended."""
        if self._pieces is not None:
            raise UnsupportedError(
                f"{opt.MAX_FILES.key} and its like need to know where a batch begins",
                table=self.request.table,
                todo=f"Leave out {opt.MAX_FILES.key}, {opt.MAX_BYTES.key} and {opt.MAX_ROWS.key}",
            )
        if self._newest is None:
            return None
        options = self.request.options
        if options[opt.BOUNDED_WATERMARK] is None and options[opt.SNAPSHOT_DELAY] is None:
            return _after(self._newest)
        end = StreamPosition(ReadableSnapshots(self.request.history).oldest() or 1)
        for snapshot in self._following(end.first_change, self._newest):
            if self._must_wait(snapshot):
                break
            end = _after(snapshot)
        return end

    def _piece(self, position: StreamPosition, snapshot: Snapshot) -> StreamPosition | None:
        """The position inside a snapshot after the next piece of it; None where a batch may take all that is left."""
        if self._pieces is None:
            return None
        key = position.next, position.whole
        if key not in self._splits:
            self._splits[key] = self._splits_of(self.request, position, snapshot)
        end = self._pieces.end(self._splits[key], position.index)
        if end >= len(self._splits[key]):
            return None
        return replace(position, index=end, read_list=snapshot.base_manifest_list)

    def _check_line(self, position: StreamPosition, newest: Snapshot) -> None:
        """Raise NotInHistoryError when the table was rolled back behind a position: what was read last is not there."""
        last = position.last_read
        if last > newest.id:
            what = f"the stream reads snapshot {position.next} next, but the newest is {newest.id}"
            raise went_back(what, position, self.request.table)
        if position.read_list is None:
            return
        read = newest if last == newest.id else self.request.history.find(last)
        if read is not None:
            position.check_read(read, self.request.table)
            self.snapshots[last] = read

    def _snapshot(self, snapshot_id: int) -> Snapshot:
        if snapshot_id not in self.snapshots:
            for snapshot in ReadableSnapshots(self.request.history).all_of([snapshot_id]):
                self.snapshots[snapshot.id] = snapshot
        return self.snapshots[snapshot_id]

    def _following(self, first: int, newest: Snapshot) -> Iterator[Snapshot]:
        """The snapshots from an id up to the newest one. A remote store is asked for several at once."""
        self.snapshots.setdefault(newest.id, newest)
        width = max(self.request.history.store.at_once, 1)
        for start in range(first, newest.id + 1, width):
            ids = range(start, min(start + width, newest.id + 1))
            missing = [number for number in ids if number not in self.snapshots]
            for snapshot in ReadableSnapshots(self.request.history).all_of(missing):
                self.snapshots[snapshot.id] = snapshot
            yield from (self.snapshots[number] for number in ids)

    def _must_wait(self, snapshot: Snapshot) -> bool:
        """Whether the stream ends before a snapshot, or does not read it yet."""
        bound, delay = self.request.options[opt.BOUNDED_WATERMARK], self.request.options[opt.SNAPSHOT_DELAY]
        if bound is not None and snapshot.watermark is not None and snapshot.watermark > bound:
            return True
        return delay is not None and snapshot.time_millis > clock.now_ms() - delay


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The most that a batch takes. None is no bound."""

    commits: int | None
    files: int | None
    bytes: int | None
    rows: int | None

    @classmethod
    def of(cls, limits: Limits, options: Options) -> _Bounds:
        return cls(
            _least(limits.commits, options[opt.COMMITS_LIMIT]),
            _least(limits.files, options[opt.SPLITS_LIMIT], options[opt.MAX_FILES]),
            _least(limits.bytes, options[opt.BYTES_LIMIT], options[opt.MAX_BYTES]),
            options[opt.MAX_ROWS],
        )

    @property
    def count_files(self) -> bool:
        """Whether the files of each snapshot must be known."""
        return self.files is not None or self.bytes is not None

    def allow(self, commits: int, files: int, size: int, rows: int) -> bool:
        counts = ((commits, self.commits), (files, self.files), (size, self.bytes), (rows, self.rows))
        return all(most is None or count <= most for count, most in counts)


@dataclass(slots=True)
class _Taken:
    """The snapshots, files and bytes that a batch has so far."""

    request: ReadRequest
    bounds: _Bounds
    commits: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    is_full: bool = False

    def whole(self, snapshot: Snapshot) -> None:
        """Take all rows of a snapshot. Where files or bytes are bounded, the batch takes no more."""
        self.commits, self.rows, self.is_full = 1, snapshot.total_record_count, self.bounds.count_files

    def has_room_for(self, snapshot: Snapshot) -> bool:
        """Take a snapshot, if it fits. One without rows always does, and so does the first one with rows."""
        source = source_of(self.request, snapshot)
        if source is Source.NOTHING:
            return True
        in_changelog = source is Source.CHANGELOG
        files = size = 0
        if self.bounds.count_files:
            entries = next(written_entries(self.request, [snapshot], in_changelog, deletes=True))
            files, size = len(entries), sum(entry.file.file_size for entry in entries)
        rows = snapshot.changelog_record_count if in_changelog else max(snapshot.delta_record_count, 0)
        counts = self.commits + 1, self.files + files, self.bytes + size, self.rows + rows
        if self.commits and (self.is_full or not self.bounds.allow(*counts)):
            return False
        self.commits, self.files, self.bytes, self.rows = counts
        return True


def _after(snapshot: Snapshot) -> StreamPosition:
    return StreamPosition(snapshot.id + 1, read_list=snapshot.base_manifest_list)


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
