"""Deletes counted in whole columns are as many as the delete index returns for each data file."""

from __future__ import annotations

import random
import time

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.commit.added_entries import added_entries
from lakebed.formats.iceberg.data_files import (
    DELETE_FILE_PATH,
    Content,
    DataFile,
    DeleteFile,
    Metrics,
    data_files,
    delete_files,
)
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.rewrite.delete_counts import DELETE_COLUMNS, DeleteCounts

PARTITION = pa.struct([("p", pa.float64()), ("q", pa.int32())])
UNPARTITIONED = pa.struct([])
PLACES = [(0.0, 1), (-0.0, 1), (float("nan"), 1), (None, 1), (2.0, None)]


def data(number: int, sequence: int, spec: int) -> DataFile:
    place = PLACES[number % len(PLACES)] if spec else ()
    return DataFile(f"f{number}", "PARQUET", spec, place, 10, 100, sequence)


def entries_of(files: list[DataFile]) -> list[pa.Table]:
    """One table per spec."""
    kinds = {0: UNPARTITIONED, 1: PARTITION}
    return [
        pa.concat_tables([added_entries([f], kinds[spec], 1, f.sequence_number) for f in files if f.spec_id == spec])
        for spec in kinds
        if any(f.spec_id == spec for f in files)
    ]


def deletes_of(files: list[DeleteFile]) -> list[pa.Table]:
    kinds = {0: UNPARTITIONED, 1: PARTITION}
    return [
        added_entries(some, kinds[spec], 1, None) for spec in kinds if (some := [f for f in files if f.spec_id == spec])
    ]


def some_deletes(random: random.Random, count: int, files: int) -> list[DeleteFile]:
    found: dict[object, DeleteFile] = {}
    for number in range(count):
        kind = random.choice(("equality", "positions", "path", "bounds", "vector"))
        spec = random.choice((0, 1))
        target = f"f{random.randrange(files)}"
        metrics = None
        if kind == "bounds":
            bounds = {DELETE_FILE_PATH: target.encode()}
            metrics = Metrics(lower_bounds=bounds, upper_bounds=bounds)
        elif kind == "positions" and random.random() < 0.5:
            metrics = Metrics(lower_bounds={DELETE_FILE_PATH: b"f0"}, upper_bounds={DELETE_FILE_PATH: b"f9"})
        one = DeleteFile(
            f"d{number}", "PUFFIN" if kind == "vector" else "PARQUET",
            Content.EQUALITY_DELETES if kind == "equality" else Content.POSITION_DELETES, spec,
            random.choice(PLACES) if spec else (), random.randrange(1, 9), 5, random.randrange(1, 6),
            equality_ids=(1,) if kind == "equality" else (),
            referenced_data_file=target if kind in ("path", "vector") else None, metrics=metrics,
        )  # fmt: skip
        found[target if kind == "vector" else number] = one
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_counts_are_those_of_the_index(seed: int) -> None:
    chance = random.Random(seed)
    files = [data(number, chance.randrange(1, 6), chance.choice((0, 1))) for number in range(40)]
    tables = deletes_of(some_deletes(chance, chance.choice((1, 5, 60)), len(files)))
    index = DeleteIndex([file for table in tables for file in delete_files(table)], {0})
    counts = DeleteCounts([table.select([*DELETE_COLUMNS]) for table in tables], {0})
    for entries in entries_of(files):
        expected = [index.applying(file) for file in data_files(entries)]
        number, rows, sizes = counts.of(entries.select(sorted({*counts.columns, "spec_id"})))
        assert number.to_pylist() == [len(some) for some in expected]
        assert rows.to_pylist() == [
            min(10, sum(one.record_count for one in some if one.referenced_data_file is not None)) for some in expected
        ]
        assert sizes.to_pylist() == [
            sum(one.stored_bytes for one in some if one.equality_ids or one.referenced_data_file) for some in expected
        ]


def test_without_deletes_nothing_is_read_for_them() -> None:
    counts = DeleteCounts([], ())
    assert counts.columns == ()
    number, rows, sizes = counts.of(pa.table({"record_count": [1, 2]}))
    assert (number.to_pylist(), rows.to_pylist(), sizes.to_pylist()) == ([0, 0], [0, 0], [0, 0])


def test_vectors_that_cannot_be_used_are_refused() -> None:
    one = DeleteFile("v.puffin", "PUFFIN", Content.POSITION_DELETES, 0, (), 1, 5, 2, referenced_data_file="f1")
    two = DeleteFile("w.puffin", "PUFFIN", Content.POSITION_DELETES, 0, (), 1, 5, 2)
    for some, why in (([one, one], "another one is for f1"), ([two], "it names no data file")):
        with pytest.raises(CorruptError, match=why):
            DeleteCounts([deletes_of(some)[0].select([*DELETE_COLUMNS])], {0})


def test_many_deletes_are_counted_fast() -> None:
    files, deletes = 200_000, 20_000
    paths = pa.array([f"f{number}" for number in range(files)])
    of = np.arange(0, files, files // deletes)
    table = pa.table(
        {
            "content": pa.array(np.ones(deletes, np.int8)),
            "file_path": [f"d{number}" for number in range(deletes)],
            "file_format": ["PUFFIN", "PARQUET"] * (deletes // 2),
            "spec_id": pa.array(np.zeros(deletes, np.int32)),
            "partition": pa.array([{"p": None, "q": 0}] * deletes, PARTITION),
            "record_count": np.full(deletes, 3),
            "sequence_number": np.full(deletes, 2),
            "referenced_data_file": paths.take(pa.array(of)),
            "lower_bounds": pa.nulls(deletes, pa.map_(pa.int32(), pa.binary())),
            "upper_bounds": pa.nulls(deletes, pa.map_(pa.int32(), pa.binary())),
            "file_size_in_bytes": np.full(deletes, 700),
            "content_size_in_bytes": pa.array([40, None] * (deletes // 2), pa.int64()),
        }
    )
    entries = pa.table(
        {
            "sequence_number": np.ones(files, np.int64),
            "spec_id": pa.array(np.zeros(files, np.int32)),
            "partition": pa.array([{"p": None, "q": 1}] * files, PARTITION),
            "record_count": np.full(files, 10),
            "file_path": paths,
        }
    )
    began = time.process_time()
    number, rows, sizes = DeleteCounts([table], {0}).of(entries)
    assert time.process_time() - began < 1  # a Python object a file takes ten times as long
    assert np.flatnonzero(number.to_numpy()).tolist() == of.tolist()
    assert rows.to_numpy().sum() == 3 * deletes and sizes.to_numpy().sum() == 740 * deletes // 2
