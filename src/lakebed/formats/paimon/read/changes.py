"""The changes of a range of snapshots, as splits: what each commit wrote, or what differs between two snapshots.

Rules: Paimon's IncrementalDeltaStartingScanner (a batch reads the new files of APPEND snapshots, or the changelog files
of all but OVERWRITE snapshots, each row as it was written) and SnapshotReaderImpl.readIncrementalDiff (a bucket's files
that both snapshots have are left out; the others are merged and compared, and tables without a primary key give the
rows of added files). Batch reads leave level 0 out where only a compaction makes it visible, and postponed buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.file_schema import SEQUENCE_FIELD
from lakebed.formats.paimon.codec.manifest import ADD, DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.compaction_options import top_level
from lakebed.formats.paimon.definition import BucketMode, bucket_mode, refuse_unserved
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, bucket_folder
from lakebed.formats.paimon.manifests import (
    changelog_lists,
    delta_list,
    entries_by_manifest,
    live_and_index_files,
    manifest_file,
    metas_of_lists,
)
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.change_task import ChangeReader, KindColumn
from lakebed.formats.paimon.read.keys import check_keys
from lakebed.formats.paimon.read.moved_keys import in_order, moved_partitions, retracts, size_of
from lakebed.formats.paimon.read.plan import ReadRequest, deletion_files
from lakebed.formats.paimon.read.range import Mode, Range, option_range, position_range
from lakebed.formats.paimon.read.readable import ReadableSnapshots
from lakebed.formats.paimon.read.split import ChangeSplit, DeletionFile, How, PaimonSplit, Step
from lakebed.formats.paimon.read.splits import bucket_splits, packed, skips_level_0
from lakebed.formats.paimon.snapshot import Position
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.predicates.where import unread_parts
from lakebed.model.rowkind import ROW_KIND_FIELD
from lakebed.verbs.read import ReadPlan

Bucket = tuple[bytes, int]
"""A partition, as a serialized row, and a bucket in it."""
KeepEntry = Callable[[ManifestEntry], bool]


def plan_between(request: ReadRequest, after: Position, until: Position) -> ReadPlan[ChangeSplit]:
    """Plan a read of the changes after one position up to another, with their kinds.

    Raises NotInHistoryError for snapshots that are not in the history, UnsupportedError for what lakebed does not
    serve, CorruptError for changes that remove files.
    """
    steps = Steps(request)
    return _planned(steps, position_range(request.history, request.options, after, until, request.table))


def plan_named_range(request: ReadRequest, kinds: KindColumn = KindColumn.NONE) -> ReadPlan[ChangeSplit]:
    """Plan a read of the range that the options name, by default without row kinds: only of its current rows.

    Raises OptionError for options that contradict each other, and what `plan_between` raises.
    """
    steps = Steps(request)
    return _planned(steps, option_range(request.history, request.options, request.table), kinds)


def plan_audited(request: ReadRequest, snapshot: Snapshot | None) -> ReadPlan[ChangeSplit]:
    """Plan a read of a snapshot as Paimon's audit log gives it: with the kind of each row, and with those that mark a
    delete."""
    steps = Steps(request)
    steps.whole(snapshot, _seen_by_batches(request), How.MERGED)
    return steps.plan(KindColumn.FIRST)


def _planned(steps: Steps, span: Range, kinds: KindColumn = KindColumn.LAST) -> ReadPlan[ChangeSplit]:
    request = steps.request
    if span.mode is Mode.DIFF:
        if span.last is not None:
            steps.compare(span.first, span.last, _seen_by_batches(request))
        return steps.plan(kinds)
    if span.whole:
        steps.whole(span.first, full_phase(request, _seen_by_batches(request)))
    changelog = span.mode is Mode.CHANGELOG
    snapshots = ReadableSnapshots(request.history).all_of(range(span.after + 1, span.until + 1))
    chosen = [one for one in snapshots if _is_read(one, changelog)]
    steps.passes_over = any(one.commit_kind is CommitKind.OVERWRITE for one in snapshots)
    for entries in written_entries(request, chosen, changelog):
        steps.written(entry for entry in entries if _seen_by_batches(request)(entry))
    return steps.plan(kinds)


def _is_read(snapshot: Snapshot, changelog: bool) -> bool:
    if changelog:
        return snapshot.commit_kind is not CommitKind.OVERWRITE
    return snapshot.commit_kind is CommitKind.APPEND


def _seen_by_batches(request: ReadRequest) -> KeepEntry:
    """Which files a batch sees: none of a postponed bucket, and none of level 0 that waits for a compaction."""
    from_level = 1 if skips_level_0(request.schema, request.options) else 0
    postpones = request.options[opt.BUCKET] == POSTPONE_BUCKET

    def is_seen(entry: ManifestEntry) -> bool:
        postponed = postpones and entry.bucket == POSTPONE_BUCKET
        return entry.file.level >= from_level and not postponed and request.was_created(entry)

    return is_seen


def full_phase(request: ReadRequest, keep: KeepEntry = lambda _: True) -> KeepEntry:
    """Which files of a snapshot are read in full before the changes after it. Those whose changelog a compaction will
    still write are left out (DataTableStreamScan.tryFirstPlan)."""
    producer, top = request.options[opt.CHANGELOG_PRODUCER], top_level(request.options)
    if producer == "lookup":
        return lambda entry: entry.file.level > 0 and keep(entry)
    if producer == "full-compaction":
        return lambda entry: entry.file.level == top and keep(entry)
    return keep


def written_entries(
    request: ReadRequest, snapshots: Sequence[Snapshot], changelog: bool, deletes: bool = False
) -> Iterator[list[ManifestEntry]]:
    """The files that each snapshot wrote, from its changelog or its delta, which are read together.

    CorruptError for an entry that removes a file, unless `deletes` allows it.
    """
    store = request.history.store
    of_snapshots = [changelog_lists(one) if changelog else [delta_list(one)] for one in snapshots]
    metas = metas_of_lists(store, [file for lists in of_snapshots for file in lists])
    manifests = [[meta for _ in lists for meta in next(metas)] for lists in of_snapshots]
    read = entries_by_manifest(store, [manifest_file(meta) for of_one in manifests for meta in of_one])
    for snapshot, of_one in zip(snapshots, manifests, strict=True):
        entries = [entry for _ in of_one for entry in next(read)]
        if not deletes and any(entry.kind != ADD for entry in entries):
            raise CorruptError(
                f"the {'changelog' if changelog else 'delta'} of a snapshot removes files",
                table=request.table,
                instant=str(snapshot.id),
            )
        yield entries


@dataclass(slots=True)
class Steps:
    """Collects the steps of a read of changes, in their order, and makes splits of them."""

    request: ReadRequest
    _rounds: list[list[Step]] = field(default_factory=list)
    """The steps of each commit, or of each other call that adds some."""
    _totals: dict[bytes, set[int]] = field(default_factory=dict)
    """The numbers of buckets that the files of each partition were written for."""
    passes_over: bool = False
    """Whether an overwrite whose rows are not read is among the commits."""
    _folders: PartitionFolders = field(init=False)

    def __post_init__(self) -> None:
        request = self.request
        refuse_unserved(request.schema, request.options, Use.READ, request.table)
        if request.options[opt.DATA_EVOLUTION]:
            raise UnsupportedError(
                f"lakebed cannot read changes of tables with option {opt.DATA_EVOLUTION.key!r}",
                table=request.table,
                why="a commit may write some columns of rows that other files hold",
                todo="Compare snapshots that you read with table.read",
            )
        if request.schema.primary_keys:
            merge_function(request.schema, request.options)
        elif request.options[opt.SEQUENCE_NUMBERS]:
            raise UnsupportedError(
                f"option {opt.SEQUENCE_NUMBERS.key!r} works only on tables with a primary key", table=request.table
            )
        self._folders = PartitionFolders.of(request.history.store, request.schema, request.options)

    def whole(self, snapshot: Snapshot | None, keep: KeepEntry, how: How = How.REPLACED) -> None:
        """All rows of a snapshot, merged: those that are there, or as `how` says."""
        live, indexes = live_and_index_files(self.request.history.store, snapshot)
        kept = self._counted(self._matching(entry for entry in live if keep(entry)))
        real = [entry for entry in kept if entry.bucket != POSTPONE_BUCKET]
        schema, options = self.request.schema, self.request.options
        splits = bucket_splits(real, deletion_files(indexes), self._folders, schema, options)
        self._rounds.append([Step(how, split) for split in splits])
        self.written(entry for entry in kept if entry.bucket == POSTPONE_BUCKET)

    def written(self, entries: Iterable[ManifestEntry]) -> None:
        """The rows of new files, as they were written."""
        buckets = _by_bucket(self._counted(self._matching(entries)))
        self._rounds.append([Step(How.WRITTEN, self._split(bucket, files)) for bucket, files in buckets.items()])

    def replaced(self, entries: Sequence[ManifestEntry]) -> None:
        """What an overwrite changed: the rows of files that it removed, and those of files that it added."""
        matching = self._counted(self._matching(entries))
        added = _by_bucket(entry for entry in matching if entry.kind == ADD)
        removed = _by_bucket(entry for entry in matching if entry.kind != ADD)
        steps = self._new_round()
        for bucket in {**removed, **added}:
            new = self._split(bucket, added[bucket]) if bucket in added else None
            if bucket in removed and bucket[1] == POSTPONE_BUCKET:  # its rows are not sorted, and told as they come
                steps.append(Step(How.REPLACED, None, self._split(bucket, removed[bucket])))
                steps += [Step(How.WRITTEN, new)] if new is not None else []
            elif bucket in removed:
                steps.append(Step(How.REPLACED, new, self._split(bucket, removed[bucket])))
            else:
                steps.append(Step(How.WRITTEN, new))

    def compare(self, before: Snapshot | None, after: Snapshot, keep: KeepEntry) -> None:
        """Add the steps that turn the rows of one snapshot into those of another."""
        store = self.request.history.store
        (old, old_indexes), (new, new_indexes) = store.together(
            lambda snapshot: live_and_index_files(store, snapshot), (before, after)
        )
        self._check_buckets([*old, *new])
        in_both = {entry.identity for entry in old} & {entry.identity for entry in new}
        sides = [
            _by_bucket(self._matching(e for e in entries if e.identity not in in_both and keep(e)))
            for entries in (old, new)
        ]
        vectors, steps = (deletion_files(old_indexes), deletion_files(new_indexes)), self._new_round()
        for bucket in {**sides[0], **sides[1]}:
            removed, added = (
                self._split(bucket, side[bucket], of_side.get(bucket, {})) if bucket in side else None
                for side, of_side in zip(sides, vectors, strict=True)
            )
            steps.append(Step(How.COMPARED, added, removed))

    def plan(self, kinds: KindColumn = KindColumn.LAST) -> ReadPlan[ChangeSplit]:
        """The plan of all steps."""
        request, store = self.request, self.request.history.store
        numbers = request.options[opt.SEQUENCE_NUMBERS]
        columns, number = arrow_schema(request.readable.project(request.columns)), arrow_schema([SEQUENCE_FIELD])
        beside = [*number] if numbers else []
        schemas = {
            KindColumn.NONE: [*columns, *beside],
            KindColumn.LAST: [*columns, *beside, ROW_KIND_FIELD],
            KindColumn.FIRST: [ROW_KIND_FIELD.with_name(KindColumn.FIRST), *beside, *columns],
        }
        return ReadPlan(
            pa.schema(schemas[kinds]),
            tuple(self._change_splits()),
            ChangeReader(request.reader, kinds, numbers),
            unread_parts(request.predicate),
            store.at_once,
            store.in_flight,
        )

    # ---- helpers ----

    def _matching(self, entries: Iterable[ManifestEntry]) -> Sequence[ManifestEntry]:
        """The entries whose files may have rows that are asked for."""
        request, chosen = self.request, list(entries)
        check_keys(request.history, request.schema, chosen)
        return request.pruning.kept(chosen, request.predicate)

    def _counted(self, entries: Sequence[ManifestEntry]) -> Sequence[ManifestEntry]:
        """Record the entries' numbers of buckets, and return the entries."""
        for entry in entries:
            if entry.total_buckets > 0:
                self._totals.setdefault(entry.partition, set()).add(entry.total_buckets)
        return entries

    def _new_round(self) -> list[Step]:
        self._rounds.append([])
        return self._rounds[-1]

    def _split(
        self, bucket: Bucket, files: Sequence[DataFileMeta], deletions: Mapping[str, DeletionFile] = {}
    ) -> PaimonSplit:
        self._folders.look([bucket[0]])
        folder = bucket_folder(self._folders.of_row(bucket[0]), bucket[1])
        own = {file.file_name: deletions[file.file_name] for file in files if file.file_name in deletions}
        size = sum(file.file_size for file in files)
        return PaimonSplit(folder, size, *bucket, folder, tuple(files), own)

    def _change_splits(self) -> Iterator[ChangeSplit]:
        """One split per bucket; several where rows have no key, and so no order; one in all where keys move between
        buckets, and what a commit retracts must come before what it adds: of all partitions where keys move between
        them, else of each partition where an overwrite moved keys."""
        schema, options = self.request.schema, self.request.options
        rounds = [steps for steps in self._rounds if steps]
        moved: Collection[bytes] = ()
        if schema.primary_keys:
            mode = bucket_mode(schema, options)
            if mode is BucketMode.KEY_DYNAMIC:
                if len(rounds) > 1 or any(step.may_retract for steps in rounds for step in steps):
                    yield in_order("in order", rounds, lambda step: step.may_retract)
                    return
            else:
                moved = moved_partitions(rounds, self._totals, mode, self.passes_over)
        for partition in sorted(moved):
            inside = [[step for step in steps if step.side.partition == partition] for steps in rounds]
            yield in_order(f"{self._folders.of_row(partition)} in order", inside, retracts)
        buckets: dict[Bucket, list[Step]] = {}
        for step in (step for steps in rounds for step in steps if step.side.partition not in moved):
            buckets.setdefault((step.side.partition, step.side.bucket), []).append(step)
        for of_bucket in buckets.values():
            joined = [*_joined(of_bucket)]
            if schema.primary_keys:
                yield ChangeSplit(joined[0].side.folder, sum(map(size_of, joined)), tuple(joined))
                continue
            ordered = options[opt.BUCKET] > 0
            for number, part in enumerate(part for step in joined for part in self._parts(step)):
                folder = part.side.folder
                yield ChangeSplit(folder if ordered or not number else f"{folder}#{number}", part.side.size, (part,))

    def _parts(self, step: Step) -> Iterator[Step]:
        """The files that a step adds to a table without a primary key, in parts for several tasks."""
        whole = step.added
        for files in packed(whole.files, self.request.options) if whole is not None else ():
            yield Step(How.WRITTEN, self._part(whole, files))

    def _part(self, whole: PaimonSplit | None, files: Sequence[DataFileMeta]) -> PaimonSplit:
        assert whole is not None
        return self._split((whole.partition, whole.bucket), files, whole.deletions)

    def _check_buckets(self, entries: Sequence[ManifestEntry]) -> None:
        """Raise UnsupportedError where a partition has got another number of buckets: its keys are in other buckets."""
        totals: dict[bytes, int] = {}
        for entry in entries if self.request.schema.primary_keys else ():
            total = totals.setdefault(entry.partition, entry.total_buckets) if entry.total_buckets > 0 else 0
            if total and total != entry.total_buckets:
                raise UnsupportedError(
                    f"the number of buckets changed from {total} to {entry.total_buckets} between the two snapshots",
                    table=self.request.table,
                    why="the rows of a key are in different buckets, which are compared one by one",
                    todo=f"Read the changes with {opt.INCREMENTAL_MODE.key}=delta, or compare snapshots on one side",
                )


def _by_bucket(entries: Iterable[ManifestEntry]) -> dict[Bucket, list[DataFileMeta]]:
    buckets: dict[Bucket, list[DataFileMeta]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    return buckets


def _joined(steps: Iterable[Step]) -> Iterator[Step]:
    """The same steps, with files that are read as they were written joined into one step."""
    waiting: list[PaimonSplit] = []
    for step in steps:
        if step.how is How.WRITTEN and step.added is not None:
            waiting.append(step.added)
            continue
        yield from _written_together(waiting)
        waiting = []
        yield step
    yield from _written_together(waiting)


def _written_together(splits: Sequence[PaimonSplit]) -> Iterator[Step]:
    if not splits:
        return
    first, files = splits[0], tuple(file for split in splits for file in split.files)
    deletions = {name: vector for split in splits for name, vector in split.deletions.items()}
    size = sum(split.size for split in splits)
    yield Step(
        How.WRITTEN,
        PaimonSplit(first.group, size, first.partition, first.bucket, first.folder, files, deletions),
    )
