"""Table metadata of all format versions: the JSON document itself, with typed views of its contents.

Rule: the specification's "Table Metadata and Snapshots" and its JSON appendix. The document is kept whole, so a field
that this build does not know (encryption keys, those of a later version) survives every rewrite. Schemas, partition
specs and sort orders are pyiceberg's own classes.
"""

from __future__ import annotations

import functools
import gzip
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakebed.errors import NotInHistoryError, UnsupportedError, first_line
from lakebed.formats.iceberg.codec.encryption import refuse_encrypted
from lakebed.formats.iceberg.codec.json_array import JsonArray, document_from_json, document_to_json
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.schema import for_pyiceberg, with_all_types
from lakebed.formats.iceberg.codec.snapshots import Ref, Snapshot, Snapshots, StoredSnapshot, ref_of, text_of
from lakebed.formats.iceberg.codec.sort_order import SortOrder
from lakebed.kernel.decoding import decoding
from lakebed.kernel.inflate import inflated

MAIN = "main"
GZIP = b"\x1f\x8b"
"""How a compressed metadata file begins."""
_LAST_MILLIS = 253_402_300_800_000
"""The year 10000, which Python's calendars do not reach."""
VERSIONS = (1, 2, 3)
SCHEMAS = ("schemas", "schema")
"""The keys under which a document has its schemas; the second in version 1."""

Document = Mapping[str, Any]
_ARRAYS = ("snapshots", "snapshot-log")
"""The arrays that grow with a table's history. A document that was read from a file has them as JsonArrays."""


class TableMetadata:
    """One version of a table's metadata. Do not change `document`; `codec/updates.py` makes a new one."""

    def __init__(self, document: Document) -> None:
        version = document.get("format-version")
        if version not in VERSIONS:
            raise UnsupportedError(
                f"the table has format version {version}",
                why="lakebed knows versions 1 to 3",
                todo="Open it with a newer lakebed",
            )
        self.document = document
        refuse_encrypted(document, ((s.snapshot_id, s.key_id) for s in self._stored_snapshots))

    def __reduce__(self) -> tuple[Any, ...]:
        return TableMetadata, (self.document,)

    def check(self) -> None:
        """Raise KeyError, TypeError or ValueError for a document that lacks a value or has one of a wrong type.

        Schemas, specs, sort orders and most of a snapshot are checked only when they are used.
        """
        texts = [self.document["location"], *self.properties, *self.properties.values()]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("its location or a property is not text")
        if self.current_schema_id not in self.schema_documents:
            raise ValueError(f"it has no schema {self.current_schema_id}, which is its current one")
        if "partition-specs" in self.document:
            ids = {int(spec["spec-id"]) for spec in self.document["partition-specs"]}
            if self.default_spec_id not in ids:
                raise ValueError(f"it has no partition spec {self.default_spec_id}, which is its default")
        for snapshot in self._stored_snapshots:
            if not 0 <= snapshot.timestamp_ms < _LAST_MILLIS:
                raise ValueError(f"snapshot {snapshot.snapshot_id} was made at {snapshot.timestamp_ms}")
        numbers = (self.last_sequence_number, self.next_row_id, self.default_sort_order_id)
        places = (self.refs, self.metadata_log, self.statistics_files, self.uuid)
        if not all(number is None or number >= 0 for number in numbers) or not all(p is not None for p in places):
            raise ValueError("it counts below zero")

    @property
    def format_version(self) -> int:
        """The format version: 1, 2 or 3."""
        return int(self.document["format-version"])

    @property
    def location(self) -> str:
        """The table's root as the metadata spells it."""
        return str(self.document["location"]).rstrip("/")

    @property
    def uuid(self) -> str:
        """The table's UUID, "" in old tables of version 1."""
        return str(self.document.get("table-uuid", ""))

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties."""
        return self.document.get("properties") or {}

    @property
    def last_sequence_number(self) -> int:
        """The highest sequence number assigned so far; 0 in version 1."""
        return int(self.document.get("last-sequence-number", 0))

    @property
    def next_row_id(self) -> int | None:
        """The first row id that is not assigned yet; None below version 3."""
        return int(self.document.get("next-row-id", 0)) if self.format_version >= 3 else None

    # ---- schemas, specs, sort orders ----

    @functools.cached_property
    def schemas(self) -> Mapping[int, Schema]:
        """All schemas by id."""
        with decoding("the schemas of the table cannot be read", table=self.location):
            documents = self.schema_documents.values()
            return {int(s.get("schema-id", 0)): _model(Schema, s, _schema) for s in documents}

    @property
    def schema_documents(self) -> Mapping[int, Document]:
        """All schemas by id, as JSON documents."""
        documents = self.document.get("schemas") or [self.document["schema"]]
        return {int(s.get("schema-id", 0)): s for s in documents}

    @property
    def current_schema_id(self) -> int:
        """The id of the current schema."""
        if "current-schema-id" in self.document:
            return int(self.document["current-schema-id"])
        return next(iter(self.schema_documents))

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @property
    def last_column_id(self) -> int:
        """The highest field id that was ever assigned."""
        return int(self.document["last-column-id"])

    @property
    def last_partition_id(self) -> int:
        """The highest id of a partition field that was ever assigned; 999 without one."""
        if "last-partition-id" in self.document:
            return int(self.document["last-partition-id"])
        return max((field.field_id for spec in self._specs.values() for field in spec.fields), default=999)

    @functools.cached_property
    def lost_columns(self) -> dict[int, Any]:
        """Types by id of columns that no schema has any more. They are learned from manifests, for partition values."""
        return {}

    @functools.cached_property
    def lost_specs(self) -> dict[int, PartitionSpec]:
        """Partition specs by id that the metadata no longer has. They are learned from their manifests."""
        return {}

    @functools.cached_property
    def last_manifests(self) -> dict[str, list[ManifestFile]]:
        """The manifests of the manifest list that was read last, by its location."""
        return {}

    @functools.cached_property
    def specs(self) -> Mapping[int, PartitionSpec]:
        """All partition specs by id, including those learned from manifests."""
        return ChainMap(self._specs, self.lost_specs)

    @functools.cached_property
    def _specs(self) -> dict[int, PartitionSpec]:
        with decoding("the partition specs of the table cannot be read", table=self.location):
            if "partition-specs" in self.document:
                return {int(s["spec-id"]): _model(PartitionSpec, s) for s in self.document["partition-specs"]}
            fields = [{"field-id": 1000 + n, **f} for n, f in enumerate(self.document.get("partition-spec", ()))]
            return {0: _model(PartitionSpec, {"spec-id": 0, "fields": fields})}

    @property
    def default_spec_id(self) -> int:
        """The id of the spec that writers use."""
        return int(self.document.get("default-spec-id", 0))

    @property
    def spec(self) -> PartitionSpec:
        """The spec that writers use."""
        return self.specs[self.default_spec_id]

    @functools.cached_property
    def sort_orders(self) -> Mapping[int, SortOrder]:
        """All sort orders by id; 0 is none."""
        with decoding("the sort orders of the table cannot be read", table=self.location):
            orders = self.document.get("sort-orders") or [{"order-id": 0, "fields": []}]
            return {int(o["order-id"]): _model(SortOrder, o, SortOrder.parse) for o in orders}

    @property
    def default_sort_order_id(self) -> int:
        """The id of the order that writers use; 0 is none."""
        return int(self.document.get("default-sort-order-id", 0))

    # ---- snapshots and refs ----

    @functools.cached_property
    def snapshots(self) -> Mapping[int, Snapshot]:
        """All snapshots by id, in the order of the document. Each is decoded when it is asked for.

        CorruptError for one that lacks a value or has one of a wrong type.
        """
        ids = [snapshot.snapshot_id for snapshot in self._stored_snapshots]
        return Snapshots(JsonArray.of(self.document.get("snapshots")), ids, self.location)

    @property
    def _stored_snapshots(self) -> Sequence[StoredSnapshot]:
        with decoding("the snapshots of the table cannot be read", table=str(self.document.get("location", ""))):
            return JsonArray.of(self.document.get("snapshots")).read(StoredSnapshot)

    @functools.cached_property
    def refs(self) -> Mapping[str, Ref]:
        """Branches and tags by name. `main` exists once the table has a current snapshot."""
        refs = {name: ref_of(name, ref) for name, ref in (self.document.get("refs") or {}).items()}
        current = self.document.get("current-snapshot-id")
        if MAIN not in refs and current is not None and current != -1:
            refs[MAIN] = Ref(MAIN, int(current), True)
        return refs

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """One snapshot; NotInHistoryError when the table does not have it, or no longer has it."""
        if snapshot_id not in self.snapshots:
            raise NotInHistoryError(
                f"snapshot {snapshot_id} is not in the history",
                table=self.location,
                instant=str(snapshot_id),
                todo=f"Snapshots: {', '.join(map(str, [*self.snapshots][-10:])) or 'none'}",
            )
        return self.snapshots[snapshot_id]

    def head(self, branch: str = MAIN) -> Snapshot | None:
        """The newest snapshot of a branch, None for an empty table; NotInHistoryError when there is no such branch."""
        ref = self.refs.get(branch)
        if ref is not None and ref.is_branch:
            return self.snapshot(ref.snapshot_id)
        if branch == MAIN:
            return None
        names = ", ".join(sorted(name for name, each in self.refs.items() if each.is_branch)) or "none"
        what = "is a tag, not a branch" if ref is not None else "does not exist"
        raise NotInHistoryError(f"branch {branch!r} {what}", table=self.location, todo=f"Branches: {names}")

    def parent_on(self, branch: str, start: str = MAIN) -> Snapshot | None:
        """The snapshot that a commit to a branch builds on: its head, or that of the branch `start` where there is no
        such branch yet. NotInHistoryError for a tag."""
        return self.head(branch if branch in self.refs else start)

    @functools.cached_property
    def _parents(self) -> Mapping[int, int | None]:
        return {snapshot.snapshot_id: snapshot.parent_id for snapshot in self._stored_snapshots}

    def line(self, snapshot_id: int | None) -> list[int]:
        """The ids of a snapshot and its ancestors, newest first, up to the first that has expired; [] for None. No
        snapshot is decoded for it."""
        line: dict[int, None] = {}
        while snapshot_id is not None and snapshot_id in self._parents and snapshot_id not in line:
            line[snapshot_id] = None
            snapshot_id = self._parents[snapshot_id]
        return [*line]

    @property
    def snapshot_log(self) -> tuple[tuple[int, int], ...]:
        """(time in milliseconds, snapshot id) of each change of the current snapshot, oldest first."""
        with decoding("the snapshot log of the table cannot be read", table=self.location):
            log = JsonArray.of(self.document.get("snapshot-log")).read(StoredSnapshot)
            return tuple((entry.timestamp_ms, entry.snapshot_id) for entry in log)

    @property
    def metadata_log(self) -> tuple[tuple[int, str], ...]:
        """(time in milliseconds, location) of earlier metadata files, oldest first."""
        return tuple(
            (int(e["timestamp-ms"]), text_of(e["metadata-file"])) for e in self.document.get("metadata-log") or ()
        )

    @property
    def statistics_files(self) -> tuple[tuple[int, str], ...]:
        """(snapshot id, location) of table and partition statistics."""
        statistics = [*(self.document.get("statistics") or ()), *(self.document.get("partition-statistics") or ())]
        return tuple((int(s["snapshot-id"]), text_of(s["statistics-path"])) for s in statistics)


def metadata_from_json(data: bytes, file: str = "") -> TableMetadata:
    """The metadata in a file, compressed or not. CorruptError when the file is not table metadata."""
    with decoding("a metadata file cannot be read", file=file):
        text = inflated(data, "gzip") if data[:2] == GZIP else data
        document = document_from_json(bytes(text), _ARRAYS)
        if "location" not in document:
            raise ValueError("it is not table metadata")
        metadata = TableMetadata(document)
        metadata.check()
        return metadata


def metadata_to_json(document: Document, compressed: bool = False) -> bytes:
    """The bytes of a metadata file, with `compressed` in gzip format."""
    data = document_to_json(document)
    return gzip.compress(data) if compressed else data


def brief(metadata: TableMetadata, compressed: bool = False) -> bytes:
    """The bytes of a metadata file with only the snapshots that branches and tags name, no snapshot log, and no type
    that pyiceberg does not know.

    It is for pyiceberg's clients of catalogs, which take a table's metadata apart as a whole.
    """
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    snapshots = JsonArray.of(metadata.document.get("snapshots"))
    stored = snapshots.read(StoredSnapshot)
    places = [place for place, snapshot in enumerate(stored) if snapshot.snapshot_id in named]
    known = {key: for_pyiceberg(metadata.document[key]) for key in SCHEMAS if key in metadata.document}
    fewer = {**metadata.document, **known, "snapshots": snapshots.only(places), "snapshot-log": JsonArray(())}
    return metadata_to_json(fewer, compressed)


def _schema(document: Document) -> Schema:
    """A schema. KeyError for one without its fields, which pyiceberg takes for a table without columns."""
    whole = with_all_types(document)
    return Schema.model_validate({**whole, "fields": whole["fields"]})


def _model(kind: Any, document: Document, parse: Callable[[Document], Any] | None = None) -> Any:
    try:
        return (parse or kind.model_validate)(document)
    except (ValidationError, ValueError, TypeError, KeyError) as error:
        why = first_line(error)
        raise UnsupportedError(
            f"a {kind.__name__} of the table cannot be understood",
            why=why,
            todo="It may use a type or transform of a later version of the format",
        ) from error
