"""What a rewrite of a table without a primary key compacts: which files of which partitions and buckets, and why the
rest is left.

Rules: Paimon's CompactAction and CompactProcedure. A table without buckets is packed in one round of the coordinator;
fixed buckets are compacted one by one, in the order of their rows. With an order all files of a partition are sorted
together (SortCompactAction), as one COMPACT commit, so that rows that come meanwhile stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import UnsupportedError, counted
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.manifest import DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.commit.serializers import AppendCompactTask
from lakebed.formats.paimon.definition import BucketMode
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.layout import index_path
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.read.split import DeletionFile
from lakebed.formats.paimon.rewrite.append import AppendRules, PartitionPacker, index_names
from lakebed.formats.paimon.rewrite.append_task import AppendCompactor, AppendTask
from lakebed.formats.paimon.rewrite.plan import CompactionPlan, LiveBucket, buckets_of, in_partitions, why_waiting
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where
from lakebed.model.upkeep import RewriteGroup, Skipped


def plan_append_compaction(
    compactor: AppendCompactor,
    snapshot: Snapshot | None,
    where: Where,
    minor: bool,
    dry_run: bool = False,
    most: int | None = None,
) -> CompactionPlan[AppendTask]:
    """Plan the compaction of the files of a snapshot. In fixed buckets `minor` takes what a commit would take. With
    `dry_run` the plan has no tasks, and the files of one bucket are in memory at a time.

    `most` is how many files are taken in all. Of the group where that is reached the first files are taken, unless
    they are sorted, which takes whole partitions.
    `where` may name partition columns only, else UsageError. UnsupportedError for files that another engine clustered
    level by level.
    """
    history, options = compactor.history, compactor.options
    live, indexes = live_and_index_files(history.store, snapshot, stats=not dry_run)
    chosen = in_partitions(live, where, compactor.schema, history.store.location)
    if _greatest_level(chosen) > 0:
        raise UnsupportedError(
            "lakebed cannot compact files that were clustered incrementally",
            table=history.store.location,
            why="they have levels, which say how far they are clustered",
            todo="Compact this table with Paimon's own engine",
        )
    rules = AppendRules.of(options.table, options.format.target_size)
    tasks: list[AppendTask] = []
    groups: list[RewriteGroup] = []
    skipped: list[Skipped] = []
    room = most
    for live_bucket in buckets_of(history.store, compactor.schema, options.table, chosen, indexes):
        bucket = AppendBucket.of(live_bucket, compactor, rules)
        choices = bucket.sorted() if compactor.order is not None else bucket.packed(minor)
        taken: set[str] = set()
        for files, reason in choices:
            taken |= {file.file_name for file in files}
            if most is not None and room is not None and len(files) > room:
                first = files[:room] if compactor.order is None and room > 1 else []
                skipped.append(Skipped(bucket.live.folder, why_waiting(len(files), room, most, cut=bool(first))))
                files = first
            if files:
                room = None if room is None else room - len(files)
                if not dry_run:
                    tasks.append(bucket.task(files))
                groups.append(bucket.group(files, reason))
        left = [file for file in bucket.files if file.file_name not in taken]
        if left:
            skipped.append(Skipped(bucket.live.folder, bucket.why_left(left, minor)))
    return CompactionPlan(tuple(tasks), tuple(groups), tuple(skipped))


def _greatest_level(entries: Sequence[ManifestEntry]) -> int:
    if isinstance(entries, Entries):
        return int(entries.numbers("level").max(initial=0))
    return max((entry.file.level for entry in entries), default=0)


def not_rewritten(options: Options) -> dict[str, str]:
    """The options of a table without a primary key that keep lakebed from rewriting its files, each with the reason."""
    reasons: dict[str, str] = {}
    if options[opt.DATA_EVOLUTION]:
        reasons[opt.DATA_EVOLUTION.key] = "files of the same row ids must be put together"
    if options.raw.get("clustering.incremental", "").lower() == "true":
        reasons["clustering.incremental"] = "the levels of its files say how far they are clustered"
    return reasons


@dataclass(frozen=True, slots=True)
class AppendBucket:
    """The files of a bucket, in the order in which they were committed, and what is known of their deleted rows:
    `deletions` by file, and the `marked` files of each index file."""

    live: LiveBucket
    files: tuple[DataFileMeta, ...]
    deletions: Mapping[str, DeletionFile]
    marked: Mapping[str, Sequence[DataFileMeta]]
    rules: AppendRules
    is_fixed: bool
    has_vectors: bool

    @classmethod
    def of(cls, live: LiveBucket, compactor: AppendCompactor, rules: AppendRules) -> AppendBucket:
        """The bucket, with the rules that the table's options give."""
        fixed = compactor.options.mode is BucketMode.HASH_FIXED
        vectors = bool(compactor.options.table[opt.DELETION_VECTORS] or live.indexes)
        files, deletions = tuple(entry.file for entry in live.entries), live.deletions()
        marked: dict[str, list[DataFileMeta]] = {}
        for file in files:
            if file.file_name in deletions:
                marked.setdefault(deletions[file.file_name].path, []).append(file)
        return cls(live, files, deletions, marked, rules, fixed, vectors)

    def packed(self, minor: bool) -> Iterator[tuple[list[DataFileMeta], str]]:
        """The files of each task, with the reason."""
        rules, deletions = self.rules, self.deletions
        if self.is_fixed:
            files = rules.picked(self.files) if minor else rules.full(self.files, deletions.keys(), self.has_vectors)
            if files:
                yield files, self._why(files, "neighbours" if minor else "full compaction")
            return
        packer = PartitionPacker(rules, self.has_vectors, index_names(deletions))
        packer.add(file for file in self.files if rules.takes(file, deletions.get(file.file_name)))
        place = {file.file_name: number for number, file in enumerate(self.files)}
        for files in packer.round():
            if len(files) > 1 or files[0].file_name in deletions:
                files = sorted(files, key=lambda file: place[file.file_name])
                yield files, self._why(files, "small files")

    def sorted(self) -> Iterator[tuple[list[DataFileMeta], str]]:
        """All files as one task."""
        yield [*self.files], counted(len(self.files), "file is sorted", "files are sorted together")

    def task(self, files: Sequence[DataFileMeta]) -> AppendTask:
        """The task that compacts files. All index files that have a vector of one of them are replaced."""
        first, names = self.live.entries[0], {file.file_name for file in files}
        paths = {self.deletions[name].path for name in names if name in self.deletions}
        indexes = tuple(entry for entry in self.live.indexes if index_path(entry.file_name) in paths)
        marked = [file for path in sorted(paths) for file in self.marked[path]]
        own = {file.file_name: self.deletions[file.file_name] for file in marked}
        staying = tuple(file for file in marked if file.file_name not in names)
        known = frozenset(entry.file_name for entry in self.live.indexes) if self.has_vectors else None
        task = AppendCompactTask(first.partition, tuple(files))
        return AppendTask(task, first.bucket, first.total_buckets, self.live.folder, own, indexes, staying, known)

    def group(self, files: Sequence[DataFileMeta], reason: str) -> RewriteGroup:
        """The entry of a task in the plan that users see."""
        size = sum(file.file_size for file in files)
        return RewriteGroup(self.live.folder, len(files), size, max(1, -(-size // self.rules.target)), size, reason)

    def why_left(self, left: Sequence[DataFileMeta], minor: bool) -> str:
        """Why files stay as they are."""
        small = sum(file.file_size < self.rules.small for file in left)
        if not small:
            return f"its {counted(len(left), 'file has', 'files have')} a good size"
        others = f", {counted(len(left) - small, 'has', 'have')} a good size" if small < len(left) else ""
        if len(left) == 1 and self.rules.min_files <= 1:
            return "a single file has nothing to be merged with"
        if self.is_fixed and not minor:
            return f"{counted(small, 'small file is', 'small files are')} too few for a full compaction{others}"
        waits = counted(small, "small file waits", "small files wait")
        return f"{waits} until there are {self.rules.min_files} ({opt.COMPACTION_MIN_FILES.key}){others}"

    def _why(self, files: Sequence[DataFileMeta], what: str) -> str:
        small = sum(file.file_size < self.rules.small for file in files)
        marked = sum(file.file_name in self.deletions for file in files)
        of = f"of {counted(len(files), 'file')}"
        parts = [f"{counted(small, f'{of} is', f'{of} are')} smaller than {self.rules.small} bytes"]
        if marked:
            parts.append(counted(marked, "has deleted rows", "have deleted rows"))
        return f"{what}: {', '.join(parts)}"
