"""A read of a branch with another one to fall back on: partitions that the branch does not have come from the other one
(`scan.fallback-branch`).

Rules: Paimon's FallbackReadFileStoreTable. A partition comes whole from one of the two. Both have the same columns. A
read of an older snapshot takes the other branch as it was at that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import NotInHistoryError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.read.plan import ReadRequest, plan_files, seen_files
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.formats.paimon.snapshot import History
from lakebed.model.split import Split
from lakebed.verbs.read import ReadPlan

_OF_ONE_BRANCH = (opt.BRANCH.key, opt.BUCKET.key, opt.FALLBACK_BRANCH.key)


@dataclass(frozen=True, slots=True)
class BranchSplit(Split):
    """A split of one of two branches."""

    split: PaimonSplit
    is_fallback: bool


@dataclass(frozen=True, slots=True)
class BranchReader:
    """The function of a plan that reads one split. Picklable."""

    own: BucketReader
    fallback: BucketReader

    def __call__(self, split: BranchSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        return (self.fallback if split.is_fallback else self.own)(split.split)


def plan_with_fallback(
    request: ReadRequest, snapshot: Snapshot | None, given: Mapping[str, str], newest: bool
) -> ReadPlan[BranchSplit]:
    """Plan a read of a snapshot of the request's branch, and of the partitions that only the other branch has.

    `given` are the caller's own options, and `newest` says whether the snapshot is the newest one. Raises
    TableNotFoundError for a branch that is not there, UnsupportedError for one with other columns.
    """
    other = History(request.history.store, request.options[opt.FALLBACK_BRANCH])
    schema = other.latest_schema()
    _check_columns(request, schema, other.branch)
    options = {key: value for key, value in given.items() if key.lower() not in _OF_ONE_BRANCH}
    fallback = ReadRequest(
        other, schema, opt.table_options(schema.options, options), request.columns, request.predicate
    )
    entries, deletions = seen_files(request, snapshot)
    own_partitions = {*entries.partitions[1]}
    seen, other_deletions = seen_files(fallback, other.latest() if newest else _at_that_time(other, snapshot))
    missing = seen.in_buckets(lambda keys, _: np.array([key not in own_partitions for key in keys], np.bool_))
    plans = plan_files(request, entries, deletions), plan_files(fallback, missing, other_deletions)
    splits = tuple(
        BranchSplit(f"{split.group}@{other.branch}" if is_fallback else split.group, split.size, split, is_fallback)
        for plan, is_fallback in zip(plans, (False, True), strict=True)
        for split in plan.splits
    )
    own = plans[0]
    return ReadPlan(
        own.schema, splits, BranchReader(request.reader, fallback.reader), own.warnings, own.at_once, own.in_flight
    )


def _check_columns(request: ReadRequest, other: TableSchema, branch: str) -> None:
    own = request.schema
    same = own.partition_keys == other.partition_keys and own.names == other.names
    if same and all(a.type.required() == b.type.required() for a, b in zip(own.fields, other.fields, strict=True)):
        return
    raise UnsupportedError(
        f"branch {branch!r} has other columns than {request.history.branch!r}",
        table=request.table,
        why=f"a read falls back on it for missing partitions ({opt.FALLBACK_BRANCH.key})",
        todo="Give both branches the same columns",
    )


def _at_that_time(other: History, snapshot: Snapshot | None) -> Snapshot | None:
    """The snapshot of the other branch when `snapshot` was made; its oldest one where all are newer."""
    if snapshot is None:
        return other.latest()
    try:
        return other.at_time(snapshot.time_millis)
    except NotInHistoryError:
        return other.earliest()
