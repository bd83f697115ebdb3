"""The commands that show what a table is, SQL, and what a machine lacks."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from tests.unit.cli.test_alter import lake


@pytest.fixture
def place(tmp_path: Path) -> str:
    table = lakebed.create(
        tmp_path / "t", "iceberg", "id bigint not null comment 'number', p string", partition_by=["p"]
    )
    table.write(pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]}))
    return table.location


def test_describe_and_schema(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lake("describe", place, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    newest = lakebed.open(place).history()[-1]
    assert (shown["format"], shown["newest"], shown["committed"]) == ("iceberg", newest.time, newest.completed)
    assert shown["figures"]["partition-spec"] == "identity(p)" and shown["schema"][1]["name"] == "p"
    assert lake("describe", place) == 0 and "identity(p)" in capsys.readouterr().out
    assert lake("schema", place, "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"][0] == {"name": "id", "type": "int64", "nullable": False}
    assert lake("schema", place) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["id", "int64", "not", "null"],
        ["p", "string"],
    ]


def test_files_and_partitions(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lake("files", place, "--json") == 0
    assert sorted(row["record_count"] for row in json.loads(capsys.readouterr().out)["rows"]) == [1, 2]
    assert lake("partitions", place, "--format", "jsonl") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["partition"]["p"]: row["record_count"] for row in rows} == {"a": 2, "b": 1}


def test_rows_to_a_pipe(place: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert lake("read", place, "--format", "csv") == 0
    rows = csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode()))
    assert sorted((row["id"], row["p"]) for row in rows) == [("1", "a"), ("2", "a"), ("3", "b")]
    assert (
        lake("sql", f"select p, count(*) as n from '{place}' group by p", "--format", "parquet", "--output", "-") == 0
    )
    table = pq.read_table(pa.BufferReader(capfdbinary.readouterr().out))
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == [("a", 2), ("b", 1)]
    assert lake("read", place, "--limit", "1", "--format", "jsonl", "--output", str(tmp_path / "rows.txt")) == 0
    assert len((tmp_path / "rows.txt").read_text().splitlines()) == 1
    assert b"1 row ->" in capfdbinary.readouterr().err


def test_meta_columns_are_left_out_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    orders = lakebed.example("orders")
    assert lake("read", orders, "--limit", "1") == 0 and "_hoodie_record_key" not in capsys.readouterr().out
    assert lake("read", orders, "--limit", "1", "--meta-columns") == 0
    assert "_hoodie_record_key" in capsys.readouterr().out
    assert lake("read", orders, "--limit", "1", "--format", "jsonl") == 0
    assert "_hoodie_record_key" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--output", "-"], "--output - needs a format"),
        (["--format", "csv", "--json"], "both write to standard output"),
        (["--output", "rows.xls"], "unknown extension"),
        (["--output", "nowhere/rows.csv"], "the folder nowhere does not exist"),
        (["--output", "rows.csv", "--format", "table"], "--format table is for the terminal"),
        (["--format", "xml"], "'xml' is not one of"),
    ],
)
def test_wrong_ways_out(place: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lake("read", place, *arguments) == 2
    assert told in capsys.readouterr().err


def test_sql_as_json(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lake("sql", f"select max(id) as top from '{place}'", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"top": 3}]
    assert lake("sql", "select max(id) from t") == 2
    assert "there is no table t" in capsys.readouterr().err


def test_doctor(place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    assert lake("doctor", place, "--json") == 0
    out = capsys.readouterr().out
    shown = {check["what"]: check for check in json.loads(out)["checks"]}
    assert shown["pyarrow"]["found"] == pa.__version__ and shown["Python"]["state"] == "ok"
    assert shown[f"storage of {place}"]["found"].startswith("iceberg table, newest commit ")
    assert shown["storage settings in the environment"]["found"] == "AWS_PROFILE" and "hidden" not in out
    worker = shown["Python of Spark's workers"]
    assert worker["state"] == "optional" and worker["remedy"] == f"set PYSPARK_PYTHON to {sys.executable}"
    assert lake("doctor", f"{place}/nothing") == 1
    shown_to_people = capsys.readouterr()
    assert "1 thing missing" in shown_to_people.err and "does not exist" in shown_to_people.out


def test_shells_complete_commands() -> None:
    asked = {"_LAKEBED_COMPLETE": "complete_bash", "COMP_WORDS": "lakebed re", "COMP_CWORD": "1"}
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'lakebed'; from lakebed.cli import main; main()"]
    answer = subprocess.run(program, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert {"read", "rewrite", "repair", "refs"} <= set(answer.stdout.split())
