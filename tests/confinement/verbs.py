"""What is done with a table whose files are hostile. Each verb opens the table anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

import lakebed
import lakebed.hudi

Verb = Callable[[Any, pa.Table], object]
"""From an open table, and rows that fit it."""


def _whole(reader: Any) -> int:
    return int(reader.read_all().num_rows)


def _metadata(table: Any, _: pa.Table) -> None:
    for name in table.metadata_names:
        _whole(table.metadata(name))


def _first(table: Any) -> str:
    return str(next((instant.time for instant in table.history()), "1"))


def _last(table: Any) -> str:
    return str(next((instant.time for instant in reversed(table.history())), "1"))


READS: Mapping[str, Verb] = {
    "read": lambda table, rows: _whole(table.read()),
    "changes": lambda table, rows: _whole(table.changes()),
    "history": lambda table, rows: table.history(archived=table.format == "hudi"),
    "inspect": lambda table, rows: table.inspect(),
    "metadata": _metadata,
    "refs": lambda table, rows: table.refs(),
}
"""Those that change nothing."""
COMMON: Mapping[str, Verb] = {
    "append": lambda table, rows: table.write(rows),
    "overwrite": lambda table, rows: table.write(rows, "overwrite"),
    "upsert": lambda table, rows: table.write(rows, "upsert"),
    "delete": lambda table, rows: table.write(rows, "delete"),
    "rollback": lambda table, rows: table.rollback(_first(table)),
    "tag": lambda table, rows: table.tag("mine"),
}
CHANGES: Mapping[str, Mapping[str, Verb]] = {
    "hudi": {
        **COMMON,
        "clean": lambda table, rows: table.expire(
            options={"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
        ),
        "failed writes": lambda table, rows: table.expire(options={"lakebed.expire.what": "failed-writes"}),
        "orphan files": lambda table, rows: table.expire(options={"lakebed.expire.what": "orphan-files"}),
        "old partitions": lambda table, rows: table.expire(
            options={"lakebed.expire.what": "partitions", "hoodie.partition.ttl.strategy.days.retain": "1"}
        ),
        "delete partitions": lambda table, rows: table.write(
            rows.schema.empty_table(),
            "delete",
            {
                "hoodie.datasource.write.operation": "delete_partition",
                "hoodie.datasource.write.partitions.to.delete": "*",
            },
        ),
        "rewrite": lambda table, rows: table.rewrite(),
        "clustering": lambda table, rows: table.rewrite(options={"lakebed.rewrite.what": "clustering"}),
        "archive": lambda table, rows: table.archive(
            options={
                "hoodie.keep.min.commits": "2",
                "hoodie.keep.max.commits": "3",
                "hoodie.clean.commits.retained": "1",
            }
        ),
        "post-commit": lambda table, rows: lakebed.hudi.post_commit(table, _last(table)),
        "delete tag": lambda table, rows: [table.delete_tag(ref.name) for ref in table.refs()],
    },
    "paimon": {
        **COMMON,
        "alter": lambda table, rows: table.alter(lakebed.add_column("more", "int")),
        "expire": lambda table, rows: table.expire(
            options={
                "snapshot.num-retained.min": "1",
                "snapshot.num-retained.max": "1",
                "snapshot.time-retained": "1 s",
            }
        ),
        "orphan files": lambda table, rows: table.expire(
            options={"lakebed.expire.what": "orphan-files", "lakebed.expire.orphans.after": "1 h"}
        ),
        "old partitions": lambda table, rows: table.expire(
            options={
                "lakebed.expire.what": "partitions",
                "partition.expiration-time": "1 s",
                "partition.expiration-strategy": "update-time",
            }
        ),
        "rewrite": lambda table, rows: table.rewrite(),
        "manifests": lambda table, rows: table.rewrite(options={"lakebed.rewrite.what": "manifests"}),
        "fast-forward": lambda table, rows: [
            table.fast_forward(ref.name) for ref in table.refs() if ref.kind == "branch" and ref.name != "main"
        ],
        "delete tag": lambda table, rows: [table.delete_tag(ref.name) for ref in table.refs() if ref.kind == "tag"],
        "branch": lambda table, rows: table.branch("other"),
        "delete branch": lambda table, rows: [
            table.delete_branch(ref.name) for ref in table.refs() if ref.kind == "branch" and ref.name != "main"
        ],
    },
    "iceberg": {
        **COMMON,
        "alter": lambda table, rows: table.alter(lakebed.add_column("more", "int")),
        "repair": lambda table, rows: table.repair(),
        "expire": lambda table, rows: table.expire(options={"older-than": "2100-01-01", "retain-last": "1"}),
        "orphan files": lambda table, rows: table.expire(
            options={"expire-snapshots": "false", "remove-orphan-files": "true"}
        ),
        "rewrite": lambda table, rows: table.rewrite(options={"min-input-files": "2"}),
        "manifests": lambda table, rows: table.rewrite(options={"lakebed.rewrite.what": "manifests"}),
        "position deletes": lambda table, rows: table.rewrite(
            options={"lakebed.rewrite.what": "position-deletes", "rewrite-all": "true"}
        ),
        "delete tag": lambda table, rows: table.delete_tag("first"),
        "branch": lambda table, rows: table.branch("other"),
        "delete branch": lambda table, rows: table.delete_branch("side"),
        "relocate": lambda table, rows: table.relocate(),
        "statistics": lambda table, rows: (table.compute_table_stats(), table.compute_partition_stats()),
    },
}
"""Those that change a table, by format: each needs a copy of its own."""
