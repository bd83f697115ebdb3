"""The calls that reports hand out: each one runs as it is pasted, and ends its finding."""

import shlex
from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import lakebed
from lakebed.cli import main
from lakebed.model.fixes import Fix, with_table
from lakebed.model.report import Finding, Health, TableReport
from lakebed.model.upkeep import Blocker
from tests.spark.test_procedures import rows

ODD = "/lake/it's \\ here/$(x)"


def test_a_call_is_spelled_for_the_terminal_sql_and_python() -> None:
    fix = Fix("compute_table_stats", (("a.b", "it's"),), (("branch", "dev"),))
    assert shlex.split(fix.command(ODD)) == [
        "lakebed", "compute-table-stats", ODD, "--option", "a.b=it's", "--option", "branch=dev",
    ]  # fmt: skip
    assert (
        fix.sql("/t")
        == "SELECT * FROM lakebed_compute_table_stats('/t', options => map('a.b', 'it\\'s', 'branch', 'dev'))"
    )
    assert fix.python("/t") == """lakebed.open('/t', {'branch': 'dev'}).compute_table_stats(options={'a.b': "it's"})"""
    assert Fix("expire").python(ODD) == f"lakebed.open({ODD!r}).expire()"
    assert Fix("expire").sql(ODD) == "SELECT * FROM lakebed_expire('/lake/it\\'s \\\\ here/$(x)')"
    assert Fix("expire").command("s3://key:secretsecret@b/t") == "lakebed expire s3://...@b/t"


def test_commands_in_remedies_name_the_table() -> None:
    assert (
        with_table("Run lakebed rewrite TABLE --option x=1 now", "/a b")
        == "Run lakebed rewrite '/a b' --option x=1 now"
    )
    blocker = Blocker("1", "held", "lakebed expire TABLE")
    report = TableReport(
        "/t", "hudi", findings=(Finding(Health.GOOD, "x", remedy="lakebed archive TABLE"),), blockers=(blocker,)
    )
    assert report.advice == ("lakebed archive /t", "lakebed expire /t")


def small_iceberg(folder: Path) -> lakebed.Table:
    """Many small files on a branch."""
    table = lakebed.create(folder, "iceberg", {"id": "int64"})
    table.write(pa.table({"id": [0]}))
    table.branch("dev")
    dev = lakebed.open(folder, {"branch": "dev"})
    for n in range(5):
        dev.write(pa.table({"id": [n]}))
    return dev


def runs_of_paimon(folder: Path) -> lakebed.Table:
    """Many sorted runs in one bucket."""
    table = lakebed.create(folder, "paimon", {"id": "int64"}, ["id"], options={"bucket": 1, "write-only": "true"})
    for n in range(6):
        table.write(pa.table({"id": [n]}))
    return table


def logs_of_hudi(folder: Path) -> lakebed.Table:
    """Many log files of one file group."""
    columns = {"id": "string", "ts": "int64"}
    options = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.ordering.fields": "ts"}
    table = lakebed.create(folder, "hudi", columns, ["id"], options=options)
    for n in range(12):
        table.write(pa.table({"id": ["a"], "ts": [n]}), mode="upsert")
    return table


def map_of(named: list[exp.Expression]) -> list[exp.Expression]:
    """The keys and the values of the argument `options`."""
    if not named:
        return [exp.Array(), exp.Array()]
    (options,) = named
    assert options.this.name == "options"
    return [options.expression.args["keys"], options.expression.args["values"]]


@pytest.mark.parametrize(
    ("make", "spelled"),
    [
        (small_iceberg, "command"), (small_iceberg, "python"), (small_iceberg, "sql"),
        (runs_of_paimon, "python"), (logs_of_hudi, "command"),
    ],
)  # fmt: skip
def test_a_fix_runs_as_it_is_and_ends_its_finding(tmp_path: Path, make, spelled: str) -> None:  # type: ignore[no-untyped-def]
    table = make(tmp_path / "a table")
    before = table.read().read_all()
    (fix,) = table.inspect().fixes
    if spelled == "python":
        eval(fix.python(table.location), {"lakebed": lakebed})
    elif spelled == "sql":
        (function,) = sqlglot.parse_one(fix.sql(table.location), read="spark").find_all(exp.Anonymous)
        location, *named = function.expressions
        given = dict(zip(*([one.this for one in column.expressions] for column in map_of(named)), strict=True))
        assert rows(function.this.removeprefix("lakebed_"), location.this, given)
    else:
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(fix.command(table.location))[1:])
        assert not stop.value.code
    assert table.inspect().fixes == () and table.read().read_all().num_rows == before.num_rows
