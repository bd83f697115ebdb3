"""Removing orphan files: files in the table's folder that no snapshot needs.

Rules: the reference engine's DeleteOrphanFilesSparkAction. The folder is listed before the metadata is read, so files
that are committed meanwhile are known. The files of a writer at work are too young to be removed. Locations are
compared in one spelling. When a path is known under another scheme or host the comparison cannot be trusted, so the run
stops.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from lakebed.errors import LakebedError, OptionError, UsageError
from lakebed.formats.iceberg import layout
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.expire import options as expire_options
from lakebed.formats.iceberg.expire.run import certain_ms, inside, not_removed, refuse_without_gc
from lakebed.formats.iceberg.expire.unused import paths_in
from lakebed.formats.iceberg.files import Files, spelling_of
from lakebed.formats.iceberg.manifests import lists_ahead, manifests_of
from lakebed.formats.iceberg.snapshot import iso_time
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.files import parse_location
from lakebed.kernel.files.places import is_below
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult, Skipped

_DAY_MS = 86_400_000
_DEFAULT_AGE_MS, _LEAST_AGE_MS = 3 * _DAY_MS, _DAY_MS


def remove_orphans(operations: TableOperations, options: Options, dry_run: bool, start: Loaded) -> ExpireResult:
    """Remove orphan files older than `orphan-files-older-than`; younger ones are named in `kept`.

    `start` is the metadata as the caller has loaded it. OptionError when that time is less than 24 hours ago,
    UsageError when a file's path is known under another scheme or host (`prefix-mismatch-mode`), UnsupportedError
    when `gc.enabled` is false.
    """
    now = clock.now_ms() if dry_run else certain_ms(operations.files, start.metadata)
    given = options[expire_options.ORPHANS_OLDER_THAN]
    older_than = now - _DEFAULT_AGE_MS if given is None else given
    if older_than > now - _LEAST_AGE_MS:
        raise OptionError(
            f"option {expire_options.ORPHANS_OLDER_THAN.key!r} leaves less than 24 hours",
            key=expire_options.ORPHANS_OLDER_THAN.key,
            why="files of writers at work would count as orphans",
            todo="Give a time at least a day ago",
        )
    refuse_without_gc(operations, start.metadata, options)
    folder = options[expire_options.LOCATION] or start.metadata.location
    files = _reaching(operations, folder)
    paths = [path for path, _ in files.walk(folder)]
    loaded, known = _known(operations, options)
    partition_names = {field.name for spec in loaded.metadata.specs.values() for field in spec.fields}
    unknown = [path for path in paths if not (known.has(path) or _hidden(inside(folder, path), partition_names))]
    orphans: list[str] = []
    kept: list[Skipped] = []
    for path, modified in zip(unknown, files.together(partial(_modified_ms, files), unknown), strict=True):
        if modified is None:
            continue  # another process removed it
        if modified >= older_than:
            kept.append(Skipped(inside(folder, path), f"it is not older than {iso_time(older_than)}"))
        elif known.has_elsewhere(path, operations.name):
            kept.append(Skipped(inside(folder, path), "its path is known under another scheme or host"))
        else:
            orphans.append(path)
    if not dry_run:
        standing = files.undeleted(orphans)
        kept += not_removed(standing, folder)
        orphans = [path for path in orphans if path not in standing]
        with suppress(LakebedError):
            _remove_staging_folders(files, loaded.metadata, folder, orphans, older_than)
    return ExpireResult((), tuple(inside(folder, path) for path in orphans), tuple(kept), dry_run)


def _remove_staging_folders(
    files: Files, metadata: TableMetadata, folder: str, orphans: Iterable[str], older_than: float
) -> None:
    """Remove empty folders for staged rows: those just emptied, and those not modified since `older_than`
    (milliseconds since 1970). Object stores have no empty folders."""
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
            if entry.name in emptied or entry.stat(follow_symlinks=False).st_mtime * 1000 < older_than:
                files.remove_empty(entry.path)


def _reaching(operations: TableOperations, folder: str) -> Files:
    """The table's files, and those below the folder that the caller named.

    UsageError for the table's own folder under another name, since the metadata has the files' own names.
    """
    files = operations.files
    if files.reaches(folder):
        return files
    place, root = parse_location(folder), files.local_path(operations.load().metadata.location)
    if place.is_local and root is not None:
        own, named = os.path.realpath(root), os.path.realpath(place.text)
        if is_below(own, named) or is_below(named, own):
            raise UsageError(
                f"{folder} is the table's own folder under another name",
                table=operations.name,
                why="the metadata has the files' own names, so every file would count as an orphan",
                todo="Spell the folder as the metadata does, or leave out the location",
            )
    return files.also(place.text)


_Place = tuple[str, str, str]
"""Scheme, host and folder."""


class _KnownFiles:
    """The files that the table knows, in the one spelling that `equal-schemes` and `equal-authorities` decide.

    Names are kept per folder, and each folder is spelled once: a table has many files and few folders.
    """

    def __init__(self, paths: Iterable[str], options: Options) -> None:
        self._schemes = options[expire_options.EQUAL_SCHEMES]
        self._authorities = options[expire_options.EQUAL_AUTHORITIES]
        self._mode = options[expire_options.MISMATCH]
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

    def has_elsewhere(self, path: str, table: str) -> bool:
        """Whether the table knows a file's path under another scheme or host, so that the file must stay.

        UsageError when `prefix-mismatch-mode` is ERROR.
        """
        place, name = self._parts(path)
        other = next((each for each in self._places.get(place[2], ()) if name in self._names[each]), None)
        if other is None or self._mode == "DELETE":
            return False
        if self._mode == "IGNORE":
            return True
        raise UsageError(
            "files are known under another scheme or host",
            table=table,
            file=path,
            why=f"the metadata says {other[0]}://{other[1]}, the listing {place[0]}://{place[1]}",
            todo="Declare them equal with equal-schemes or equal-authorities, or choose another prefix-mismatch-mode",
        )

    def _parts(self, path: str) -> tuple[_Place, str]:
        """The folder of a path, and the name in it."""
        folder, _, name = path.rpartition("/")
        if name in ("", ".", "..") or not folder or folder.endswith(("/", ":")):
            folder, _, name = spelling_of(path).rpartition("/")
        place = self._spellings.get(folder)
        if place is None:
            place = self._spellings[folder] = self._place(spelling_of(folder))
        return place, name

    def _place(self, folder: str) -> _Place:
        if folder.startswith("/"):
            return "file", "", folder
        scheme, _, rest = folder.partition("://")
        host, _, tail = rest.partition("/")
        return self._schemes.get(scheme, scheme), self._authorities.get(host, host), f"/{tail}"


@looks_again
def _known(operations: TableOperations, options: Options) -> tuple[Loaded, _KnownFiles]:
    """The metadata and the files that it knows. It is read anew where snapshots expire meanwhile."""
    loaded = operations.load()
    return loaded, _KnownFiles(_referenced(operations.files, loaded), options)


def _referenced(files: Files, loaded: Loaded) -> Iterator[str]:
    """All files that the table knows: metadata, statistics, manifest lists, manifests, and their files."""
    metadata = loaded.metadata
    yield loaded.location
    yield f"{metadata.location}/metadata/{layout.VERSION_HINT}"
    yield from (file for _, file in metadata.metadata_log)
    yield from (file for _, file in metadata.statistics_files)
    manifests: dict[str, ManifestFile] = {}
    files = lists_ahead(files, metadata.snapshots.values())
    for snapshot in metadata.snapshots.values():
        yield snapshot.manifest_list
        manifests |= {m.path: m for m in manifests_of(files, metadata, snapshot)}
    yield from manifests
    yield from _contents(files, metadata, manifests.values())


def _contents(files: Files, metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> Iterator[str]:
    for paths in paths_in(files, metadata, manifests, live_only=False):
        yield from paths.to_pylist()


def _hidden(path: str, partition_names: Iterable[str]) -> bool:
    """Whether a part of the path begins with `_` or `.` and is not the folder of a partition field of that name."""
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
