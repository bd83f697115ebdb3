"""The snapshot files of one branch, and the hints that say where to look for the newest and the oldest one.

Rules: Paimon's SnapshotManager and HintFileUtils. `LATEST` and `EARLIEST` are only hints; what counts are the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from lakebed.errors import StorageError
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json
from lakebed.formats.paimon.layout import branch_prefix, snapshot_path
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store

LATEST, EARLIEST = "LATEST", "EARLIEST"
_PROBES = 16
"""The most snapshots to look for after a stale hint before the folder is listed."""
_FIRST_WAVE, _GROWTH = 4, 4
"""Snapshots are read in waves: so many at first, and so many times more in each further one."""


def was_removed(hint: int, newest: int | None) -> str:
    """What to tell people of a snapshot that LATEST names and that is not there."""
    there = "no snapshot is there" if newest is None else f"the newest that is there is {newest}"
    return f"snapshot/{LATEST} names snapshot {hint}, and {there}: the file was removed, and not by a rollback"


class SnapshotFiles:
    """Reads snapshots by their ids. It remembers the newest id that was seen, and only to look there first."""

    def __init__(self, store: Store, branch: str) -> None:
        self._store, self._branch = store, branch
        self._seen: int | None = None
        self._hints: dict[str, int | None] = {}
        self._said: dict[str, int] = {}
        """The value of each hint when it was last read."""
        self.seemed_empty = False
        """Whether no snapshot was there at the last look."""

    def find(self, snapshot_id: int) -> Snapshot | None:
        """One snapshot, None when it is not there."""
        path = snapshot_path(self._branch, snapshot_id)
        try:
            data = self._store.read(path)
        except FileNotFoundError:
            return None
        with decoding("a snapshot file cannot be read", table=self._store.location, file=path):
            return snapshot_from_json(data)

    def in_waves(self, ids: Sequence[int]) -> Iterator[tuple[int, Snapshot | None]]:
        """Snapshots in the order of the ids, each with its id; None for one that is not there.

        Several are read at once, few of them at first, so that little is read for nothing when the caller stops early.
        """
        start, wave = 0, _FIRST_WAVE
        while start < len(ids):
            end = start + min(wave, self._store.at_once)
            yield from zip(ids[start:end], self._store.together(self.find, ids[start:end]), strict=True)
            start, wave = end, wave * _GROWTH

    def newest(self) -> Snapshot | None:
        """The newest snapshot; None where the hints do not lead to it.

        We begin at the id of the hint and at the newest one that was seen before. An id is trusted only when a snapshot
        has it and none has the next one. Both are asked for at the same time. That is as safe as one after the other:
        snapshots expire from the oldest on, so while one exists, the one after it has not expired either. Only one
        whose writer was late comes after its number has expired, and stays until that has looked where it stands:
        EARLIEST shows it, where that costs no request to a store at a distance.
        """
        hint, newest, following = self._hint_and_seen()
        start = max(hint or 0, newest.id if newest is not None else 0)
        if not start:
            return None
        if newest is None or start != newest.id:
            newest, following = self._store.together(self.find, (start, start + 1))
        for _ in range(_PROBES):
            if newest is None or following is None:
                break
            newest, following = following, self.find(following.id + 1)
        if newest is None or following is not None or self._has_expired(newest.id):
            return None
        self.was_seen(newest.id)
        return newest

    def _has_expired(self, snapshot_id: int) -> bool:
        """Whether the hint EARLIEST names a later snapshot than one that is there. A store at a distance is not asked:
        what was read before counts."""
        if self._store.at_once == 1:
            self._hint(EARLIEST)
        return self._said.get(EARLIEST, 0) > snapshot_id

    def was_seen(self, snapshot_id: int) -> None:
        """Remember a newest snapshot: the next search begins there."""
        self._seen, self.seemed_empty = snapshot_id, False

    def names_later(self, newest: int) -> int | None:
        """The id that LATEST names, where that is later than the newest snapshot that is there. The hint is read now,
        since a rollback moves it before it removes snapshots."""
        hint = self._hint(LATEST)
        return hint if hint is not None and hint > newest and self.find(hint) is None else None

    def said_later(self, newest: int) -> bool:
        """Whether LATEST, when it was last read, named a later snapshot than this."""
        return self._said.get(LATEST, 0) > newest

    def read_hint(self, name: str) -> None:
        """Read a hint ahead: LATEST for the next `newest`, EARLIEST for the next `earliest_hint`."""
        hint = self._hints[name] = self._hint(name)
        if name == LATEST and hint is None and self._seen is None:
            self.seemed_empty = True

    def forget_hint(self) -> None:
        """Do not trust what LATEST said some time ago: it only says where to look too, as the newest that was seen."""
        hint = self._hints.pop(LATEST, None)
        if self._seen is None and hint is not None:
            self._seen = hint

    def earliest_hint(self) -> int | None:
        """The id that the hint EARLIEST names; what `read_hint` found counts once."""
        return self._hints.pop(EARLIEST) if EARLIEST in self._hints else self._hint(EARLIEST)

    def _hint_and_seen(self) -> tuple[int | None, Snapshot | None, Snapshot | None]:
        """What LATEST says, the newest snapshot that was seen before, and the one after it. What `read_hint` found
        counts once."""
        if self._seen is None:
            return self._hints.pop(LATEST) if LATEST in self._hints else self._hint(LATEST), None, None
        looks: list[Callable[[], Any]] = [partial(self.find, self._seen), partial(self.find, self._seen + 1)]
        if LATEST not in self._hints:
            looks.append(partial(self.read_hint, LATEST))
        newest, following, *_ = self._store.together(lambda look: look(), looks)
        return self._hints.pop(LATEST), newest, following

    def _hint(self, name: str) -> int | None:
        with suppress(FileNotFoundError, StorageError, ValueError):
            hint = self._said[name] = int(self._store.read(f"{branch_prefix(self._branch)}snapshot/{name}"))
            return hint
        return None
