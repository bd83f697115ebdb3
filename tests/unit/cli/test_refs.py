"""`lakebed tag`, `lakebed branch` and `lakebed refs`, on tables of every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.unit.cli.test_alter import lake

ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture(params=["hudi", "paimon", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakebed.Table:
    table = lakebed.create(tmp_path / "t", request.param, ROW.schema, *([["id"]] if request.param == "hudi" else []))
    table.write(ROW)
    table.write(ROW, mode="upsert" if request.param == "hudi" else "append")
    return table


def test_tags(table: lakebed.Table, capsys: pytest.CaptureFixture[str]) -> None:
    first, last = (instant.time for instant in (table.history()[0], table.history()[-1]))
    assert lake("tag", table.location, "old", "--at", first) == 0
    assert lake("tag", table.location, "new", "--json") == 0
    assert said(capsys) == {
        "table": table.location,
        "format": table.format,
        "kind": "tag",
        "name": "new",
        "action": "made",
    }
    assert lake("tag", table.location, "--json") == 0
    tags = {ref["name"]: ref["instant"] for ref in said(capsys)["refs"]}
    assert tags == {"old": first, "new": last}
    assert lake("tag", table.location, "old", "--delete") == 0 and lake("refs", table.location) == 0
    out = capsys.readouterr().out
    assert "new" in out and "old" not in out
    assert lake("tag", table.location, "old", "--delete", "--json") == 1
    assert said(capsys)["error"]["kind"] == "NotInHistoryError"
    wrong = (["--delete"], ["--at", "1"], ["x", "--delete", "--at", "1"], ["new"], ["x", "--time-retained", "soon"])
    assert [lake("tag", table.location, *words) for words in wrong] == [2] * len(wrong)
    code = lake("tag", table.location, "short", "--time-retained", "7d")
    assert code == (2 if table.format == "hudi" else 0)
    if code == 0:
        ends = {ref.name: ref.ends for ref in table.refs()}
        assert ends["short"] and not ends["new"]


def test_branches(table: lakebed.Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.tag("here")
    code = lake("branch", table.location, "b", "--at", "tag:here")
    if table.format == "hudi":
        assert code == 1
        return
    lakebed.open(table.location, {"branch": "b"}).write(ROW)
    assert lake("branch", table.location, "b", "--fast-forward", "--json") == code == 0
    capsys.readouterr()
    assert lake("branch", table.location, "--json") == 0
    refs = {ref["name"]: ref["instant"] for ref in said(capsys)["refs"]}
    assert refs["b"] == refs["main"] and [*refs] == ["b", "main"]
    assert lakebed.open(table.location).read().read_all().num_rows == 3
    table.write(ROW)
    if table.format == "iceberg":
        assert lake("branch", table.location, "b", "--fast-forward") == 2  # main has gone on
    assert lake("branch", table.location, "b", "--delete") == 0
    assert lake("branch", table.location, "b", "--delete") == 1
    assert (
        lake("branch", table.location, "b", "--fast-forward", "--delete")
        == lake("branch", table.location, "--at", "x")
        == 2
    )
    assert [ref.name for ref in table.refs() if ref.kind == "branch"] == ["main"]


def test_what_iceberg_has_besides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROW.schema, options={"write.wap.enabled": True})
    first = table.write(ROW).instant
    assert lake("branch", table.location, "b", "--retain", "min-snapshots-to-keep=3", "--json") == 0
    assert said(capsys)["action"] == "made"
    second = table.write(ROW).instant
    third = table.write(ROW, options={"wap.id": "w"}).instant
    code = lake("branch", table.location, "b", "--at", second, "--replace", "--dry-run", "--json")
    found = said(capsys)
    assert (code, found["before"], found["to"], found["added"], found["dry_run"]) == (0, first, second, [second], True)
    assert lake("tag", table.location, "t", "--at", first) == lake("tag", table.location, "t", "--replace") == 0
    assert {ref.name: ref.instant for ref in table.refs()} == {"b": first, "main": second, "t": second}
    assert second in capsys.readouterr().out  # what came into the tag
    assert lake("publish", table.location, "w", "--dry-run", "--json") == 0
    assert said(capsys)["added"] == [third]
    assert lake("publish", table.location, "w") == 0 and lake("publish", table.location, "w") == 2
    assert third in capsys.readouterr().out
    assert lake("cherry-pick", table.location, second, "--option", "branch=b", "--json") == 0
    assert said(capsys)["name"] == "b"
    assert lake("rollback", table.location, first) == 0 and lake("rollback", table.location, third) == 2
    assert lake("rollback", table.location, third, "--any-snapshot") == 0
    assert lake("branch", table.location, "b", "--delete", "--dry-run") == 0
    assert "would be deleted" in capsys.readouterr().err
    assert {ref.name: ref.instant for ref in table.refs()}["main"] == third
    assert lake("branch", table.location, "--retain", "x=1") == lake("tag", table.location, "--replace") == 2


def test_other_formats_have_no_such_options(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ROW.schema)
    table.write(ROW)
    table.tag("t")
    for words in (["tag", "t", "--dry-run"], ["branch", "b", "--dry-run"], ["branch", "b", "--retain", "a=b"]):
        assert lake(words[0], table.location, *words[1:]) == 1
    assert lake("rollback", table.location, "tag:t", "--any-snapshot") == 1
    assert [ref.name for ref in table.refs()] == ["main", "t"] or [ref.name for ref in table.refs()] == ["t"]


def test_tags_of_paimon_move_and_are_renamed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ROW.schema)
    table.write(ROW)
    table.tag("t")
    table.write(ROW)
    assert lake("tag", table.location, "t") == 2
    assert lake("tag", table.location, "t", "--replace") == 0
    capsys.readouterr()
    assert lake("tag", table.location, "t", "--rename", "u", "--json") == 0
    assert said(capsys)["action"] == "renamed to 'u'"
    assert {ref.name: ref.instant for ref in table.refs() if ref.kind == "tag"} == {"u": "2"}
    for words in (["u", "--rename", "w", "--replace"], ["--rename", "w"], ["u", "--rename", "w", "--delete"]):
        assert lake("tag", table.location, *words) == 2
    assert lake("tag", table.location, "u", "--rename", "w", "--dry-run") == 1
    other = lakebed.create(tmp_path / "i", "iceberg", ROW.schema)
    other.write(ROW)
    other.tag("t")
    assert lake("tag", other.location, "t", "--rename", "u") == 1
    hudi = lakebed.create(tmp_path / "h", "hudi", ROW.schema, primary_key=["id"])
    assert lake("tag", hudi.location, "t", "--replace") == 1


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)
