"""A clean that dies at any storage call loses no row of what it retains, and the next clean ends it."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
FAULTS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_AFTER, Kind.UNKNOWN_AFTER)
OPTIONS = {"hoodie.clean.commits.retained": 2}


def clean(store: Store) -> None:
    """What a restarted job runs."""
    lakebed.open(store).expire(options=OPTIONS)


@pytest.mark.parametrize(("version", "kind"), [(6, "COPY_ON_WRITE"), (8, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")])
def test_a_clean_is_carried_on(tmp_path: Path, version: int, kind: str) -> None:
    number, original = itertools.count(), tmp_path / "original"
    fresh_table(original, SCHEMA, version=version, kind=kind)
    table = lakebed.open(original)
    for value in range(5):
        rows = [{"dt": "ab"[n % 2], "id": n, "v": str(value)} for n in range(4)]
        table.write(pa.Table.from_pylist(rows, SCHEMA), mode="upsert", options={"hoodie.clean.automatic": False})
        if kind == "MERGE_ON_READ" and value in (1, 3):
            table.rewrite()
    retained = [i.time for i in table.history() if i.action != "clean"][-2:]

    def make() -> Store:
        return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    def observe(store: Store) -> tuple[list[list[tuple[Any, ...]]], int]:
        """The rows as of each retained commit, which a clean must not change, and the number of completed cleans."""
        now = lakebed.open(store)
        reads = (now.read(["dt", "id", "v"], as_of=time).read_all().to_pylist() for time in retained)
        rows = [sorted(tuple(row.values()) for row in read) for read in reads]
        return rows, sum(i.action == "clean" and i.state == "completed" for i in now.history())

    assert check_crash_safety(make, clean, observe, FAULTS) > 5
    for copy in map(lakebed.open, tmp_path.glob("copy-*")):
        assert all(instant.state == "completed" for instant in copy.history())
        if any(instant.action == "clean" for instant in copy.history()):  # not the copy that was left as it was
            assert copy.expire(options=OPTIONS).deleted_files == ()
