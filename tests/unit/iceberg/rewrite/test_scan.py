"""What a plan keeps per file, and the chosen files, which are read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakebed.formats.iceberg import manifests
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.rewrite.scan import LiveFiles
from lakebed.kernel.predicates.where import parse_where
from tests.tables.iceberg.lake import Lake
from tests.unit.iceberg.rewrite.test_run import BY_PART, SCHEMA, some

MANIFEST_SIZE = {"commit.manifest.target-size-bytes": "1", "commit.manifest-merge.enabled": "false"}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Six manifests of two files each, of three partitions in turn, each a run of its own; one file has deletes."""
    monkeypatch.setattr(manifests, "_PIECE_BYTES", 1)
    made = Lake(tmp_path / "table", SCHEMA, properties=MANIFEST_SIZE, **BY_PART)
    for number in range(6):
        part = f"p{number % 3}"
        made.append(some(100 * number, 20, part), (part,), files=2)
    made.delete_positions({made.tasks[5].data.path: [1, 2]})
    return made


def live(lake: Lake, where: str | None = None) -> LiveFiles:
    metadata = lake.table.table_metadata
    head = metadata.head()
    assert head is not None
    predicate = None if where is None else parse_where(where, pa.schema([("id", pa.int64()), ("part", pa.string())]))
    return LiveFiles.of(lake.table.operations.files, metadata, head, Pruning(predicate, metadata.schema))


@pytest.mark.slow
def test_a_plan_holds_numbers_and_no_path(lake: Lake) -> None:
    table = live(lake).table
    kinds = {field.name: field.type for field in table.schema}
    assert {name for name, kind in kinds.items() if not pa.types.is_integer(kind)} == {"partition_key"}
    assert pa.types.is_dictionary(kinds["partition_key"])
    assert [sorted(chunk.dictionary.to_pylist()) for chunk in table["partition_key"].chunks] == [
        ["part_0=p0", "part_0=p1", "part_0=p2"]
    ] * table["partition_key"].num_chunks
    assert sum(kind.bit_width // 8 for kind in kinds.values() if pa.types.is_integer(kind)) + 4 == 36
    assert table["delete_files"].to_pylist().count(1) == 1
    assert sum(table["deleted_rows"].to_pylist()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("where", [None, "part = 'p1'", "id >= 200 and id < 420"])
def test_chosen_files_are_those_of_their_rows(lake: Lake, where: str | None) -> None:
    planned = live(lake, where)
    rows = np.array([3, 0, len(planned.table) - 1])
    tasks = planned.chosen(rows).tasks(rows)
    sizes = planned.table["file_size_in_bytes"].take(pa.array(rows)).to_pylist()
    assert [one.data.size for one in tasks] == sizes
    expected = {one.data.path: one for one in lake.tasks}
    assert tasks == [expected[one.data.path] for one in tasks]
    keys = planned.table["partition_key"].take(pa.array(rows)).to_pylist()
    assert [f"part_0={one.data.partition[0]}" for one in tasks] == keys


@pytest.mark.slow
def test_manifests_of_other_files_are_not_opened_again(lake: Lake) -> None:
    planned = live(lake)
    chosen = planned.chosen(np.array([2, 9]))
    assert len(chosen.runs) == 2 < len(planned.runs)
    some = chosen.tasks(np.array([9]))
    metrics = chosen.metrics(np.array([9]))
    assert list(metrics) == [some[0].data.path]
    assert metrics[some[0].data.path].value_counts[1] == 10
