"""`lakebed snapshot`, `migrate`, `register`, `add-files` and `rewrite-table-path` on a folder of files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from tests.unit.cli.test_alter import lake


def put(path: Path, *numbers: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": numbers}), path)


def count(place: Any, options: dict[str, Any]) -> int:
    return int(lakebed.open(str(place), options).read().read_all().num_rows)


def test_from_a_folder_to_a_copy_in_a_catalog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said() -> dict[str, Any]:
        out, err = capsys.readouterr()
        assert err == ""
        document: dict[str, Any] = json.loads(out)
        return document

    folder, trial = tmp_path / "in", tmp_path / "trial"
    put(folder / "day=1" / "a.parquet", 1, 2)
    assert lake("snapshot", str(folder), str(trial), "--column", "day=string", "--dry-run", "--json") == 0
    plan = said()
    assert plan["dry_run"] and plan["columns"] == ["id long", "day string"] and not trial.exists()
    assert lake("snapshot", str(folder), str(trial), "--option", "owner=me") == 0
    out, err = capsys.readouterr()
    assert "day=1" in out and f"{trial} has 2 rows in 1 file\n" in err and "lakebed.storage.places" in err
    assert count(trial, {"lakebed.storage.places": str(folder)}) == 2
    assert lake("snapshot", str(folder), str(trial), "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "TableExistsError"
    for words in (["--column", "day"], ["--option", "owner"]):
        assert lake("snapshot", str(folder), str(tmp_path / "x"), *words) == 2
    assert lake("migrate", str(folder)) == 0
    put(folder / "later" / "day=2" / "b.parquet", 3)
    capsys.readouterr()
    added = str(folder / "later")
    assert lake("add-files", str(folder), added, "--dry-run", "--json") == 0
    assert said()["rows"] == 1 and count(folder, {}) == 2
    assert lake("add-files", str(folder), added) == 0 and count(folder, {}) == 3
    assert "day=2" in capsys.readouterr().out
    assert lake("add-files", str(folder), added) == 2  # they are there already
    copy, staging = tmp_path / "copy", tmp_path / "staging"
    capsys.readouterr()
    assert lake("rewrite-table-path", str(folder), str(copy), str(staging), "--dry-run") == 0
    assert "would be rewritten" in capsys.readouterr().err and not staging.exists()
    assert lake("rewrite-table-path", str(folder), str(copy), str(staging), "--json") == 0
    done = said()
    for source, to in done["copies"]:
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "w")}
    options = {f"lakebed.catalog.{key}": value for key, value in catalog.items()}
    words = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    assert lake("register", "shop:db.copy", done["metadata"], *words, "--dry-run", "--json") == 0
    assert said()["rows"] == 3
    assert lake("register", "shop:db.copy", done["metadata"], *words) == 0
    assert "registered with 3 rows in 2 files" in capsys.readouterr().err
    assert count("shop:db.copy", options) == 3
    capsys.readouterr()
    assert lake("compute-table-stats", str(folder), "--column", "id", "--json") == 0
    assert said()["columns"] == [{"column": "id", "distinct": 3}]
    assert lake("compute-table-stats", str(folder), "--dry-run") == 0
    assert "would get statistics of 2 columns" in capsys.readouterr().err
    assert lake("compute-partition-stats", str(folder), "--json") == 0
    assert said()["partitions"] == 2
    assert lake("compute-partition-stats", str(folder)) == 0
    assert "has partition statistics already" in capsys.readouterr().err
    assert lake("compute-table-stats", str(folder), "--column", "x") != 0
