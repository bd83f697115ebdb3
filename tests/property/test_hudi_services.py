"""Random writes between plan and run of a compaction, clusterings, cleans and restores, against a dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import DataCleanedError, UsageError
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
keys = st.sets(st.integers(0, 7), min_size=1, max_size=5)
steps = st.lists(
    st.tuples(
        st.sampled_from(("upsert", "upsert", "delete", "plan", "plan", "run", "cluster", "clean", "restore")), keys
    ),
    min_size=5,
    max_size=9,
)


@settings(max_examples=12, deadline=None)
@given(version=st.sampled_from((6, 8, 9)), steps=steps)
def test_services_between_writes(version: int, steps: list[tuple[str, set[int]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = fresh_table(Path(folder) / "t", SCHEMA, version=version, kind="MERGE_ON_READ")
        model: dict[int, int] = {}
        states: list[tuple[str, dict[int, int]]] = []
        for value, (step, chosen) in enumerate([("upsert", set(range(8))), *steps]):
            rows = [{"dt": "ab"[key % 2], "id": key, "v": value} for key in sorted(chosen)]
            if step in ("upsert", "delete"):
                data: Any = pa.Table.from_pylist(rows, SCHEMA)
                try:
                    instant = table.write(data, mode=step, options=QUIET).instant
                except UsageError as error:
                    assert "clustering" in str(error)
                    continue
                model = {**model, **dict.fromkeys(chosen, value)}
                model = {key: held for key, held in model.items() if step == "upsert" or key not in chosen}
                states.append((instant, model))
            elif step in ("plan", "run"):
                call = {"plan": "schedule", "run": "run"}[step]
                table.rewrite(options={"lakebed.rewrite.step": call})
            elif step == "cluster":
                table.rewrite(options={"lakebed.rewrite.what": "clustering"})
            elif step == "clean":
                table.expire(options={"hoodie.clean.commits.retained": 2})
            else:
                at = max(chosen) % len(states)
                try:
                    table.rollback(states[at][0])
                except DataCleanedError:
                    continue
                states, model = states[: at + 1], states[at][1]
            found = lakebed.open(Path(folder) / "t").read(["id", "v"]).read_all().to_pylist()
            assert sorted((row["id"], row["v"]) for row in found) == sorted(model.items()), (step, value)
