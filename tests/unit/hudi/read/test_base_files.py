"""Base files read in runs: the columns that decide first, and no key of a log hashed again for each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CorruptError
from lakebed.formats.hudi.merge import base_rows
from lakebed.formats.hudi.read import files
from lakebed.formats.hudi.read.files import BaseFileReader
from lakebed.kernel.files import open_store

ROWS = 1000
TARGET = pa.schema([("a", pa.int64()), ("key", pa.string()), ("gone", pa.int32()), ("b", pa.float64())])


@pytest.fixture
def reader(tmp_path: Path) -> BaseFileReader:
    numbers = pa.array(range(ROWS))
    table = pa.table({"key": numbers.cast(pa.string()), "b": numbers.cast(pa.float64()), "a": pc.negate(numbers)})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=90)
    return BaseFileReader(open_store(str(tmp_path)), "f.parquet")


@pytest.mark.parametrize("ahead", [["key"], ["a", "gone"], ["a", "key", "gone", "b"], ["gone"]])
@pytest.mark.parametrize("groups", [None, [0, 3, 7], []])
def test_runs_have_the_rows_of_batches(
    reader: BaseFileReader, ahead: list[str], groups: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_RUN_ROWS", 256)
    first = pa.schema([TARGET.field(name) for name in ahead])
    constants = {"gone": pa.scalar(5)}
    with reader.opened() as opened:
        plain = pa.Table.from_batches(opened.batches(TARGET, groups, constants), TARGET)
        found = []
        for columns, batches in opened.runs(first, TARGET, groups, constants, 37):
            run = pa.Table.from_batches(batches, TARGET)
            assert run.select(ahead).equals(pa.Table.from_batches([columns]))
            assert columns.num_rows <= 256
            found.append(run)
    assert pa.concat_tables(found or [TARGET.empty_table()]).equals(plain)
    assert plain.num_rows == (ROWS if groups is None else 90 * len(groups))


def test_later_runs_are_as_long_as_the_first(reader: BaseFileReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_RUN_ROWS", 256)
    with reader.opened() as opened:
        lengths = []
        for columns, batches in opened.runs(pa.schema([TARGET.field("key")]), TARGET, None, {}, 37):
            assert sum(batch.num_rows for batch in batches) == columns.num_rows
            lengths.append(columns.num_rows)
    assert lengths == [*[256] * (ROWS // 256), *([ROWS % 256] if ROWS % 256 else [])]


def test_columns_of_different_lengths_are_an_error(reader: BaseFileReader, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files.OpenBaseFile._decoded
    with reader.opened() as opened:
        runs = opened.runs(pa.schema([TARGET.field("key")]), TARGET)
        monkeypatch.setattr(
            files.OpenBaseFile,
            "_decoded",
            lambda self, target, *more: whole(self, target, [0] if "b" in target.names else None, *more[1:]),
        )
        with pytest.raises(CorruptError, match="different numbers of rows"):
            for _, batches in runs:
                list(batches)


def test_the_keys_of_a_log_are_looked_up_once_per_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 100_000
    rows = pa.table({"id": pa.array(range(count)), "v": pa.array([0] * count)})
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    table = lakebed.create(tmp_path / "t", "hudi", rows.schema, primary_key=["id"], options=options)
    table.write(rows)
    table.write(pa.table({"id": [5, 70_000], "v": [1, 1]}), mode="upsert")
    lookups = []
    matches = base_rows._matches

    def counted(*args: object) -> object:
        lookups.append(1)
        return matches(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(base_rows, "_matches", counted)
    found = pa.Table.from_batches(table.read(["id", "v"]))
    assert (found.num_rows, pc.sum(found["v"]).as_py(), len(lookups)) == (count, 2, 1)


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys each lookup hashed."""
    counts: list[int] = []
    for name in ("is_in", "index_in"):
        found = getattr(pc, name)

        def counted(values: Any, *args: Any, found: Any = found, **named: Any) -> Any:
            counts.append(len(named.get("value_set", ())))
            return found(values, *args, **named)

        monkeypatch.setattr(pc, name, counted)
    return counts


def test_an_upsert_looks_keys_up_as_often_in_a_large_file(tmp_path: Path, lookups: list[int]) -> None:
    """Change logs and the record index take from the merge which keys came, went and stayed."""
    options = {"hoodie.table.name": "t", "hoodie.table.cdc.enabled": "true"}
    asked = []
    for count in (20_000, 100_000):
        rows = pa.table({"id": pa.array(range(count)), "v": pa.array([0] * count)})
        table = lakebed.create(tmp_path / str(count), "hudi", rows.schema, primary_key=["id"], options=options)
        table.write(rows, options={"hoodie.metadata.record.index.enable": "true"})
        changes = pa.table({"id": pa.array(range(7, 10_007)), "v": pa.array([1] * 10_000)})
        lookups.clear()
        table.write(changes, mode="upsert")
        asked.append(sum(size == len(changes) for size in lookups))
    assert asked[0] == asked[1]


def test_positions_and_compared_slices_look_keys_up_in_many_batches_at_once(tmp_path: Path, lookups: list[int]) -> None:
    rows = pa.table({"id": pa.array(range(300_000)), "v": pa.array([0] * 300_000)})
    changes = rows.slice(299_000)
    kinds = {
        "MERGE_ON_READ": {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
        "COPY_ON_WRITE": {
            "hoodie.table.cdc.enabled": True,
            "hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY",
        },
    }
    asked = {}
    for kind, options in kinds.items():
        table = lakebed.create(tmp_path / kind, "hudi", rows.schema, primary_key=["id"], options=options)
        table.write(rows)
        before = max(entry.time for entry in table.history())
        lookups.clear()
        table.write(changes, mode="upsert", options={"hoodie.write.record.positions": True})
        asked[kind] = lookups.count(1000)
    lookups.clear()
    found = lakebed.open(tmp_path / kind, {"cdc.enabled": True}).changes(["id"], after=before).read_all()
    assert (found.num_rows, lookups.count(1000)) == (2000, 1)
    assert asked["MERGE_ON_READ"] == 2, "the index and the positions"


def test_a_read_of_a_base_file_holds_some_pages_of_it(tmp_path: Path) -> None:
    rows, batch = 400_000, 1 << 12
    numbers = np.random.default_rng(1).integers(0, 1 << 62, (8, rows))
    table = pa.table({f"n{place}": column for place, column in enumerate(numbers)})
    pq.write_table(table, tmp_path / "f.parquet", compression="none", use_dictionary=False, data_page_size=1 << 15)
    reader = BaseFileReader(open_store(tmp_path), "f.parquet")
    before, most = pa.total_allocated_bytes(), 0
    with reader.opened() as opened:
        for _ in opened.batches(table.schema, batch_rows=batch):
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < 4 << 20 < table.nbytes // 6


def test_columns_that_repeat_a_few_texts_are_decoded_as_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table(
        {
            "part": ["p0"] * 60_000 + [None] * 40_000,
            "id": [f"k{number}" for number in range(100_000)],
            "code": pa.array([b"x"] * 100_000),
            "in": [{"part": "p"}] * 100_000,
        }
    )
    pq.write_table(rows, tmp_path / "f.parquet")
    reader = BaseFileReader(open_store(tmp_path), "f.parquet")
    asked: list[list[str]] = []

    def opening(*given: Any, real: Any = pq.ParquetFile, **named: Any) -> Any:
        asked.append(named.get("read_dictionary", []))
        return real(*given, **named)

    monkeypatch.setattr(files.pq, "ParquetFile", opening)
    with reader.opened() as opened:
        assert pa.Table.from_batches(opened.batches(rows.schema)).equals(rows)
    assert asked == [[], ["part"]]
