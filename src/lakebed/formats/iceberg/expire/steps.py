"""The steps of an expiry that options ask for: old snapshots, then orphan files."""

from __future__ import annotations

from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.expire.options import EXPIRE_SNAPSHOTS, REMOVE_ORPHANS
from lakebed.formats.iceberg.expire.orphans import remove_orphans
from lakebed.formats.iceberg.expire.run import expire
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult


def expire_by_steps(operations: TableOperations, given: Options, dry_run: bool) -> ExpireResult:
    """Run the steps that the options `given` name. The result has what all of them did."""
    loaded = operations.load()
    operations.refuse_changes(loaded)
    results: list[ExpireResult] = []
    if given[EXPIRE_SNAPSHOTS]:
        results.append(expire(operations, given, dry_run, loaded))
    if given[REMOVE_ORPHANS]:
        results.append(remove_orphans(operations, given, dry_run, loaded))
    return ExpireResult(
        tuple(snapshot for result in results for snapshot in result.expired),
        tuple(path for result in results for path in result.deleted_files),
        tuple(kept for result in results for kept in result.kept),
        dry_run,
        tuple(note for result in results for note in result.notes),
    )
