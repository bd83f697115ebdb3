"""The plan of a read: which files of which snapshot, one split a bucket."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, bucket_folder, partition_folder
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.read.bucket import BucketReader, PaimonSplit
from lakebed.formats.paimon.read.pruning import kept_entries
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options
from lakebed.kernel.predicates import columns_of
from lakebed.verbs.read import ReadPlan


def plan_snapshot(
    history: History, snapshot: Snapshot | None, schema: TableSchema, options: Options,
    columns: Sequence[str], predicate: pc.Expression | None,
) -> ReadPlan[PaimonSplit]:  # fmt: skip
    """The rows of a snapshot (None: of an empty table) in the columns given, of those that the predicate keeps."""
    table = history.store.location
    refuse_unserved(schema, options, table)
    _refuse_unread(schema, options, table)
    whole = arrow_schema(schema.fields)
    used = {*columns, *columns_of(predicate, whole)}
    needed = tuple(name for name in schema.names if name in used)
    live = [entry for entry in live_files(history.store, snapshot) if entry.bucket != POSTPONE_BUCKET]
    splits = _splits(kept_entries(live, predicate, schema), schema, options)
    reader = BucketReader(history, schema, options, tuple(columns), needed, predicate)
    return ReadPlan(arrow_schema(schema.project(tuple(columns))), splits, reader)


def _splits(entries: Sequence[ManifestEntry], schema: TableSchema, options: Options) -> tuple[PaimonSplit, ...]:
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    fields = schema.project(schema.partition_keys)
    types = [field.type for field in fields]
    made: list[PaimonSplit] = []
    for (partition, bucket), found in buckets.items():
        values = decode_row(without_arity(partition), types)
        parent = partition_folder(
            fields, values, options[opt.PARTITION_DEFAULT_NAME], options[opt.PARTITION_LEGACY_NAME]
        )
        folder = bucket_folder(parent, bucket)
        files = tuple(entry.file for entry in found)
        made.append(PaimonSplit(folder, sum(file.file_size for file in files), folder, files))
    return tuple(made)


def _refuse_unread(schema: TableSchema, options: Options, table: str) -> None:
    merge_function(schema, options)
    refused = {"tables with deletion vectors": options[opt.DELETION_VECTORS]}
    for what, holds in refused.items():
        if holds:
            raise UnsupportedError(
                f"lakebed does not read {what} yet", table=table, todo="The support grid of the README says what works"
            )
