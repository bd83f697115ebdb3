"""Removing orphan files: what lies in the table's folder and what no snapshot, old or new, knows.

Rules: the reference engine's DeleteOrphanFilesSparkAction. The folder is listed before the metadata is read, so that
what is committed meanwhile is known; a file of a writer at work is spared by its age. Locations are compared in one
spelling; a path that is known under another scheme or host stops the run, for then the comparison cannot be trusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from lakebed.errors import LakebedError, OptionError, UsageError
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.expire import options as mine
from lakebed.formats.iceberg.expire.run import certain_ms, inside, path_pieces, refuse_without_gc
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.formats.iceberg.manifests import manifests_of
from lakebed.formats.iceberg.snapshot import iso_time
from lakebed.kernel import clock
from lakebed.kernel.files import parse_location
from lakebed.kernel.files.places import is_below
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult, Skipped

_DAY_MS = 86_400_000
_DEFAULT_AGE_MS, _LEAST_AGE_MS = 3 * _DAY_MS, _DAY_MS


def remove_orphans(operations: TableOperations, options: Options, dry_run: bool) -> ExpireResult:
    """Remove orphan files older than `orphan-files-older-than`; younger ones are named in `kept`.

    UsageError when a file's path is known under another scheme or host (`prefix-mismatch-mode`).
    """
    start = operations.load()
    now = clock.now_ms() if dry_run else certain_ms(operations.files, start.metadata)
    given = options[mine.ORPHANS_OLDER_THAN]
    before = now - _DEFAULT_AGE_MS if given is None else given
    if before > now - _LEAST_AGE_MS:
        raise OptionError(
            f"option {mine.ORPHANS_OLDER_THAN.key!r} leaves less than 24 hours", key=mine.ORPHANS_OLDER_THAN.key,
            why="files of writers at work would be taken for orphans", todo="Give a time at least a day ago",
        )  # fmt: skip
    refuse_without_gc(operations, start.metadata, options)
    folder = options[mine.LOCATION] or start.metadata.location
    files = _reaching(operations, folder)
    there = [path for path, _ in files.walk(folder)]
    loaded = operations.load()
    known = _Known(_referenced(operations.files, loaded), options)
    names = {field.name for spec in loaded.metadata.specs.values() for field in spec.fields}
    orphans: list[str] = []
    kept: list[Skipped] = []
    for path in there:
        if known.has(path) or _hidden(inside(folder, path), names):
            continue
        written = _modified_ms(files, path)
        if written is None or written >= before:
            kept.append(Skipped(inside(folder, path), f"it is not older than {iso_time(before)}"))
        elif known.elsewhere(path, operations.name):
            kept.append(Skipped(inside(folder, path), "its path is known under another scheme or host"))
        else:
            orphans.append(path)
    if not dry_run:
        try:
            files.delete_many(orphans)
            _remove_staging_folders(files, loaded.metadata, folder, orphans, before)
        except LakebedError as error:
            kept.append(Skipped("some files", f"they could not be removed: {error}"))
    return ExpireResult((), tuple(inside(folder, path) for path in orphans), tuple(kept), dry_run)


def _remove_staging_folders(
    files: Files, metadata: TableMetadata, folder: str, orphans: Iterable[str], before: float
) -> None:
    """Remove folders for staged rows that hold nothing: those just emptied, and those that nobody has touched since
    `before`. A store of objects has no empty folders."""
    place = layout.data_folder(metadata.location, metadata.properties)
    if not files.reaches(place):
        return
    data, root = files.local_path(place), files.local_path(folder)
    if data is None or root is None or not data.startswith(root.rstrip("/") + "/"):
        return
    emptied = {path.rpartition("/")[0].rpartition("/")[2] for path in orphans}
    with suppress(OSError), os.scandir(data) as entries:
        for entry in entries:
            if not entry.name.startswith(layout.STAGING_PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            if entry.name in emptied or entry.stat(follow_symlinks=False).st_mtime * 1000 < before:
                files.remove_empty(entry.path)


def _reaching(operations: TableOperations, folder: str) -> Files:
    """The table's files, and those below the folder that the caller named.

    UsageError for the table's own folder by another name: the metadata knows its files under their own.
    """
    files = operations.files
    if files.reaches(folder):
        return files
    place, root = parse_location(folder), files.local_path(operations.load().metadata.location)
    if place.is_local and root is not None:
        here, there = os.path.realpath(root), os.path.realpath(place.text)
        if is_below(here, there) or is_below(there, here):
            raise UsageError(
                f"{folder} is the table's own folder by another name", table=operations.name,
                why="the metadata knows its files under their own names, so each would be taken for an orphan",
                todo="Give the folder as the metadata spells it, or no location",
            )  # fmt: skip
    return files.also(place.text)


_Place = tuple[str, str, str]
"""Scheme, host and folder."""


class _Known:
    """The locations that the table knows, in one spelling, with what `equal-schemes` and `equal-authorities` say.

    Folders are spelled once and names kept by folder: a table has many files and few folders.
    """

    def __init__(self, paths: Iterable[str], options: Options) -> None:
        self._schemes = options[mine.EQUAL_SCHEMES]
        self._authorities = options[mine.EQUAL_AUTHORITIES]
        self._mode = options[mine.MISMATCH]
        self._spellings: dict[str, _Place] = {}
        self._names: dict[_Place, set[str]] = {}
        for path in paths:
            place, name = self._parts(path)
            self._names.setdefault(place, set()).add(name)
        self._places: dict[str, list[_Place]] = {}
        for place in self._names:
            self._places.setdefault(place[2], []).append(place)

    def has(self, path: str) -> bool:
        """Whether the table knows a file."""
        place, name = self._parts(path)
        return name in self._names.get(place, ())

    def elsewhere(self, path: str, table: str) -> bool:
        """Whether a file that it does not know has a path that it does, and is to be left alone for that."""
        place, name = self._parts(path)
        other = next((known for known in self._places.get(place[2], ()) if name in self._names[known]), None)
        if other is None or self._mode == "DELETE":
            return False
        if self._mode == "IGNORE":
            return True
        raise UsageError(
            "files are known under another scheme or host", table=table, file=path,
            why=f"the metadata says {other[0]}://{other[1]}, the listing {place[0]}://{place[1]}",
            todo="Say that both are one with equal-schemes or equal-authorities, or choose a prefix-mismatch-mode",
        )  # fmt: skip

    def _parts(self, path: str) -> tuple[_Place, str]:
        """The folder of a path, and its name there."""
        folder, _, name = path.rpartition("/")
        if name in ("", ".", "..") or not folder or folder.endswith(("/", ":")):
            folder, _, name = self._spelled(path).rpartition("/")
        place = self._spellings.get(folder)
        if place is None:
            place = self._spellings[folder] = self._place(self._spelled(folder))
        return place, name

    def _place(self, folder: str) -> _Place:
        if folder.startswith("/"):
            return "file", "", folder
        scheme, _, rest = folder.partition("://")
        host, _, tail = rest.partition("/")
        return self._schemes.get(scheme, scheme), self._authorities.get(host, host), f"/{tail}"

    @staticmethod
    def _spelled(path: str) -> str:
        """A scheme that no store here serves is still a name to compare."""
        try:
            return spelled(path)
        except LakebedError:
            return path


def _referenced(files: Files, loaded: Loaded) -> Iterator[str]:
    """All that the table knows: every snapshot's lists, manifests and files, metadata and statistics."""
    metadata = loaded.metadata
    yield loaded.location
    yield f"{metadata.location}/metadata/{layout.VERSION_HINT}"
    yield from (file for _, file in metadata.metadata_log)
    yield from (file for _, file in metadata.statistics_files)
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots.values():
        yield snapshot.manifest_list
        manifests |= {m.path: m for m in manifests_of(files, metadata, snapshot)}
    yield from manifests
    yield from _contents(files, metadata, manifests.values())


def _contents(files: Files, metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> Iterator[str]:
    for piece in path_pieces(files, metadata, manifests, live_only=False):
        yield from piece.to_pylist()


def _hidden(path: str, partition_names: Iterable[str]) -> bool:
    """Whether a part of the path begins with `_` or `.` and is no folder of a partition of such a name."""
    parts = path.split("/")
    return any(
        part.startswith(("_", ".")) and not any(part.startswith(f"{name}=") for name in partition_names)
        for part in parts
    )


def _modified_ms(files: Files, path: str) -> float | None:
    """When a file was last written; None when it is gone."""
    try:
        return files.modified(path) * 1000
    except FileNotFoundError:
        return None
