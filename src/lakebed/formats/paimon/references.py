"""The files that a table's snapshots hold. None of them may be removed as a leftover.

An expired snapshot can't be read any more, but its files live on in the snapshots after it. So the whole table is read:
the live files of the oldest snapshot of each branch, what later snapshots added, tags, and changelogs that outlive
their snapshots (Paimon's ChangelogManager).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lakebed.errors import DataCleanedError, NotInHistoryError, RetryableError
from lakebed.formats.paimon.codec.manifest import ADD
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json
from lakebed.formats.paimon.layout import MAIN_BRANCH, branch_prefix
from lakebed.formats.paimon.manifests import entries_of, index_files, live_files, manifest_metas
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
    before: int | None = None
    for snapshot in history.snapshots():
        yield from _added(store, snapshot) if snapshot.id - 1 == before else _live(store, snapshot)
        before = snapshot.id
    for name in history.tags():
        yield from _live(store, history.tag(name))
    prefix = f"{branch_prefix(history.branch)}changelog"
    for info in store.list(prefix).files:
        if info.name.startswith("changelog-"):
            with suppress(FileNotFoundError, DataCleanedError):  # it expired; nothing else needs its files
                yield from _added(store, snapshot_from_json(store.read(info.path)))


def _live(store: Store, snapshot: Snapshot) -> Iterator[str]:
    """The names of all files that a snapshot holds, with the changelog that it added."""
    for entry in live_files(store, snapshot):
        yield entry.file.file_name
    yield from _beside(store, snapshot)


def _added(store: Store, snapshot: Snapshot) -> Iterator[str]:
    """The names of the files that a snapshot holds beyond the one before it."""
    for entry in entries_of(store, manifest_metas(store, snapshot.delta_manifest_list)):
        if entry.kind == ADD:
            yield entry.file.file_name
    yield from _beside(store, snapshot)


def _beside(store: Store, snapshot: Snapshot) -> Iterator[str]:
    """The names of a snapshot's changelog and index files."""
    if snapshot.changelog_manifest_list is not None:
        for entry in entries_of(store, manifest_metas(store, snapshot.changelog_manifest_list)):
            yield entry.file.file_name
    for index in index_files(store, snapshot):
        yield index.file_name
