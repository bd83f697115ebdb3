"""Changes of table metadata as REST updates: requirements that must hold, and updates to make.

Rule: the REST specification's `TableRequirement` and `TableUpdate`, and the way the reference engine's
TableMetadata.Builder applies them. The document is edited, never rebuilt, so nothing that this build does not know is
lost. A REST catalog is sent the requirements and updates themselves. Every other catalog, and a table without one, gets
the resulting document.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyiceberg.schema import Schema

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.iceberg.codec.json_array import JsonArray
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.schema import with_all_types
from lakebed.formats.iceberg.codec.snapshots import Ref
from lakebed.kernel.options import Option

_PREVIOUS_VERSIONS = Option(
    "write.metadata.previous-versions-max", int, 100, "How many earlier metadata files the log names."
)
TableRequirement = Mapping[str, Any]
"""A `TableRequirement` of the REST specification, as JSON."""
TableUpdate = Mapping[str, Any]
"""A `TableUpdate` of the REST specification, as JSON."""
MetadataChange = tuple[Sequence[TableRequirement], Sequence[TableUpdate]]
"""The requirements of a change, and its updates."""


def same_table(metadata: TableMetadata) -> list[TableRequirement]:
    """The requirement that the table still has the same UUID; none for an old table without UUID."""
    return [{"type": "assert-table-uuid", "uuid": metadata.uuid}] if metadata.uuid else []


def ref_is(name: str, snapshot_id: int | None) -> TableRequirement:
    """The requirement that a branch or tag is at a snapshot; with None that it does not exist."""
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}


def branch_at(metadata: TableMetadata, name: str, snapshot_id: int) -> TableUpdate:
    """The update that puts a branch at a snapshot, or creates it there. It repeats what the branch retains, since an
    update replaces all of a ref."""
    ref = metadata.refs.get(name)
    return ref_update(Ref(name, snapshot_id, True) if ref is None else replace(ref, snapshot_id=snapshot_id))


def ref_update(ref: Ref) -> TableUpdate:
    """The update that makes a branch or tag be like this."""
    kept = {
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "max-ref-age-ms": ref.max_ref_age_ms,
    }
    return {
        "action": "set-snapshot-ref",
        "ref-name": ref.name,
        "type": "branch" if ref.is_branch else "tag",
        "snapshot-id": ref.snapshot_id,
        **{key: value for key, value in kept.items() if value is not None},
    }


def unmet(metadata: TableMetadata, requirements: Sequence[TableRequirement]) -> str | None:
    """The first requirement that does not hold, as a sentence; None when all hold."""
    for requirement in requirements:
        kind = requirement["type"]
        if kind == "assert-ref-snapshot-id":
            ref = metadata.refs.get(requirement["ref"])
            snapshot_id = ref.snapshot_id if ref else None
            if snapshot_id != requirement["snapshot-id"]:
                return f"{requirement['ref']} is at snapshot {snapshot_id}, not {requirement['snapshot-id']}"
        elif kind == "assert-table-uuid":
            if metadata.uuid != requirement["uuid"]:
                return f"the table's UUID is {metadata.uuid}, not {requirement['uuid']}"
        elif kind in _VALUES:
            key, value = _VALUES[kind][0], _VALUES[kind][1](metadata)
            if value != requirement[key]:
                return f"the table's {key} is {value}, not {requirement[key]}"
        else:
            raise UnsupportedError(f"unknown requirement {kind!r}")
    return None


_VALUES: Mapping[str, tuple[str, Callable[[TableMetadata], int]]] = {
    "assert-current-schema-id": ("current-schema-id", lambda metadata: metadata.current_schema_id),
    "assert-default-spec-id": ("default-spec-id", lambda metadata: metadata.default_spec_id),
    "assert-default-sort-order-id": ("default-sort-order-id", lambda metadata: metadata.default_sort_order_id),
    "assert-last-assigned-field-id": ("last-assigned-field-id", lambda metadata: metadata.last_column_id),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", lambda metadata: metadata.last_partition_id),
}
"""Requirements on a number: its key in the requirement, and the number of a table."""


def is_still(metadata: TableMetadata, *kinds: str) -> list[TableRequirement]:
    """The requirements of these kinds (`assert-current-schema-id`, ...) that a table meets as it is."""
    return [{"type": kind, _VALUES[kind][0]: _VALUES[kind][1](metadata)} for kind in kinds]


def applied(metadata: TableMetadata, updates: Sequence[TableUpdate], now_ms: int, location: str) -> dict[str, Any]:
    """The document after updates. `location` is that of the metadata file that it replaces."""
    document: dict[str, Any] = copy.copy(dict(metadata.document))
    before = int(document.get("last-updated-ms", now_ms))
    change = _Change(document, now_ms, {})
    for update in updates:
        apply = _APPLY.get(update["action"])
        if apply is None:
            raise UnsupportedError(f"unknown change of table metadata: {update['action']!r}")
        apply(change, update)
    change.close()
    document["last-updated-ms"] = max(change.time, before)
    _remember(document, before, location)
    return document


def dropped_metadata(before: TableMetadata, after: TableMetadata) -> list[str]:
    """Metadata files that the log no longer names and that the table's properties ask to delete."""
    if not cleans_log(after):
        return []
    kept = {file for _, file in after.metadata_log}
    return [file for _, file in before.metadata_log if file not in kept]


def cleans_log(metadata: TableMetadata) -> bool:
    """Whether commits to the table delete metadata files that the log no longer names."""
    return metadata.properties.get("write.metadata.delete-after-commit.enabled", "false").lower() == "true"


def _remember(document: dict[str, Any], time: int, location: str) -> None:
    """Add the replaced file to the metadata log, which keeps at most `write.metadata.previous-versions-max` files."""
    text = (document.get("properties") or {}).get(_PREVIOUS_VERSIONS.key, "100")
    most = max(1, _PREVIOUS_VERSIONS.read(text))
    log = [*(document.get("metadata-log") or ()), {"timestamp-ms": time, "metadata-file": location}]
    document["metadata-log"] = log[-most:]


class _Change:
    """A document while it is changed. Its lists and maps are copied before they are changed."""

    def __init__(self, document: dict[str, Any], now_ms: int, added: dict[int, int]) -> None:
        self.document, self.time, self.added = document, now_ms, added
        self.removed: set[int] = set()
        self.last: dict[str, int] = {}
        """The ids of the schema, spec and sort order that this change has added last."""

    def append(self, key: str, item: Mapping[str, Any]) -> None:
        self.document[key] = JsonArray.of(self.document.get(key)).plus(item)

    def table(self, key: str) -> dict[str, Any]:
        self.document[key] = dict(self.document.get(key) or {})
        table: dict[str, Any] = self.document[key]
        return table

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
        self.append("snapshots", snapshot)

    def set_ref(self, update: TableUpdate) -> None:
        given = {key: value for key, value in update.items() if key not in ("action", "ref-name") and value is not None}
        refs = self.table("refs")
        if MAIN not in refs and (self.document.get("current-snapshot-id") or -1) != -1:
            refs[MAIN] = {"snapshot-id": self.document["current-snapshot-id"], "type": "branch"}
        refs[update["ref-name"]] = given
        if update["ref-name"] == MAIN:
            snapshot_id = given["snapshot-id"]
            if self.document.get("current-snapshot-id") != snapshot_id:
                time = self.added.get(snapshot_id, self.time)
                self.append("snapshot-log", {"timestamp-ms": time, "snapshot-id": snapshot_id})
            self.document["current-snapshot-id"] = snapshot_id

    def remove_ref(self, update: TableUpdate) -> None:
        self.table("refs").pop(update["ref-name"], None)

    def remove_snapshots(self, update: TableUpdate) -> None:
        removed = set(update["snapshot-ids"])
        self.removed |= removed
        snapshots = JsonArray.of(self.document.get("snapshots"))
        self.document["snapshots"] = snapshots.where(lambda snapshot: snapshot["snapshot-id"] not in removed)
        for key in ("statistics", "partition-statistics"):
            if self.document.get(key):
                self.document[key] = [s for s in self.document[key] if s["snapshot-id"] not in removed]
        if self.document.get("refs"):
            self.document["refs"] = {
                name: ref for name, ref in self.document["refs"].items() if ref["snapshot-id"] not in removed
            }

    def set_statistics(self, update: TableUpdate) -> None:
        """Names the statistics file of a snapshot, instead of an earlier one."""
        self._set_of_snapshot("statistics", update["statistics"])

    def set_partition_statistics(self, update: TableUpdate) -> None:
        """Names the partition statistics file of a snapshot, instead of an earlier one."""
        self._set_of_snapshot("partition-statistics", update["partition-statistics"])

    def _set_of_snapshot(self, key: str, entry: Mapping[str, Any]) -> None:
        others = [one for one in self.document.get(key) or () if one["snapshot-id"] != entry["snapshot-id"]]
        self.document[key] = [*others, dict(entry)]

    def remove_schemas(self, update: TableUpdate) -> None:
        self._remove("schemas", "schema-id", update["schema-ids"], "current-schema-id")

    def remove_specs(self, update: TableUpdate) -> None:
        self._remove("partition-specs", "spec-id", update["spec-ids"], "default-spec-id")

    def _remove(self, key: str, id: str, removed: Sequence[int], current: str) -> None:
        """Remove items from a list by id. UsageError when one of them is the current one."""
        if self.document.get(current, 0) in removed:
            raise UsageError(f"{current} {self.document.get(current, 0)} is in use and cannot be removed")
        if self.document.get(key):
            self.document[key] = [item for item in self.document[key] if item.get(id, 0) not in removed]

    def set_properties(self, update: TableUpdate) -> None:
        self.table("properties").update(update["updates"])

    def remove_properties(self, update: TableUpdate) -> None:
        properties = self.table("properties")
        for key in update["removals"]:
            properties.pop(key, None)

    def add_schema(self, update: TableUpdate) -> None:
        schema = update["schema"]
        self.document["schemas"] = [*self._schemas(), schema]
        highest = Schema.model_validate(with_all_types(schema)).highest_field_id
        last = update.get("last-column-id", highest)  # later versions of the REST specification leave it out
        self.document["last-column-id"] = max(self.document["last-column-id"], last, highest)
        self.last["schema"] = schema["schema-id"]

    def set_schema(self, update: TableUpdate) -> None:
        schemas, id = self._schemas(), self._id("schema", update["schema-id"])
        self.document["schemas"], self.document["current-schema-id"] = schemas, id
        if self.document["format-version"] == 1:
            self.document["schema"] = next(schema for schema in schemas if schema.get("schema-id", 0) == id)

    def add_spec(self, update: TableUpdate) -> None:
        spec = update["spec"]
        self.document["partition-specs"] = [*self._specs(), spec]
        before = TableMetadata(self.document).last_partition_id
        self.document["last-partition-id"] = max([before, *(field["field-id"] for field in spec["fields"])])
        self.last["spec"] = spec["spec-id"]

    def set_spec(self, update: TableUpdate) -> None:
        specs, id = self._specs(), self._id("spec", update["spec-id"])
        self.document["partition-specs"], self.document["default-spec-id"] = specs, id
        if self.document["format-version"] == 1:
            self.document["partition-spec"] = next(spec["fields"] for spec in specs if spec["spec-id"] == id)

    def add_order(self, update: TableUpdate) -> None:
        order = update["sort-order"]
        self.document["sort-orders"] = [*self._orders(), order]
        self.last["order"] = order["order-id"]

    def set_order(self, update: TableUpdate) -> None:
        self.document["sort-orders"] = self._orders()
        self.document["default-sort-order-id"] = self._id("order", update["sort-order-id"])

    def _id(self, what: str, given: int) -> int:
        """The id that an update names. -1 is what the same change has added last."""
        return self.last[what] if given == -1 else given

    def _schemas(self) -> list[Any]:
        """The schemas, also of a document of version 1 that has only one."""
        return list(self.document.get("schemas") or [{**self.document["schema"], "schema-id": 0}])

    def _specs(self) -> list[Any]:
        if "partition-specs" in self.document:
            return list(self.document["partition-specs"])
        fields = [{"field-id": 1000 + n, **field} for n, field in enumerate(self.document.get("partition-spec", ()))]
        return [{"spec-id": 0, "fields": fields}]

    def _orders(self) -> list[Any]:
        return list(self.document.get("sort-orders") or [{"order-id": 0, "fields": []}])

    def upgrade(self, update: TableUpdate) -> None:
        version = update["format-version"]
        if version > 1:
            self.document.setdefault("last-sequence-number", 0)
            self._leave_version_1()
        if version > 2:
            self.document.setdefault("next-row-id", 0)
        self.document["format-version"] = version

    def _leave_version_1(self) -> None:
        """Give the document all that later versions require, and take what they do not have any more."""
        document, old = self.document, TableMetadata(self.document)
        current, spec, last = old.current_schema_id, old.default_spec_id, old.last_partition_id
        document["schemas"], document["current-schema-id"] = self._schemas(), current
        document["partition-specs"], document["default-spec-id"] = self._specs(), spec
        document["last-partition-id"] = last
        document["sort-orders"], document["default-sort-order-id"] = self._orders(), old.default_sort_order_id
        document.setdefault("table-uuid", str(uuid.uuid4()))
        document.pop("schema", None)
        document.pop("partition-spec", None)

    def close(self) -> None:
        """Finish the snapshot log. Entries before an expired snapshot are removed: the log may have gaps there."""
        if not self.removed:
            return
        existing = {snapshot["snapshot-id"] for snapshot in self.document["snapshots"]}
        log: list[Any] = []
        for entry in self.document.get("snapshot-log") or ():
            if entry["snapshot-id"] in existing:
                log.append(entry)
            elif entry["snapshot-id"] in self.removed:
                log = []
        self.document["snapshot-log"] = log


_APPLY: Mapping[str, Callable[[_Change, TableUpdate], None]] = {
    "add-snapshot": _Change.add_snapshot,
    "set-snapshot-ref": _Change.set_ref,
    "remove-snapshot-ref": _Change.remove_ref,
    "remove-snapshots": _Change.remove_snapshots,
    "remove-schemas": _Change.remove_schemas,
    "remove-partition-specs": _Change.remove_specs,
    "set-properties": _Change.set_properties,
    "remove-properties": _Change.remove_properties,
    "upgrade-format-version": _Change.upgrade,
    "set-statistics": _Change.set_statistics,
    "set-partition-statistics": _Change.set_partition_statistics,
    "add-schema": _Change.add_schema,
    "set-current-schema": _Change.set_schema,
    "add-spec": _Change.add_spec,
    "set-default-spec": _Change.set_spec,
    "add-sort-order": _Change.add_order,
    "set-default-sort-order": _Change.set_order,
}
