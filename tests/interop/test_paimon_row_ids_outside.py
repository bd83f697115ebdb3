"""Row ids and columns in several files: lakebed, Paimon's Java engine and pypaimon write one table in turn, and each
sees the same ids, sequence numbers and values."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.interop.conftest import PaimonJvm, Pypaimon
from tests.tables.paimon.evolved import EVOLVES, evolving

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
TRACKED = ("id", "v", "_ROW_ID", "_SEQUENCE_NUMBER")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": [f"v{n}" for n in ids]}, schema=SCHEMA)


def by_id(data: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in data.to_pylist()), key=lambda row: (row[2], repr(row)))


def checked(folder: Path, jvm: PaimonJvm, pypaimon: Pypaimon, compacted: bool = False) -> list[tuple[Any, ...]]:
    """The rows of all three readers, which are the same. pypaimon 2.1 gives no ids of compacted files."""
    table = lakebed.open(folder)
    ours = by_id(table.read(TRACKED).read_all())
    columns = [name for name in TRACKED if name != "_ROW_ID" or not compacted]
    assert by_id(pypaimon.tracked(folder, *columns)) == by_id(table.read(columns).read_all())
    told = [tuple(line["row"][name] for name in TRACKED) for line in jvm.tell("tracked", folder)]
    assert sorted(told, key=lambda row: (row[2], repr(row))) == ours
    return ours


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_ids_through_compactions(tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon, file_format: str) -> None:
    folder = tmp_path / "db.db" / "t"
    options = {"row-tracking.enabled": "true", "compaction.min.file-num": "2", "file.format": file_format}
    table = lakebed.create(folder, "paimon", SCHEMA, options=options)
    for turn in range(2):
        first = 10 * turn
        table.write(rows(first, first + 1, first + 2))
        paimon_jvm.write(folder, [["+I", first + 3, "jvm"], ["+I", first + 4, "jvm"]], turn)
        pypaimon.write(folder, "pure", rows(first + 5))
        before = checked(folder, paimon_jvm, pypaimon, turn > 0)
        assert [row[2] for row in before] == [*range(6 * turn + 6)]
        if turn:
            paimon_jvm.tell("compact", folder, 100)
        else:
            assert table.rewrite().files_after == 1
        after = checked(folder, paimon_jvm, pypaimon, True)
        assert [row[:3] for row in after] == [row[:3] for row in before]
        assert after == before or turn  # release 1.3.1 gives the file of its compaction another sequence number
    table.write(rows(99))
    assert checked(folder, paimon_jvm, pypaimon, True)[-1][:3] == (99, "v99", 12)


def test_columns_in_several_files(tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon) -> None:
    folder = tmp_path / "db.db" / "t"
    table = lakebed.create(folder, "paimon", SCHEMA, options=EVOLVES)
    table.write(rows(0, 1, 2, 3))
    pypaimon.write(folder, "pure", rows(4, 5))
    pypaimon.write(folder, "v", pa.table({"_ROW_ID": [1, 4], "v": ["one", "four"]}), "update")
    paimon_jvm.write(folder, [["+I", 6, "jvm"]], 1)
    pypaimon.write(folder, "id", pa.table({"_ROW_ID": [1, 2], "id": [100, 200]}), "update")
    found = checked(folder, paimon_jvm, pypaimon)
    assert [row[:2] for row in found] == [
        (0, "v0"), (100, "one"), (200, "v2"), (3, "v3"), (4, "four"), (5, "v5"), (6, "jvm")
    ]  # fmt: skip
    assert table.read(["id"], where="v = 'one' or _ROW_ID = 6").read_all()["id"].to_pylist() == [100, 6]


def test_deleted_rows(tmp_path: Path, pypaimon: Pypaimon) -> None:
    """Release 1.3.1 has no deletion vectors in tables whose columns are in several files."""
    folder = tmp_path / "db.db" / "t"
    table = lakebed.create(folder, "paimon", SCHEMA, options={**EVOLVES, "deletion-vectors.enabled": "true"})
    table.write(rows(0, 1, 2))
    pypaimon.write(folder, "v", pa.table({"_ROW_ID": [1], "v": ["one"]}), "update")
    table.write(rows(3, 4))
    pypaimon.write(folder, "-", pa.table({"_ROW_ID": [0, 4]}), "remove")
    pypaimon.write(folder, "v", pa.table({"_ROW_ID": [3], "v": ["three"]}), "update")
    ours = by_id(table.read(TRACKED).read_all())
    assert ours == by_id(pypaimon.tracked(folder, *TRACKED))
    assert [row[:3] for row in ours] == [(1, "one", 1), (2, "v2", 2), (3, "three", 3)]


def test_large_values(tmp_path: Path, pypaimon: Pypaimon) -> None:
    folder = tmp_path / "db.db" / "t"
    schema = pa.schema([("id", pa.int64()), ("pic", pa.binary())])
    given = pa.schema([("id", pa.int64()), ("pic", pa.large_binary())])
    table = evolving(folder, schema, ["pic"], **{"blob.target-file-size": "1 kb"})
    values = [b"a" * 700, None, b"", b"c" * 600, b"d" * 900, b"e"]
    pypaimon.write(folder, "pure", pa.table({"id": range(6), "pic": values}, schema=given))
    new = pa.table({"_ROW_ID": [3, 0], "pic": pa.array([b"new", None], pa.large_binary())})
    pypaimon.write(folder, "pic", new, "update")
    found = table.read().read_all().sort_by("id")["pic"].to_pylist()
    assert found == [None, None, b"", b"new", b"d" * 900, b"e"]
    assert found == pypaimon.tracked(folder, "id", "pic").sort_by("id")["pic"].to_pylist()
