"""The kinds of expiry: of snapshots, of partitions, and of orphan files; and those that follow the commits of a writer.

Rules for the latter: Paimon's TableCommitImpl. A table that is `write-only` has none.
"""

from __future__ import annotations

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon import partition_options
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.options import ExpiryAfterCommit, PartitionExpiryAfterCommit
from lakebed.formats.paimon.expire.options import WHAT
from lakebed.formats.paimon.expire.orphans import remove_orphans
from lakebed.formats.paimon.expire.partitions import LastLook, PartitionExpiry
from lakebed.formats.paimon.expire.run import SnapshotExpiry
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult


def expire(history: History, schema: TableSchema, options: Options, own: Options, dry_run: bool) -> ExpireResult:
    """Expire what `own`, the options of the call, name."""
    match own[WHAT]:
        case "orphan-files":
            return remove_orphans(history, schema, options, own, dry_run)
        case "partitions":
            return PartitionExpiry(history, schema, options).run(dry_run)
    return SnapshotExpiry(history, schema, options).run(dry_run)


def after_commits(
    history: History, schema: TableSchema, options: Options, looked: LastLook
) -> tuple[ExpiryAfterCommit | None, PartitionExpiryAfterCommit | None]:
    """What a writer expires after its commits: snapshots, and partitions where the table asks for that."""
    if options[opt.WRITE_ONLY]:
        return None, None
    partitions = None
    if options[partition_options.EXPIRATION_TIME] is not None and schema.partition_keys:
        partitions = PartitionExpiry(history, schema, options, looked)
    return SnapshotExpiry(history, schema, options), partitions
