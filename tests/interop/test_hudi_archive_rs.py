"""hudi-rs on timelines that lakebed archived: the same rows before and after, and as lakebed reads them."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import lakebed
from tests.golden import unpack
from tests.interop.hudi_ask import ask

TABLES = (
    "archived_v6", "archived_mor_v6", "archived_v8", "archived_mor_v8", "archived_v9", "archived_mor_v9",
    "archived_h015", "archived_mor_h015",
)  # fmt: skip
COLUMNS = ("_hoodie_commit_time", "id", "ts", "part", "s", "i")
FEW = {
    "hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2, "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.compact.inline.max.delta.commits": 1, "hoodie.metadata.enable": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("hudi-rs")
    return [Path(shutil.copytree(unpack("hudi", name), folder / name)) for name in TABLES]


def test_hudi_rs_reads_the_same_rows_before_and_after(tables: list[Path]) -> None:
    before = _told(tables)
    for name, folder, rows in zip(TABLES, tables, before, strict=True):
        assert rows == _rows(folder), name
        result = lakebed.open(folder).archive(options=FEW)
        assert len(result.archived) >= 2, name
        assert sum(i.action in ("commit", "deltacommit") for i in lakebed.open(folder).history()) <= 2, name
    assert _told(tables) == before


def _told(tables: list[Path]) -> list[Any]:
    lines = ["\t".join((str(folder), *COLUMNS)) for folder in tables]
    return ask("LAKEBED_INTEROP_PYTHON", "hudi_rs_peer.py", [], lines)


def _rows(folder: Path) -> list[list[Any]]:
    found = lakebed.open(folder).read(list(COLUMNS)).read_all().to_pylist()
    return sorted([row[name] for name in COLUMNS] for row in found)
