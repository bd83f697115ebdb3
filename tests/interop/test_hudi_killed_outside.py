"""`kill -9` of a release of Hudi at each moment of a write, a compaction, a clustering, a clean and a restore: lakebed
reads what was committed, repairs the table and goes on, and then so does the release."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.hudi_actors import Bundle, Lakebed, Release, release_of
from tests.interop.hudi_killed import deaths, put_back
from tests.interop.hudi_shape import Row, Shape, as_text

pytestmark = pytest.mark.timeout(900)  # a release starts a JVM

FIXED: dict[str, Any] = {
    "merge_on_read": True, "index": "SIMPLE", "keys": ("id",), "event_time": True, "log_format": "avro",
    "change_log": "", "locks": False, "positions": False, "layout": "linear",
}  # fmt: skip
Rows = dict[str, Row]


class Killed:
    """A table, and what must be in it."""

    def __init__(self, release: Release, shape: Shape, path: Path, told: bool = False) -> None:
        self.shape, self.path, self.told = shape, path, told
        self.bundle, self.ours = Bundle(release, shape, path), Lakebed(shape, path)
        self.release = release
        self.rows: Rows = {}
        self.chance = random.Random(7)
        self.clock = 0
        self.columns = ["id", *(name for name in shape.schema.names if name not in ("id", *shape.unread))]

    def some(self, *keys: int) -> pa.Table:
        """New versions of keys."""
        self.clock += 10
        return pa.Table.from_pylist([self.shape.row(self.chance, key, self.clock) for key in keys], self.shape.schema)

    def with_(self, rows: pa.Table) -> Rows:
        """What is in the table after an upsert."""
        return {**self.rows, **{row["id"]: row for row in rows.to_pylist()}}

    def upsert(self, actor: Bundle | Lakebed, *keys: int, first: bool = False) -> None:
        """An upsert that nobody dies of."""
        rows = self.some(*keys)
        actor.write("upsert", rows, first=first)
        self.rows = self.with_(rows)

    def read(self, actor: Bundle | Lakebed) -> list[list[str | None]]:
        return sorted(actor.read(self.columns), key=str)

    def wanted(self, rows: Rows) -> list[list[str | None]]:
        return sorted(([as_text(row[name]) for name in self.columns] for row in rows.values()), key=str)

    def dies(
        self, what: str, do: Callable[[], None], after: Rows, repair: Callable[[], None], moments: int | None = None
    ) -> int:
        """The release dies at each moment of what it does, or at so many of them; how many there were."""
        with deaths(self.release, self.path, self.path.parent / f"{what}_deaths") as copies:
            do()
        whole = self.path.parent / f"{what}_whole"
        self.path.rename(whole)
        self.path.mkdir()
        places: dict[Path, list[str]] = {}
        for name, place in copies.items():
            places.setdefault(place, []).append(name)
        chosen = [*places.items()]
        if moments is not None:
            step = max(1, len(chosen) // moments)
            chosen = chosen[step // 2 :: step]
        before, clock = self.rows, self.clock
        for number, (place, names) in enumerate(chosen):
            if self.told:
                print(f"  {what} dies at {', '.join(names)}", flush=True)
            put_back(place, self.path)
            self.rows = before
            try:
                self._goes_on(what, after, repair, then=number == len(chosen) // 2 or moments is None)
            except BaseException as error:
                error.add_note(f"{self.shape}: {what} died at {', '.join(names)}")
                raise
        put_back(whole, self.path)
        self.rows, self.clock = after, clock
        assert self.read(self.ours) == self.wanted(after)
        return len(places)

    def _goes_on(self, what: str, after: Rows, repair: Callable[[], None], then: bool) -> None:
        if what != "restore":  # half way it is neither the one nor the other
            found = self.read(self.ours)
            if found == self.wanted(after):
                self.rows = after
            assert found == self.wanted(self.rows)
        else:
            self.rows = after
        repair()
        self.upsert(self.ours, 1, 2)
        assert self.read(self.ours) == self.wanted(self.rows)
        pending = [i for i in self.ours.table.history() if i.state != "completed"]
        assert not pending, pending
        if then:
            assert self.read(self.bundle) == self.wanted(self.rows)
            self.upsert(self.bundle, 2, 3)
            assert self.read(self.ours) == self.read(self.bundle) == self.wanted(self.rows)


def repaired(life: Killed, what: str) -> Callable[[], None]:
    """Ends a service that died, by name of its instant."""

    def repair() -> None:
        for instant in life.ours.table.history():
            if instant.state != "completed" and instant.action in ("compaction", "clustering", "replacecommit"):
                options = {"lakebed.rewrite.what": what, "lakebed.rewrite.step": "run"}
                life.ours.table.rewrite(options={**options, "lakebed.rewrite.instant": instant.time})

    return repair


def lived(life: Killed, moments: int | None) -> dict[str, int]:
    """Each operation with its deaths; how many moments each had."""
    bundle, ours, seen = life.bundle, life.ours, {}

    def nothing() -> None:
        """The next write repairs it."""

    def cleaned() -> None:
        ours.clean()

    def restored() -> None:
        """A release that takes a clustering back may leave it pending."""
        ours.table.expire(options={"lakebed.expire.what": "failed-writes"})
        left = [i.time for i in ours.table.history() if i.action == "clustering" and i.state != "completed"]
        for instant in left:
            options = {"lakebed.rewrite.what": "clustering", "lakebed.rewrite.step": "withdraw"}
            ours.table.rewrite(options={**options, "lakebed.rewrite.instant": instant})

    life.upsert(bundle, *range(12), first=True)
    rows = life.some(1, 2, 13)
    seen["upsert"] = life.dies("upsert", lambda: bundle.write("upsert", rows), life.with_(rows), nothing, moments)
    saved = max(i.time for i in ours.table.history() if i.state == "completed" and i.action.endswith("commit"))
    bundle.savepoint(saved)
    kept = life.rows
    if life.shape.merge_on_read:
        bundle.schedule_compaction()
        fix = repaired(life, "compaction")
        seen["compaction"] = life.dies("compaction", bundle.run_compaction, life.rows, fix, moments)
    life.upsert(ours, 1, 4)
    fix = repaired(life, "clustering")
    seen["clustering"] = life.dies("clustering", bundle.cluster, life.rows, fix, moments)
    life.upsert(ours, 5, 6)
    life.upsert(ours, 5, 7)
    seen["clean"] = life.dies("clean", bundle.clean, life.rows, cleaned, moments)
    seen["restore"] = life.dies("restore", lambda: bundle.restore(saved), kept, restored, moments)
    return seen


CASES = [
    ("1.1.1", {"version": 9, "partitioning": "simple", "metadata": "off"}),
]


@pytest.mark.parametrize(("name", "wanted"), CASES)
def test_lakebed_and_the_release_go_on_after_its_process_was_killed(
    name: str, wanted: dict[str, Any], tmp_path: Path
) -> None:
    release = release_of(name)
    shape = Shape.drawn(name, random.Random(1), {**FIXED, **wanted})
    seen = lived(Killed(release, shape, tmp_path / "t"), moments=2)
    assert min(seen.values()) >= 4, seen
