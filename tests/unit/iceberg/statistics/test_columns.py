"""How many different values columns have: sketches held to Apache DataSketches' own, and the file that keeps them."""

from __future__ import annotations

import itertools
import os
import random
import struct
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, CorruptError, LakebedError, NotInHistoryError, SchemaError
from lakebed.formats.iceberg.codec.puffin import read_footer
from lakebed.formats.iceberg.codec.theta import Sketch, decoded, sketch_of
from lakebed.formats.iceberg.statistics import columns as statistics
from lakebed.formats.iceberg.statistics.columns import SketchReader
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.inflate import inflated
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.iceberg.small import QUICK

# Compact sketches by the package datasketches 5.2, of the same values.
THEIRS = {
    "long": (pa.array([1, -5, 2**40, 0, 1, None]),
             "02030300001acc93040000000000000015f97dcbbd86a105e56b61eec880442024e16b43daa6c83e20faabe577529361"),
    "double": (pa.array([1.5, -2.25, 1e300]),
               "02030300001acc930300000000000000114115368e63790f1efabb753e98813085a61f5019da0765"),
    "text": (pa.array(["a", "hello world, this is more", "exactly16bytes!!", "nine char", "", None]),
             "02030300001acc930400000000000000ae220bb696dedf1b5b58b992dff6ba5472a93ecda7aa285717c11d528507017b"),
    "one": (pa.array(["x"]), "01030300001acc93397149d9823ef668"),
}  # fmt: skip


@pytest.mark.parametrize("case", THEIRS)
def test_sketches_are_those_of_datasketches(case: str) -> None:
    values, theirs = THEIRS[case]
    sketch = sketch_of(values)
    ours, other = sketch.encoded(), bytes.fromhex(theirs)
    assert decoded(other, "").hashes.tolist() == sketch.hashes.tolist() == decoded(ours, "").hashes.tolist()
    assert ours[:5] == other[:5] and ours[6:12] == other[6:12] and ours[16:] == other[16:]
    assert sketch.estimate == len({value for value in values.to_pylist() if value not in (None, "")})


def test_many_values_are_estimated_in_any_order() -> None:
    values = np.arange(200_000, dtype=np.int64)
    whole = sketch_of(pa.array(values))
    assert abs(whole.estimate - 200_000) < 200_000 * 0.06 and len(whole.hashes) == 4096
    random.Random(1).shuffle(parts := np.array_split(values, 7))
    apart = Sketch().merged(*(sketch_of(pa.array(part)) for part in parts))
    assert (apart.theta, apart.hashes.tolist()) == (whole.theta, whole.hashes.tolist())
    again = decoded(whole.encoded(), "")
    assert (again.theta, again.estimate) == (whole.theta, whole.estimate)
    assert sketch_of(pa.array(values[:100]), whole).hashes.tolist() == whole.hashes.tolist()
    assert Sketch().estimate == decoded(Sketch().encoded(), "").estimate == 0
    assert sketch_of(pa.nulls(3, pa.int64())).estimate == 0


def test_slices_and_all_types_count() -> None:
    columns = {
        "bool": pa.array([True, False, None, True]), "int": pa.array([1, 2, 1, 2], pa.int32()),
        "date": pa.array([1, 2, 3, 1], pa.date32()),
        "decimal": pa.array([Decimal("1.27"), Decimal("1.28"), Decimal(0), Decimal("-1.28")]),
        "uuid": pa.array([b"0" * 16, b"1" * 16, None, None], pa.uuid()),
        "fixed": pa.array([b"ab", b"cd", b"ab", b"ef"], pa.binary(2)),
        "large": pa.array(["a", "b", "c", None], pa.large_string()),
        "float": pa.array([0.0, -0.0, 1.0, None], pa.float32()),
    }  # fmt: skip
    assert {name: sketch_of(values).estimate for name, values in columns.items()} == {
        "bool": 2, "int": 2, "date": 3, "decimal": 4, "uuid": 2, "fixed": 3, "large": 3, "float": 3,
    }  # fmt: skip
    for name, values in columns.items():
        assert sketch_of(values[1:3]).hashes.tolist() == sketch_of(pa.concat_arrays([values[1:3]])).hashes.tolist(), (
            name
        )


HEAD = (2, 3, 3, 0, 0, 0x1A, 0x93CC)
BROKEN = {
    "empty": b"", "cut": b"\x01", "no count": struct.pack("<BBBBBBH", *HEAD),
    "too few": struct.pack("<BBBBBBHIf", *HEAD, 9, 0), "seed": struct.pack("<BBBBBBHQ", 1, 3, 3, 0, 0, 0x1A, 1, 7),
    "above theta": struct.pack("<BBBBBBHIfQQ", 3, *HEAD[1:], 1, 0, 5, 7),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_bytes_that_are_no_sketch(case: str) -> None:
    with pytest.raises(CorruptError):
        decoded(BROKEN[case], "f")


def table(place: Any, **options: str) -> IcebergTable:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("s", pa.struct([("x", pa.int32())]))])
    made = lakebed.create(place, "iceberg", schema, (), ["p"], {**QUICK, **options})
    made.write(rows(0, 10))
    assert isinstance(made, IcebergTable)
    return made


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    inner = pa.array([{"x": n % 3} for n in numbers], pa.struct([("x", pa.int32())]))
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [str(n % 2) for n in numbers], "s": inner})


def kept(made: IcebergTable) -> dict[int, dict[str, int]]:
    """The figures of each snapshot in the metadata, which must be those of the file."""
    found = {}
    for entry in made.table_metadata.document.get("statistics", ()):
        data = Path(entry["statistics-path"]).read_bytes()
        blobs, _ = read_footer(data[-entry["file-footer-size-in-bytes"] :], "")
        figures = {}
        for blob in blobs:
            sketch = decoded(bytes(inflated(data[blob.offset : blob.offset + blob.length], "zstandard")), "")
            name = made.table_metadata.schema.find_column_name(blob.fields[0])
            figures[str(name)] = sketch.estimate
            assert blob.properties["ndv"] == str(sketch.estimate) and blob.snapshot_id == entry["snapshot-id"]
        found[entry["snapshot-id"]] = figures
    return found


def test_statistics_of_snapshots_come_and_go_with_them(tmp_path: Path) -> None:
    made = table(tmp_path / "t", **{"format-version": "3"})
    first = int(made.history()[0].time)
    plan = made.compute_table_stats(dry_run=True)
    assert plan.dry_run and [c.column for c in plan.columns] == ["id", "p"] and kept(made) == {}
    done = made.compute_table_stats()
    assert [(c.column, c.distinct) for c in done.columns] == [("id", 10), ("p", 2)] and done.snapshot == str(first)
    made.write(rows(5, 15))
    made.write(pa.table({"id": [3], "p": ["1"], "s": rows(0, 1)["s"]}), mode="overwrite")
    second = int(made.history()[-1].time)
    again = made.compute_table_stats(["S.x", "id"])
    ids = set(made.read(["id"]).read_all()["id"].to_pylist())
    assert [(c.column, c.distinct) for c in again.columns] == [("s.x", 3), ("id", len(ids))]
    assert kept(made) == {first: {"id": 10, "p": 2}, second: {"s.x": 3, "id": len(ids)}}
    made.compute_table_stats(["p"], snapshot=first)  # instead of the earlier ones
    assert kept(made)[first] == {"p": 2}
    assert Path(done.path).exists()
    for file in (tmp_path / "t" / "metadata").iterdir():
        os.utime(file, (time.time() - 10 * 86400,) * 2)
    made.expire(options={"expire-snapshots": False, "remove-orphan-files": True})
    assert not Path(done.path).exists() and sorted(kept(made)) == sorted([first, second])
    copied = made.rewrite_table_path(str(tmp_path / "copy"), str(tmp_path / "stage"))
    assert sum(to.endswith(".stats") for _, to in copied.copies) == 2
    made.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
    assert list(kept(made)) == [second]
    with pytest.raises(NotInHistoryError):
        made.compute_table_stats(snapshot=first)


def test_what_is_refused_and_the_empty_table(tmp_path: Path) -> None:
    made = lakebed.create(tmp_path / "t", "iceberg", {"id": "int64", "l": pa.list_(pa.int64())})
    assert made.compute_table_stats().notes == ("the table has no snapshot yet",)
    made.write(pa.table({"id": [1], "l": [[1]]}))
    wrong: list[tuple[Any, str]] = [(["x"], "unknown column 'x'"), (["l"], "list"), ("id", "list of column names"),
                                    ([], "no column"), (["id.x"], "unknown column 'id.x'")]  # fmt: skip
    for names, text in wrong:
        with pytest.raises(SchemaError, match=text):
            made.compute_table_stats(names)
    assert not [*(tmp_path / "t" / "metadata").glob("*.stats")]
    with pytest.raises(LakebedError, match="table statistics"):
        lakebed.create(tmp_path / "p", "paimon", {"id": "int64"}).compute_table_stats()


def test_the_snapshot_expires_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(tmp_path / "t")
    publish = statistics.publish

    def late(*given: Any) -> None:
        made.write(rows(20, 2))
        made.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
        publish(*given)

    monkeypatch.setattr(statistics, "publish", late)
    with pytest.raises(CommitConflictError, match="expired while"):
        made.compute_table_stats()
    assert not [*(tmp_path / "t" / "metadata").glob("*.stats")] and kept(made) == {}


def test_a_crash_at_any_call(tmp_path: Path) -> None:
    numbers = itertools.count()

    def make() -> Store:
        store = open_store(tmp_path / str(next(numbers)))
        table(store)
        return store

    def observe(store: Store) -> Any:
        made = lakebed.open(open_store(store.location))
        assert isinstance(made, IcebergTable)
        return [*kept(made).values()], made.read(["id"]).read_all().num_rows

    def operation(store: Store) -> None:
        lakebed.open(store).compute_table_stats()

    kinds = (Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_AFTER)
    assert check_crash_safety(make, operation, observe, kinds) >= 5


def test_the_files_of_the_snapshot_expire_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(tmp_path / "t")
    read = SketchReader.__call__

    def late(self: SketchReader, split: Any) -> tuple[Sketch, ...]:
        monkeypatch.setattr(SketchReader, "__call__", read)
        made.write(rows(20, 2), "overwrite")
        made.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
        return read(self, split)

    monkeypatch.setattr(SketchReader, "__call__", late)
    with pytest.raises(CommitConflictError, match="expired while"):
        made.compute_table_stats()
    assert not [*(tmp_path / "t" / "metadata").glob("*.stats")]
