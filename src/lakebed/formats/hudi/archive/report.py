"""The state of a table's timelines: size, oldest instant, what holds archival up, savepoints, and old archive files.

The data table and its metadata table are archived separately, and each can hold the other up. To see why instants pile
up one needs to look at both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.bounds import check_given, described, effective_bounds, with_properties
from lakebed.formats.hudi.archive.evidence import METADATA_FOLDER, evidence_of
from lakebed.formats.hudi.archive.options import KEEP_MAX, KEEP_MIN
from lakebed.formats.hudi.archive.plan import plan_archival
from lakebed.formats.hudi.archive.state_files import ActiveInstant, load_active
from lakebed.formats.hudi.archive.write_v1 import archive_files_of, last_instant
from lakebed.formats.hudi.codec.metadata import parse_savepoint
from lakebed.formats.hudi.config import PROPERTIES, TableConfig, load_config
from lakebed.formats.hudi.layout import HOODIE, file_path
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.scratch import SCRATCH_DIR, Scratch
from lakebed.model.upkeep import Blocker

_METADATA_KEPT: Mapping[str, object] = {KEEP_MIN.key: "20", KEEP_MAX.key: "30"}
"""The default bounds by which Hudi's writers archive a metadata table's timeline."""


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
    config = load_config(store)
    return timelines_of(store, given, storage, config, load_active(store, config.timeline_folder))


def timelines_of(
    store: Store,
    given: Mapping[str, object],
    storage: Mapping[str, str],
    config: TableConfig,
    instants: tuple[ActiveInstant, ...],
) -> tuple[TimelineReport, ...]:
    """The reports of a table whose settings and active timeline are known."""
    check_given(given)
    acts: list[Callable[[], TimelineReport | None]] = [
        lambda: _report("data", store, given, storage, config, instants),
        lambda: _metadata_report(store, given, storage),
    ]
    return tuple(report for report in store.together(lambda act: act(), acts) if report is not None)


def _metadata_report(store: Store, given: Mapping[str, object], storage: Mapping[str, str]) -> TimelineReport | None:
    """The report of the metadata table's timeline, None without such a table."""
    if not store.exists(f"{METADATA_FOLDER}/{PROPERTIES}"):
        return None
    metadata = open_store(f"{store.location}/{METADATA_FOLDER}", storage)
    kept = {key: value for key, value in _METADATA_KEPT.items() if key not in given}
    config = load_config(metadata)
    instants = load_active(metadata, config.timeline_folder)
    report = _report("metadata", metadata, {**kept, **given}, storage, config, instants)
    defaults = {
        key: f"{value}: what Hudi keeps of a metadata table"
        for key, value in kept.items()
        if report.settings[key] == f"{value}: as given"
    }
    return replace(report, settings={**report.settings, **defaults})


def _report(
    name: str,
    store: Store,
    given: Mapping[str, object],
    storage: Mapping[str, str],
    config: TableConfig,
    instants: tuple[ActiveInstant, ...],
) -> TimelineReport:
    asked = check_given(given)
    options = with_properties(asked, config)
    scratch = Scratch(options[SCRATCH_DIR])
    acts: list[Callable[[], Any]] = [
        lambda: evidence_of(store, config, options, dict(storage), instants),
        lambda: _archive(store, config, scratch),
        lambda: _savepoints(store, config, instants, scratch),
    ]
    evidence, (legacy, extent), savepoints = store.together(lambda act: act(), acts)
    bounds = effective_bounds(options, evidence.instants, config)
    plan = plan_archival(evidence, options, bounds)
    return TimelineReport(
        name=name,
        location=store.location,
        size=len(evidence.instants),
        pending=sum(not instant.done for instant in evidence.instants),
        oldest=evidence.instants[0].time if evidence.instants else "",
        due=len(plan.archived),
        blockers=plan.blockers,
        settings=described(options, asked, bounds),
        savepoints=savepoints,
        legacy=legacy,
        legacy_needed=bool(legacy) and config.layout < 2,
        **extent,
    )


class _Extent(TypedDict):
    archive_files: int
    archive_bytes: int
    last_archived: str


def _archive(store: Store, config: TableConfig, scratch: Scratch) -> tuple[tuple[str, ...], _Extent]:
    """The archive files in older folders, and the size of the archive: from a manifest, or from the listings and the
    last block of the newest file."""
    old = (f"{HOODIE}/archived", f"{HOODIE}/history")
    folders = old if config.layout >= 2 else config.archive_folders
    acts: list[Callable[[], Any]] = [lambda: store.list_many(folders)]
    if config.layout >= 2:
        acts.append(lambda: load_history(store, config.archive_folders[0]).files)
    listings, *manifest = store.together(lambda act: act(), acts)
    by_folder = [archive_files_of(listing) for listing in listings]
    legacy = tuple(info.path for files in (by_folder if manifest else by_folder[1:]) for info in files)
    if manifest:
        newest = max((max(file.first, file.last) for file in manifest[0]), default="")
        size = sum(max(file.length, 0) for file in manifest[0])
        return legacy, _Extent(archive_files=len(manifest[0]), archive_bytes=size, last_archived=newest)
    files = [info for of_folder in by_folder for info in of_folder]
    newest = max((last_instant(store, info, scratch) for info in files[-1:]), default="")
    size = sum(info.size for info in files)
    return legacy, _Extent(archive_files=len(files), archive_bytes=size, last_archived=newest)


def _savepoints(
    store: Store, config: TableConfig, instants: tuple[ActiveInstant, ...], scratch: Scratch
) -> tuple[SavepointReport, ...]:
    saved = [instant for instant in instants if instant.action == "savepoint" and instant.done]
    if not saved:
        return ()
    writes = {"commit", "deltacommit", "replacecommit"}
    acts: list[Callable[[], Any]] = [
        ArchivedTimeline(store, config, scratch).instants,
        lambda: store.together(lambda instant: _missing(store, instant), saved),
    ]
    archived, missing = store.together(lambda act: act(), acts)
    old = [i.time for i in archived if i.action in writes]
    active = {instant.time for instant in instants if instant.writes}
    return tuple(
        SavepointReport(
            instant.time,
            gone,
            len({time for time in old if time > instant.time} - active),
        )
        for instant, gone in zip(saved, missing, strict=True)
    )


def _missing(store: Store, savepoint: ActiveInstant) -> tuple[str, ...]:
    """The files that a savepoint names and that are gone; its own file if that cannot be read."""
    try:
        partitions = parse_savepoint(store.read(savepoint.last.path))
    except CorruptError:
        return (savepoint.last.path,)
    gone = []
    for (partition, names), listing in zip(partitions.items(), store.list_many([*partitions]), strict=True):
        present = {*listing.names}
        gone += [file_path(partition, name) for name in names if name not in present]
    return tuple(gone)
