"""`lakebed rewrite`: what it shows, what it does, and the one JSON document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakebed
from lakebed.cli.app import main
from tests.golden import unpack


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


@pytest.fixture
def table(tmp_path: Path) -> tuple[str, list[str]]:
    folder = unpack("iceberg", "many_small", into=tmp_path)
    catalog = ["lakebed.catalog.type=sql", f"lakebed.catalog.uri=sqlite:///{folder.parent}/catalog.db"]
    return "ice:db.many_small", [word for pair in catalog for word in ("-o", pair)]


def test_a_dry_run_says_what_would_be_done_and_why(
    table: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    name, options = table
    assert run("rewrite", name, "--dry-run", *options) == 0
    shown = capsys.readouterr()
    assert "25 under 384.0 MiB" in shown.out and "region=eu/id_bucket=0" in shown.out
    assert "200 files" in shown.err and "would become 8" in shown.err


@pytest.mark.slow
def test_json_of_a_rewrite_and_of_one_that_finds_nothing(
    table: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    name, options = table
    assert run("rewrite", name, "--json", "--where", "region = 'eu'", *options) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["files_before"], document["files_after"], len(document["instants"])) == (100, 4, 1)
    assert run("rewrite", name, "--json", "--where", "region = 'eu'", *options) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["groups"] == 0 and "alone" in document["skipped"][0]["reason"]


def test_an_unknown_option_is_wrong_use(table: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    name, options = table
    assert run("rewrite", name, *options, "-o", "min-input-file=2") == 2
    assert "min-input-files" in capsys.readouterr().err


def test_paimon_tables_are_rewritten_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow as pa

    made = lakebed.create(
        tmp_path / "t", "paimon", pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())]), "k",
        options={"bucket": "-2"},
    )  # fmt: skip
    made.write(pa.table({"k": [1, 2], "v": ["a", "b"]}))
    assert run("rewrite", str(tmp_path / "t"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["files_after"] == 1


@pytest.mark.slow
def test_groups_that_fail_are_told_and_leave_with_1(
    table: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, options = table
    lost = sorted(tmp_path.rglob("data/region=eu/id_bucket=0/*.parquet"))[0]
    lost.unlink()
    assert run("rewrite", name, "--json", *options, "-o", "partial-progress.enabled=true") == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert (document["groups"], len(document["failed"]), document["failed"][0]["what"][:19]) == (
        7, 1, "region=eu/id_bucket",
    )  # fmt: skip
    assert "error: 1 of 8 groups failed" in shown.err and lost.name in shown.err


@pytest.mark.slow
def test_expire_says_what_goes_and_then_does_it(
    table: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    name, options = table
    assert run("rewrite", name, *options) == 0
    old = ["-o", "older-than=2100-01-01T00:00:00Z"]
    capsys.readouterr()
    assert run("expire", name, "--dry-run", *options, *old) == 0
    assert "would expire" in capsys.readouterr().err
    assert run("expire", name, "--json", *options, *old) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["expired"]) >= 1 and len(document["deleted_files"]) >= 200
    opened = lakebed.open(name, dict(option.split("=", 1) for option in options[1::2]))
    assert len(opened.history()) == 1 and opened.read([]).read_all().num_rows > 0


def test_expire_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("expire", str(tmp_path / "nothing")) == 1
    assert "the path does not exist" in capsys.readouterr().err
