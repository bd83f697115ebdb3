"""Partition columns of every type: folders as Java names them, found again whichever release of Java named them."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import UnsupportedError

BEFORE_19, SINCE_19 = "p=1.9999999999999998E23", "p=2.0E23"


def table_of(path: Path, kind: pa.DataType, **options: str) -> Table:
    schema = pa.schema([("p", kind), ("k", pa.int32())])
    return lakebed.create(path, "paimon", schema, partition_by=["p"], options=options)


def put(table: Table, value: Any, k: int) -> None:
    table.write(pa.table({"p": pa.array([value], table.schema.field("p").type), "k": pa.array([k], pa.int32())}))


def keys(table: Table) -> list[int]:
    return sorted(table.read().read_all()["k"].to_pylist())


def folders(path: Path) -> list[str]:
    return sorted(item.name for item in path.glob("p=*"))


@pytest.mark.slow
@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize(
    ("kind", "value", "names"),
    [
        (pa.float32(), 0.1, ("p=0.1", "p=0.1")),
        (pa.float64(), 1e-7, ("p=1.0E-7", "p=1.0E-7")),
        (pa.float64(), float("nan"), ("p=NaN", "p=NaN")),
        (pa.time32("ms"), dt.time(1, 2, 3, 4000), ("p=3723004", "p=01%3A02%3A03.004")),
        (pa.date32(), dt.date(2024, 1, 1), ("p=19723", "p=2024-01-01")),
        (pa.timestamp("ms"), dt.datetime(2024, 1, 2, 3, 4), ("p=2024-01-02T03%3A04", "p=2024-01-02 03%3A04%3A00.000")),
        (pa.decimal128(10, 7), Decimal("0.0000001"), ("p=0.0000001", "p=0.0000001")),
        (pa.bool_(), True, ("p=true", "p=true")),
        (pa.string(), "\xa0", ("p=\xa0", "p=\xa0")),
        (pa.string(), " ", ("p=__DEFAULT_PARTITION__", "p=__DEFAULT_PARTITION__")),
    ],
)  # fmt: skip
def test_written_and_read_in_both_modes(
    tmp_path: Path, kind: pa.DataType, value: Any, names: tuple[str, str], legacy: str
) -> None:
    table = table_of(tmp_path / "t", kind, **{"partition.legacy-name": legacy})
    put(table, value, 1)
    assert folders(tmp_path / "t") == [names[legacy == "false"]]
    assert keys(table) == [1]


def test_a_new_partition_has_the_name_of_java_19_and_pypaimon(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", pa.float64())
    put(table, 2e23, 1)
    assert folders(tmp_path / "t") == [SINCE_19]


def test_a_folder_that_earlier_java_named_is_read_written_and_expired(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = table_of(path, pa.float64())
    put(table, 2e23, 1)
    (path / SINCE_19).rename(path / BEFORE_19)
    assert keys(table) == [1]
    put(table, 2e23, 2)
    assert folders(path) == [BEFORE_19]
    assert keys(table) == [1, 2]
    assert table.inspect().health.name != "BROKEN"
    table.write(pa.table({"p": pa.array([2e23]), "k": pa.array([3], pa.int32())}), "overwrite")
    table.expire(options={"snapshot.num-retained.min": 1, "snapshot.time-retained": "1 ms"})
    assert len([*(path / BEFORE_19).rglob("data-*")]) == 1
    assert keys(table) == [3]


def test_two_folders_of_one_partition_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = table_of(path, pa.float64())
    put(table, 2e23, 1)
    (path / SINCE_19).rename(path / BEFORE_19)
    (path / SINCE_19 / "bucket-0").mkdir(parents=True)  # empty folders count for nothing
    assert keys(table) == [1]
    (path / SINCE_19 / "bucket-0" / "data-x-0.parquet").write_bytes(b"")
    with pytest.raises(UnsupportedError, match="Java before and since release 19"):
        table.read()


def test_bytes_have_folders_by_their_text_only(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"partition\.legacy-name=false"):
        put(table_of(tmp_path / "legacy", pa.binary()), b"ab", 1)
    table = table_of(tmp_path / "cast", pa.binary(), **{"partition.legacy-name": "false"})
    put(table, b"ab", 1)
    assert folders(tmp_path / "cast") == ["p=ab"]
    assert keys(table) == [1]
