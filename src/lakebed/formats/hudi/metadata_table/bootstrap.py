"""Build the metadata table of a table that has none, with the part `files`, from one walk over the table's folders.

    properties -> log file without records -> requested -> inflight -> base file -> completed
    -> the table's own property names the part

Whatever was cut off before that last step, the next writer begins anew. Nothing is built while another write is
pending, as nobody knows which of its files count.

Rules: Hudi's `HoodieBackedTableMetadataWriter.initializeFromFilesystem`.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Mapping

from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import write_block
from lakebed.formats.hudi.codec.properties import properties_text
from lakebed.formats.hudi.config import PROPERTIES, TableConfig
from lakebed.formats.hudi.layout import HOODIE, PARTITION_METADATA, file_path, parse_base_name, parse_log_name
from lakebed.formats.hudi.metadata_table.named import INFLIGHT, PARTITIONS
from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.metadata_table.records import FILES, FILES_GROUP, GroupRecords, Sizes, file_records, named
from lakebed.formats.hudi.metadata_table.target import Target, own_config, stat_of
from lakebed.formats.hudi.metadata_table.turn import Turn, building
from lakebed.formats.hudi.metadata_table.write import base_file, encoded, schema_text
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.formats.hudi.timeline.writing import complete, inflight, request
from lakebed.kernel import clock
from lakebed.kernel.files import InnerStore, Store

_EMPTY_DELETES = b"\x00\x00\x00\x03\x00\x00\x00\x01\x00"
_TOKEN = "0-0-0"
_PLANNED = frozenset({"compaction", "logcompaction", "clustering", "clean", "savepoint", "indexing"})
"""Pending actions whose files are known: they have their own instant, or are listed until they are gone."""
_FIRST_SUFFIX = 10
"""What follows an instant of table version 6 in the instant that builds a part."""


def walked_files(store: Store, partitioned: bool = True) -> dict[str, Sizes]:
    """The data files of each partition of a table, by one walk over all of its folders. The root of a table that is not
    `partitioned` is a partition whether a file there says so or not: not every engine writes that file."""
    files: dict[str, Sizes] = {}
    partitions: set[str] = set()
    for info in store.walk():
        folder, _, name = info.path.rpartition("/")
        if folder == HOODIE or folder.startswith(f"{HOODIE}/"):
            continue
        if name == PARTITION_METADATA or name.startswith(f"{PARTITION_METADATA}."):
            partitions.add(folder)
        elif parse_base_name(name) or parse_log_name(name):
            files.setdefault(folder, {})[name] = (info.size, False)
    if not partitioned and "" in files:
        partitions.add("")
    return {partition: files.get(partition, {}) for partition in sorted(partitions)}


def can_build(timeline: Timeline) -> bool:
    """Whether no write and no rollback of a table is pending."""
    return all(entry.done or entry.action in _PLANNED for entry in timeline.entries)


def without_pending(timeline: Timeline, files: Mapping[str, Sizes]) -> dict[str, Sizes]:
    """The files without those that pending table services have made so far."""
    pending = {entry.time for entry in timeline.entries if not entry.done}

    def counts(name: str) -> bool:
        base, log = parse_base_name(name), parse_log_name(name)
        file = base[1] if base else log[1] if log and timeline.completion_times else None
        return file is None or file.instant not in pending

    return {part: {name: size for name, size in each.items() if counts(name)} for part, each in files.items()}


def build(store: Store, described: TableConfig, data: Timeline, files: Mapping[str, Sizes], turn: Turn) -> TableConfig:
    """Build it from the files of the table. The table's settings after that. CommitConflictError where the `turn` ends
    before the table's properties name it."""
    with building(store, FOLDER, turn):
        _write(store, described, data, files, turn)
        return update_properties(store, {PARTITIONS: FILES, INFLIGHT: ""})


def _write(store: Store, described: TableConfig, data: Timeline, files: Mapping[str, Sizes], turn: Turn) -> None:
    inner = InnerStore(store, FOLDER)
    properties = new_properties(described)
    now = clock.moment(datetime.UTC)
    inner.write(PROPERTIES, properties_text(properties, f"Properties saved on {now.isoformat()}", now))
    config = own_config(properties, described, store.location)
    target = Target(store, inner, described, config, data, Timeline((), config.timeline_folder, config.layout >= 2))
    instant = build_instant(target)
    files = without_pending(data, files)
    partitions: Sizes = {named(partition): (0, False) for partition in files}
    records = file_records(described.version, {p: sizes for p, sizes in files.items() if sizes}, partitions)
    build_part(target, instant, [records], turn)


def build_instant(target: Target) -> str:
    """The instant that builds a part: in table version 6 it follows the newest instant of the table."""
    used = {entry.time for entry in target.timeline.entries}
    done = [entry.time for entry in target.data.entries if entry.done]
    number = 0
    while True:
        if target.config.completion_times:
            instant = f"{number:017d}"
        else:
            instant = f"{max(done, default='00000000000000')}{_FIRST_SUFFIX + number:03d}"
        if instant not in used:
            return instant
        number += 1


def build_part(target: Target, instant: str, groups: list[GroupRecords], turn: Turn) -> None:
    """Write the first base files of the file groups of a part, all of which must be given, as one delta commit.
    CommitConflictError where the `turn` ends before."""
    store, config, part = target.store, target.config, groups[0].part
    files = {file_path(part, PARTITION_METADATA): f"commitTime={instant}\npartitionDepth=1\n".encode()}
    for each in groups:
        block = write_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: instant}, _EMPTY_DELETES)
        files[f"{part}/.{each.file_id}_{instant}.log.1_{_TOKEN}"] = block
    turn()
    store.write_many(files)
    turn()
    request(store, config, instant, "deltacommit")
    inflight(store, config, instant, "deltacommit")
    files, stats = {}, []
    for each in groups:
        if not len(each.keys) and each.file_id != FILES_GROUP:
            continue
        name = f"{each.file_id}_{_TOKEN}_{instant}.hfile"
        data = base_file(target.described.version, each.keys, each.values)
        files[file_path(part, name)] = data
        stats.append(stat_of(part, each.file_id, name, len(data), "null", len(each.keys), inserts=len(each.keys)))
    turn()
    store.write_many(files)
    schema = schema_text(target.described.version)
    done = encoded(target, stats, "BULK_INSERT", schema)
    turn()
    complete(store, config, instant, target.new_instant(instant), "deltacommit", done)
    turn()
    target.again()


def new_properties(described: TableConfig) -> dict[str, str]:
    """The properties of the metadata table of a table."""
    version, given = described.version, described.properties
    name = f"{described.name}_metadata"
    properties = {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": str(described.layout),
        "hoodie.table.recordkey.fields": "key",
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.archivelog.folder": given.get("hoodie.archivelog.folder") or ("archived" if version < 8 else "history"),
        "hoodie.table.checksum": str(zlib.crc32(f".{name}".encode())),  # of the database too, of which it names none
    }
    if version < 8:
        return properties | {
            "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
            "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
        }
    return properties | {
        "hoodie.table.initial.version": str(version),
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.timeline.path": given.get("hoodie.timeline.path") or "timeline",
        "hoodie.timeline.history.path": given.get("hoodie.timeline.history.path") or "history",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    }
