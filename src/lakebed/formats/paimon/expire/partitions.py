"""Partitions that are too old: one OVERWRITE commit, or several, takes their files out of the table.

Rules: Paimon's PartitionExpire with PartitionValuesTimeExpireStrategy and PartitionUpdateTimeExpireStrategy. The files
themselves go once the snapshots that show them expire. What another writer adds to a partition that is too old by its
values goes with it. By update time such a partition is not too old any more, and stays.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lakebed.errors import CommitConflictError, OptionError, counted
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon import partition_options
from lakebed.formats.paimon.bucket_summaries import all_bucket_summaries
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.commit.callbacks import named_callbacks
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.kinds import Changes, NewSnapshot
from lakebed.formats.paimon.commit.loop import ReplayedError, commit_snapshot
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.commit.overwrite import ReplacedPartitions
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.expire.last_look import LastLook
from lakebed.formats.paimon.expire.partition_time import PartitionTimes
from lakebed.formats.paimon.layout import MAIN_BRANCH, OWN_FOLDER, POSTPONE_BUCKET
from lakebed.formats.paimon.manifests import data_manifests
from lakebed.formats.paimon.partition_text import spellings
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files.age import certain_now
from lakebed.kernel.options import Options
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.model.upkeep import ExpireResult, Skipped
from lakebed.redaction import redacting_logger

_LOG = redacting_logger("lakebed.paimon")
_LOOKS = 5
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class ExpiredPartition:
    """A partition that may go: its bytes in manifests, its folder, what makes it too old, its files and their bytes."""

    key: bytes
    name: str
    reason: str
    files: int
    bytes: int

    @property
    def note(self) -> str:
        """The partition as a note of a result."""
        return f"{self.name}: {self.reason}; {counted(self.files, 'file')}, {self.bytes} bytes"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The partitions that may go, in the order of their values, and why each of the others stays.

    No file of those that go may have been created at `older` or later, in milliseconds since 1970; None: it may.
    """

    expired: tuple[ExpiredPartition, ...] = ()
    kept: tuple[Skipped, ...] = ()
    older: int | None = None


@dataclass(slots=True)
class PartitionExpiry:
    """Expires partitions of one branch by its options. `looked` is shared by the commits of an open table."""

    history: History
    schema: TableSchema
    options: Options
    looked: LastLook = field(default_factory=LastLook)

    @looks_again
    def run(self, dry_run: bool = False) -> ExpireResult:
        """Expire the partitions that are too old now. OptionError without `partition.expiration-time`."""
        store, schema, options = self.history.store, self.schema, self.options
        refuse_unserved(schema, options, Use.WRITE, store.location)
        if options[partition_options.EXPIRATION_TIME] is None:
            raise OptionError(
                f"{partition_options.EXPIRATION_TIME.key} is not set",
                key=partition_options.EXPIRATION_TIME.key,
                table=store.location,
                why="partitions expire by their age",
                todo="Give the age at which partitions expire, such as 30 d",
            )
        if not schema.partition_keys:
            return ExpireResult((), (), (Skipped("the whole table", "it has no partitions"),), dry_run)
        latest = self.history.latest()
        plan = self._plan(latest, clock.now())
        if dry_run or not plan.expired:
            names = tuple(partition.name for partition in plan.expired)
            return ExpireResult(names, (), plan.kept, dry_run, tuple(partition.note for partition in plan.expired))
        user = f"{options[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
        committer = Committer(self.history, schema, options, CommitOptions(user, named=named_callbacks(options)))
        expiry_notes: list[str] = []

        def commit(replaced: ReplacedPartitions) -> None:
            expiry_notes.extend(committer.commit(BATCH_IDENTIFIER, (), replaced).notes)

        gone, kept = self._expire(commit, self.history.latest)
        notes = (*(partition.note for partition in gone), *expiry_notes)
        return ExpireResult(tuple(partition.name for partition in gone), (), kept, dry_run, notes)

    def run_if_due(self, user: str, identifier: int, latest: Snapshot | None) -> Snapshot | None:
        """Expire partitions after a commit of this user and identifier, whose OVERWRITE commits are the user's too.
        Returns the newest snapshot."""
        at_end = self.options[partition_options.CHECK_AT_END] and identifier == BATCH_IDENTIFIER
        if not at_end and not self.looked.is_due(self.options[partition_options.EXPIRATION_INTERVAL]):
            return latest
        if not self._plan(latest, clock.now()).expired:
            return latest
        newest = latest

        def commit(replaced: ReplacedPartitions) -> None:
            nonlocal newest
            new = NewSnapshot(user, identifier, CommitKind.OVERWRITE, Changes(), replaced)
            try:
                newest = commit_snapshot(self.history, self.schema, self.options, new, newest)
            except ReplayedError as error:  # another process of this user expires the same
                newest = error.landed

        self._expire(commit, lambda: newest)
        return newest

    def _expire(
        self, commit: Callable[[ReplacedPartitions], None], look: Callable[[], Snapshot | None]
    ) -> tuple[list[ExpiredPartition], tuple[Skipped, ...]]:
        """Take what is too old out of the table, batch by batch. A batch whose partitions were written to meanwhile is
        planned again. Returns what went, and what stays."""
        now = certain_now(self.history.store, OWN_FOLDER)
        size = self.options[partition_options.EXPIRATION_BATCH] or 0
        gone: list[ExpiredPartition] = []
        for number in range(1, _LOOKS + 1):
            plan = self._plan(look(), now, len(gone))
            step = size if size > 0 else max(len(plan.expired), 1)
            try:
                for start in range(0, len(plan.expired), step):
                    batch = plan.expired[start : start + step]
                    keys = frozenset(partition.key for partition in batch)
                    commit(ReplacedPartitions(self.schema, keys, older=plan.older))
                    gone += batch
                    self._report(keys)
            except CommitConflictError:
                if number == _LOOKS:
                    raise
                look = self.history.latest
            else:
                break
        return gone, plan.kept

    def _report(self, partitions: Iterable[bytes]) -> None:
        """Tell the catalog of partitions that went, unless a branch may still have them. What fails goes to the log."""
        history = self.history
        reporter = history.reporter
        if reporter is None or history.branch != MAIN_BRANCH or history.branches():
            return
        notes = afterwards("its catalog still has old partitions", lambda: reporter.dropped(partitions, self.schema))
        for note in notes:
            _LOG.warning("%s: %s", history.store.location, note)

    def _plan(self, latest: Snapshot | None, seconds: float, gone: int = 0) -> PartitionPlan:
        """What is too old at a time in seconds since 1970. So many partitions have gone in this run already."""
        age = self.options[partition_options.EXPIRATION_TIME]
        by_values = self.options[partition_options.EXPIRATION_STRATEGY] == "values-time"
        bound = int(seconds * 1000) - age
        judged = self._by_values(seconds, age) if by_values else by_update(bound, age)
        expired: list[ExpiredPartition] = []
        kept: list[Skipped] = []
        most = self.options[partition_options.EXPIRATION_MAX]
        for partition, newest in self._partitions(latest):
            is_old, reason = judged(partition.key, newest)
            if not is_old:
                kept.append(Skipped(partition.name, reason))
            elif gone + len(expired) >= most:
                kept.append(Skipped(partition.name, f"a run drops {most} ({partition_options.EXPIRATION_MAX.key})"))
            else:
                expired.append(
                    ExpiredPartition(partition.key, partition.name, reason, partition.files, partition.bytes)
                )
        return PartitionPlan(tuple(expired), tuple(kept), None if by_values else bound)

    def _partitions(self, latest: Snapshot | None) -> Iterator[tuple[ExpiredPartition, int]]:
        """The partitions that have files, in the order of their values, each with the time of its newest file."""
        if latest is None:
            return
        store = self.history.store
        postponed = self.options[opt.BUCKET] == POSTPONE_BUCKET
        figures: dict[bytes, tuple[int, int, int]] = {}
        for (key, bucket, _), summary in all_bucket_summaries(store, latest, data_manifests(store, latest)).items():
            if bucket != POSTPONE_BUCKET or postponed:  # an overwrite leaves rows that wait for another kind of bucket
                files, size, newest = figures.get(key, (0, 0, 0))
                figures[key] = files + summary.files, size + summary.bytes, max(newest, summary.newest)
        folders = PartitionFolders.of(store, self.schema, self.options)
        folders.look(figures)
        default = self.options[opt.PARTITION_DEFAULT_NAME]
        texts = {key: ",".join(default if text is None else text for text in self._texts(key)) for key in figures}
        for key in sorted(figures, key=texts.__getitem__):
            files, size, newest = figures[key]
            if files:
                yield ExpiredPartition(key, folders.of_row(key).rstrip("/"), "", files, size), newest

    def _texts(self, key: bytes) -> Sequence[str | None]:
        """The texts of a partition's values, as Java's `toString` writes them."""
        fields = self.schema.project(self.schema.partition_keys)
        values = decode_row(without_arity(key), [item.type for item in fields])
        return [
            None if value is None else spellings(value, item.type)[0]
            for item, value in zip(fields, values, strict=True)
        ]

    def _by_values(self, seconds: float, age: int) -> Callable[[bytes, int], tuple[bool, str]]:
        wall = datetime.datetime.fromtimestamp(seconds) - _EPOCH
        bound = (wall // datetime.timedelta(microseconds=1)) * 1000 - age * 1_000_000
        columns = self.schema.partition_keys
        times = PartitionTimes.of(columns, self.options)

        def judge(key: bytes, _: int) -> tuple[bool, str]:
            text = times.text(dict(zip(columns, self._texts(key), strict=True)))
            if text is None:
                return False, "its time is null: drop it by hand, or expire by update-time"
            time = times.time(text)
            if time is None:
                why = f"{text!r} is not a time as {partition_options.TIMESTAMP_FORMATTER.key} has it"
                return False, f"{why}: drop it by hand, or expire by update-time"
            return time < bound, _age(f"its time is {text}", age)

        return judge


def by_update(bound: int, age: int) -> Callable[[bytes, int], tuple[bool, str]]:
    """Tells of a partition, by the time of its newest file, whether it is older than `bound`, and why. Times are
    milliseconds since 1970, `age` is for the reason."""

    def judge(_: bytes, newest: int) -> tuple[bool, str]:
        if not newest:
            return False, "its files do not say when they were created"
        try:
            created = f"{datetime.datetime.fromtimestamp(newest / 1000, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
        except (OverflowError, ValueError, OSError):
            created = "a year that no calendar has"
        return newest < bound, _age(f"its newest file is of {created}", age)

    return judge


def _age(what: str, age: int) -> str:
    return f"{what}, and {counted(age / 86_400_000, 'day is', 'days are')} kept"
