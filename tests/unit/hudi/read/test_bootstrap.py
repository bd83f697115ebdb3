"""Tables that were bootstrapped: skeletons whose columns stand in another table's files, and full records."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from tests.golden import unpack
from tests.tables.hudi.writing import META, HudiFolder, changed, rows, t

SKELETON, FULL = "00000000000001", "00000000000002"


def _base(table: HudiFolder, group: str, instant: str, keys: str, columns: bool) -> str:
    """A base file of a bootstrap, with or without the user's columns."""
    name = f"{group}-0_0-1-1_{instant}.parquet"
    actual = [
        {**dict(zip(META, (instant, f"{instant}_0", key, "", name), strict=True)), "id": key, "ts": 1, "x": f"{key}1"}
        for key in keys
    ]
    kinds = {**dict.fromkeys(META, pa.string())}
    if columns:
        kinds |= {"id": pa.string(), "ts": pa.int64(), "x": pa.string(), "n": pa.int32()}
    pq.write_table(pa.Table.from_pylist(actual, pa.schema(list(kinds.items()))), table.folder / name)
    return name


def _bootstrap(folder: Path, instant: str, version: int = 6, **properties: str) -> HudiFolder:
    table = HudiFolder(folder, version, bootstrap__base__path="/elsewhere/src", **properties)
    path = _base(table, "g", instant, "ab", instant == FULL)
    table.done(1, [path], inserts=2)
    writer = next(table.timeline.glob(f"{t(1)}*.deltacommit"))
    writer.rename(writer.with_name(writer.name.replace(t(1), instant, 1)))
    return table


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({}, lambda table: table.read()),
        ({}, lambda table: table.read(["x"], where="x = 'a1'")),
        ({}, lambda table: table.read(["_hoodie_record_key"], where="id = 'a'")),
        ({}, lambda table: table.read(as_of=SKELETON)),
        ({"hoodie.datasource.query.type": "read_optimized"}, lambda table: table.read()),
        ({"hoodie.datasource.merge.type": "skip_merge"}, lambda table: table.read()),
        ({}, lambda table: table.changes()),
        ({"cdc.enabled": True}, lambda table: table.changes()),
        ({"cdc.enabled": True}, lambda table: table.changes(after=SKELETON)),
    ],
)
@pytest.mark.parametrize("version", [6, 8])
def test_a_skeletons_columns_are_refused_by_name(tmp_path: Path, version: int, options: Any, read: Any) -> None:
    table = _bootstrap(tmp_path, SKELETON, version)
    block = table.data(2, [{"id": "a", "ts": 2, "x": "a2"}])
    table.done(2, [table.log("g", 2 if version == 8 else -1, block)])
    log = next(tmp_path.glob(".g-0_*"))
    if version == 6:
        log.rename(log.with_name(f".g-0_{SKELETON}.log.1_0-1-1"))
        table.done(2, [f".g-0_{SKELETON}.log.1_0-1-1"])
    with pytest.raises(UnsupportedError, match=r"bootstrap source file.*METADATA_ONLY") as caught:
        read(lakebed.open(tmp_path, options)).read_all()
    assert caught.value.file == f"g-0_0-1-1_{SKELETON}.parquet"


def test_the_real_engines_skeletons_are_refused() -> None:
    table = lakebed.open(unpack("hudi", "bootstrap_h015"))
    with pytest.raises(UnsupportedError, match="bootstrap source file"):
        table.read().read_all()


def test_an_inspection_names_the_skeletons() -> None:
    findings = lakebed.open(unpack("hudi", "bootstrap_h015")).inspect().findings
    assert [finding.what for finding in findings if "METADATA_ONLY" in finding.what] == [
        "2 file groups of a METADATA_ONLY bootstrap hold the meta columns alone"
    ]


def test_a_skeletons_meta_columns_can_be_read(tmp_path: Path) -> None:
    table = _bootstrap(tmp_path, SKELETON).open()
    assert table.read(["_hoodie_record_key"]).read_all()["_hoodie_record_key"].to_pylist() == ["a", "b"]
    assert table.read([]).read_all().num_rows == 2


def test_a_file_group_that_was_rewritten_since_can_be_read(tmp_path: Path) -> None:
    table = _bootstrap(tmp_path, SKELETON)
    table.done(3, [table.base("g", 3, [{"id": "a", "ts": 1, "x": "a1"}, {"id": "b", "ts": 3, "x": "b3"}])])
    assert rows(table.open(), "x") == {"a": "a1", "b": "b3"}


@pytest.mark.parametrize("version", [6, 8])
def test_full_records(tmp_path: Path, version: int) -> None:
    table = _bootstrap(tmp_path, FULL, version)
    assert rows(table.open(), "x") == {"a": "a1", "b": "b1"}
    assert changed(table.open(), "x") == {"a": "a1", "b": "b1"}
    table.done(3, [table.log("h", 3, table.data(3, [{"id": "c", "ts": 3, "x": "c3"}]))])
    after = FULL if version == 6 else t(2)
    assert changed(table.open(), "x", after=after) == {"c": "c3"}, "the bootstrap itself is not after it"
    assert changed(table.open(), "x", after="000") == {"a": "a1", "b": "b1", "c": "c3"}
