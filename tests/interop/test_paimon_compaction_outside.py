"""Buckets that lakebed and Paimon's Java engine write and compact in turn: both see each state alike, pypaimon the last
one, and the changelog files of both, as the Java engine streams them, lead from one state to the next."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.interop.conftest import PaimonJvm, Pypaimon

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string()), ("n", pa.int32())])
SUM = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
CASES: dict[str, dict[str, str]] = {
    "deduplicate": {"file.format.per.level": "0:avro,5:orc", "data-file.thin-mode": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup of sums": {"changelog-producer": "lookup", **SUM},
    "lookup of parts": {"changelog-producer": "lookup", "merge-engine": "partial-update"},
    "first row": {"changelog-producer": "lookup", "merge-engine": "first-row"},
    "full compaction": {"changelog-producer": "full-compaction"},
    "vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "wide vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true", **SUM},
}


@pytest.mark.parametrize("name", CASES)
def test_in_turn(name: str, tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon) -> None:
    options = {"bucket": "2", "snapshot.num-retained.min": "100", **CASES[name]}
    folder = tmp_path / "db.db" / name.replace(" ", "_")
    table = lakebed.create(folder, "paimon", SCHEMA, ["id"], options=options)
    deletes = "merge-engine" not in options
    table.write(rows(range(40), 1))
    for turn in range(3):
        table.write(rows(range(turn * 8, turn * 8 + 20), 2 + turn, deletes))
        check(table, folder, paimon_jvm)
        theirs = [["+I", number, f"jvm {turn}", turn] for number in range(turn * 5, turn * 5 + 30, 3)]
        if deletes:
            theirs.append(["-D", turn * 7, None, None])
        paimon_jvm.write(folder, theirs, turn, compact=True)
        check(table, folder, paimon_jvm)
    table.write(rows(range(50, 60), 9))
    table.rewrite()
    check(table, folder, paimon_jvm)
    read = pypaimon.read(folder, "native").select(SCHEMA.names).cast(SCHEMA)
    assert plain(read) == plain(table.read().read_all())
    if "changelog-producer" in options:
        assert streamed(table, folder, paimon_jvm) == plain(table.read().read_all())


def rows(ids: range, version: int, deletes: bool = False) -> pa.Table:
    kinds = ["-D" if deletes and number % 9 == 0 else "+I" for number in ids]
    values = [list(ids), [f"v{version}" if n % 4 else None for n in ids], [n % 5 + version for n in ids]]
    table = pa.Table.from_arrays([pa.array(v, f.type) for v, f in zip(values, SCHEMA, strict=True)], schema=SCHEMA)
    return table.append_column("_row_kind", pa.array(kinds))


def check(table: lakebed.Table, folder: Path, paimon_jvm: PaimonJvm) -> None:
    found, files = paimon_jvm.dump(folder)
    assert sorted(tuple(line["row"].values()) for line in found) == plain(table.read().read_all())
    assert files


def plain(data: pa.Table) -> list[Any]:
    return sorted((tuple(row.values()) for row in data.to_pylist()), key=lambda row: row[0])


def streamed(table: lakebed.Table, folder: Path, paimon_jvm: PaimonJvm) -> list[Any]:
    """What a streaming reader of the Java engine has in the end."""
    state: dict[int, tuple[Any, ...]] = {}
    for snapshot in table.history():
        if snapshot.summary["changelog_record_count"] == "0":
            continue
        for line in paimon_jvm.delta(folder, int(snapshot.time)):
            row = tuple(line["row"].values())
            if line["kind"] in ("-U", "-D"):
                assert state.pop(row[0]) == row
            else:
                assert state.setdefault(row[0], row) is row
    return [state[key] for key in sorted(state)]
