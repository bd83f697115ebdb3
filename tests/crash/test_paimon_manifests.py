"""A rewrite of manifests that dies at any storage call leaves the old manifests or the new ones."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import lakebed
from lakebed.formats.paimon.manifests import data_manifests
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.paimon.small import SCHEMA, contents, rows


def rewrite(store: Store) -> None:
    quick = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
    lakebed.open(store, quick).rewrite(options={"lakebed.rewrite.what": "manifests"})


def observe(store: Store) -> Any:
    latest = History(store).latest()
    assert latest is not None
    metas = data_manifests(store, latest)
    assert all((Path(store.location) / "manifest" / meta.file_name).exists() for meta in metas)
    return contents(lakebed.open(store)), len(metas), latest.id


def test_any_death(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, [], ["dt"], {"write-only": "true"})
    for name in "ab":
        table.write(rows((name, 1, "v", 1)))
    table.write(rows(("a", 2, "v", 1)), "overwrite", {"overwrite.partition": "dt=a"})
    number = itertools.count()

    def make() -> Store:
        return open_store(shutil.copytree(table.location, tmp_path / f"copy-{next(number)}"))

    assert check_crash_safety(make, rewrite, observe, (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_AFTER)) > 8
