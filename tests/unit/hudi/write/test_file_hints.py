"""Key ranges and bloom filters of the metadata table: they say which files may have a key, and never that none has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.index.file_hints import FileHints
from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.write.table_files import TableFiles

HINTED = {"hoodie.bloom.index.use.metadata": "true", "hoodie.parquet.small.file.limit": "0"}
BUILT = {
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.index.bloom.num_entries": "100",
}


def batch(*keys: str) -> pa.Table:
    return pa.table({"id": keys, "part": ["p"] * len(keys)})


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    """Three base files: k0 to k8, k1 to k9, and one with a key that Java orders elsewhere."""
    made = lakebed.create(tmp_path / "t", "hudi", batch("").schema, ["id"], ["part"])
    assert isinstance(made, HudiTable)
    for keys in (("k0", "k8"), ("k1", "k9"), ("a", "\ue000")):
        made.write(batch(*keys), options={**HINTED, **BUILT})
    return made


def looked_at(table: HudiTable, *keys: str) -> list[tuple[str, ...]]:
    """The keys that each file may have, as the metadata table says."""
    state = table.state()
    (slices,) = TableFiles(state).all_slices().values()
    hints = FileHints.of(state.metadata_table)
    assert hints is not None
    found: dict[FileSlice, tuple[str, ...]] = {}
    for file_slice, places in hints.opened(["p"]).candidates(slices, pa.array(keys)):
        found[file_slice] = tuple(keys[place] for place in places)
    return sorted(found.values())


def test_files_are_ruled_out_by_range_and_by_filter(table: HudiTable) -> None:
    assert looked_at(table, "k0", "k9", "zz") == [("k0",), ("k9",)]
    assert looked_at(table, "k5", "\ue000") == [("\ue000",)]
    assert looked_at(table, "0", "zzz") == []


@pytest.mark.parametrize("part", ["bloom_filters", "column_stats"])
def test_a_damaged_part_rules_nothing_out(table: HudiTable, part: str) -> None:
    for path in (Path(table.location) / ".hoodie" / "metadata" / part).iterdir():
        path.write_bytes(path.read_bytes()[:-100])
    found = looked_at(table, "k0", "k5", "k9")
    assert (
        found
        == {
            "bloom_filters": [("k0", "k5"), ("k0", "k5", "k9"), ("k5", "k9")],  # by ranges alone
            "column_stats": [("k0",), ("k9",)],  # by filters alone
        }[part]
    )
    table.write(batch("k0", "k9", "new"), "upsert", HINTED)
    assert sorted(table.read(["id"]).read_all()["id"].to_pylist()) == ["a", "k0", "k1", "k8", "k9", "new", "\ue000"]


def test_filters_of_files_that_are_gone_are_not_those_of_new_ones(table: HudiTable) -> None:
    table.write(batch("k0", "new"), "upsert", HINTED)
    table.expire(options={"hoodie.clean.commits.retained": "1"})
    assert looked_at(table, "k0", "k8", "new", "zz") in ([("k0", "k8"), ("new",)], [("k0", "k8", "new")])
