"""What a rewrite works on: data files, delete files of either kind or manifests, by `lakebed.rewrite.what`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from lakebed.errors import CommitUnknownError, LakebedError, UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.rewrite.equality_deletes import EqualityDeleteRewrite
from lakebed.formats.iceberg.rewrite.manifests import rewrite_manifests, rewrite_what
from lakebed.formats.iceberg.rewrite.position_deletes import PositionDeleteRewrite
from lakebed.formats.iceberg.rewrite.run import IcebergRewrite
from lakebed.kernel.again import LOOKS, is_gone
from lakebed.kernel.engine import Engine
from lakebed.kernel.predicates.where import Where
from lakebed.model.upkeep import RewriteResult


class _Planned(Protocol):
    """A planned rewrite. `snapshot` is the one that it was made from, None for an empty table."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    def run(self, dry_run: bool = False, engine: Engine | None = None) -> RewriteResult: ...


def rewrite(
    operations: TableOperations,
    branch: str,
    where: Where,
    options: Mapping[str, object],
    commit: Mapping[str, str],
    delete_memory: int,
    dry_run: bool,
    engine: Engine | None,
) -> RewriteResult:
    """Run the rewrite that `options` choose. `commit` are the table's options of commits, `delete_memory` the bytes
    that deletes may take in a task. UsageError for a `where` with a rewrite of manifests."""
    what, options = rewrite_what(options)
    plan: Callable[[], _Planned]
    if what == "manifests":
        if where is not None:
            raise UsageError("a rewrite of manifests has no `where`", todo="Choose a partition spec with spec-id")
        return rewrite_manifests(operations, branch, {**commit, **options}, dry_run)
    if what == "position-deletes":
        plan = partial(PositionDeleteRewrite.planned, operations, branch, where, options, commit)
    elif what == "equality-deletes":
        plan = partial(EqualityDeleteRewrite.planned, operations, branch, where, options, commit, delete_memory)
    else:
        plan = partial(IcebergRewrite.planned, operations, branch, where, options, commit, delete_memory)
    return _run(operations, plan, dry_run, engine)


def _run(
    operations: TableOperations, plan: Callable[[], _Planned], dry_run: bool, engine: Engine | None
) -> RewriteResult:
    """Run a plan. If its snapshot has expired and files are gone, make the plan again, a few times: a run that finds
    this has committed nothing of what failed."""
    for look in range(LOOKS):
        planned = plan()
        try:
            return planned.run(dry_run, engine)
        except CommitUnknownError:
            raise
        except (FileNotFoundError, LakebedError) as error:
            if look == LOOKS - 1 or not is_gone(error) or not _has_expired(operations, planned.snapshot):
                raise
    raise AssertionError("unreachable")


def _has_expired(operations: TableOperations, snapshot: Snapshot | None) -> bool:
    with suppress(LakebedError):
        return snapshot is not None and snapshot.snapshot_id not in operations.load().metadata.snapshots
    return False
