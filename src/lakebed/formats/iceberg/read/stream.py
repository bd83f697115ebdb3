"""The driver's half of a stream: which snapshots a batch takes, and the position after it.

A position is the last snapshot that was read. A batch is the difference between two snapshots of a branch
(`read/changes.py`), so a stream continues correctly when a branch was rolled back or moved. Snapshots that only rewrote
files change nothing. By default a stream starts with the newest snapshot. `earliest` first reads the table as it stands
in one batch, then continues from there.

`appends_only` does what the reference engine's own Spark source does: it starts with the oldest snapshot, returns the
rows of appends, skips rewrites, and refuses deletes and overwrites unless options say to skip them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import pyarrow as pa

from lakebed.errors import DataCleanedError, UnsupportedError, UsageError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import lists_ahead
from lakebed.formats.iceberg.read.changes import plan_difference
from lakebed.formats.iceberg.read.context import ReadContext, ReadRequest
from lakebed.formats.iceberg.read.split import ChangeSplit
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.snapshot import ancestors, iso_time, milliseconds, snapshot_at
from lakebed.kernel.again import looks_again
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.rowkind import ROW_KIND_FIELD
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import Limits

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a stream has read: up to and including `snapshot`, None for nothing yet.

    With `whole` the next batch is the table as it stands. `timestamp_ms` is the time of the snapshot, so that an error
    can name it after the snapshot has expired.
    """

    snapshot: int | None
    whole: bool = False
    timestamp_ms: int | None = None

    def text(self) -> str:
        """The position as JSON, for a checkpoint."""
        return json.dumps(
            {"version": _VERSION, "snapshot": self.snapshot, "whole": self.whole, "timestamp-ms": self.timestamp_ms}
        )

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """The position that `text` returned as JSON; UsageError for any other text."""
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                raise ValueError(f"its version is {document['version']}")
            snapshot = document["snapshot"]
            return cls(None if snapshot is None else int(snapshot), bool(document["whole"]), document["timestamp-ms"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{text!r} is not a position of an Iceberg stream",
                why=str(error),
                todo="Start the stream with a new checkpoint",
            ) from error


@dataclass(frozen=True, slots=True)
class IcebergStream:
    """A stream of the changes of one branch. `load` reads the table's current metadata.

    The metadata that `latest` has read serves the plan of the batch that it ended, too.
    """

    files: Files
    load: Callable[[], TableMetadata]
    options: Options
    branch: str
    columns: tuple[str, ...] | None
    where: Where
    appends_only: bool = False
    _known: list[tuple[frozenset[str], TableMetadata]] = field(default_factory=list, init=False, repr=False)

    @property
    @looks_again
    def schema(self) -> pa.Schema:
        """The table's columns, then the row kind."""
        context = self._context(self.load())
        return arrow_schema(context.columns(self.columns)).append(ROW_KIND_FIELD)

    def initial(self) -> str:
        """The position before the first row that the options ask for."""
        metadata, start = self.load(), self.options[opt.START_COMMIT]
        head = metadata.head(self.branch)
        if head is None:
            return StreamPosition(None).text()
        moment = self.options[opt.STREAM_FROM]
        if start and start.lower() != "earliest" and start.isdigit():
            first = snapshot_at(metadata, start, self.branch)
            return self._before(metadata, first).text()
        if start and start.lower() != "earliest":
            moment = milliseconds(start, metadata.location)
        if moment is not None:
            return self._from(metadata, head, moment).text()
        if start:
            return StreamPosition(None, whole=True).text()
        return (StreamPosition(None) if self.appends_only else self._before(metadata, head)).text()

    @looks_again
    def latest(self, start: str, limits: Limits) -> str:
        """The position after the snapshots of the next batch; `start` itself when there are none."""
        metadata = self.load()
        end = self._end(metadata, start, limits)
        self._keep(metadata, end)
        return end

    @looks_again
    def ends(self, start: str, limits: Limits) -> tuple[str, ...]:
        """The positions after all batches up to what is there now."""
        metadata, ends, position = self.load(), [], start
        while (end := self._end(metadata, position, limits)) != position:
            ends.append(end)
            position = end
        self._keep(metadata, *ends)
        return tuple(ends)

    def after_everything(self) -> str:
        """The position after the newest snapshot."""
        head = self.load().head(self.branch)
        return self.initial() if head is None else _at(head).text()

    def _end(self, metadata: TableMetadata, start: str, limits: Limits) -> str:
        position = StreamPosition.parse(start)
        head = metadata.head(self.branch)
        if head is None or head.snapshot_id == position.snapshot:
            return start
        if position.whole:
            return _at(head).text()
        line = self._line(metadata, position, head)
        return _at(self._within(line, limits)).text()

    @looks_again
    def plan(self, start: str, end: str) -> ReadPlan[ChangeSplit]:
        """Plan a read of the changes after `start`, up to and including `end`."""
        metadata = self._metadata_of_batch(end)
        before, after = StreamPosition.parse(start), StreamPosition.parse(end)
        until = self._snapshot(metadata, after)
        context = self._context(metadata)
        request = ReadRequest(context, self.columns, parse_where(self.where, predicate_schema(context)))
        steps = [(self._snapshot(metadata, before), until)]
        if until is not None and not before.whole and (self.appends_only or self._skips_snapshots):
            steps = self._steps(metadata, before, until)
        files = lists_ahead(self.files, chain.from_iterable(steps))
        plans = files.together(lambda step: plan_difference(files, metadata, *step, request), steps)
        if not plans:
            return plan_difference(self.files, metadata, until, until, request)
        splits = [split for plan in plans for split in plan.splits]
        if len(plans) > 1 and not self.appends_only:
            # one group keeps them in order: a later step may remove what an earlier one adds
            splits = [replace(split, group="in order") for split in splits]
        return replace(plans[0], splits=tuple(splits))

    def _keep(self, metadata: TableMetadata, *ends: str) -> None:
        """Keep the metadata for the plan of a batch that ends at one of `ends`."""
        self._known[:] = [(frozenset(ends), metadata)]

    def _metadata_of_batch(self, end: str) -> TableMetadata:
        """The metadata for the plan of a batch: the one that gave the batch's end, if it was just read, else the
        newest. It is used once: if the plan finds a file gone, it reads the metadata again."""
        ends, metadata = self._known.pop() if self._known else (frozenset(), None)
        return metadata if metadata is not None and end in ends else self.load()

    @property
    def _skips_snapshots(self) -> bool:
        return self.options[opt.SKIP_DELETES] or self.options[opt.SKIP_OVERWRITES]

    def _context(self, metadata: TableMetadata) -> ReadContext:
        return ReadContext.of(metadata, None, self.options[opt.DELETE_MEMORY])

    def _steps(
        self, metadata: TableMetadata, start: StreamPosition, until: Snapshot
    ) -> list[tuple[Snapshot | None, Snapshot | None]]:
        """The snapshots of a batch one by one, each with the one before it, without skipped ones."""
        steps: list[tuple[Snapshot | None, Snapshot | None]] = []
        previous = self._snapshot(metadata, start)
        for snapshot in self._line(metadata, start, until):
            if self._is_read(metadata, snapshot):
                steps.append((previous, snapshot))
            previous = snapshot
        return steps

    def _is_read(self, metadata: TableMetadata, snapshot: Snapshot) -> bool:
        """Whether a stream reads a snapshot, or skips it. UnsupportedError for one that a stream of appends refuses."""
        operation = snapshot.operation
        if operation == "replace":
            return False
        skip = {"delete": opt.SKIP_DELETES, "overwrite": opt.SKIP_OVERWRITES}.get(operation)
        if skip is None:
            return True
        if self.options[skip]:
            return False
        if not self.appends_only:
            return True
        raise UnsupportedError(
            f"a stream of appends reached a snapshot with the operation {operation}",
            table=metadata.location,
            instant=str(snapshot.snapshot_id),
            why="such a stream cannot remove rows",
            todo=f'Set {skip.key} to skip such snapshots, or read with format("lakebed"), which returns row kinds',
        )

    def _line(self, metadata: TableMetadata, start: StreamPosition, until: Snapshot) -> list[Snapshot]:
        """The snapshots after a position, up to and including `until`, oldest first.

        Only `until` when the branch was moved so that the position is no longer among its ancestors: the difference
        leads there in one step.
        """
        line: list[Snapshot] = []
        for snapshot in ancestors(metadata, until):
            if snapshot.snapshot_id == start.snapshot:
                return line[::-1]
            line.append(snapshot)
        if start.snapshot is None:
            return line[::-1]
        self._snapshot(metadata, start)
        return [until]

    def _snapshot(self, metadata: TableMetadata, position: StreamPosition) -> Snapshot | None:
        """The snapshot of a position, None for nothing read yet. DataCleanedError when it is expired."""
        if position.snapshot is None:
            return None
        snapshot = metadata.snapshots.get(position.snapshot)
        if snapshot is None:
            raise self._expired(metadata, position.snapshot, position.timestamp_ms)
        return snapshot

    def _expired(self, metadata: TableMetadata, snapshot: int, timestamp_ms: int | None) -> DataCleanedError:
        when = f" of {iso_time(timestamp_ms)}" if timestamp_ms is not None else ""
        return DataCleanedError(
            f"the stream has read up to snapshot {snapshot}{when}, which is expired",
            table=metadata.location,
            instant=str(snapshot),
            why="the changes after it can no longer be found",
            todo=f"Restart with {opt.START_COMMIT.key}=earliest, and let snapshots expire later than streams read them",
        )

    def _before(self, metadata: TableMetadata, snapshot: Snapshot | None) -> StreamPosition:
        """The position before a snapshot. DataCleanedError when the snapshot before it is expired."""
        if snapshot is None or snapshot.parent_id is None:
            return StreamPosition(None)
        parent = metadata.snapshots.get(snapshot.parent_id)
        if parent is None:
            raise DataCleanedError(
                f"the changes of snapshot {snapshot.snapshot_id} cannot be found",
                table=metadata.location,
                instant=str(snapshot.snapshot_id),
                why=f"the one before it, {snapshot.parent_id}, is expired",
                todo=f"Start with a later snapshot, or with {opt.START_COMMIT.key}=earliest",
            )
        return _at(parent)

    def _from(self, metadata: TableMetadata, head: Snapshot, moment: int) -> StreamPosition:
        """The position before the first snapshot at or after a time; after the newest one when all are older."""
        last = next((s for s in ancestors(metadata, head) if s.timestamp_ms < moment), None)
        if last is not None:
            return _at(last)
        first = list(ancestors(metadata, head))[-1]
        return self._before(metadata, first)

    def _within(self, line: Sequence[Snapshot], limits: Limits) -> Snapshot:
        """The last snapshot that the limits allow in one batch, which takes at least one."""
        options = self.options
        commits = _least(limits.commits, options[opt.COMMITS_LIMIT])
        most = {
            "added-data-files": _least(limits.files, options[opt.SPLITS_LIMIT], options[opt.MAX_FILES]),
            "added-records": options[opt.MAX_ROWS],
            "added-files-size": _least(limits.bytes, options[opt.BYTES_LIMIT]),
        }
        totals = dict.fromkeys(most, 0)
        last = line[0]
        for number, snapshot in enumerate(line):
            for key in totals:
                totals[key] += int(snapshot.summary.get(key, 0))
            if number and (
                (commits is not None and number >= commits)
                or any(limit is not None and totals[key] > limit for key, limit in most.items())
            ):
                break
            last = snapshot
        return last


def _at(snapshot: Snapshot) -> StreamPosition:
    return StreamPosition(snapshot.snapshot_id, timestamp_ms=snapshot.timestamp_ms)


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
