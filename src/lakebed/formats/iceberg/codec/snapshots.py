"""Snapshots, branches and tags, as a table's metadata has them.

Rule: the specification's "Table Metadata and Snapshots". A snapshot is decoded when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakebed.formats.iceberg.codec.json_array import Document, JsonArray
from lakebed.kernel.decoding import decoding


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot. `manifest_list` is "" in old tables of version 1, whose snapshots name their `manifests`.

    `sequence_number` is 0 in version 1; `first_row_id` and `added_rows` are None below version 3. `summary` has the
    operation under the key "operation", if the snapshot states it. `timestamp_ms` is milliseconds since 1970.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    manifest_list: str
    summary: Mapping[str, str] = field(default_factory=dict)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    manifests: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        """append, replace, overwrite or delete; "" when the snapshot does not state it."""
        return self.summary.get("operation", "")


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag. Ages are milliseconds; None when the table's own rule holds."""

    name: str
    snapshot_id: int
    is_branch: bool
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None


class StoredSnapshot(
    msgspec.Struct,
    rename={
        "snapshot_id": "snapshot-id",
        "timestamp_ms": "timestamp-ms",
        "parent_id": "parent-snapshot-id",
        "key_id": "key-id",
    },
):
    """What is known of each snapshot, or entry of the snapshot log, once the metadata is loaded."""

    snapshot_id: int
    timestamp_ms: int
    parent_id: int | None = None
    key_id: Any = None


class Snapshots(Mapping[int, Snapshot]):
    """Snapshots by id."""

    def __init__(self, documents: JsonArray, ids: list[int], table: str) -> None:
        self._documents, self._table = documents, table
        self._places = {id: place for place, id in enumerate(ids)}
        self._decoded: dict[int, Snapshot] = {}

    def __getitem__(self, snapshot_id: int) -> Snapshot:
        if snapshot_id not in self._decoded:
            place = self._places[snapshot_id]
            with decoding("a snapshot of the table cannot be read", table=self._table, instant=str(snapshot_id)):
                self._decoded[snapshot_id] = _snapshot(self._documents[place])
        return self._decoded[snapshot_id]

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def text_of(value: Any) -> str:
    """The value; ValueError when it is not text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _snapshot(document: Document) -> Snapshot:
    parent = document.get("parent-snapshot-id")
    return Snapshot(
        snapshot_id=int(document["snapshot-id"]),
        parent_id=None if parent is None or parent == -1 else int(parent),
        sequence_number=int(document.get("sequence-number", 0)),
        timestamp_ms=int(document["timestamp-ms"]),
        manifest_list=text_of(document.get("manifest-list", "")),
        summary={key: str(value) for key, value in (document.get("summary") or {}).items()},
        schema_id=_number(document.get("schema-id")),
        first_row_id=_number(document.get("first-row-id")),
        added_rows=_number(document.get("added-rows")),
        manifests=tuple(map(text_of, document.get("manifests") or ())),
    )


def ref_of(name: str, document: Document) -> Ref:
    """The branch or tag of that name in a document of the metadata."""
    return Ref(
        name,
        int(document["snapshot-id"]),
        str(document["type"]).lower() == "branch",
        _number(document.get("min-snapshots-to-keep")),
        _number(document.get("max-snapshot-age-ms")),
        _number(document.get("max-ref-age-ms")),
    )
