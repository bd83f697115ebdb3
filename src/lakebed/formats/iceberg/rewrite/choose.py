"""What a rewrite works on: data files, delete files of either kind or manifests, by `lakebed.rewrite.what`."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.errors import UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.rewrite.equality_deletes import EqualityDeleteRewrite
from lakebed.formats.iceberg.rewrite.manifests import rewrite_manifests, rewrite_what
from lakebed.formats.iceberg.rewrite.position_deletes import PositionDeleteRewrite
from lakebed.formats.iceberg.rewrite.run import IcebergRewrite
from lakebed.kernel.engine import Engine
from lakebed.kernel.predicates.where import Where
from lakebed.model.upkeep import RewriteResult


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
    if what == "manifests":
        if where is not None:
            raise UsageError("a rewrite of manifests has no `where`", todo="Choose a partition spec with spec-id")
        return rewrite_manifests(operations, branch, {**commit, **options}, dry_run)
    if what == "position-deletes":
        return PositionDeleteRewrite.planned(operations, branch, where, options, commit).run(dry_run, engine)
    if what == "equality-deletes":
        equality = EqualityDeleteRewrite.planned(operations, branch, where, options, commit, delete_memory)
        return equality.run(dry_run, engine)
    return IcebergRewrite.planned(operations, branch, where, options, commit, delete_memory).run(dry_run, engine)
