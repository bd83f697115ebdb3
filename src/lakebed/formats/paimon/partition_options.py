"""The options of whole partitions, with the keys and defaults of Paimon's CoreOptions: when they expire, and how they
are marked as done.

They are options of a table like those of `options`, which includes them.
"""

from __future__ import annotations

from typing import Any

from lakebed.kernel.options import Option, at_least, boolean, duration_ms, one_of

EXPIRATION_TIME: Option[Any] = Option(
    "partition.expiration-time",
    duration_ms,
    None,
    "Partitions expire when they are older than this; by default none does.",
)
EXPIRATION_STRATEGY = Option(
    "partition.expiration-strategy",
    one_of("values-time", "update-time"),
    "values-time",
    "How old a partition is: by the time in its values, or by its newest file.",
)
TIMESTAMP_PATTERN = Option(
    "partition.timestamp-pattern",
    str,
    "",
    "The time of a partition from its values, such as `$dt $hour:00:00`; by default the value of the first column.",
)
TIMESTAMP_FORMATTER = Option(
    "partition.timestamp-formatter",
    str,
    "",
    "How that time is written, such as `yyyyMMdd`: the letters y, u, M, d, H, m, s and S of Java's DateTimeFormatter. "
    "By default `yyyy-MM-dd HH:mm:ss` or `yyyy-MM-dd`.",
)
EXPIRATION_MAX = Option("partition.expiration-max-num", at_least(1), 100, "Partitions that expire at a time at most.")
EXPIRATION_BATCH: Option[Any] = Option(
    "partition.expiration-batch-size", int, None, "Partitions that expire in one commit; by default all of them."
)
EXPIRATION_INTERVAL = Option(
    "partition.expiration-check-interval",
    duration_ms,
    3_600_000,
    "How long after one look for expired partitions the commits of an open table look again: 1 h. `table.expire` looks "
    "each time.",
)
CHECK_AT_END = Option(
    "end-input.check-partition-expire",
    boolean,
    False,
    "Each batch write looks for expired partitions after its commit.",
)
MARK_DONE_ACTION = Option(
    "partition.mark-done-action",
    str,
    "success-file",
    "What `table.mark_partition_done` does, separated by commas: `success-file`. The others are refused.",
)

PARTITION_OPTIONS: tuple[Option[Any], ...] = tuple(
    value for value in list(vars().values()) if isinstance(value, Option)
)
"""All options of this module, in the order of the reference page."""
