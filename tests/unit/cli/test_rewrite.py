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


def test_expire_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("expire", str(tmp_path / "nothing")) == 1
    assert "there is no such path" in capsys.readouterr().err
