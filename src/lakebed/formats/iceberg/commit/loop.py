"""How a commit is brought through: attempts until one stands, its outcome made sure of, and its leftovers removed.

Rules: the reference engine's SnapshotProducer.commit and `commit.retry.*`, `commit.status-check.*`. A commit that loses
the race for the next metadata looks again and tries again, with all its checks. One whose outcome nobody told looks
whether its snapshot is in the table. What came to nothing is removed; after an unknown outcome all of it stays.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakebed.errors import CommitUnknownError, LakebedError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.operations import Loaded, LostRaceError, OutcomeUnknownError, TableOperations
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import MAIN, Document, TableMetadata
from lakebed.formats.iceberg.codec.updates import MetadataChange, TableUpdate, ref_is, same_table
from lakebed.formats.iceberg.commit.attempt import Attempt, Work, clean
from lakebed.formats.iceberg.commit.summary import with_totals
from lakebed.kernel.again import is_gone
from lakebed.kernel.commit.retry import Lost, RetryPolicy, Won, with_retries
from lakebed.kernel.options import Options
from lakebed.model.commit import CommitResult, Outcome
from lakebed.version import VERSION


@dataclass(slots=True)
class Produced:
    """What one attempt makes of the snapshot before: all manifests of the new one, and the counts of its summary."""

    operation: str
    manifests: list[ManifestFile]
    summary: dict[str, str] = field(default_factory=dict)


Producer = Callable[[Attempt], Produced]
"""Makes a snapshot on top of an attempt's head; run again by each attempt. Raises CommitConflictError."""


Also = Callable[[TableMetadata, Document], Sequence[TableUpdate]]
"""From the metadata that a snapshot is added to, and the snapshot: more updates of the same commit."""


def _nothing_more(metadata: TableMetadata, snapshot: Document) -> Sequence[TableUpdate]:
    return ()


def commit_snapshot(
    operations: TableOperations, produce: Producer, branch: str = MAIN, properties: Mapping[str, str] = {},
    options: Mapping[str, str] = {}, stage_only: bool = False, also: Also = _nothing_more,
) -> CommitResult:  # fmt: skip
    """One new snapshot at the head of a branch, which is made when it does not exist yet.

    `properties` go into the snapshot's summary; `options` lie over the table's properties. `stage_only` adds the
    snapshot without moving the branch. `also` gives updates that are published with the snapshot, or not at all.
    Raises CommitConflictError, CommitUnknownError.
    """
    commit = _Commit(operations, produce, branch, properties, options, stage_only, also)
    snapshot_id = with_retries(commit.attempt, commit.policy, operations.name)
    return CommitResult(str(snapshot_id), Outcome.COMMITTED)


def change_metadata(
    operations: TableOperations, decide: Callable[[TableMetadata], MetadataChange],
    options: Mapping[str, str] = {},
) -> Loaded:  # fmt: skip
    """Changes of the metadata alone: `decide` gives requirements and updates for what it sees, anew for each attempt.

    Without updates nothing is committed. Raises CommitConflictError, CommitUnknownError.
    """
    first = operations.load()
    operations.refuse_changes(first)
    policy = retry_policy(opt.properties(first.metadata.properties, options))

    def attempt(number: int) -> Won[Loaded] | Lost:
        base = operations.load()
        requirements, updates = decide(base.metadata)
        if not updates:
            return Won(base)
        try:
            return Won(operations.commit(base, [*same_table(base.metadata), *requirements], updates))
        except LostRaceError as lost:
            return Lost(str(lost))
        except OutcomeUnknownError as error:
            raise _unknown(operations, error) from error

    return with_retries(attempt, policy, operations.name)


def retry_policy(options: Options) -> RetryPolicy:
    """The table's own rule for retries."""
    low, high, timeout = options[opt.RETRY_MIN_WAIT], options[opt.RETRY_MAX_WAIT], options[opt.RETRY_TIMEOUT]
    keys = (opt.RETRIES.key, opt.RETRY_TIMEOUT.key)
    return RetryPolicy(options[opt.RETRIES], low / 1000, high / 1000, timeout / 1000, keys)


class _Commit:
    """One commit over all its attempts."""

    def __init__(
        self, operations: TableOperations, produce: Producer, branch: str, properties: Mapping[str, str],
        options: Mapping[str, str], stage_only: bool, also: Also,
    ) -> None:  # fmt: skip
        self._access, self._produce, self._branch, self._also = operations, produce, branch, also
        self._properties, self._given, self._stage_only = properties, options, stage_only
        self._work = Work()
        self._base: Loaded | None = operations.load()
        operations.refuse_changes(self._base)
        self._id = _new_snapshot_id(self._base.metadata)
        self.policy = retry_policy(self._options(self._base.metadata))

    def attempt(self, number: int) -> Won[int] | Lost:
        """Try number `number`; files of a commit that fails for good are removed."""
        base: Loaded | None = None
        try:
            base = self._base or self._access.load()
            self._base = None
            outcome = self._try(base, number)
        except CommitUnknownError:
            raise
        except LakebedError as error:
            if is_gone(error) and number < self.policy.max_retries and self._moved(base):
                return Lost("the snapshot on which it was based expired meanwhile")
            clean(self._access.files, self._work, (), None)
            raise
        if isinstance(outcome, Lost) and number >= self.policy.max_retries:
            clean(self._access.files, self._work, (), None)
        return outcome

    def _try(self, base: Loaded, number: int) -> Won[int] | Lost:
        metadata = base.metadata
        if self._id in metadata.snapshots:  # an attempt that a catalog's client called lost: its files stay as they are
            return Won(self._id)
        options = self._options(metadata)
        ref = metadata.refs.get(self._branch)
        head = metadata.head(self._branch) if ref is not None else metadata.head(MAIN)
        attempt = Attempt(self._access.files, metadata, head, self._id, options, self._work)
        made = self._produce(attempt)
        summary = {
            "operation": made.operation, **self._properties,
            **with_totals(made.summary, head.summary if head is not None else None), **_engine(),
        }  # fmt: skip
        snapshot = attempt.snapshot(made.manifests, summary, number + 1)
        updates: list[TableUpdate] = [{"action": "add-snapshot", "snapshot": snapshot}]
        requirements = [*same_table(metadata)]
        if not self._stage_only:
            requirements.append(ref_is(self._branch, ref.snapshot_id if ref is not None else None))
            updates.append(
                {"action": "set-snapshot-ref", "ref-name": self._branch, "type": "branch", "snapshot-id": self._id}
            )
        updates += self._also(metadata, snapshot)
        try:
            self._access.commit(base, requirements, updates)
        except LostRaceError as lost:
            return Lost(str(lost))
        except OutcomeUnknownError as error:
            if not self._stands(options):
                raise _unknown(self._access, error) from error
        clean(self._access.files, self._work, made.manifests, snapshot["manifest-list"])
        return Won(self._id)

    def _moved(self, base: Loaded | None) -> bool:
        """Whether the table went on from what an attempt was made on."""
        with suppress(LakebedError):
            return base is not None and self._access.load().location != base.location
        return False

    def _stands(self, options: Options) -> bool:
        """Whether the snapshot is in the table after all: looked for a few times, for the table may be out of reach."""
        wait = options[opt.CHECK_MIN_WAIT]
        for check in range(options[opt.CHECKS] + 1):
            if check:
                time.sleep(wait / 1000)
                wait = min(wait * 2, options[opt.CHECK_MAX_WAIT])
            with suppress(LakebedError, FileNotFoundError):
                return self._id in self._access.load().metadata.snapshots
        return False

    def _options(self, metadata: TableMetadata) -> Options:
        return opt.properties(metadata.properties, self._given)


def _unknown(operations: TableOperations, error: Exception) -> CommitUnknownError:
    return CommitUnknownError(
        "it is not known whether the commit landed", table=operations.name, why=str(error),
        todo="Its files are kept. Look at table.history() before you commit again; what it left behind, the removal of "
        "orphan files takes away",
    )  # fmt: skip


def _new_snapshot_id(metadata: TableMetadata) -> int:
    """A random positive number that no snapshot of the table has."""
    while True:
        number = uuid.uuid4().int
        found = (number >> 64 ^ number) & 0x7FFF_FFFF_FFFF_FFFF
        if found and found not in metadata.snapshots:
            return found


@functools.cache
def _engine() -> Mapping[str, str]:
    """Who wrote a snapshot, in the words of the reference engine's integrations."""
    return {"engine-name": "lakebed", "engine-version": VERSION}
