"""The metadata tables with a row per manifest: `manifests`, and `all_manifests` of every snapshot.

Rule: ManifestsTable and AllManifestsTable of the reference engine. Bounds of partition fields are texts for people, as
their transforms spell them, and "null" where a manifest has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes

from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.partition_type import partition_types
from lakebed.formats.iceberg.system_tables.file_tables import State
from lakebed.kernel.decoding import decoding
from lakebed.verbs.system_tables import SystemTable, of_rows

_COUNTS = tuple(
    f"{what}_{kind}_files_count" for kind in ("data", "delete") for what in ("added", "existing", "deleted")
)


def _schema(every: bool) -> pa.Schema:
    """The columns; with `every` those that old manifest lists may leave out can be null, as in the reference engine."""
    summary = pa.struct([
        pa.field("contains_null", pa.bool_(), False), pa.field("contains_nan", pa.bool_(), not every),
        pa.field("lower_bound", pa.string()), pa.field("upper_bound", pa.string()),
    ])  # fmt: skip
    fields = [
        pa.field("content", pa.int32(), False), pa.field("path", pa.string(), False),
        pa.field("length", pa.int64(), False), pa.field("partition_spec_id", pa.int32(), every),
        pa.field("added_snapshot_id", pa.int64(), every),
        *(pa.field(name, pa.int32(), every and "_data_" in name) for name in _COUNTS),
        pa.field("partition_summaries", pa.list_(pa.field("element", summary, False)), every),
    ]  # fmt: skip
    if every:
        fields.append(pa.field("reference_snapshot_id", pa.int64(), False))
    return pa.schema(fields)


def manifests(state: State) -> SystemTable:
    """One row per manifest of the snapshot, in the order of its list."""
    return of_rows(_schema(False), lambda: (_row(state.metadata, m) for m in state.manifests()))


def all_manifests(state: State) -> SystemTable:
    """One row per manifest of each snapshot: a manifest of several snapshots comes with each of them."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for snapshot, listed in state.manifest_lists():
            for manifest in listed:
                yield *_row(state.metadata, manifest), snapshot.snapshot_id

    return of_rows(_schema(True), rows)


def _row(metadata: TableMetadata, manifest: ManifestFile) -> tuple[Any, ...]:
    counts = (manifest.added_files_count or 0, manifest.existing_files_count or 0, manifest.deleted_files_count or 0)
    none = (0, 0, 0)
    by_content = (*none, *counts) if manifest.content else (*counts, *none)
    return (
        manifest.content, manifest.path, manifest.length, manifest.spec_id, manifest.added_snapshot_id, *by_content,
        _summaries(metadata, manifest),
    )  # fmt: skip


def _summaries(metadata: TableMetadata, manifest: ManifestFile) -> list[dict[str, Any]]:
    spec = metadata.specs[manifest.spec_id]
    kinds = partition_types(metadata, spec)
    rows = []
    with decoding("the summaries of a manifest cannot be read", file=manifest.path):
        for field, (_, kind), summary in zip(spec.fields, kinds, manifest.partitions or (), strict=False):
            texts = [
                "null" if bound is None else field.transform.to_human_string(kind, from_bytes(kind, bytes(bound)))
                for bound in (summary.lower_bound, summary.upper_bound)
            ]
            rows.append(
                {
                    "contains_null": summary.contains_null, "contains_nan": bool(summary.contains_nan),
                    "lower_bound": texts[0], "upper_bound": texts[1],
                }
            )  # fmt: skip
    return rows
