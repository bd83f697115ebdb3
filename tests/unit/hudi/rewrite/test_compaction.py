"""Compactions of golden tables: every row, with its meta columns, is the same before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, LakebedError, NotInHistoryError, OptionError, UnsupportedError
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.rewrite import run as rewrites
from lakebed.formats.hudi.rewrite.request import take_back
from lakebed.formats.hudi.rewrite.run import Rewrite
from tests.golden import unpack

PENDING = {
    "mor_v6": "20261127204525986",
    "mor_h015": "20261127213939493",
    "mor_v8": "20261127204546748",
    "mor_v9": "20261127213940568",
}
LOGS = ["merge_event_v6", "merge_event_h015", "merge_event_v8", "merge_event_v9", "mor_logonly_v6", "mor_logonly_v8"]
"""Tables with logs and no pending plan."""


def opened(name: str, folder: Path) -> Any:
    return lakebed.open(str(unpack("hudi", name, into=folder)))


def rows(table: Any) -> pa.Table:
    """All rows; the file in which a row lies is the only thing that a compaction changes of it."""
    read = table.read().read_all()
    return read.drop_columns(["_hoodie_file_name"]).sort_by("_hoodie_record_key")


def states(table: Any) -> dict[str, str]:
    return {instant.time: f"{instant.action} {instant.state}" for instant in table.history()}


@pytest.mark.parametrize("name", LOGS)
def test_rows_stay_as_they_are(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    before, plan = rows(table), table.rewrite(dry_run=True)
    assert plan.groups and not plan.instants
    result = table.rewrite()
    assert rows(table).equals(before)
    assert result.groups == plan.groups
    assert [states(table)[time] for time in result.instants] == ["commit completed"]
    base = lakebed.open(table.location, options={"hoodie.datasource.query.type": "read_optimized"})
    assert rows(base).equals(before)
    assert not table.rewrite(dry_run=True).groups


@pytest.mark.parametrize("name", PENDING)
def test_a_plan_of_another_engine_is_run(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    before = rows(table)
    plan = table.rewrite(dry_run=True)
    result = table.rewrite(options={"lakebed.rewrite.step": "run"})
    assert result.instants == (PENDING[name],)
    found = plan.files_before, plan.files_after, plan.bytes_before, plan.groups
    assert found == (result.files_before, result.files_after, result.bytes_before, result.groups)
    assert {group.reason for group in plan.plan} == {f"the compaction {PENDING[name]} is pending"}
    assert rows(table).equals(before)
    assert states(table)[PENDING[name]] == "commit completed"
    rest = table.rewrite()
    assert rest.groups
    assert rows(table).equals(before)


@pytest.mark.parametrize("name", ["merge_event_v6", "merge_event_v8"])
def test_rows_written_while_a_plan_is_pending_are_kept(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    schedule = table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    newest = table.read().read_all()
    columns = [column for column in newest.column_names if not column.startswith("_hoodie_")]
    some = newest.select(columns).slice(0, 3)
    place = some.column_names.index("ts")
    later = some.set_column(place, some.schema.field("ts"), pa.array([10**6] * 3, some.schema.field("ts").type))
    table.write(later, mode="upsert")
    before = rows(table)
    result = table.rewrite(options={"lakebed.rewrite.step": "run"})
    assert result.instants == schedule.instants
    assert rows(table).equals(before)
    table.rewrite()
    assert rows(table).equals(before)


def test_a_run_that_died_is_run_anew_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened("merge_event_v8", tmp_path)
    before = rows(table)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lakebed.formats.hudi.commit.transaction.complete", die)
        with pytest.raises(KeyboardInterrupt):
            table.rewrite()
    (instant,) = [time for time, state in states(table).items() if state == "compaction inflight"]
    assert rows(table).equals(before)
    left = table.rewrite()
    assert not left.groups
    assert any(instant in skipped.what for skipped in left.skipped)
    table.rewrite(options={"lakebed.rewrite.step": "run", "lakebed.rewrite.instant": instant})
    assert rows(table).equals(before)
    named = [path.name for path in Path(table.location).rglob(f"*_{instant}.parquet")]
    assert len({name.partition("_")[0] for name in named}) == len(named)


@pytest.mark.parametrize("when", ["before it lists what is left", "before it commits"])
def test_a_run_that_seems_dead_leaves_the_files_of_the_one_that_took_its_plan_up(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process stands still for minutes, so that its heartbeat is old."""
    table = opened("merge_event_v8", tmp_path)
    before = rows(table)
    (instant,) = table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants
    run = {"lakebed.rewrite.step": "run", "lakebed.rewrite.instant": instant}
    step = {"before it lists what is left": "_tasks", "before it commits": "_run"}[when]
    stands_still = getattr(Rewrite, step)

    def overtaken(self: Any, *given: Any) -> Any:
        monkeypatch.setattr(Rewrite, step, stands_still)
        Path(table.location, ".hoodie", ".heartbeat", instant).unlink()
        assert lakebed.open(table.location).rewrite(options=run).instants == (instant,)
        return stands_still(self, *given)

    monkeypatch.setattr(Rewrite, step, overtaken)
    with pytest.raises(CommitConflictError, match="another"):
        table.rewrite(options=run)
    assert rows(lakebed.open(table.location)).equals(before)
    assert not [*Path(table.location, ".hoodie", ".lakebed", "runs").iterdir()]


def test_a_plan_that_another_process_runs_before_it_is_withdrawn_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened("merge_event_v8", tmp_path)
    before = rows(table)
    (instant,) = table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants

    def late(context: Any, instant: str, plan: Any) -> str:
        assert lakebed.open(table.location).rewrite(options={"lakebed.rewrite.step": "run"}).instants == (instant,)
        return take_back(context, instant, plan)

    monkeypatch.setattr("lakebed.formats.hudi.rewrite.run.take_back", late)
    result = table.rewrite(options={"lakebed.rewrite.step": "withdraw"})
    assert result.instants == () and "another process has run it" in result.skipped[0].reason
    assert rows(lakebed.open(table.location)).equals(before)
    assert states(table)[instant] == "commit completed"


def test_a_plan_is_withdrawn(tmp_path: Path) -> None:
    table = opened("merge_event_v8", tmp_path)
    scheduled = table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    assert table.rewrite(dry_run=True).skipped
    withdrawn = table.rewrite(options={"lakebed.rewrite.step": "withdraw"})
    assert withdrawn.instants == scheduled.instants
    assert scheduled.instants[0] not in states(table)


def test_a_plan_by_which_log_files_are_named_is_not_withdrawn(tmp_path: Path) -> None:
    table = opened("mor_v6", tmp_path)
    result = table.rewrite(options={"lakebed.rewrite.step": "withdraw"})
    assert not result.instants
    assert "log files are named by it" in result.skipped[0].reason
    assert states(table)[PENDING["mor_v6"]] == "compaction requested"


def withdraw(table: Table) -> Any:
    return table.rewrite(options={"lakebed.rewrite.step": "withdraw"})


def planned_in_version_6(folder: Path) -> tuple[Table, pa.Table]:
    """A table with a plan of a compaction, and a row that it has."""
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.write.table.version": 6}
    table = lakebed.create(folder / "t", "hudi", {"id": "int64"}, ["id"], options=kind)
    row = pa.table({"id": [1]})
    for _ in range(2):
        table.write(row, "upsert")
    assert table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants
    return table, row


def test_a_write_is_in_conflict_whose_log_files_a_withdrawn_plan_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi would take its log for the newest slice, without the base file below."""
    table, row = planned_in_version_6(tmp_path)
    commit = Transaction.commit

    def late(self: Transaction, *args: Any, **named: Any) -> Any:
        monkeypatch.setattr(Transaction, "commit", commit)
        (folder,) = Path(table.location).glob(".hoodie/*.compaction.requested")
        folder.unlink()  # as a process does that listed the log files before
        return commit(self, *args, **named)

    monkeypatch.setattr(Transaction, "commit", late)
    with pytest.raises(CommitConflictError, match=r"the compaction \d+, whose slice its log files belong to"):
        table.write(row, "upsert")
    assert table.write(row, "upsert").rows == 1  # by the slice that is there
    assert table.read().read_all().num_rows == 1


def test_a_plan_stays_by_which_a_writer_names_log_files_at_the_last_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, row = planned_in_version_6(tmp_path)
    take_back_plan = rewrites.take_back

    def after_a_write(*args: Any) -> str:
        table.write(row, "upsert")
        return take_back_plan(*args)

    monkeypatch.setattr(rewrites, "take_back", after_a_write)
    result = withdraw(table)
    assert not result.instants
    assert "log files are named by it" in result.skipped[0].reason


def test_no_plan_is_made_beside_a_write_in_version_6(tmp_path: Path) -> None:
    table = opened("merge_event_v6", tmp_path)
    (Path(table.location) / ".hoodie" / "20301127204525986.deltacommit.requested").touch()
    with pytest.raises(CommitConflictError, match="write is under way"):
        table.rewrite()


@pytest.mark.parametrize("what", ["compaction", "clustering", "log-compaction"])
def test_no_plan_is_made_beside_a_write_that_nobody_could_take_back_then(what: str, tmp_path: Path) -> None:
    """Hudi's own writers, which have no heartbeats under the policy EAGER, take no write back beyond a later commit."""
    table = opened("merge_event_v8", tmp_path)
    hoodie = Path(table.location) / ".hoodie"
    instant = "20261128204525986"
    (hoodie / "timeline" / f"{instant}.deltacommit.requested").touch()
    options = {
        "lakebed.rewrite.what": what,
        "lakebed.rewrite.step": "schedule",
        "hoodie.log.compaction.blocks.threshold": "1",
        "hoodie.clustering.plan.strategy.sort.columns": "ts",
    }
    with pytest.raises(CommitConflictError, match="no heartbeat") as refused:
        table.rewrite(options=options)
    assert refused.value.instant == instant
    assert [time for time, state in states(table).items() if not state.endswith("completed")] == [instant]
    (hoodie / ".heartbeat").mkdir()
    beat = hoodie / ".heartbeat" / instant
    beat.touch()
    withdrawn = {**options, "lakebed.rewrite.step": "withdraw"}
    assert table.rewrite(options=options).instants == table.rewrite(options=withdrawn).instants
    beat.unlink()
    lazy = {"hoodie.cleaner.policy.failed.writes": "LAZY"}
    assert table.rewrite(options={**options, **lazy}).instants == table.rewrite(options=withdrawn).instants
    ended = {"lakebed.expire.what": "failed-writes", "lakebed.expire.failed.after": "0 s"}
    assert table.expire(options=ended).expired == (instant,)
    assert table.rewrite(options=options).instants


def test_strategies_choose_file_groups(tmp_path: Path) -> None:
    table = opened("merge_event_v8", tmp_path)
    everything = table.rewrite(dry_run=True, options={"hoodie.compaction.strategy": "UnBoundedCompactionStrategy"})
    one = table.rewrite(dry_run=True, options={"hoodie.compaction.target.io": 0})
    assert one.groups == 1
    assert len(one.skipped) == everything.groups - 1
    number = {"hoodie.compaction.strategy": "LogFileNumBased", "hoodie.compaction.logfile.num.threshold": 1000}
    few = table.rewrite(dry_run=True, options=number)
    assert not few.groups and all("fewer than" in skipped.reason for skipped in few.skipped)


def test_delta_commits_are_counted_where_asked_for(tmp_path: Path) -> None:
    table = opened("merge_event_v8", tmp_path)
    key = "hoodie.compact.inline.max.delta.commits"
    early = table.rewrite(dry_run=True, options={key: 1000})
    assert not early.groups and key in early.skipped[0].reason
    assert table.rewrite(dry_run=True, options={key: 1}).groups


def test_what_is_not_served_is_refused(tmp_path: Path) -> None:
    refused: list[tuple[str, dict[str, object], type[LakebedError]]] = [
        ("cow_v8", {"lakebed.rewrite.what": "compaction"}, UnsupportedError),
        ("merge_event_v8", {"hoodie.compaction.stratgy": "UnBounded"}, OptionError),
        ("merge_event_v8", {"lakebed.rewrite.instant": "20261127204525986"}, NotInHistoryError),
    ]
    for at, (name, options, error) in enumerate(refused):
        table = opened(name, tmp_path / str(at))
        with pytest.raises(error, match=next(iter(options))):
            table.rewrite(options=options)
