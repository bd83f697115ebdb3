"""Manifests that lakebed and Paimon's Java engine merge: with the same entries each, and both go on with them."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.manifests import data_manifests
from lakebed.formats.paimon.snapshot import History
from tests.interop.conftest import PaimonJvm, Pypaimon
from tests.interop.test_paimon_append_outside import check, plain

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("id", pa.int64(), False), ("v", pa.string())])
WHAT = {"lakebed.rewrite.what": "manifests"}
CASES: dict[str, tuple[dict[str, str], list[str]]] = {
    "small ones": ({"bucket": "2"}, ["p", "id"]),
    "full ones": ({"bucket": "2", "manifest.target-file-size": "2 kb", "manifest.merge-min-count": "50"}, ["p", "id"]),
    "by commits": ({"manifest.merge-min-count": "4"}, []),
    "in full by commits": ({"manifest.full-compaction-threshold-size": "3 kb", "write-only": "true"}, []),
}


def theirs(paimon_jvm: PaimonJvm, folder: Path, what: str) -> list[tuple[int, int]]:
    return [(meta["added"], meta["deleted"]) for meta in paimon_jvm.tell("manifests", folder, what)]


def ours(folder: Path) -> list[tuple[int, int]]:
    store = lakebed.open(folder).store
    latest = History(store).latest()
    assert latest is not None
    return [(meta.num_added_files, meta.num_deleted_files) for meta in data_manifests(store, latest)]


@pytest.mark.parametrize("name", CASES)
def test_manifests_are_merged_alike(name: str, tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon) -> None:
    options, keys = CASES[name]
    folder = tmp_path / "db.db" / "ours"
    table = lakebed.create(folder, "paimon", SCHEMA, keys, ["p"], options)
    beside = tmp_path / "db.db" / "theirs"
    for turn in range(5):
        data: list[Any] = [(part, turn * 10 + n, f"v{turn}") for part in "abc"[: 1 + turn % 3] for n in range(3)]
        if turn % 2:
            paimon_jvm.write(folder, [["+I", *row] for row in data], turn)
        else:
            mode, how = ("overwrite", {"overwrite.partition": "p=a"}) if turn == 4 else ("append", {})
            data = [row for row in data if turn != 4 or row[0] == "a"]
            columns = [list(column) for column in zip(*data, strict=True)]
            table.write(pa.table(columns, schema=SCHEMA), mode, how)
        assert ours(folder) == theirs(paimon_jvm, folder, "list")
    count = len(table.read().read_all())
    shutil.copytree(folder, beside)
    merged = theirs(paimon_jvm, beside, "merge")
    planned = table.rewrite(dry_run=True, options=WHAT)
    done = table.rewrite(options=WHAT)
    assert ours(folder) == merged and done.files_before == planned.files_before
    assert all(not deleted for _, deleted in merged)
    check(table, folder, count, paimon_jvm)
    paimon_jvm.write(folder, [["+I", "c", 99, "jvm"]], 99)
    check(table, folder, count + 1, paimon_jvm)
    read = pypaimon.read(folder, "native").select(SCHEMA.names).cast(SCHEMA)
    assert plain(read) == plain(table.read().read_all())
    assert theirs(paimon_jvm, folder, "merge") == ours(folder)
    check(table, folder, count + 1, paimon_jvm)
