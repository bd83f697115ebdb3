"""A sink that is pickled, as Spark's `df.write.format(...)` does before it commits: what options ask for stays."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel.commit.callbacks import Committed
from lakebed.kernel.engine import LocalEngine
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.verbs.write import Mode

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
ROWS = pa.table({"id": [1], "v": ["x"]}, SCHEMA)
CALLS: list[tuple[str, int]] = []


class Noted:
    """Notes its parameter and the snapshots that it is called for."""

    def __init__(self, parameter: str = "") -> None:
        self._parameter = parameter

    def __reduce__(self) -> Any:
        raise TypeError("an object that cannot travel")

    def call(self, commit: Committed) -> None:
        CALLS.append((self._parameter, commit.snapshot_id))


def commit_a_copy(table: Any) -> None:
    """Write and commit through a pickled copy of the table's sink."""
    sink = pickle.loads(pickle.dumps(table.sink(Mode.APPEND)))
    plan = sink.plan()
    writer = plan.task_writer()
    for batch in ROWS.to_batches():
        writer.write(batch)
    sink.commit(BATCH_IDENTIFIER, sink.finalize(plan, writer.finish(), LocalEngine()).messages)


@pytest.mark.parametrize("kind", ["paimon", "iceberg"])
def test_callbacks_that_options_name_are_called(kind: str, tmp_path: Path) -> None:
    CALLS.clear()
    lakebed.create(tmp_path / "t", kind, SCHEMA)
    name = f"{__name__}:Noted"
    options = {"commit.callbacks": name, f"commit.callback.{name}.param": "p"}
    commit_a_copy(lakebed.open(tmp_path / "t", options))
    (call,) = CALLS
    assert call[0] == "p" and call[1] > 0


def test_snapshots_of_paimon_expire(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    lakebed.create(tmp_path / "t", "paimon", SCHEMA, options=options)
    for _ in range(3):
        commit_a_copy(lakebed.open(tmp_path / "t"))
    assert len(lakebed.open(tmp_path / "t").history()) == 1
