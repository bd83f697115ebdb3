"""Tables without a primary key, and buckets in another number, that lakebed compacts, and that Paimon's Java engine and
pypaimon read and go on with."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.golden import unpack
from tests.interop.conftest import PaimonJvm, Pypaimon

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
CASES: dict[str, tuple[dict[str, str], list[str], dict[str, str]]] = {
    "unaware": ({}, [], {}),
    "sorted": ({"file.format": "orc"}, [], {"order_strategy": "hilbert", "order_by": "v,id"}),
    "fixed": ({"bucket": "2", "bucket-key": "id", "file.format": "avro"}, [], {}),
    "postponed": ({"bucket": "-2", "postpone.target-row-num-per-bucket": "40"}, ["id"], {}),
    "rescaled": ({"bucket": "-2", "deletion-vectors.enabled": "true"}, ["id"], {"bucket": "3"}),
}


@pytest.mark.parametrize("name", CASES)
def test_in_turn(name: str, tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon) -> None:
    options, keys, how = CASES[name]
    folder = tmp_path / "db.db" / name
    table = lakebed.create(folder, "paimon", SCHEMA, keys, options=options)
    for turn in range(2):
        for number in range(5):
            ids = range(turn * 100 + number * 10, turn * 100 + number * 10 + 10)
            if number % 2:
                paimon_jvm.write(folder, [["+I", n, f"jvm {n}"] for n in ids], turn * 10 + number)
            else:
                table.write(pa.table({"id": list(ids), "v": [f"ours {n}" for n in ids]}, schema=SCHEMA))
        if name == "rescaled":
            table.rewrite()  # first real buckets
        table.rewrite(options=how)
        check(table, folder, 50 * (turn + 1), paimon_jvm)
    read = pypaimon.read(folder, "native").select(SCHEMA.names).cast(SCHEMA)
    assert plain(read) == plain(table.read().read_all())


def test_vectors_of_the_jvm(tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon) -> None:
    folder = unpack("paimon", "append_dv", into=tmp_path)
    table = lakebed.open(folder)
    count = len(table.read().read_all())
    table.rewrite(options={"compaction.delete-ratio-threshold": "0"})
    check(table, folder, count, paimon_jvm)


def check(table: lakebed.Table, folder: Path, count: int, paimon_jvm: PaimonJvm) -> None:
    found, files = paimon_jvm.dump(folder)
    rows = plain(table.read().read_all())
    assert sorted((tuple(line["row"].values()) for line in found), key=repr) == rows
    assert len(rows) == count
    assert files


def plain(data: pa.Table) -> list[Any]:
    return sorted((tuple(row.values()) for row in data.to_pylist()), key=repr)
