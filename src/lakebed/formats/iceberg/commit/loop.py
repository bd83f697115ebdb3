"""The commit loop: attempts until one stands, certainty about the outcome, and the removal of leftovers.

Rules: the reference engine's SnapshotProducer.commit, and the properties `commit.retry.*` and `commit.status-check.*`.
A commit that loses the race for the next metadata loads the table again and makes another attempt, with all its checks.
When nobody reports an outcome, the loop looks for the snapshot in the table. The files of a failed commit are removed;
when the outcome stays unknown, all of them are kept.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.operations import (
    CalledLostError,
    Loaded,
    LostRaceError,
    OutcomeUnknownError,
    TableOperations,
)
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.updates import MetadataChange, TableUpdate, branch_at, ref_is, same_table
from lakebed.formats.iceberg.commit.attempt import Attempt, WrittenManifests, remove_unused
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.commit.summary import with_totals
from lakebed.formats.iceberg.data_files import DataFile
from lakebed.kernel import clock
from lakebed.kernel.again import is_gone
from lakebed.kernel.commit.retry import Lost, RetryPolicy, Won, with_retries
from lakebed.kernel.options import Options
from lakebed.model.commit import CommitResult, Outcome
from lakebed.version import VERSION

_EXPIRED = "the snapshot on which it was based expired meanwhile"


@dataclass(frozen=True, slots=True)
class Produced:
    """What one attempt makes: the operation, all manifests of the new snapshot, and the counts for its summary."""

    operation: str
    manifests: Sequence[ManifestFile]
    summary: Mapping[str, str] = field(default_factory=dict)


Producer = Callable[[Attempt], Produced]
"""Makes a snapshot on top of an attempt's head. It runs once per attempt. Raises CommitConflictError."""


def commit_snapshot(
    operations: TableOperations,
    produce: Producer,
    options: CommitOptions = CommitOptions(),  # noqa: B008  # frozen
    base: Loaded | None = None,
    appended: Sequence[DataFile] = (),
) -> CommitResult:
    """Commit one new snapshot. The first attempt is made on `base`, where the caller has just loaded it. The manifests
    of files that are only `appended` are made before this writer has its turn, in which others wait for it. Raises
    CommitConflictError, CommitUnknownError."""
    known = base or operations.load()
    commit = _Commit(operations, produce, options, known)
    commit.make_ahead(known.metadata, appended)
    snapshot_id = with_retries(commit.attempt, commit.policy, operations.name, commit.forget)
    return CommitResult(str(snapshot_id), Outcome.COMMITTED)


def change_metadata(
    operations: TableOperations,
    decide: Callable[[TableMetadata], MetadataChange],
    properties: Mapping[str, str] = {},
    base: Loaded | None = None,
) -> Loaded:
    """Change the metadata alone. `decide` gives requirements and updates for the metadata, anew in each attempt. The
    first attempt is made on `base`, where the caller has just loaded it.

    `properties` take precedence over the table's. Without updates nothing is committed. Raises CommitConflictError,
    CommitUnknownError.
    """
    known: Loaded | None = base or operations.load()
    assert known is not None
    operations.refuse_changes(known)
    policy = retry_policy(opt.properties(known.metadata.properties, properties))

    def forget() -> None:
        nonlocal known
        known = None

    def attempt(number: int) -> Won[Loaded] | Lost:
        base = known or operations.load()
        forget()
        try:
            requirements, updates = decide(base.metadata)
        except LakebedError as error:
            if is_gone(error) and number < policy.max_retries and _moved(operations, base):
                return Lost(_EXPIRED)
            raise
        if not updates:
            return Won(base)
        try:
            return Won(operations.commit(base, [*same_table(base.metadata), *requirements], updates))
        except CalledLostError as lost:
            now = _looked(operations, lost)
            return Lost(str(lost)) if decide(now.metadata)[1] else Won(now)
        except LostRaceError as lost:
            return Lost(str(lost))
        except OutcomeUnknownError as error:
            raise _unknown(operations, error) from error

    return with_retries(attempt, policy, operations.name, forget)


def retry_policy(options: Options) -> RetryPolicy:
    """The retry policy that the properties `commit.retry.*` set."""
    low, high, timeout = options[opt.RETRY_MIN_WAIT], options[opt.RETRY_MAX_WAIT], options[opt.RETRY_TIMEOUT]
    keys = (opt.RETRIES.key, opt.RETRY_TIMEOUT.key)
    return RetryPolicy(options[opt.RETRIES], low / 1000, high / 1000, timeout / 1000, keys)


class _Commit:
    """One commit over all its attempts."""

    def __init__(self, operations: TableOperations, produce: Producer, options: CommitOptions, base: Loaded) -> None:
        self._operations, self._produce, self._options = operations, produce, options
        self._written = WrittenManifests()
        self._base: Loaded | None = base
        operations.refuse_changes(base)
        self._id = _new_snapshot_id(base.metadata)
        self.policy = retry_policy(self._properties(base.metadata))

    def forget(self) -> None:
        """Let the next attempt look at the table anew."""
        self._base = None

    def make_ahead(self, metadata: TableMetadata, appended: Sequence[DataFile]) -> None:
        """Make the manifests of appended files, which every attempt uses. A disk has them then; a remote store takes
        them together with the manifest list."""
        files = self._operations.files
        if not appended or not {file.spec_id for file in appended} <= set(metadata.specs):
            return
        try:
            ahead = Attempt(files, metadata, None, self._id, self._properties(metadata), self._written)
            ahead.new_manifests(appended, 0)
            if files.home.at_once == 1:
                files.write_many(self._written.take([*self._written.waiting]))
        except Exception:
            self._remove_all()
            raise

    def attempt(self, number: int) -> Won[int] | Lost:
        """Make attempt `number`, from 0. When the commit fails for good, its files are removed."""
        base: Loaded | None = None
        try:
            base = self._base or self._operations.load()
            self.forget()
            outcome = self._try(base, number)
        except CommitUnknownError:
            raise
        except LakebedError as error:
            if is_gone(error) and number < self.policy.max_retries and _moved(self._operations, base):
                return Lost(_EXPIRED)
            self._remove_all()
            raise
        if isinstance(outcome, Lost) and number >= self.policy.max_retries:
            self._remove_all()
        return outcome

    def _try(self, base: Loaded, number: int) -> Won[int] | Lost:
        metadata, branch = base.metadata, self._options.branch
        if self._id in metadata.snapshots:  # an attempt that a catalog's client reported as lost: its files stay
            return Won(self._id)
        properties = self._properties(metadata)
        ref = metadata.refs.get(branch)
        self._refuse_missing(metadata)
        head = metadata.parent_on(branch, self._options.start or MAIN)
        attempt = Attempt(self._operations.files, metadata, head, self._id, properties, self._written)
        produced = self._produce(attempt)
        summary = {
            "operation": produced.operation,
            **self._options.summary,
            **with_totals(produced.summary, head.summary if head is not None else None),
            **_engine(),
        }
        snapshot = attempt.snapshot(produced.manifests, summary, number + 1)
        requirements = [*same_table(metadata), ref_is(branch, ref.snapshot_id if ref is not None else None)]
        updates: list[TableUpdate] = [
            {"action": "add-snapshot", "snapshot": snapshot},
            *(() if self._options.staged else [branch_at(metadata, branch, self._id)]),
            *self._options.also(metadata, snapshot),
        ]
        needed = [*(manifest.path for manifest in produced.manifests), snapshot["manifest-list"]]
        try:
            self._operations.commit(base, requirements, updates, self._written.take(needed))
        except CalledLostError as lost:
            now = _looked(self._operations, lost)
            if self._id not in now.metadata.snapshots:
                self._base = now if number == 0 else None  # only the first retry comes at once
                return Lost(str(lost))
        except LostRaceError as lost:
            return Lost(str(lost))
        except OutcomeUnknownError as error:
            if not self._stands(properties):
                raise _unknown(self._operations, error) from error
        remove_unused(self._operations.files, self._written, produced.manifests, snapshot["manifest-list"])
        return Won(self._id)

    def _refuse_missing(self, metadata: TableMetadata) -> None:
        """CommitConflictError for a branch that is not there and that the commit does not create."""
        branch = self._options.branch
        if branch not in metadata.refs and branch != MAIN and not self._options.start:
            raise CommitConflictError(
                f"there is no branch {branch!r} any more",
                table=self._operations.name,
                why="it was deleted after this commit was begun",
                todo=f"Create it again with table.branch({branch!r}), and repeat the commit",
            )

    def _remove_all(self) -> None:
        written, self._written = self._written, WrittenManifests()  # a later attempt must not name what is removed
        remove_unused(self._operations.files, written, (), None)

    def _stands(self, properties: Options) -> bool:
        """Whether the snapshot is in the table after all. It looks a few times, for the table may be out of reach, and
        not again when a quarter of the store's patience is over."""
        wait = properties[opt.CHECK_MIN_WAIT]
        until = clock.steady() + self._operations.files.home.patience / 4
        for check in range(properties[opt.CHECKS] + 1):
            if check:
                clock.pause(wait / 1000)
                wait = min(wait * 2, properties[opt.CHECK_MAX_WAIT])
            with suppress(LakebedError, FileNotFoundError):
                return self._id in self._operations.load().metadata.snapshots
            if clock.steady() > until:
                break
        return False

    def _properties(self, metadata: TableMetadata) -> Options:
        return opt.properties(metadata.properties, self._options.properties)


def _moved(operations: TableOperations, base: Loaded | None) -> bool:
    """Whether the table has newer metadata than an attempt was based on."""
    with suppress(LakebedError):
        return base is not None and operations.load().location != base.location
    return False


def _looked(operations: TableOperations, lost: LostRaceError) -> Loaded:
    """The table after a race that a catalog calls lost. CommitUnknownError where it cannot be read."""
    try:
        return operations.load()
    except LakebedError as error:
        raise _unknown(operations, error) from lost


def _unknown(operations: TableOperations, error: Exception) -> CommitUnknownError:
    return CommitUnknownError(
        "it is not known whether the commit landed",
        table=operations.name,
        why=str(error),
        todo="Its files are kept. Look at table.history() before you commit again; orphan-file removal cleans up any "
        "leftovers",
    )


def _new_snapshot_id(metadata: TableMetadata) -> int:
    """A random positive number that is no snapshot id of the table."""
    while True:
        number = uuid.uuid4().int
        snapshot_id = (number >> 64 ^ number) & 0x7FFF_FFFF_FFFF_FFFF
        if snapshot_id and snapshot_id not in metadata.snapshots:
            return snapshot_id


@functools.cache
def _engine() -> Mapping[str, str]:
    """Who wrote the snapshot, under the keys of the reference engine's integrations."""
    return {"engine-name": "lakebed", "engine-version": VERSION}
