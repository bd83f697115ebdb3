"""Log blocks that say where their rows are in the base file, and block formats that are refused."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.log import HeaderKey, parse_log
from lakebed.kernel.bitmaps import positions_of

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


def rows(keys: str, v: int) -> pa.Table:
    return pa.table({"id": [*keys], "v": [v] * len(keys)}, SCHEMA)


@pytest.mark.parametrize("version", [6, 9])
def test_blocks_have_the_positions_of_their_rows(tmp_path: Path, version: int) -> None:
    options = {**MERGE_ON_READ, "hoodie.write.table.version": version, "hoodie.write.record.positions": True}
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, ["id"], options=options)
    table.write(rows("badc", 0))
    (base,) = (tmp_path / "t").glob("*.parquet")
    table.write(rows("cb", 1), mode="upsert")
    table.write(rows("d", 2), mode="delete")
    table.write(rows("az", 3), mode="upsert")  # into the small file, so into a base file
    held = {row["id"]: row["v"] for row in table.read(["id", "v"]).read_all().to_pylist()}
    assert held == {"a": 3, "b": 1, "c": 1, "z": 3}
    found = []
    for path in sorted((tmp_path / "t").glob(".*.log.*"), key=lambda path: path.name.rpartition("_")[0]):
        for block in parse_log(path.read_bytes()).blocks:
            text = block.headers.get(HeaderKey.RECORD_POSITIONS, "")
            found.append((block.kind.name, [*positions_of(base64.b64decode(text), True)] if text else []))
            instant = block.headers.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS, "")
            assert bool(instant) == bool(text) and instant in base.name
    asked = version >= 8
    assert found[:2] == [("AVRO_DATA", [0, 3] if asked else []), ("DELETE", [2] if asked else [])]


def test_hfile_blocks_are_refused_by_name(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, ["id"], options=MERGE_ON_READ)
    with pytest.raises(UnsupportedError, match="HFile data blocks"):
        table.write(rows("a", 1), options={"hoodie.logfile.data.block.format": "hfile"})
    assert table.history() == []
