"""The state of a table's timelines: size, oldest instant, what holds archival up, savepoints, and old archive files.

The data table and its metadata table are archived separately, and each can hold the other up. To see why instants pile
up one needs to look at both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.bounds import check_given, described, effective_bounds, with_properties
from lakebed.formats.hudi.archive.evidence import METADATA_FOLDER, gather
from lakebed.formats.hudi.archive.options import KEEP_MAX, KEEP_MIN
from lakebed.formats.hudi.archive.plan import plan_archival
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.archive.write_v1 import archive_files, last_instant
from lakebed.formats.hudi.codec.metadata import parse_savepoint
from lakebed.formats.hudi.config import PROPERTIES, TableConfig, load_config
from lakebed.formats.hudi.layout import HOODIE
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.scratch import SCRATCH_DIR, Scratch
from lakebed.model.upkeep import Blocker

_METADATA_KEPT: Mapping[str, object] = {KEEP_MIN.key: "20", KEEP_MAX.key: "30"}
"""What Hudi's writers keep of a metadata table's timeline by default."""


@dataclass(frozen=True, slots=True)
class SavepointReport:
    """Whether a table can be restored to a savepoint.

    `missing` are files that it should keep and that are gone. `archived_after` counts the archived commits after it,
    which Hudi's restore can no longer roll back.
    """

    instant: str
    missing: tuple[str, ...]
    archived_after: int

    @property
    def restorable(self) -> bool:
        """Whether no file is missing and no later commit is archived."""
        return not self.missing and not self.archived_after


@dataclass(frozen=True, slots=True)
class TimelineReport:
    """One timeline.

    `name` is data or metadata. `size` counts the active instants, `oldest` is the time of the oldest one ("" for none),
    `due` how many of them an archival would archive now.

    `archive_files` and `archive_bytes` are the size of the archive that readers use; `last_archived` is the greatest
    requested time in what was archived last ("" for nothing).

    `legacy` are archive files outside the folder that new ones go to. `legacy_needed` says whether readers still need
    them: an upgrade to layout 2 copies the old archive and leaves the old files behind.
    """

    name: str
    location: str
    size: int
    pending: int
    oldest: str
    due: int
    blockers: tuple[Blocker, ...]
    settings: Mapping[str, str]
    savepoints: tuple[SavepointReport, ...]
    legacy: tuple[str, ...]
    legacy_needed: bool
    archive_files: int = 0
    archive_bytes: int = 0
    last_archived: str = ""


def timelines(store: Store, given: Mapping[str, object], storage: Mapping[str, str]) -> tuple[TimelineReport, ...]:
    """The report of the data table's timeline, then of the metadata table's if there is one. Changes nothing."""
    check_given(given)
    reports = [_report("data", store, given, storage)]
    if store.exists(f"{METADATA_FOLDER}/{PROPERTIES}"):
        metadata = open_store(f"{store.location}/{METADATA_FOLDER}", storage)
        kept = {key: value for key, value in _METADATA_KEPT.items() if key not in given}
        report = _report("metadata", metadata, {**kept, **given}, storage)
        defaults = {
            key: f"{value}: what Hudi keeps of a metadata table"
            for key, value in kept.items()
            if report.settings[key] == f"{value}: as given"
        }
        reports.append(replace(report, settings={**report.settings, **defaults}))
    return tuple(reports)


def _report(name: str, store: Store, given: Mapping[str, object], storage: Mapping[str, str]) -> TimelineReport:
    config = load_config(store)
    asked = check_given(given)
    options = with_properties(asked, config)
    evidence = gather(store, config, options, dict(storage))
    bounds = effective_bounds(options, evidence.instants, config)
    plan = plan_archival(evidence, options, bounds)
    legacy = _legacy(store, config)
    return TimelineReport(
        name=name,
        location=store.location,
        size=len(evidence.instants),
        pending=sum(not instant.done for instant in evidence.instants),
        oldest=evidence.instants[0].time if evidence.instants else "",
        due=len(plan.archived),
        blockers=plan.blockers,
        settings=described(options, asked, bounds),
        savepoints=_savepoints(store, config, evidence.instants, Scratch(options[SCRATCH_DIR])),
        legacy=legacy,
        legacy_needed=bool(legacy) and config.layout < 2,
        **_extent(store, config, Scratch(options[SCRATCH_DIR])),
    )


class _Extent(TypedDict):
    archive_files: int
    archive_bytes: int
    last_archived: str


def _extent(store: Store, config: TableConfig, scratch: Scratch) -> _Extent:
    """The size of the archive, from a manifest or from a listing and the last block of the newest file."""
    if config.layout >= 2:
        history = load_history(store, config.archive_folders[0]).files
        newest = max((max(file.first, file.last) for file in history), default="")
        return _Extent(
            archive_files=len(history),
            archive_bytes=sum(max(file.length, 0) for file in history),
            last_archived=newest,
        )
    files = [info for folder in config.archive_folders for info in archive_files(store, folder)]
    newest = max((last_instant(store, info, scratch) for info in files[-1:]), default="")
    return _Extent(archive_files=len(files), archive_bytes=sum(info.size for info in files), last_archived=newest)


def _legacy(store: Store, config: TableConfig) -> tuple[str, ...]:
    folders = config.archive_folders[1:] if config.layout < 2 else (f"{HOODIE}/archived", f"{HOODIE}/history")
    return tuple(info.path for folder in folders for info in archive_files(store, folder))


def _savepoints(
    store: Store, config: TableConfig, instants: tuple[ActiveInstant, ...], scratch: Scratch
) -> tuple[SavepointReport, ...]:
    saved = [instant for instant in instants if instant.action == "savepoint" and instant.done]
    if not saved:
        return ()
    writes = {"commit", "deltacommit", "replacecommit"}
    old = [i.time for i in ArchivedTimeline(store, config, scratch).instants() if i.action in writes]
    active = {instant.time for instant in instants if instant.writes}
    return tuple(
        SavepointReport(
            instant.time,
            _missing(store, instant),
            len({time for time in old if time > instant.time} - active),
        )
        for instant in saved
    )


def _missing(store: Store, savepoint: ActiveInstant) -> tuple[str, ...]:
    """The files that a savepoint names and that are gone; its own file if that cannot be read."""
    try:
        partitions = parse_savepoint(store.read(savepoint.last.path))
    except CorruptError:
        return (savepoint.last.path,)
    gone = []
    for partition, names in partitions.items():
        present = {info.name for info in store.list(partition).files}
        gone += [f"{partition}/{name}" if partition else name for name in names if name not in present]
    return tuple(gone)
