"""Metadata tables are made anew where a file goes before their first rows are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, DataCleanedError, LakebedError, RetryableError, StorageError
from lakebed.verbs.system_tables import SystemTable, lasting

SCHEMA = pa.schema([("n", pa.int64())])


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number], pa.int64())], schema=SCHEMA)


def table(*parts: int | Exception) -> SystemTable:
    """A table of such batches; an error ends it."""

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            if isinstance(part, Exception):
                raise part
            yield batch(part)

    return SystemTable(SCHEMA, batches)


def gone(name: str) -> FileNotFoundError:
    return FileNotFoundError(2, "no such file", name)


def missing(name: str) -> LakebedError:
    error = CorruptError("a manifest list is missing", file=name)
    error.__cause__ = gone(name)
    return error


def read(*tables: SystemTable) -> list[int]:
    """What is read of a table that is the first one, and each time that it is made anew the next one."""
    waiting = [*tables]
    rows: list[int] = lasting(lambda: waiting.pop(0), "/t").read().read_all()["n"].to_pylist()
    return rows


@pytest.mark.parametrize("lost", [gone, missing])
def test_it_is_made_anew_before_its_first_rows(lost: type[Exception]) -> None:
    assert read(table(lost("m1")), table(lost("m2")), table(1, 2)) == [1, 2]


def test_a_file_that_stays_missing_is_lost() -> None:
    with pytest.raises(CorruptError, match=r"a manifest list is missing \[file m1\]"):
        read(table(missing("m1")), table(missing("m1")))
    with pytest.raises(RetryableError, match="a file of the table is gone"):
        read(table(gone("m1")), table(gone("m1")))
    with pytest.raises(CorruptError, match=r"a manifest list is missing \[file m4\]"):
        read(*(table(missing(name)) for name in ("m0", "m1", "m2", "m3", "m4")))


def test_rows_that_were_given_stay_and_no_others_follow() -> None:
    whole = table(1, 2)
    with pytest.raises(DataCleanedError, match=r"the table's metadata changed while it was read \[table /t\]"):
        read(table(1, missing("m1")), whole, whole)
    with pytest.raises(CorruptError, match="a manifest list is missing"):
        read(table(1, missing("m1")), table(1, missing("m1")))
    other = SystemTable(pa.schema([("n", pa.int64()), ("m", pa.int64())]), lambda: iter(()))
    with pytest.raises(DataCleanedError, match="changed while it was read"):
        read(table(missing("m1")), other)


def test_other_errors_end_it() -> None:
    with pytest.raises(StorageError, match="no permission"):
        read(table(StorageError("no permission")), table(1))


@pytest.mark.parametrize("format", ["hudi", "iceberg", "paimon"])
def test_snapshots_expire_before_their_metadata_is_read(format: str, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    written = lakebed.create(place, format, pa.schema([("id", pa.int64()), ("v", pa.string())]), ["id"])
    for value in "abc":
        written.write(pa.table({"id": [1], "v": [value]}), mode="upsert")
    opened = lakebed.open(place)
    made = {name: opened.system_table(name) for name in opened.metadata_names}
    written.write(pa.table({"id": [1], "v": ["d"]}), mode="overwrite")
    expires = {
        "hudi": {"hoodie.clean.commits.retained": 1},
        "iceberg": {"history.expire.max-snapshot-age-ms": 0, "history.expire.min-snapshots-to-keep": 1},
        "paimon": {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1, "snapshot.time-retained": "1 ms"},
    }
    assert written.expire(options=expires[format]).expired
    for name, system_table in made.items():
        assert system_table.read().read_all().schema == system_table.schema, name
    assert made["files"].read().read_all().num_rows == 1
