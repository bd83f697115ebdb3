"""The files that a table's snapshots hold. None of them may be removed as a leftover.

An expired snapshot can't be read any more, but its files live on in the snapshots after it. So the whole table is read:
the live files of the oldest snapshot of each branch, what later snapshots added, tags, and changelogs that outlive
their snapshots (Paimon's ChangelogManager).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from lakebed.errors import DataCleanedError, NotInHistoryError, RetryableError
from lakebed.formats.paimon.codec.manifest import ADD, ManifestEntry
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json
from lakebed.formats.paimon.layout import MAIN_BRANCH, branch_prefix
from lakebed.formats.paimon.manifests import (
    MetadataFile,
    changelog_lists,
    delta_list,
    entries_by_manifest,
    index_files_of,
    live_files,
    manifest_file,
    metas_of_lists,
)
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store

_LOOKS = 5


def held_files(history: History) -> set[str]:
    """The names of the data, changelog and index files that any snapshot of any branch, any tag or changelog names.

    Names are unique in a table. Raises RetryableError when snapshots expire faster than they can be read.
    """
    branches = dict.fromkeys([MAIN_BRANCH, *history.branches()])
    for _ in range(_LOOKS):
        with suppress(NotInHistoryError):  # a snapshot or tag went while it was looked at
            return {name for branch in branches for name in _of_branch(History(history.store, branch))}
    raise RetryableError(
        "cannot tell which files the table's snapshots hold",
        table=history.store.location,
        why=f"snapshots expired while they were read, {_LOOKS} times",
        todo="Nothing was removed. Try again",
    )


def _of_branch(history: History) -> Iterator[str]:
    store = history.store
    looks: tuple[Callable[[], Any], ...] = history.snapshots, history.tagged, lambda: kept_changelogs(history)
    snapshots, tagged, changelogs = store.together(lambda look: look(), looks)
    ids = {snapshot.id for snapshot in snapshots}
    later = [snapshot for snapshot in snapshots if snapshot.id - 1 in ids]
    whole = [*(snapshot for snapshot in snapshots if snapshot.id - 1 not in ids), *tagged.values()]
    for live in store.together(lambda snapshot: live_files(store, snapshot), whole):
        yield from (entry.file.file_name for entry in live)
    yield from _added(store, later)
    yield from _beside(store, [*snapshots, *tagged.values()])
    for names in store.together(lambda snapshot: _of_changelog(store, snapshot), changelogs):
        yield from names


def kept_changelogs(history: History) -> list[Snapshot]:
    """The changelogs that outlive their snapshots. One that expires meanwhile is left out."""
    store = history.store

    def read(path: str) -> Snapshot | None:
        with suppress(FileNotFoundError):
            return snapshot_from_json(store.read(path))
        return None

    files = store.list(f"{branch_prefix(history.branch)}changelog").files
    paths = [info.path for info in files if info.name.startswith("changelog-")]
    return [snapshot for snapshot in store.together(read, paths) if snapshot is not None]


def _of_changelog(store: Store, snapshot: Snapshot) -> Sequence[str]:
    """The names of the files of a changelog. None when it expired; nothing else needs its files."""
    with suppress(FileNotFoundError, DataCleanedError):
        return [*_added(store, [snapshot]), *_beside(store, [snapshot])]
    return ()


def _added(store: Store, snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """The names of the data files that snapshots hold beyond the ones before them."""
    for entry in _entries(store, [*map(delta_list, snapshots)]):
        if entry.kind == ADD:
            yield entry.file.file_name


def _beside(store: Store, snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """The names of snapshots' changelog and index files."""
    for entry in _entries(store, [file for snapshot in snapshots for file in changelog_lists(snapshot)]):
        yield entry.file.file_name
    for indexes in index_files_of(store, snapshots):
        yield from (index.file_name for index in indexes)


def _entries(store: Store, lists: Sequence[MetadataFile]) -> Iterator[ManifestEntry]:
    """The entries of the manifests of manifest lists, unmerged."""
    manifests = [manifest_file(meta) for metas in metas_of_lists(store, lists) for meta in metas]
    return (entry for entries in entries_by_manifest(store, manifests) for entry in entries)
