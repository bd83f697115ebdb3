"""`lakebed alter`, on a table of a catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakebed
from lakebed.cli import main


def lake(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0)


def test_alter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"lakebed.catalog.metastore": "filesystem", "lakebed.catalog.warehouse": str(tmp_path)}
    table = lakebed.catalog("shop", settings).create("db.t", {"a": "int32", "b": "string"})
    where = ["shop:db.t", *(word for key, text in settings.items() for word in ("-o", f"{key}={text}"))]
    wanted = ["--drop", "b", "--add", "c=DECIMAL(5, 2)", "--rename", "a=id", "--set", "num-levels=3"]
    assert lake("alter", *where, "--add", "d=INT", "--dry-run") == 0 and table.schema.names == ["a", "b"]
    assert "add column d INT" in capsys.readouterr().out
    assert lake("alter", *where, *wanted, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["version"] == "1" and [column["name"] for column in shown["schema"]] == ["id", "c"]
    assert lake("alter", *where, "--widen", "id=BIGINT", "--unset", "num-levels") == 0
    assert str(table.schema.field("id").type) == "int64"
    assert lake("expire", *where, "--dry-run") == 0
    capsys.readouterr()
    for wrong, code in ((["--add", "x"], 2), (["--drop", "gone"], 1), ([], 2)):
        assert lake("alter", *where, *wrong) == code


def test_alter_iceberg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"a": "int32", "b": "string", "c": "date32", "d": "int64"}
    table = lakebed.create(tmp_path / "t", "iceberg", columns, partition_by=["month(c)", "d"])
    wanted = [
        "--set", "format-version=3", "--drop", "d", "--drop-partition", "d", "--rename", "b=text", "--add", "e=int",
        "--widen", "a=long", "--default", "e=5", "--move", "e=first", "--move", "text=before:a", "--move", "c=after:e",
        "--comment", "e=five", "--identifier-fields", "", "--replace-partition", "c_month=day(c)",
        "--rename-partition", "c_day=day", "--add-partition", "bucket(4, a)", "--sort-order", "bucket(2, a) desc, c",
        "--set", "x=y",
    ]  # fmt: skip
    assert lake("alter", table.location, *wanted) == 0
    assert "move column text before a" in capsys.readouterr().out
    assert table.schema.names == ["e", "c", "text", "a"]
    assert lake("alter", table.location, "--nullable", "e", "--sort-order", "", "--json") == 0
    assert json.loads(capsys.readouterr().out)["changes"] == ["column e may be null", "sort order: none"]
    for wrong in (["--move", "e=last"], ["--move", "e=after:"], ["--comment", "e"]):
        assert lake("alter", table.location, *wrong) == 2
