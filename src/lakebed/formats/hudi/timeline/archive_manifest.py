"""The files of the archived timeline of layout 2, by the manifest that counts.

Rules: Hudi's `LSMTimeline.latestSnapshotManifest` and `latestSnapshotVersion`. `_version_` names the manifest that
counts. Where that file is missing or holds no number, the greatest whole manifest counts: it can be read, and all files
that it names are there. Hudi itself takes the greatest, whole or not.

Each manifest builds on the one before, and its number is claimed. So a whole manifest that follows the one in
`_version_` counts already: its writer died before it updated `_version_`, or is about to. An archiver that is overtaken
in between therefore cannot take history back.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.lsm import (
    MANIFEST_PREFIX,
    VERSION_FILE,
    LsmFile,
    manifest_version,
    parse_manifest,
    parse_version,
)
from lakebed.kernel.files import Store


@dataclass(frozen=True, slots=True)
class History:
    """The archived timeline at one moment: the manifest's number, 0 before the first, and its data files."""

    version: int
    files: tuple[LsmFile, ...] = ()


def load_history(store: Store, folder: str, likely: int = 0) -> History:
    """The manifest that counts now. Raises CorruptError where it cannot be read, or where no manifest is whole.

    `likely` is the number that is expected: that manifest is read meanwhile.
    """
    text, names, manifest = _look(store, folder, likely)
    try:
        version = parse_version(text)
    except CorruptError:
        return _greatest(store, folder, names)
    if not version:
        return History(0)
    known = manifest if version == likely and manifest else None
    history = _manifest(store, folder, version, known)
    while f"{MANIFEST_PREFIX}{history.version + 1}" in names:
        following = _following(store, folder, history, names)
        if following is None:
            break
        history = following
    return history


def _look(store: Store, folder: str, likely: int) -> tuple[bytes, Collection[str], bytes]:
    """The bytes of `_version_`, the names in the folder, and the bytes of the likely manifest, asked for together; b""
    for what is missing.

    Whatever was published before is in all of them. What is published meanwhile may be in some, or in none: each tells
    a history that counted a moment ago.
    """

    def look(name: str) -> bytes | Collection[str]:
        if not name:
            return {info.name for info in store.list(folder).files}
        with suppress(FileNotFoundError):
            return store.read(f"{folder}/{name}")
        return b""

    text, names, *manifest = store.together(
        look, [VERSION_FILE, "", *([f"{MANIFEST_PREFIX}{likely}"] if likely else [])]
    )
    assert isinstance(text, bytes) and not isinstance(names, bytes)
    return text, names, b"".join(part for part in manifest if isinstance(part, bytes))


def _following(store: Store, folder: str, history: History, names: Collection[str]) -> History | None:
    """The next manifest, if it is there and whole. A page of a listing can be older than the manifest, so a file that
    is not among `names` is looked for."""
    try:
        following = _manifest(store, folder, history.version + 1)
    except (FileNotFoundError, CorruptError):
        return None
    before = {file.name for file in history.files}
    new = [file.name for file in following.files if file.name not in before and file.name not in names]
    return following if all(store.exists(f"{folder}/{name}") for name in new) else None


def _greatest(store: Store, folder: str, names: Collection[str]) -> History:
    versions = sorted((n for name in names if (n := manifest_version(name)) is not None), reverse=True)
    broken: CorruptError | None = None
    for version in versions:
        try:
            manifest = _manifest(store, folder, version)
        except CorruptError as error:
            broken = broken or error
            continue
        if all(file.name in names for file in manifest.files):
            return manifest
    if broken is not None:
        raise broken
    if versions:
        raise CorruptError(
            "no manifest of the archive has all of its files",
            table=store.location,
            file=folder,
            todo="Restore the archive's folder from a copy",
        )
    return History(0)


def _manifest(store: Store, folder: str, version: int, known: bytes | None = None) -> History:
    path = f"{folder}/{MANIFEST_PREFIX}{version}"
    try:
        return History(version, parse_manifest(store.read(path) if known is None else known))
    except CorruptError as error:
        error.table, error.file = store.location, path
        raise
