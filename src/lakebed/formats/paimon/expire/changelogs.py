"""Changelogs that outlive their snapshots: which of them end, and what holds the others.

Rules: Paimon's ExpireConfig and ExpireChangelogImpl. They are kept where an option `changelog.*` asks for more than the
same option `snapshot.*`. An expired snapshot is then copied to `changelog/changelog-N`. The oldest ones end, without a
gap and at most `snapshot.expire.limit` at a time: those beyond `changelog.num-retained.max` at once, others when they
are older than `changelog.time-retained`. The newest one stays, and so do `changelog.num-retained.min` together with
the snapshots, and what a consumer still has to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from lakebed.errors import DataCleanedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.layout import branch_prefix, changelog_path, snapshot_path
from lakebed.formats.paimon.snapshot_files import EARLIEST, LATEST
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.model.upkeep import Skipped


@dataclass(frozen=True, slots=True)
class ChangelogPlan:
    """The changelogs of a branch after an expiry: those that end, those that its expired snapshots become, and why the
    others stay. All are in the order of their ids. `written` are the ids of those that have a file by now."""

    ending: tuple[Snapshot, ...] = ()
    becoming: tuple[Snapshot, ...] = ()
    kept: tuple[Skipped, ...] = ()
    written: frozenset[int] = frozenset()

    def paths(self, branch: str) -> list[str]:
        """The paths of the files of changelogs that end."""
        return [changelog_path(branch, changelog.id) for changelog in self.ending if changelog.id in self.written]

    def write_earliest(self, store: Store, branch: str) -> None:
        """Write the hint EARLIEST of the changelogs, where some end. Errors are ignored."""
        if self.ending:
            _write_hint(store, branch, EARLIEST, self.ending[-1].id + 1)


@dataclass(frozen=True, slots=True)
class ChangelogRetention:
    """How long changelogs are kept: how many of the newest snapshots have theirs at least and at most, and for how many
    milliseconds. At most `limit` end at a time."""

    least: int
    most: int | None
    time: int
    limit: int

    @classmethod
    def of(cls, options: Options) -> Self | None:
        """By the options of a table; None where changelogs go with their snapshots. OptionError for a least number
        above the greatest one."""
        least, most, time = options[opt.SNAPSHOTS_MIN], options[opt.SNAPSHOTS_MAX], options[opt.SNAPSHOT_TIME]
        given = cls(
            options[opt.CHANGELOG_MIN] or least,
            options[opt.CHANGELOG_MAX] or most,
            time if options[opt.CHANGELOG_TIME] is None else options[opt.CHANGELOG_TIME],
            options[opt.EXPIRE_LIMIT],
        )
        more = most is not None and (given.most is None or given.most > most)
        if not (more or given.least > least or given.time > time):
            return None
        if given.most is not None and given.most < given.least:
            raise opt.refuse(opt.CHANGELOG_MAX, given.most, f"{opt.CHANGELOG_MIN.key} is {given.least}")
        return given

    def plan(
        self,
        changelogs: Sequence[Snapshot],
        expiring: Sequence[Snapshot],
        latest: int,
        now: int,
        consumers: Mapping[str, int],
    ) -> ChangelogPlan:
        """What becomes of the `changelogs` of a branch, once its `expiring` snapshots are changelogs too.

        `now` is in milliseconds since 1970, `latest` the id of the newest snapshot, and `consumers` have the next
        snapshot of each.
        """
        every = {changelog.id: changelog for changelog in (*changelogs, *expiring)}
        ids = sorted(every)
        end, why = self._end(every, ids, latest, now, consumers) if ids else (0, "")
        kept = (Skipped(f"changelogs from {end} on", why),) if why else ()
        return ChangelogPlan(
            tuple(every[number] for number in ids if number < end),
            tuple(snapshot for snapshot in expiring if snapshot.id >= end),
            kept,
            frozenset(changelog.id for changelog in changelogs),
        )

    def _end(
        self, every: Mapping[int, Snapshot], ids: Sequence[int], latest: int, now: int, consumers: Mapping[str, int]
    ) -> tuple[int, str]:
        """The first id that stays, and why it does."""
        first, last = ids[0], ids[-1]
        bounds = [
            (latest - self.least + 1, f"{opt.CHANGELOG_MIN.key} is {self.least}"),
            (first + self.limit, f"{opt.EXPIRE_LIMIT.key} is {self.limit}"),
            (last, "the newest changelog stays"),
            *((following, f"consumer {name!r} still has to read them") for name, following in consumers.items()),
        ]
        bound, why = min(bounds)
        if bound <= first:
            return first, why
        begin = first if self.most is None else max(latest - self.most + 1, first)
        for number in ids:
            if begin <= number <= bound and now - every[number].time_millis <= self.time:
                return number, f"younger than {opt.CHANGELOG_TIME.key}"
        return next(number for number in ids if number >= bound), why


def keep_changelogs(store: Store, branch: str, snapshots: Sequence[Snapshot]) -> None:
    """Copy the files of snapshots that are about to expire, so that their changelogs outlive them.

    DataCleanedError when another expiry was faster.
    """
    if not snapshots:
        return
    try:
        contents = store.read_many([snapshot_path(branch, snapshot.id) for snapshot in snapshots])
    except FileNotFoundError as error:
        raise DataCleanedError(
            "a snapshot expired meanwhile",
            table=store.location,
            instant=str(snapshots[0].id),
            why="another expiry is at work",
            todo="Nothing is lost. Expire again",
        ) from error
    paths = [changelog_path(branch, snapshot.id) for snapshot in snapshots]
    store.write_many(dict(zip(paths, contents, strict=True)))
    _write_hint(store, branch, LATEST, snapshots[-1].id)


def _write_hint(store: Store, branch: str, name: str, snapshot_id: int) -> None:
    with suppress(Exception):  # a hint only says where to look first
        store.write(f"{branch_prefix(branch)}changelog/{name}", str(snapshot_id).encode())
