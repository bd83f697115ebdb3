"""Upkeep by a policy: it does what the verbs would do, within its budget, and leaves what is broken alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.cli import main
from lakebed.errors import OptionError, TableNotFoundError, UsageError
from lakebed.formats.policy import TableRule
from lakebed.kernel.commit.alone import alone
from lakebed.model.upkeep import TableUpkeep, UpkeepResult
from tests.golden import unpack

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64())])
PENDING = "20261127204546748"
"""A compaction of the golden table that was requested and never ran."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of each format that has something to do."""
    folder = tmp_path_factory.mktemp("lake")
    unpack("hudi", "mor_v8", into=folder / "shop")
    for name, options in (("paimon", {"bucket": "-1"}), ("iceberg", {})):
        table = lakebed.create(folder / name, name, SCHEMA, partition_by=["dt"], options=options)
        for number in range(6):
            table.write(pa.table({"dt": ["a", "b"], "id": [number, -number]}, SCHEMA))
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "lake")
    lakebed.open(tmp_path / "lake" / "iceberg").relocate()
    return tmp_path / "lake"


def rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    names = {"shop/mor_v8": "_hoodie_record_key", "paimon": "id", "iceberg": "id"}
    return {
        name: sorted(
            map(tuple, (row.values() for row in lakebed.open(folder / name).read([key]).read_all().to_pylist()))
        )
        for name, key in names.items()
    }


def states(result: UpkeepResult) -> dict[str, dict[str, str]]:
    return {Path(table.table).name: {step.verb: step.state.value for step in table.steps} for table in result.tables}


def whys(table: TableUpkeep) -> list[str]:
    return [step.why for step in table.steps]


def test_what_a_dry_run_says_is_done_once_and_no_row_changes(lake: Path) -> None:
    before = rows(lake)
    plan = lakebed.upkeep(lake, dry_run=True)
    due = {"rewrite": "due", "expire": "not due"}
    assert states(plan) == {"iceberg": due, "mor_v8": {**due, "archive": "not due"}, "paimon": due}
    assert all(not table.steps[0].result.instants for table in plan.tables)

    result = lakebed.upkeep(lake)
    assert states(result) == {
        name: {verb: state.replace("due", "done") if state == "due" else state for verb, state in steps.items()}
        for name, steps in states(plan).items()
    }
    assert result.bytes == plan.bytes == sum(table.steps[0].result.bytes_before for table in result.tables) > 0
    for planned, done in zip(plan.tables, result.tables, strict=True):
        assert planned.steps[0].why == done.steps[0].why
        assert planned.steps[0].result.files_before == done.steps[0].result.files_before
    assert result.tables[2].steps[0].result.instants == (PENDING,)
    assert not result.failed and rows(lake) == before

    again = lakebed.upkeep(lake, {"verbs": ["rewrite"]})
    assert {name: steps["rewrite"] for name, steps in states(again).items()} == {
        "iceberg": "not due", "mor_v8": "done", "paimon": "not due"
    }  # fmt: skip
    assert states(lakebed.upkeep(lake))["mor_v8"]["rewrite"] == "not due", "the logs beside the pending plan are merged"


@pytest.mark.parametrize("name", ["iceberg", "paimon"])
def test_a_rewrite_beyond_the_budget_takes_the_groups_that_fit(lake: Path, name: str) -> None:
    whole = lakebed.open(lake / name).rewrite(dry_run=True)
    assert [group.files for group in whole.plan] == [6, 6]
    policy = {"verbs": ["rewrite"], "budget": {"bytes": whole.plan[0].size + 10}}
    first = lakebed.upkeep(lake / name, policy)
    (step,) = first.tables[0].steps
    assert (step.state, step.result.files_before, step.result.files_after) == ("done", 6, 1)
    assert f"it takes {whole.bytes_before} bytes, and {whole.plan[0].size + 10} are left" in step.why
    assert lakebed.open(lake / name).rewrite(dry_run=True).groups == 1
    (left,) = lakebed.upkeep(lake / name, {"verbs": ["rewrite"], "budget": {"bytes": 9}}).tables[0].steps
    assert left.state == "left" and "and 9 are left of the budget" in left.why
    assert lakebed.open(lake / name).rewrite(dry_run=True).groups == 1


def test_a_plan_that_cannot_be_cut_is_left(lake: Path) -> None:
    """Hudi bounds a new plan, and not one that is pending."""
    result = lakebed.upkeep(lake / "shop", {"verbs": ["rewrite"], "budget": {"bytes": "20 kb"}})
    assert states(result) == {"mor_v8": {"rewrite": "left"}} and result.bytes == 0
    assert [i.state for i in lakebed.open(lake / "shop/mor_v8").history() if i.time == PENDING] == ["requested"]


def test_no_step_begins_after_the_time_is_spent(lake: Path) -> None:
    result = lakebed.upkeep(lake, {"budget": {"minutes": 0}})
    assert {why for table in result.tables for why in whys(table)} == {"the budget of 0 minutes is spent"}
    assert not result.failed and not result.bytes


def test_tables_in_the_worst_health_come_first(lake: Path) -> None:
    lakebed.open(lake / "iceberg").rewrite()
    for name in ("a", "z"):
        (lake / name).mkdir()
        lakebed.create(lake / name / "idle", "iceberg", SCHEMA)
    bound = lakebed.upkeep(lake, {"budget": {"minutes": 60}}, dry_run=True)
    healths = [table.health for table in bound.tables]
    assert healths == sorted(healths, key=["broken", "attention", "good"].index) and len(set(healths)) == 2
    free = lakebed.upkeep(lake, dry_run=True)
    assert [table.table for table in free.tables] == sorted(table.table for table in free.tables)


def test_a_broken_table_is_left_alone_and_a_failure_ends_nothing(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = next((lake / "paimon").rglob("*.parquet"))
    victim.unlink()
    bad = {"iceberg": {"rewrite": {"min-input-file": 2}, "expire": {"history.expire.min-snapshots-to-keep": 1}}}
    result = lakebed.upkeep(lake, bad)
    tables = {Path(table.table).name: table for table in result.tables}
    assert tables["paimon"].health == "broken" and tables["paimon"].failed
    assert all(step.state == "left" and victim.name in step.why for step in tables["paimon"].steps)
    assert states(result)["iceberg"]["rewrite"] == "failed" and states(result)["iceberg"]["expire"] != "failed"
    assert "Did you mean 'min-input-files'?" in whys(tables["iceberg"])[0]
    assert states(result)["mor_v8"]["rewrite"] == "done"
    assert {Path(table.table).name for table in result.failed} == {"paimon", "iceberg"}


def test_two_runs_at_once_do_not_work_on_one_table(lake: Path) -> None:
    place = lakebed.open(lake / "iceberg").location
    with alone("upkeep", place) as first:
        assert first
        result = lakebed.upkeep(lake / "iceberg")
    assert states(result) == {"iceberg": {"rewrite": "left", "expire": "left"}} and not result.failed
    assert set(whys(result.tables[0])) == {"another run of upkeep is at work on the table"}
    assert states(lakebed.upkeep(lake / "iceberg"))["iceberg"]["rewrite"] == "done"


def test_a_policy_file_chooses_by_format_and_table(lake: Path, tmp_path: Path) -> None:
    audit, policy = tmp_path / "audit.jsonl", tmp_path / "policy.toml"
    policy.write_text(
        f"""audit = "{audit}"
        [iceberg.rewrite]
        min-input-files = 50
        [hudi.archive]
        hoodie.keep.min.commits = 3
        "hoodie.keep.max.commits" = 4
        "hoodie.clean.commits.retained" = 2
        [[table]]
        name = "lake.paimon"
        verbs = ["expire"]
        [table.expire]
        "snapshot.num-retained.max" = 2
        "snapshot.num-retained.min" = 1
        """
    )
    dry = lakebed.upkeep(lake, policy, dry_run=True)
    assert states(dry)["iceberg"] == {"rewrite": "not due", "expire": "not due"}
    assert states(dry)["paimon"] == {"expire": "due"}
    options = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    archival = next(step for table in dry.tables for step in table.steps if step.verb == "archive")
    assert archival.result == lakebed.open(lake / "shop/mor_v8").archive(dry_run=True, options=options)
    lakebed.upkeep(lake, policy)
    assert len(lakebed.open(lake / "paimon").history()) == 2
    first, second = (json.loads(line) for line in audit.read_text().splitlines())
    assert (first["dry_run"], second["dry_run"], second["tables"], second["failed"]) == (True, False, 3, 0)
    assert ("expire", "done") in [(step["verb"], step["state"]) for step in second["told"]]
    assert not [step for step in second["told"] if step["state"] == "not due"]


@pytest.mark.parametrize(
    ("policy", "kind", "said"),
    [
        ({"verb": []}, OptionError, "Did you mean 'verbs'"),
        ({"verbs": ["rewrit"]}, OptionError, "Did you mean 'rewrite'"),
        ({"verbs": "rewrite"}, UsageError, "expected a list"),
        ({"budget": {"bytes": "many"}}, UsageError, "budget.bytes is 'many'"),
        ({"budget": {"minutes": True}}, UsageError, "budget.minutes is True"),
        ({"budget": {"requests": 1.5}}, UsageError, "budget.requests is 1.5"),
        ({"budget": {"minutes": float("nan")}}, UsageError, "budget.minutes is nan"),
        ({"hudi": {"compact": {}}}, OptionError, "unknown option 'compact' of [hudi]"),
        ({"table": [{"verbs": []}]}, UsageError, "table.name is missing"),
        ({"table": {"name": "x"}}, UsageError, r"expected sections, \[\[table\]\]"),
        ({"paimon": {"expire": {"a": [1]}}}, UsageError, "paimon.expire.a is"),
        ({"audit": "/no/such/folder/audit"}, UsageError, "cannot write the audit file"),
        ("no-such-policy.toml", UsageError, "there is no such policy file"),
    ],
)
def test_a_wrong_policy_is_refused_before_anything_is_done(lake: Path, policy: Any, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said.replace("[hudi]", r"\[hudi\]")):
        lakebed.upkeep(lake / "iceberg", policy)
    assert len(lakebed.open(lake / "iceberg").history()) == 6


@pytest.mark.parametrize(
    ("table", "fits"),
    [
        ("shop:sales.orders", "sales.orders"), ("/lake/sales.db/orders", "sales.orders"),
        ("/lake/sales/v2.1", "sales.v2.1"),
        ("s3://bucket/sales.db/orders/", "sales.*"), ("/lake/sales.db/orders", "/lake/*/orders"),
    ],
)  # fmt: skip
def test_a_pattern_fits_a_name_as_the_choice_among_many_does(table: str, fits: str) -> None:
    assert TableRule(fits).fits(table) and not TableRule("other.*").fits(table)


def test_an_interrupt_leaves_an_audit_line_of_what_was_done(lake: Path, tmp_path: Path) -> None:
    def interrupt(_: TableUpkeep) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lakebed.upkeep(lake, {"audit": str(tmp_path / "audit")}, told=interrupt)
    (line,) = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert line["tables"] == 1


def test_what_opens_no_table_is_refused(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="belong in the policy"):
        lakebed.upkeep(lake / "iceberg", options={"min-input-files": 3})
    with pytest.raises(TableNotFoundError):
        lakebed.upkeep(tmp_path / "nothing")


def test_the_command(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["upkeep", *arguments])
        return int(stop.value.code or 0), *capsys.readouterr()

    code, out, _ = run(str(lake), "--dry-run", "--json")
    document = json.loads(out)
    assert (code, document["failed"], document["dry_run"], len(document["tables"])) == (0, 0, True, 3)
    code, out, err = run(str(lake / "iceberg"))
    assert code == 0 and "12 files" in out and err.splitlines()[-1] == "1 table: 1 done, 1 not due"
    next((lake / "paimon").rglob("*.parquet")).unlink()
    code, out, err = run(str(lake))
    assert code == 1 and "the table is broken" in out and "not due" not in out
    assert err.splitlines()[-1] == "3 tables: 1 done, 4 not due, 2 left"
    code, out, err = run(str(lake), "--policy", str(lake / "none.toml"), "--json")
    assert code == 2 and json.loads(out)["error"]["kind"] == "UsageError"
