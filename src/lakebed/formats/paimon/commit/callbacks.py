"""Commit callbacks: those that options name, and what they get to know of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import ADD
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.layout import bucket_folder
from lakebed.formats.paimon.manifests import delta_list, entries_of, manifest_metas
from lakebed.formats.paimon.partition_text import cast_text
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.commit.callbacks import Committed, NamedCallbacks
from lakebed.kernel.options import Options


def named_callbacks(options: Options) -> NamedCallbacks:
    """The callbacks of the option `commit.callbacks`, each with its `commit.callback.NAME.param`."""
    key = opt.COMMIT_CALLBACKS
    return NamedCallbacks.of(key.key, options[key], options.raw, "commit.callback.")


def commits_after(history: History, options: Options, after: int) -> Iterator[Committed]:
    """The snapshots after an id, oldest first, without those that have expired."""
    for snapshot_id in history.snapshot_ids():
        if snapshot_id > after:
            snapshot = history.find(snapshot_id)
            if snapshot is not None:
                yield committed_snapshot(history, options, snapshot)


def committed_snapshot(history: History, options: Options, snapshot: Snapshot) -> Committed:
    """What a snapshot changed, as callbacks see it."""
    schema = history.schema(snapshot.schema_id)
    fields = schema.project(schema.partition_keys)
    types = [field.type for field in fields]
    folders = PartitionFolders.of(history.store, schema, options)
    entries = entries_of(history.store, manifest_metas(history.store, delta_list(snapshot)))
    partitions: dict[bytes, dict[str, str | None]] = {}
    files: dict[int, list[str]] = {}
    for entry in entries:
        values = decode_row(without_arity(entry.partition), types)
        folder = bucket_folder(folders.of_row(entry.partition), entry.bucket)
        files.setdefault(entry.kind, []).append(f"{folder}/{entry.file.file_name}")
        if entry.kind == ADD and fields:
            partitions[entry.partition] = {
                field.name: None if value is None else cast_text(value, field.type)
                for field, value in zip(fields, values, strict=True)
            }
    return Committed(
        history.store.location,
        snapshot.id,
        snapshot.commit_user,
        snapshot.commit_identifier,
        str(snapshot.commit_kind).lower(),
        tuple(partitions.values()),
        tuple(files.pop(ADD, ())),
        tuple(name for names in files.values() for name in names),
        dict(snapshot.properties),
    )
