"""Options and table properties of Iceberg that lakebed does not act on.

Some only tune performance: lakebed accepts and ignores them. The others change which rows are seen or what is written:
lakebed refuses them by name. Source: the reference engine's SparkReadOptions, SparkWriteOptions and TableProperties of
its newest release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakebed.errors import UnsupportedError
from lakebed.kernel.options import Option, idle_option

TUNING: tuple[Option[str], ...] = tuple(
    idle_option(key, "Accepted without effect: it tunes Iceberg's own engine.")
    for key in [
        "lookback",
        "file-open-cost",
        "vectorization-enabled",
        "batch-size",
        "locality",
        "aggregate-push-down-enabled",
        "async-micro-batch-planning-enabled",
        "async-queue-preload-file-limit",
        "async-queue-preload-row-limit",
        "streaming-snapshot-polling-interval-ms",
        "fanout-enabled",
        "check-ordering",
        "advisory-partition-size",
        "use-merge-append-for-streaming",
        "use-table-distribution-and-ordering",
        "shred-variants",
        "variant-inference-buffer-size",
    ]
)
"""Options of Spark's reads and writes that do not change any row."""


def _refused(key: str, instead: str, harmless: str = "", *aliases: str) -> Option[str]:
    return Option(key, _only(harmless), "", "Refused.", instead, aliases)


def _only(harmless: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not harmless or text.lower() != harmless:
            raise ValueError(text)
        return text

    return parse


REFUSED: tuple[Option[str], ...] = (
    _refused("start-timestamp", "nothing: use table.changes(after=...)"),
    _refused("end-timestamp", "nothing: use table.changes(until=...)"),
    _refused("scan-task-set-id", "nothing: only Iceberg's own actions have task sets"),
    _refused("rewritten-file-scan-task-set-id", "nothing: only Iceberg's own actions have task sets"),
    _refused("check-nullability", "true: nulls are always checked", "true"),
    _refused("output-spec-id", "nothing: rows are written in the table's current partition spec"),
    _refused("output-sort-order-id", "nothing: rows are written in the table's current sort order"),
    _refused("isolation-level", "nothing: every commit looks for conflicts"),
    _refused("validate-from-snapshot-id", "nothing: conflicts are looked for since the write was planned"),
    _refused("delete-format", "nothing: delete files have the format of data files"),
    _refused("target-delete-file-size-bytes", "nothing: size delete files with a rewrite of position deletes"),
    _refused("compression-codec", "nothing: set the table property write.FORMAT.compression-codec"),
    _refused("compression-level", "nothing: set the table property write.FORMAT.compression-level"),
    _refused("compression-strategy", "nothing: set the table property write.orc.compression-strategy"),
)
"""Options of Spark's reads and writes that would change rows or files. The text says what is expected instead."""

RESERVED = (
    "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary", "current-snapshot-timestamp-ms",
    "current-schema", "default-partition-spec", "default-sort-order",
)  # fmt: skip
"""Properties that metadata has fields for, so that no table may have them."""
_ENCRYPTION = ("parquet.crypto.", "parquet.encryption.", "orc.encrypt", "orc.mask", "orc.key.provider")
"""Prefixes of properties that the reference engine passes to file formats, and with which these encrypt."""


def refuse_plain_files(properties: Mapping[str, str], table: str = "") -> None:
    """UnsupportedError for a table whose files are to be encrypted by their format."""
    for key, value in properties.items():
        if key.lower().startswith(_ENCRYPTION) and value:
            raise UnsupportedError(
                f"the table property {key!r} asks for encrypted files, which lakebed does not write",
                table=table,
                todo="Write with Iceberg's own engine",
            )
