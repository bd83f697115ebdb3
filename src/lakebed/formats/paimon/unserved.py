"""Options of Paimon that change which rows are read or written, and that lakebed does not support.

Rules: Paimon's CoreOptions (the newest release), AbstractDataTableScan and the writers. lakebed refuses such an option
by name before it reads or writes a row, whether the caller gave the option or the table's schema has it. Options that
change no rows are stored without effect (`tuning.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakebed.errors import UnsupportedError
from lakebed.kernel.options import Options


class Use(StrEnum):
    """What a table is about to be used for."""

    READ = "read"
    WRITE = "write"
    """Rows are written, or files compacted."""
    UPKEEP = "maintain"
    """Snapshots and files are removed."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """An option that is refused unless its value is one of `harmless` (lower case).

    `what` says what the option asks for. `uses` are the uses of a table that it changes.
    """

    key: str
    what: str
    harmless: tuple[str, ...] = ("",)
    uses: tuple[Use, ...] = (Use.READ, Use.WRITE, Use.UPKEEP)
    aliases: tuple[str, ...] = ()


_READ, _WRITE, _ROWS = (Use.READ,), (Use.WRITE,), (Use.READ, Use.WRITE)
_CHANGES = (Use.WRITE, Use.UPKEEP)
_OFF = ("", "false")

UNSERVED = (
    Unserved("type", "another kind of table than Paimon's own", ("", "table", "materialized-table")),
    Unserved("chain-table.enabled", "rows chained over branches", _OFF),
    Unserved("pk-clustering-override", "files that are clustered by other columns than the key", _OFF, uses=_ROWS),
    Unserved("sequence.snapshot-ordering", "rows ordered by the snapshot that wrote them", _OFF, uses=_ROWS),
    Unserved("primary-key.nullable", "nulls in primary keys", _OFF, uses=_ROWS),
    Unserved("data-file.external-paths", "data files in other places"),
    Unserved("data-file.path-directory", "data files in another folder"),
    Unserved("index-file-in-data-file-dir", "index files beside data files", _OFF),
    Unserved("manifest.format", "manifests in another format than Avro", ("", "avro")),
    Unserved("blob-field", "columns in files of their own", uses=_WRITE),
    Unserved(
        "blob-descriptor-field",
        "columns that hold descriptors of files",
        aliases=("blob.stored-descriptor-fields",),
        uses=_ROWS,
    ),
    Unserved("video-frame-field", "columns that hold frames of videos", uses=_ROWS),
    Unserved("blob-view-field", "columns that show rows of another table", uses=_ROWS),
    Unserved("blob-as-descriptor", "descriptors in place of bytes", _OFF, uses=_ROWS),
    Unserved("vector-field", "vectors in files of their own", uses=_ROWS),
    Unserved("vector.file.format", "vectors in files of their own", uses=_ROWS),
    Unserved("scan.bucket", "one bucket alone", uses=_READ),
    Unserved("scan.primary-branch", "partitions of another branch", uses=_READ),
    Unserved("scan.fallback-snapshot-branch", "partitions of another branch", uses=_READ),
    Unserved("scan.fallback-delta-branch", "partitions of another branch", uses=_READ),
    Unserved("scan.ignore-corrupt-files", "reads that leave damaged files out", _OFF, _READ),
    Unserved("scan.ignore-lost-files", "reads that leave lost files out", _OFF, _READ),
    Unserved("batch-scan-mode", "scans of Paimon's own jobs", ("", "none"), _READ),
    Unserved("stream-scan-mode", "scans of Paimon's own jobs", ("", "none"), _READ),
    Unserved("postpone.merge-on-read", "rows of postponed buckets before their compaction", _OFF, _READ),
    Unserved("query-auth.enabled", "rows and columns that a catalog hides from some users", _OFF, _READ),
    Unserved("key-value.sequence_number.enabled", "sequence numbers as a column", _OFF, _READ),
    Unserved("postpone.batch-write-fixed-bucket", "batch writes of postponed tables into real buckets", _OFF, _WRITE),
    Unserved("write.sequence-number-init-mode", "sequence numbers from snapshot properties", ("", "scan"), _WRITE),
    Unserved("upsert-key", "rows of append tables replaced by a key", uses=_WRITE),
    Unserved("pk-vector.index.columns", "indexes of vectors beside the rows", uses=_CHANGES),
    Unserved("pk-btree.index.columns", "indexes beside the rows", uses=_CHANGES),
    Unserved("pk-bitmap.index.columns", "indexes beside the rows", uses=_CHANGES),
    Unserved("pk-multivalue.index.columns", "indexes beside the rows", uses=_CHANGES),
    Unserved("pk-full-text.index.columns", "indexes beside the rows", uses=_CHANGES),
    Unserved("metadata.iceberg.storage", "Iceberg metadata with each commit", ("", "disabled"), _CHANGES),
)
"""Each key once. `paimon_options.txt` of the tests lists all keys of Paimon."""

ENCRYPTION = ("parquet.crypto.", "parquet.encryption.", "orc.encrypt", "orc.mask", "orc.key.provider")
"""Prefixes of keys that make file formats encrypt."""

OF_COLUMNS = {
    "map.storage-layout": ("maps that are stored as columns of their keys", ("", "default")),
    "nested-key-null-strategy": ("rules for nulls in nested keys", ("", "merge")),
    "nested-sequence-field": ("nested rows ordered by one of their fields", ("",)),
}
"""Endings of the options `fields.NAME.…` that are refused: what each asks for, and its harmless values."""


def refuse_options(options: Options, use: Use, table: str) -> None:
    """Raise UnsupportedError for an option whose value asks for something that lakebed does not support in this use."""
    values = {key.lower(): value for key, value in options.raw.items()}
    for option in UNSERVED:
        value = values.get(option.key)
        if value is not None and use in option.uses and value.strip().lower() not in option.harmless:
            raise _refusal(option.key, value, option.what, table)
    for key, value in values.items():
        if key.startswith(ENCRYPTION) and value:
            raise _refusal(key, value, "encrypted files", table)
        for ending, (what, harmless) in OF_COLUMNS.items() if key.startswith("fields.") else ():
            if key.endswith(f".{ending}") and value.strip().lower() not in harmless:
                raise _refusal(key, value, what, table)


def _refusal(key: str, value: str, what: str, table: str) -> UnsupportedError:
    return UnsupportedError(
        f"option {key!r} is {value!r}, and lakebed does not support {what}",
        table=table,
        todo="Leave the option out if you gave it. If the table has it, use Paimon's own engine",
    )
