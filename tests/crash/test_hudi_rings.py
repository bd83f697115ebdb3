"""An overwrite and a resizing of buckets of consistent hashing that die at any storage call: the old rows or the new
ones, each in the file group of its bucket, and the next write goes on."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.hudi.rings import batch, orders

QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
MERGE = {"lakebed.rewrite.what": "clustering", "hoodie.bucket.index.min.num.buckets": "1"}


def _rows(store: Store) -> list[tuple[int, str]]:
    rows = lakebed.open(store).read(["id", "v"]).read_all().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def _observed(store: Store) -> tuple[list[tuple[int, str]], int]:
    replaced = (i for i in lakebed.open(store).history() if i.state == "completed" and i.action == "replacecommit")
    return _rows(store), len([*replaced])


def _overwrite(store: Store) -> None:
    table = lakebed.open(store)
    if (0, "new") not in _rows(store):
        table.write(batch(0, 2, v="new"), "overwrite", QUIET)


def _resize(store: Store) -> None:
    table = lakebed.open(store)
    pending = [i for i in table.history() if i.state != "completed"]
    for instant in pending:
        table.rewrite(options={**MERGE, "lakebed.rewrite.instant": instant.time, "lakebed.rewrite.step": "run"})
    if not pending:
        table.rewrite(options=MERGE)


@pytest.mark.parametrize(("version", "act"), [(9, _overwrite), (6, _resize)])
def test_buckets_survive_a_crash_at_any_call(tmp_path: Path, version: int, act: object) -> None:
    assert callable(act)
    table = orders(tmp_path / "original", version)
    table.write(batch(*range(0, 24, 2)), options=QUIET)
    number = itertools.count()

    def copy() -> Store:
        return open_store(shutil.copytree(table.location, tmp_path / f"copy-{next(number)}"))

    assert check_crash_safety(copy, act, _observed, (Kind.CRASH_AFTER,)) > 10
    for folder in sorted(tmp_path.glob("copy-*"))[::9]:
        now = lakebed.open(folder)
        before = dict(_rows(now.store))
        now.write(batch(0, 50, v="end"), "upsert", QUIET)
        assert dict(_rows(now.store)) == before | {0: "end", 50: "end"}
