"""Gathers what a plan rests on: the active timeline, the newest clean, the metadata table, or the data table that a
metadata table serves.

Three listings at most and one small file, whatever the table's age.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.errors import CorruptError, TableNotFoundError
from lakebed.formats.hudi.archive.guards import DataTable, Evidence, LastClean, MetadataTable
from lakebed.formats.hudi.archive.options import BEYOND_SAVEPOINT, METADATA_ENABLE
from lakebed.formats.hudi.archive.state_files import ActiveInstant, load_active
from lakebed.formats.hudi.codec.metadata import parse_clean_plan
from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.options import Options

METADATA_FOLDER = f"{HOODIE}/metadata"
"""Where a table's metadata table lies, itself a Hudi table."""


def gather(store: Store, config: TableConfig, options: Options, storage: dict[str, str]) -> Evidence:
    """The evidence as of now; `storage` are the options by which a store beside this one is opened."""
    instants = load_active(store, config.timeline_folder)
    return Evidence(
        instants=instants,
        layout=config.layout,
        merge_on_read=config.merge_on_read,
        clean=_last_clean(store, instants),
        metadata=_metadata_table(store, config, options),
        serves=_data_table(store, options, storage),
        timezone=config.timezone,
    )


def _last_clean(store: Store, instants: Sequence[ActiveInstant]) -> LastClean | None:
    """The newest completed clean by its plan. A plan that cannot be read retains all from the oldest instant on: it
    frees no replace commit."""
    if not any(instant.action == "replacecommit" for instant in instants):
        return None  # the clean matters to replace commits alone
    clean = next((i for i in reversed(instants) if i.action == "clean" and i.done), None)
    if clean is None:
        return None
    plan = clean.file("requested") or clean.file("inflight")
    if plan is None or not plan.size:
        return LastClean(clean.time, instants[0].time)
    try:
        found = parse_clean_plan(store.read(plan.path))
    except (CorruptError, FileNotFoundError):
        return LastClean(clean.time, instants[0].time)
    return LastClean(clean.time, found.earliest_to_retain, found.savepoints)


def _metadata_table(store: Store, config: TableConfig, options: Options) -> MetadataTable | None:
    if not options[METADATA_ENABLE] or not config.properties.get("hoodie.table.metadata.partitions", "").strip():
        return None
    # Its layout is that of the data table: both are upgraded together.
    instants = load_active(store, f"{METADATA_FOLDER}/{config.timeline_folder}")
    if not instants:
        return None
    last = max((i.time for i in instants if i.done and i.action == "commit"), default="")
    compacting = ("compaction", "logcompaction")
    return MetadataTable(last, next((i for i in instants if not i.done and i.kind in compacting), None))


def _data_table(store: Store, options: Options, storage: dict[str, str]) -> DataTable | None:
    root, found, rest = store.location.rpartition(f"/{METADATA_FOLDER}")
    if not found or rest:
        return None
    data = open_store(root, storage)
    try:
        config = load_config(data)
    except TableNotFoundError:
        return None
    instants = load_active(data, config.timeline_folder)
    saved = sorted(i.time for i in instants if i.action == "savepoint" and i.done)
    spared = saved if options[BEYOND_SAVEPOINT] else ()
    earliest = min((i.time for i in instants if i.done and i.writes and i.time not in spared), default="")
    holding = "" if options[BEYOND_SAVEPOINT] else next(iter(saved), "")
    return DataTable(earliest, next((i for i in instants if not i.done), None), holding)
