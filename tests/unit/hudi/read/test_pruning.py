"""Slices and partitions ruled out by the metadata table: fewer are read, and the rows are the same."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.read import pruning
from lakebed.formats.hudi.read.plan import _slices
from lakebed.formats.hudi.read.pruning import Pruning
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.files import open_store
from lakebed.kernel.predicates.where import parse_where
from tests.golden import unpack

NAME = "mor_mdt_v9"
BY = [("_hoodie_record_key", "ascending")]


def kept(table: HudiTable, where: str) -> tuple[int, int]:
    """How many slices of how many are left."""
    state = table.state()
    view, schema = state.view(), state.schema()
    every = Pruning(state, view, parse_where(where, schema), schema, few=0)
    assert state.indexed_files is not None
    partitions = every.partitions(sorted(state.indexed_files))
    slices = _slices(state, view, None, schema, logs=True)
    return len([s for s in every.slices(slices) if s.partition in partitions]), len(slices)


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("ts > 350", 3),
        ("ts > 400", 0),
        ("i = 62", 1),
        ("i = 62 or ts = 100", 4),
        ("s = 's-62-g3'", 4),
        ("id between 'k0060' and 'k0062'", 3),
        ("_hoodie_commit_time > '20261127214010000'", 2),
        ("f > 10000", 5),  # floats have no bounds
        ("part = 'a' and i is null", 2),
    ],
)
def test_fewer_slices_and_the_same_rows(where: str, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable(open_store(str(unpack("hudi", NAME))), {})
    found, whole = kept(table, where)
    assert whole == 5 and found <= left
    rows = table.read(where=where).read_all()
    monkeypatch.setattr(pruning, "maintains", lambda config, part: False)
    assert rows.sort_by(BY) == table.read(where=where).read_all().sort_by(BY)


def test_a_file_without_statistics_stays(tmp_path: Path) -> None:
    location = str(shutil.copytree(unpack("hudi", NAME), tmp_path / NAME))
    table = HudiTable(open_store(location), {})
    assert kept(table, "i = 1000") == (0, 5)
    for path in Path(location, FOLDER, "column_stats").glob(".*log*"):
        path.write_bytes(path.read_bytes()[:-9])  # torn
    assert kept(table, "i = 1000 and part = 'b'")[0] == 0  # by the partition's
    for path in Path(location, FOLDER, "partition_stats").glob(".*log*"):
        path.write_bytes(path.read_bytes()[:-9])
    assert kept(table, "i = 1000") == (5, 5)


def test_an_older_state_is_not_judged_by_partitions() -> None:
    table = HudiTable(open_store(str(unpack("hudi", NAME))), {})
    state = table.state()
    schema, commits = state.schema(), state.timeline.commits
    view = state.view(state.timeline.order(commits[0]))
    every = Pruning(state, view, parse_where("ts > 1000", schema), schema, few=0)
    assert every.partitions(["a", "b", "c"]) == ["a", "b", "c"]
    assert table.read(as_of=commits[0].time, where="ts = 100").read_all().num_rows == 30


def test_bounds_of_files_that_are_there_together() -> None:
    facts = pruning._facts(
        pruning.Statistics(
            pa.array([b"a", b"b", b"c"]),
            pa.array([1, None, None]),
            pa.array([3, None, None]),
            np.array([False, False, True]),
            np.array([True, False, True]),
        ),
        [b"a", b"b", b"a", b"c", b"a", b"missing", b"b"],
        np.array([0, 0, 1, 1, 2, 2, 3]),
        4,
    )
    assert facts.lower.to_pylist() == [1, None, None, None] and facts.upper.to_pylist() == [3, None, None, None]
    assert facts.values.tolist() == [True, True, True, False] and facts.nulls.tolist() == [False, True, True, False]
