"""The kinds of expiry: of snapshots, of partitions, and of orphan files; and those that follow the commits of a writer.

Rules for the latter: Paimon's TableCommitImpl. A table that is `write-only` has none.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon import partition_options
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.options import ExpiryAfterCommit, PartitionExpiryAfterCommit, TagsAfterCommit
from lakebed.formats.paimon.expire.last_look import LastLook
from lakebed.formats.paimon.expire.options import WHAT
from lakebed.formats.paimon.expire.orphans import remove_orphans
from lakebed.formats.paimon.expire.partitions import PartitionExpiry
from lakebed.formats.paimon.expire.run import SnapshotExpiry
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.tags.after_commit import TagsOfCommits
from lakebed.formats.paimon.tags.lifetimes import TagLifetimes
from lakebed.formats.paimon.tags.names import Tags
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult


def expire(
    history: History, schema: TableSchema, options: Options, own: Options, given: Iterable[str], dry_run: bool
) -> ExpireResult:
    """Expire what `own`, the options of the call, name. `given` are the keys of all options that the caller gave."""
    match own[WHAT]:
        case "orphan-files":
            return remove_orphans(history, schema, options, own, dry_run)
        case "partitions":
            return PartitionExpiry(history, schema, options).run(dry_run)
        case "tags":
            return TagLifetimes(Tags(history, schema, options, given)).expire(dry_run)
    return SnapshotExpiry(history, schema, options).run(dry_run)


def after_commits(
    history: History, schema: TableSchema, options: Options, looked: LastLook, given: Iterable[str]
) -> tuple[ExpiryAfterCommit | None, PartitionExpiryAfterCommit | None, TagsAfterCommit | None]:
    """What a writer expires after its commits: snapshots, partitions where the table asks for that, and tags, which it
    makes too. `given` are the keys of the options that the caller gave."""
    if options[opt.WRITE_ONLY]:
        return None, None, None
    partitions = None
    if options[partition_options.EXPIRATION_TIME] is not None and schema.partition_keys:
        partitions = PartitionExpiry(history, schema, options, looked)
    return SnapshotExpiry(history, schema, options), partitions, TagsOfCommits.of(history, schema, options, given)
