"""A pipeline's maintenance runs after so many commits, also over restarts, and a failure does not end the stream."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, PipelineFileError
from lakebed.kernel.files import Store, open_store
from lakebed.model.commit import Outcome
from lakebed.model.upkeep import RewriteResult
from lakebed.spark.stream_sink import BatchReport
from lakebed.spark.upkeep import Upkeep, refuse_impossible
from tests.spark.tables import orders

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.string())])


def postponed(folder: Path) -> lakebed.Table:
    return lakebed.create(str(folder / "t"), "paimon", SCHEMA, primary_key=["id"], options={"bucket": "-2"})


def committed(number: int) -> BatchReport:
    return BatchReport(number, 1, str(number), str(Outcome.COMMITTED))


def rows(number: int) -> pa.Table:
    return pa.table({"id": [number], "v": [f"row {number}"]}, schema=SCHEMA)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Store:
    return open_store(tmp_path / "checkpoint")


def test_rewrite_runs_after_every_third_commit_over_restarts(tmp_path: Path, checkpoint: Store) -> None:
    table = postponed(tmp_path)
    visible = []
    for number in range(6):
        table.write(rows(number))
        upkeep = Upkeep(table, {"rewrite": 3}, checkpoint)  # each batch is a run of its own
        notes = upkeep.after(committed(number)).notes
        assert [note.split(":")[0] for note in notes] == (["rewrite"] if number % 3 == 2 else [])
        visible.append(table.read().read_all().num_rows)
    assert visible == [0, 0, 3, 3, 3, 6]


def test_a_batch_is_counted_once_and_only_if_it_committed(tmp_path: Path, checkpoint: Store) -> None:
    table = postponed(tmp_path)
    table.write(rows(1))
    Upkeep(table, {"rewrite": 2}, checkpoint).after(committed(0))
    again = Upkeep(table, {"rewrite": 2}, checkpoint)
    assert again.after(committed(0)).notes == ()
    assert again.after(BatchReport(1, 0, "", str(Outcome.SKIPPED))).notes == ()
    assert again.after(committed(2)).notes == ("rewrite: 1 file became 1",)


def test_a_run_that_fails_is_said_and_tried_again(
    tmp_path: Path, checkpoint: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = postponed(tmp_path)
    outcomes = iter([CommitConflictError("another one was faster"), RewriteResult(4, 1, 10, 9, 1)])

    def rewrite() -> RewriteResult:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(table, "rewrite", rewrite)
    upkeep = Upkeep(table, {"rewrite": 1}, checkpoint)
    (failed,) = upkeep.after(committed(0)).notes
    assert failed.startswith("rewrite failed and is tried again after the next commit: another one was faster")
    assert upkeep.after(committed(1)).notes == ("rewrite: 4 files became 1",)


def test_a_verb_that_the_sink_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError) as caught:
        refuse_impossible(orders(tmp_path / "o"), {"archive": 3}, "p.toml")
    assert "upkeep.archive is not possible for this sink" in str(caught.value)
    assert "Leave archive out of [upkeep]" in str(caught.value)
