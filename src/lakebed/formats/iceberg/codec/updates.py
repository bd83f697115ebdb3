"""Changes of table metadata, in the words of the REST catalog: requirements that must hold, updates to make.

Rule: the REST specification's `TableRequirement` and `TableUpdate`, and what the reference engine's
TableMetadata.Builder makes of them. The document is edited, never rebuilt, so that nothing that this build does not
know is lost. A REST catalog is sent the same words; every other catalog and a table without one gets the document that
they make.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata

TableRequirement = Mapping[str, Any]
"""A `TableRequirement` of the REST specification, as JSON."""
TableUpdate = Mapping[str, Any]
"""A `TableUpdate` of the REST specification, as JSON."""
MetadataChange = tuple[Sequence[TableRequirement], Sequence[TableUpdate]]
"""What must hold, and the updates to make then."""


def same_table(metadata: TableMetadata) -> list[TableRequirement]:
    """The requirement that the table is still the same one."""
    return [{"type": "assert-table-uuid", "uuid": metadata.uuid}] if metadata.uuid else []


def ref_is(name: str, snapshot_id: int | None) -> TableRequirement:
    """The requirement that a branch or tag is at a snapshot; None: that it is not there."""
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}


def unmet(metadata: TableMetadata, requirements: Sequence[TableRequirement]) -> str | None:
    """The first requirement that does not hold, in words; None when all do."""
    for wanted in requirements:
        kind = wanted["type"]
        if kind == "assert-ref-snapshot-id":
            ref = metadata.refs.get(wanted["ref"])
            found = ref.snapshot_id if ref else None
            if found != wanted["snapshot-id"]:
                return f"{wanted['ref']} is at snapshot {found}, not {wanted['snapshot-id']}"
        elif kind == "assert-table-uuid":
            if metadata.uuid != wanted["uuid"]:
                return f"the table's UUID is {metadata.uuid}, not {wanted['uuid']}"
        elif kind in _VALUES:
            key, field = _VALUES[kind]
            if metadata.document.get(field, 0) != wanted[key]:
                return f"{field} is {metadata.document.get(field)}, not {wanted[key]}"
        else:
            raise UnsupportedError(f"unknown requirement {kind!r}")
    return None


_VALUES = {
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id"),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", "last-partition-id"),
}


def applied(metadata: TableMetadata, updates: Sequence[TableUpdate], now_ms: int, location: str) -> dict[str, Any]:
    """The document after some updates. `location` is that of the metadata file which it replaces."""
    document: dict[str, Any] = copy.copy(dict(metadata.document))
    before = int(document.get("last-updated-ms", now_ms))
    change = _Change(document, now_ms, {})
    for update in updates:
        make = _MAKERS.get(update["action"])
        if make is None:
            raise UnsupportedError(f"unknown change of table metadata: {update['action']!r}")
        make(change, update)
    change.close()
    document["last-updated-ms"] = max(change.time, before)
    _remember(document, before, location)
    return document


def dropped_metadata(before: TableMetadata, after: TableMetadata) -> list[str]:
    """Metadata files that the log no longer names, to be deleted where the table asks for it."""
    if after.properties.get("write.metadata.delete-after-commit.enabled", "false").lower() != "true":
        return []
    kept = {file for _, file in after.metadata_log}
    return [file for _, file in before.metadata_log if file not in kept]


def _remember(document: dict[str, Any], time: int, location: str) -> None:
    """Adds the replaced file to the metadata log, which stays within `write.metadata.previous-versions-max`."""
    most = max(1, int((document.get("properties") or {}).get("write.metadata.previous-versions-max", 100)))
    log = [*(document.get("metadata-log") or ()), {"timestamp-ms": time, "metadata-file": location}]
    document["metadata-log"] = log[-most:]


class _Change:
    """A document under change: lists and maps in it are copied before they are touched."""

    def __init__(self, document: dict[str, Any], now_ms: int, added: dict[int, int]) -> None:
        self.document, self.time, self.added = document, now_ms, added
        self.removed: set[int] = set()

    def items(self, key: str) -> list[Any]:
        self.document[key] = list(self.document.get(key) or ())
        found: list[Any] = self.document[key]
        return found

    def table(self, key: str) -> dict[str, Any]:
        self.document[key] = dict(self.document.get(key) or {})
        found: dict[str, Any] = self.document[key]
        return found

    def add_snapshot(self, update: TableUpdate) -> None:
        snapshot = dict(update["snapshot"])
        version = self.document["format-version"]
        self.time = max(self.time, snapshot["timestamp-ms"])
        self.added[snapshot["snapshot-id"]] = snapshot["timestamp-ms"]
        if version == 1:
            snapshot.pop("sequence-number", None)
        else:
            self.document["last-sequence-number"] = max(
                self.document.get("last-sequence-number", 0), snapshot["sequence-number"]
            )
        if version >= 3:
            self.document["next-row-id"] = max(
                self.document.get("next-row-id", 0), snapshot["first-row-id"] + snapshot["added-rows"]
            )
        self.items("snapshots").append(snapshot)

    def set_ref(self, update: TableUpdate) -> None:
        given = {key: value for key, value in update.items() if key not in ("action", "ref-name") and value is not None}
        refs = self.table("refs")
        if MAIN not in refs and (self.document.get("current-snapshot-id") or -1) != -1:
            refs[MAIN] = {"snapshot-id": self.document["current-snapshot-id"], "type": "branch"}
        kept = refs.get(update["ref-name"], {}) if update.get("type") == "branch" else {}
        refs[update["ref-name"]] = {**kept, **given}
        if update["ref-name"] == MAIN:
            snapshot_id = given["snapshot-id"]
            if self.document.get("current-snapshot-id") != snapshot_id:
                time = self.added.get(snapshot_id, self.time)
                self.items("snapshot-log").append({"timestamp-ms": time, "snapshot-id": snapshot_id})
            self.document["current-snapshot-id"] = snapshot_id

    def remove_ref(self, update: TableUpdate) -> None:
        self.table("refs").pop(update["ref-name"], None)

    def remove_snapshots(self, update: TableUpdate) -> None:
        gone = set(update["snapshot-ids"])
        self.removed |= gone
        self.document["snapshots"] = [s for s in self.items("snapshots") if s["snapshot-id"] not in gone]
        for key in ("statistics", "partition-statistics"):
            if self.document.get(key):
                self.document[key] = [s for s in self.document[key] if s["snapshot-id"] not in gone]
        if self.document.get("refs"):
            self.document["refs"] = {
                name: ref for name, ref in self.document["refs"].items() if ref["snapshot-id"] not in gone
            }

    def remove_schemas(self, update: TableUpdate) -> None:
        self._without("schemas", "schema-id", update["schema-ids"], "current-schema-id")

    def remove_specs(self, update: TableUpdate) -> None:
        self._without("partition-specs", "spec-id", update["spec-ids"], "default-spec-id")

    def _without(self, key: str, id: str, gone: Sequence[int], current: str) -> None:
        """A list without some of its items, of which none may be the current one."""
        if self.document.get(current, 0) in gone:
            raise UsageError(f"{current} {self.document.get(current, 0)} is in use and cannot be removed")
        if self.document.get(key):
            self.document[key] = [one for one in self.document[key] if one.get(id, 0) not in gone]

    def set_properties(self, update: TableUpdate) -> None:
        self.table("properties").update(update["updates"])

    def remove_properties(self, update: TableUpdate) -> None:
        properties = self.table("properties")
        for key in update["removals"]:
            properties.pop(key, None)

    def upgrade(self, update: TableUpdate) -> None:
        version = update["format-version"]
        if version > 1:
            self.document.setdefault("last-sequence-number", 0)
        if version > 2:
            self.document.setdefault("next-row-id", 0)
        self.document["format-version"] = version

    def close(self) -> None:
        """Expired snapshots break the log: what lies before one of them is not known to be whole, and goes."""
        if not self.removed:
            return
        known = {s["snapshot-id"] for s in self.document["snapshots"]}
        log: list[Any] = []
        for entry in self.document.get("snapshot-log") or ():
            if entry["snapshot-id"] in known:
                log.append(entry)
            elif entry["snapshot-id"] in self.removed:
                log = []
        self.document["snapshot-log"] = log


_MAKERS: Mapping[str, Callable[[_Change, TableUpdate], None]] = {
    "add-snapshot": _Change.add_snapshot,
    "set-snapshot-ref": _Change.set_ref,
    "remove-snapshot-ref": _Change.remove_ref,
    "remove-snapshots": _Change.remove_snapshots,
    "remove-schemas": _Change.remove_schemas,
    "remove-partition-specs": _Change.remove_specs,
    "set-properties": _Change.set_properties,
    "remove-properties": _Change.remove_properties,
    "upgrade-format-version": _Change.upgrade,
}
