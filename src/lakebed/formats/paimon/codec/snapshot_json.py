"""Snapshot files: `snapshot/snapshot-N`, JSON, version 3. A tag file has the same keys and two more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lakebed.kernel.decoding import decoding, parsed_json
from lakebed.kernel.remembered import remembered


class CommitKind(StrEnum):
    """What a snapshot did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state. Its live files are those of the base list and the delta list together.

    Counts are rows in files, not live keys. Sizes are bytes.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    changelog_record_count: int = 0
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    next_row_id: int | None = 0
    version: int = 3

    def is_at(self, other: Snapshot | None) -> bool:
        """Whether `other`, what is there under this one's id, is this one. Each attempt has a base list of its own."""
        lists = self.base_manifest_list, self.delta_manifest_list
        return other is not None and (other.base_manifest_list, other.delta_manifest_list) == lists


_KEYS = {
    "version": "version",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "nextRowId": "next_row_id",
}
_TEXTS = frozenset({
    "base_manifest_list", "delta_manifest_list", "changelog_manifest_list", "index_manifest", "commit_user",
    "commit_kind", "statistics",
})  # fmt: skip
_LAST_MILLIS = 253_402_300_800_000
"""The year 10000, which Python's calendar does not reach."""
_ALWAYS = {"changelogManifestList"}
"""Keys that are written even when null, as Paimon's Java engine does."""


@remembered
def snapshot_from_json(data: bytes) -> Snapshot:
    """Decode a snapshot file. Raises CorruptError for bytes that are not a snapshot."""
    with decoding("the snapshot file cannot be read"):
        value: dict[str, Any] = parsed_json(data)
        given = {name: value[key] for key, name in _KEYS.items() if value.get(key) is not None}
        given["commit_kind"] = CommitKind(given["commit_kind"])
        given["properties"] = tuple(sorted((value.get("properties") or {}).items()))
        for count in ("total_record_count", "delta_record_count"):
            given.setdefault(count, 0)
        for name, field in given.items():
            wanted = str if name in _TEXTS else tuple if name == "properties" else int
            if not isinstance(field, wanted) or isinstance(field, bool):
                raise ValueError(f"{name} is {field!r}")
        if not -_LAST_MILLIS < given["time_millis"] < _LAST_MILLIS:
            raise ValueError(f"its time_millis is {given['time_millis']}")
        return Snapshot(**{"next_row_id": None, **given})  # engines without row tracking do not write it


def snapshot_to_json(snapshot: Snapshot) -> bytes:
    """The bytes of a snapshot file, with its keys in the order of Paimon's Java engine."""
    value_by_key: dict[str, Any] = {}
    for key, name in _KEYS.items():
        value = getattr(snapshot, name)
        if value is not None or key in _ALWAYS:
            value_by_key[key] = str(value) if name == "commit_kind" else value
        if key == "timeMillis":
            value_by_key["logOffsets"] = {}
        if key == "statistics" and snapshot.properties:
            value_by_key["properties"] = dict(snapshot.properties)
    return json.dumps(value_by_key, indent=2, ensure_ascii=False).encode()
