"""Two processes of one commit user commit the same identifier at once, as a driver that was given up and its successor
do: one commits, the other one skips, whichever storage call it has reached.

    python -m tests.crash.test_twin_drivers            every call of every case
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.kernel.files import Store, open_store
from tests.crash.test_hudi_second_writer import QUIET, Stepping
from tests.tables.leftovers import leftovers

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.string())])
ROWS = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}, SCHEMA)
HUDI_INSERT = {**QUIET, "hoodie.datasource.write.operation": "insert"}
CASES: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    # what is made, and what it is written with
    "hudi insert": ("hudi", {"hoodie.table.type": "COPY_ON_WRITE"}, HUDI_INSERT),
    "hudi insert, merge on read": ("hudi", {"hoodie.table.type": "MERGE_ON_READ"}, HUDI_INSERT),
    "hudi upsert": ("hudi", {}, {**QUIET, "hoodie.datasource.write.operation": "upsert"}),
    "paimon append": ("paimon", {}, {}),
    "paimon upsert": ("paimon", {"bucket": "1"}, {}),
    "iceberg append": ("iceberg", {}, {}),
    "iceberg upsert": ("iceberg", {"format-version": 2}, {}),
}


def made(folder: Path, case: str) -> Path:
    table_format, table_options, _ = CASES[case]
    key = ["id"] if table_format == "hudi" or "upsert" in case else []
    lakebed.create(folder, table_format, SCHEMA, key, options=table_options)
    return folder


def committed(store: Store, case: str) -> str:
    """One commit of the user's first batch, from a table opened anew: how it ended."""
    writer = lakebed.open(store, CASES[case][2]).writer("the query")
    writer.write(ROWS)
    return str(writer.commit(0, writer.prepare_commit()).outcome)


def meetings(folder: Path, case: str, every: int, begin: int) -> Iterator[str]:
    """Let the second process step in at every so many calls of the first. What became of both."""
    for number in itertools.count():
        copy = made(folder / f"table-{number}", case)
        ends: list[str] = []

        def second(real: Store, ends: list[str] = ends) -> None:
            ends.append(committed(real, case))

        store = Stepping(open_store(copy), begin + number * every, second)
        try:
            first = committed(store, case)
        except CommitConflictError:
            first = "conflict"
        if not store.stepped_in:
            return
        if store.thread is not None:
            store.thread.join(60)
            assert not store.thread.is_alive()
        at = store.calls[store.at - 1]
        where = f"{case} at call {store.at}, {at.verb} {at.path}"
        assert store.error is None or isinstance(store.error, CommitConflictError), (where, store.error)
        ends = [first, *(ends or ["conflict"])]
        table = lakebed.open(copy)
        rows = sorted(table.read(["id", "v"]).read_all().to_pylist(), key=str)
        assert rows == ROWS.to_pylist(), (where, ends, rows)
        assert ends.count("committed") == 1, (where, ends)
        assert committed(store.real, case) == "skipped", where
        history = [one for one in lakebed.open(copy).history() if one.action != "rollback"]
        assert [one.state for one in history] == ["completed"], (where, ends)
        assert leftovers(lakebed.open(copy)) == set(), (where, ends)
        shutil.rmtree(copy)
        yield f"{where}: {ends}"


@pytest.mark.parametrize("case", CASES)
def test_one_of_two_commits(tmp_path: Path, case: str) -> None:
    ends = [*meetings(tmp_path, case, every=17 if "hudi" in case else 4, begin=4)]
    assert len(ends) > 1, ends


def main(wish: str = "") -> None:
    for case in CASES:
        if wish not in case:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            ends = [*meetings(Path(temporary), case, every=1, begin=1)]
        print(f"{case}: {len(ends)} calls, {Counter(end.partition(': [')[2] for end in ends)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
