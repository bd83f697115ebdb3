"""Partition statistics: the figures are those of the metadata table `partitions`, whether computed at once or from an
earlier snapshot's, and the file has the specification's columns."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CommitConflictError, RetryableError, UnsupportedError, UsageError
from lakebed.formats.iceberg.statistics import partitions as statistics
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.iceberg.small import QUICK

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("p", pa.string()), ("d", pa.date32())])
FIGURES = (
    "data_record_count", "data_file_count", "total_data_file_size_in_bytes", "position_delete_record_count",
    "position_delete_file_count", "equality_delete_record_count", "equality_delete_file_count",
)  # fmt: skip


def rows(*ids: int, p: str | None = "a") -> pa.Table:
    return pa.table({"id": ids, "p": [p] * len(ids), "d": pa.array([7] * len(ids), pa.date32())}, schema=SCHEMA)


def table(place: Any, version: int = 2, **options: str) -> IcebergTable:
    made = lakebed.create(place, "iceberg", SCHEMA, ["id"], ["p"], {**QUICK, "format-version": str(version), **options})
    made.write(rows(1, 2, 3))
    made.write(rows(4, 5, p="b"))
    made.write(rows(6, p=None))
    assert isinstance(made, IcebergTable)
    return made


def live_on(made: Any) -> None:
    """Upserts, deletes, a rewrite and a partition that goes away."""
    made.write(rows(2, 7), mode="upsert")
    made.write(rows(4, p="b").select(["id"]), mode="delete")
    made.write(rows(9, p="c"))
    made.rewrite(where="p = 'a'", options={"rewrite-all": True})
    made.write(rows(8, p="b"), mode="overwrite")


def written(path: str) -> pa.Table:
    return pq.read_table(path)


def of_metadata(made: IcebergTable) -> dict[Any, list[int]]:
    """The same figures by the metadata table, which is held to Spark's elsewhere."""
    found = made.metadata("partitions").read_all().to_pylist()
    names = ("record_count", "file_count", *FIGURES[2:])
    return {row["partition"]["p"]: [row[name] for name in names] for row in found}


def figures(path: str) -> dict[Any, list[int]]:
    """Figures by partition, without partitions that have no files any more. Vectors count as files of deletes here, as
    in the metadata table."""
    found = {}
    for row in written(path).to_pylist():
        counts = [row[name] for name in FIGURES]
        counts[4] += row.get("dv_count", 0)
        if any(counts):
            found[row["partition"]["p"]] = counts
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_at_once_and_step_by_step_give_the_figures_of_the_metadata_table(tmp_path: Path, version: int) -> None:
    made = table(tmp_path / "t", version)
    plan = made.compute_partition_stats(dry_run=True)
    assert (plan.partitions, plan.path, plan.incremental) == (3, "", False)
    first = made.compute_partition_stats()
    assert figures(first.path) == of_metadata(made) and not first.incremental
    stored = written(first.path)
    assert stored["partition"].combine_chunks().field("p").to_pylist() == [None, "a", "b"]
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in stored.schema] == [
        *range(1, 13 if version == 2 else 14)
    ]
    newest = [int(instant.time) for instant in made.history()]
    assert stored["last_updated_snapshot_id"].to_pylist() == [newest[2], newest[0], newest[1]]
    live_on(made)
    steps = made.compute_partition_stats()
    assert steps.incremental and figures(steps.path) == of_metadata(made)
    again = made.compute_partition_stats()
    assert again.path == steps.path and again.notes
    Path(first.path).unlink()
    made.write(rows(20))
    Path(steps.path).write_bytes(b"PAR1")
    whole = made.compute_partition_stats()
    assert not whole.incremental and figures(whole.path) == of_metadata(made)
    made.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
    assert [path for _, path in made.table_metadata.statistics_files] == [whole.path] and Path(whole.path).exists()


def test_new_partition_fields_start_anew(tmp_path: Path) -> None:
    made = table(tmp_path / "t")
    made.compute_partition_stats()
    made.alter(lakebed.add_partition_field("d"))
    made.write(rows(10))
    done = made.compute_partition_stats()
    assert not done.incremental and done.partitions == 4
    assert {next(iter(row["partition"].values())) for row in written(done.path).to_pylist()} == {None, "a", "b"}


def test_what_has_none(tmp_path: Path) -> None:
    plain = lakebed.create(tmp_path / "t", "iceberg", {"id": "int64"})
    assert plain.compute_partition_stats().notes == ("the table has no snapshot yet",)
    plain.write(pa.table({"id": [1]}))
    with pytest.raises(UsageError, match="no partitions"):
        plain.compute_partition_stats()
    with pytest.raises(UnsupportedError, match="partition statistics"):
        lakebed.create(tmp_path / "p", "paimon", {"id": "int64"}).compute_partition_stats()


def test_the_snapshot_expires_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(tmp_path / "t")
    publish = statistics.publish

    def late(*given: Any) -> None:
        made.write(rows(20, 21))
        made.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
        publish(*given)

    monkeypatch.setattr(statistics, "publish", late)
    with pytest.raises(CommitConflictError, match="expired while"):
        made.compute_partition_stats()
    assert not [*(tmp_path / "t" / "metadata").glob("partition-stats-*")]


def test_a_crash_at_any_call(tmp_path: Path) -> None:
    numbers = itertools.count()

    def make() -> Store:
        store = open_store(tmp_path / str(next(numbers)))
        made = lakebed.create(store, "iceberg", SCHEMA, ["id"], ["p"], QUICK)
        made.write(rows(1))
        return store

    def observe(store: Store) -> Any:
        made = lakebed.open(open_store(store.location))
        assert isinstance(made, IcebergTable)
        return [figures(path) for _, path in made.table_metadata.statistics_files]

    def operation(store: Store) -> None:
        lakebed.open(store).compute_partition_stats()

    assert check_crash_safety(make, operation, observe, (Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_AFTER)) >= 5


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_statistics_that_cannot_be_read_are_computed_anew(tmp_path: Path, harm: str) -> None:
    made = table(tmp_path / "t")
    first = Path(made.compute_partition_stats().path)
    if harm == "gone":
        first.unlink()
    else:
        first.write_bytes(first.read_bytes()[:20])
    again = made.compute_partition_stats()
    assert (again.partitions, Path(again.path) == first, again.notes) == (3, False, ())
    assert made.compute_partition_stats().path == again.path


def test_a_store_that_fails_is_no_table_without_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(tmp_path / "t")
    known = made.compute_partition_stats()

    def failing(*_: Any) -> Any:
        raise RetryableError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(statistics.pq, "read_table", failing)
        with pytest.raises(RetryableError):
            made.compute_partition_stats()
    assert made.compute_partition_stats().partitions == known.partitions == 3
