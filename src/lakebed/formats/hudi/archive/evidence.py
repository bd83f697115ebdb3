"""The evidence that a plan rests on: the active timeline, the newest clean, the metadata table, and for a metadata
table the data table that it serves.

Gathering it takes three listings at most and reads one small file, however old the table is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.errors import CorruptError, TableNotFoundError
from lakebed.formats.hudi.archive.options import BEYOND_SAVEPOINT, METADATA_ENABLE
from lakebed.formats.hudi.archive.state_files import ActiveInstant, load_active
from lakebed.formats.hudi.codec.metadata import parse_clean_plan
from lakebed.formats.hudi.config import TableConfig, load_config
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.options import Options

METADATA_FOLDER = f"{HOODIE}/metadata"
"""The folder of a table's metadata table, which is a Hudi table itself."""


@dataclass(frozen=True, slots=True)
class LastClean:
    """The newest completed clean. `retained` is the earliest instant whose files its plan retained, "" for a policy
    that does not count commits; `savepoints` are those that it spared."""

    time: str
    retained: str
    savepoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """The table's metadata table. `compaction` is the time of its newest completed compaction, "" before the first;
    `pending` is a compaction that began and has not ended."""

    compaction: str
    pending: ActiveInstant | None = None


@dataclass(frozen=True, slots=True)
class DataTable:
    """The data table that a metadata table serves, and what it holds back there.

    `earliest_commit` is its oldest completed commit that no spared savepoint keeps, `savepoint` the oldest savepoint
    that holds its archival; both are times, "" for none. `pending` is its oldest pending instant.
    """

    earliest_commit: str
    pending: ActiveInstant | None = None
    savepoint: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a plan rests on: the timeline, and facts from outside it. Times compare as text; they are clock times in
    `timezone` (UTC or LOCAL)."""

    instants: tuple[ActiveInstant, ...]
    layout: int
    merge_on_read: bool
    clean: LastClean | None = None
    metadata: MetadataTable | None = None
    serves: DataTable | None = None
    timezone: str = ""

    @property
    def pending_write(self) -> ActiveInstant | None:
        """The oldest pending instant that writes data files."""
        return next((instant for instant in self.instants if instant.writes and not instant.done), None)

    def pending_of(self, *kinds: str) -> ActiveInstant | None:
        """The oldest pending instant of one of these kinds."""
        return next((instant for instant in self.instants if not instant.done and instant.kind in kinds), None)


def gather(store: Store, config: TableConfig, options: Options, storage: dict[str, str]) -> Evidence:
    """The evidence as of now. `storage` holds the options that open the store of the data table."""
    return evidence_of(store, config, options, storage, load_active(store, config.timeline_folder))


def evidence_of(
    store: Store, config: TableConfig, options: Options, storage: dict[str, str], instants: tuple[ActiveInstant, ...]
) -> Evidence:
    """The evidence of a timeline that was listed. What lies outside of it is asked for together."""
    acts: list[Callable[[], Any]] = [
        lambda: _last_clean(store, instants),
        lambda: _metadata_table(store, config, options),
        lambda: _data_table(store, options, storage),
    ]
    clean, metadata, serves = store.together(lambda act: act(), acts)
    return Evidence(
        instants=instants,
        layout=config.layout,
        merge_on_read=config.merge_on_read,
        clean=clean,
        metadata=metadata,
        serves=serves,
        timezone=config.timezone,
    )


def _last_clean(store: Store, instants: Sequence[ActiveInstant]) -> LastClean | None:
    """The newest completed clean, by its plan. A plan that cannot be read counts as one that retained everything from
    the oldest instant on, so it frees no replace commit."""
    if not any(instant.action == "replacecommit" for instant in instants):
        return None  # only replace commits wait for cleans
    clean = next((i for i in reversed(instants) if i.action == "clean" and i.done), None)
    if clean is None:
        return None
    plan = clean.file("requested") or clean.file("inflight")
    if plan is None or not plan.size:
        return LastClean(clean.time, instants[0].time)
    try:
        content = parse_clean_plan(store.read(plan.path))
    except (CorruptError, FileNotFoundError):
        return LastClean(clean.time, instants[0].time)
    return LastClean(clean.time, content.earliest_to_retain, content.savepoints)


def _metadata_table(store: Store, config: TableConfig, options: Options) -> MetadataTable | None:
    if not options[METADATA_ENABLE] or not config.properties.get("hoodie.table.metadata.partitions", "").strip():
        return None
    # Both tables have the same layout: they are upgraded together.
    instants = load_active(store, f"{METADATA_FOLDER}/{config.timeline_folder}")
    if not instants:
        return None
    last = max((i.time for i in instants if i.done and i.action == "commit"), default="")
    compacting = ("compaction", "logcompaction")
    return MetadataTable(last, next((i for i in instants if not i.done and i.kind in compacting), None))


def _data_table(store: Store, options: Options, storage: dict[str, str]) -> DataTable | None:
    root, folder, rest = store.location.rpartition(f"/{METADATA_FOLDER}")
    if not folder or rest:
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
