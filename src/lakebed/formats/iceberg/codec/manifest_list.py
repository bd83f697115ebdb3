"""Manifest lists: the manifests of a snapshot, and what is known about each without opening it.

Rule: the specification's "Manifest Lists". Fields are found by id, never by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.avro_file import decode_columns, open_container
from lakebed.formats.iceberg.codec.encryption import encrypted
from lakebed.kernel.decoding import decoding


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """A summary of one partition field over a whole manifest. Bounds are in the specification's single-value form."""

    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest, as its manifest list describes it. `content` is 0 for data files, 1 for delete files.

    Lists of format version 1 may leave out counts, which are None then, and sequence numbers, which are 0 then.
    `first_row_id` is None below version 3 and for manifests of delete files.
    """

    path: str
    length: int
    spec_id: int
    content: int = 0
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def has_live(self) -> bool:
        """Whether the manifest may have live entries."""
        return self.added_files_count != 0 or self.existing_files_count != 0

    @property
    def live_files(self) -> int:
        """How many live entries the list counts for it, 0 where it counts none."""
        return (self.added_files_count or 0) + (self.existing_files_count or 0)


def decode_manifest_list(data: bytes, file: str = "") -> list[ManifestFile]:
    """The manifests of a snapshot, in order. CorruptError when the bytes are not a manifest list. Short lists are kept
    for the next call: a commit that is tried again and a stream that looks for news read the same ones."""
    return [*(_decoded(data, file) if len(data) <= _KEPT_BYTES else _decoded.__wrapped__(data, file))]


_KEPT_BYTES = 32 << 10


@lru_cache(maxsize=64)
def _decoded(data: bytes, file: str) -> Sequence[ManifestFile]:
    container = open_container(data, file)
    if not container.rows:
        return []
    with decoding("a manifest list cannot be read", file=file):
        decoded = decode_columns([container], _FIELDS.values(), file)
        columns = [decoded[id].to_pylist() if id in decoded else [None] * container.rows for id in _FIELDS.values()]
        return [_manifest(dict(zip(_FIELDS, row, strict=True))) for row in zip(*columns, strict=True)]


_FIELDS: Mapping[str, int] = {
    "path": 500, "length": 501, "spec_id": 502, "content": 517, "sequence_number": 515, "min_sequence_number": 516,
    "added_snapshot_id": 503, "added_files_count": 504, "existing_files_count": 505, "deleted_files_count": 506,
    "added_rows_count": 512, "existing_rows_count": 513, "deleted_rows_count": 514, "partitions": 507,
    "key_metadata": 519, "first_row_id": 520,
}  # fmt: skip
_SUMMARY_IDS = {509: "contains_null", 518: "contains_nan", 510: "lower_bound", 511: "upper_bound"}


def _manifest(row: dict[str, Any]) -> ManifestFile:
    if row["key_metadata"]:
        raise encrypted("its manifest list holds a key for this manifest", file=row["path"] or "")
    if any(row[name] is None for name in ("path", "length", "spec_id")):
        raise CorruptError("a manifest list cannot be read", why="a manifest has no path, length or spec")
    for name in ("content", "sequence_number", "min_sequence_number"):
        row[name] = row[name] or 0
    if row["partitions"] is not None:
        row["partitions"] = tuple(
            FieldSummary(**{name: summary.get(f"f{number}") for number, name in _SUMMARY_IDS.items()})
            for summary in row["partitions"]
        )
    return ManifestFile(**row)
