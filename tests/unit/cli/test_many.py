"""One command over many tables: which they are, one line each, on after a failure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.cli.app import main
from lakebed.errors import TableNotFoundError, UsageError

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
ROWS = pa.table({"id": [1, 2], "v": ["x", "y"]}, SCHEMA)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A warehouse of three databases, with tables of two formats and folders that are none."""
    folder = tmp_path / "lake"
    for name in ("sales.db/orders", "sales.db/orders_old", "stock.db/items"):
        made = lakebed.create(folder / name, "paimon", SCHEMA, ["id"], options={"bucket": 1, "write-only": True})
        for _ in range(2):
            made.write(ROWS)
    lakebed.create(folder / "ice" / "berg", "iceberg", SCHEMA)
    (folder / "notes" / "deep").mkdir(parents=True)
    (folder / "sales.db" / "_tmp").mkdir()
    (folder / "README").write_text("mine")
    return folder


def catalog(lake: Path) -> dict[str, str]:
    return {"lakebed.catalog.metastore": "filesystem", "lakebed.catalog.warehouse": str(lake)}


def test_which_tables(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def below(location: object, **chosen: str) -> list[str]:
        return [name.removeprefix(f"{lake}/") for name in lakebed.tables(str(location), **chosen)]  # type: ignore[arg-type]

    every = ["ice/berg", "sales.db/orders", "sales.db/orders_old", "stock.db/items"]
    assert below(lake) == below(f"{lake}/") == below(f"{lake}/*/*") == every
    assert below(f"{lake}/*.db/orders*") == below(lake, including_databases="sales") == every[1:3]
    assert below(lake / "stock.db" / "items") == below(f"{lake}/stock.db/i?ems") == every[3:]
    assert below(lake, including_tables="sales.*|ice.*", excluding_tables=".*_old") == every[:2]
    monkeypatch.chdir(lake)
    assert below("*.db/items") == every[3:]
    options = catalog(lake)
    named = {"shop:sales": every[1:3], "shop:*.items": every[3:], "shop:s*": every[1:],
             "shop:sales.*_old": every[2:3], "shop:sales.orders": every[1:2]}  # fmt: skip
    for pattern, wanted in named.items():
        names = [f"shop:{name.replace('.db/', '.')}" for name in wanted]
        assert lakebed.tables(pattern, options) == names, pattern
    assert lakebed.tables("shop:*", options, excluding_tables="sales.*") == ["shop:stock.items"]
    for nothing in (f"{lake}/*.db/none*", lake / "notes", lake / "absent", "shop:*.none", "shop:none"):
        with pytest.raises(TableNotFoundError):
            lakebed.tables(nothing, options)
    with pytest.raises(UsageError, match="regular expression"):
        lakebed.tables(lake, including_tables="(")


def test_an_iceberg_catalog(tmp_path: Path) -> None:
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/c.db",
               "lakebed.catalog.warehouse": f"{tmp_path}/w"}  # fmt: skip
    for name in ("a.t", "a.u", "b.inner.v"):
        lakebed.create(f"ice:{name}", "iceberg", SCHEMA, options=options)
    assert lakebed.tables("ice:a", options) == ["ice:a.t", "ice:a.u"]
    assert lakebed.tables("ice:*.?", options) == lakebed.tables("ice:*", options) == [
        "ice:a.t", "ice:a.u", "ice:b.inner.v",
    ]  # fmt: skip
    assert lakebed.tables("ice:b.inner.*", options) == ["ice:b.inner.v"]
    with pytest.raises(TableNotFoundError):
        lakebed.tables("ice:none", options)


def test_each_table_has_a_line_and_a_failure_ends_nothing(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / "sales.db" / "orders" / "snapshot" / "snapshot-2").write_text("{")
    assert run("rewrite", str(lake / "*.db" / "*"), "-o", "compact_strategy=full") == 1
    shown = capsys.readouterr()
    lines = dict(line.removeprefix(f"{lake}/").split(": ", 1) for line in shown.out.splitlines())
    assert [*lines] == ["sales.db/orders", "sales.db/orders_old", "stock.db/items"]
    assert lines["sales.db/orders"].startswith("failed: ") and "snapshot-2" in lines["sales.db/orders"]
    assert lines["stock.db/items"].startswith("2 files") and "became 1" in lines["stock.db/items"]
    assert "3 tables, 1 failed" in shown.err
    assert lakebed.open(lake / "stock.db" / "items").history()[-1].action.lower() == "compact"


def test_the_tasks_of_all_tables_run_together(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / "sales.db" / "orders_old" / "snapshot" / "snapshot-2").write_text("{")
    assert run("rewrite", f"{lake}/*.db/*", "--mode", "combined", "--json", "-o", "compact_strategy=full") == 1
    document = json.loads(capsys.readouterr().out)
    assert [one.get("files_after", one.get("error", {}).get("kind")) for one in document["tables"]] == [
        1, "CorruptError", 1,
    ]  # fmt: skip
    for name in ("sales.db/orders", "stock.db/items"):
        assert lakebed.open(lake / name).read().read_all().num_rows == 2


def test_one_json_document(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for pair in catalog(lake).items() for word in ("-o", "=".join(pair))]
    assert run("rewrite", "shop:sales", "--dry-run", "--json", "-o", "compact_strategy=full", *words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["failed"] == 0
    assert [(one["name"], one["files_before"], one["dry_run"]) for one in document["tables"]] == [
        ("shop:sales.orders", 2, True), ("shop:sales.orders_old", 2, True),
    ]  # fmt: skip
    expire = ["snapshot.num-retained.min=1", "snapshot.num-retained.max=1", "snapshot.time-retained=0 ms"]
    words += [word for text in expire for word in ("-o", text)]
    assert run("expire", "shop:*", "--excluding-tables", "sales.*", "--json", *words) == 0
    (one,) = json.loads(capsys.readouterr().out)["tables"]
    assert (one["name"], one["expired"]) == ("shop:stock.items", ["1"])
    assert run("archive", "shop:sales", "--json", "--including-tables", ".*old", *words[:4]) == 1
    (one,) = json.loads(capsys.readouterr().out)["tables"]
    assert one["error"]["kind"] == "UnsupportedError" and "expiring snapshots" in one["error"]["message"]


def test_a_folder_of_tables_is_inspected(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(lake / "stock.db" / "items" / "snapshot")
    assert run("inspect", str(lake)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(line.split(": ")[1] in ("good", "attention", "broken") for line in lines)
    assert run("inspect", str(lake), "--html", str(tmp_path / "page.html")) == 1
    assert "--html is for one table" in capsys.readouterr().out
    assert run("inspect", str(lake / "absent")) == 1
    assert "does not exist" in capsys.readouterr().err
    assert run("inspect", str(lake / "notes")) == 1
    assert "not a Hudi, Paimon or Iceberg table" in capsys.readouterr().err
