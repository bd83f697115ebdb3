"""Partitions and changelogs expire as by Paimon's Java engine, and each goes on with what the other expired."""

import shutil
import time
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel import clock
from tests.interop.conftest import PaimonJvm

SCHEMA = pa.schema([pa.field("dt", pa.string(), False), pa.field("id", pa.int64(), False)])
PARTITIONS = {"lakebed.expire.what": "partitions", "partition.expiration-time": "10 d"}
TEXTS = [
    "2024-01-01", "2024-1-1", "2024-02-31", "2024-13-41", "2024-06-31", "2099-01-01", "-5-01-01", "0000-01-01",
    "+2024-01-01", "2024-01-01 10:11:12", "2024-01-01 10:11:12.5", "2024-01-01 10:11", "2024-01-01 30:70:80",
    "2024-01-01T10:11:12", "20240231", "20241301", "20240100", "02024010", "202401011", "00000101", "20990101",
    "20240101 10", "2024010110", "2024010124", "2024010125", "20240101102030", "20240101T1011", "20240101T1070",
    "20240101'x", "2024/1/1", "2024/01/01", "2024/1/41", "1.1.2024", "20240101102030123", "20240101 10:20", "0-0-0",
    " 2024-01-01", "2024--1-01", "2024-01-0000", "9999999999-01-01", "2024-00-00", "abc", "20240101",
]  # fmt: skip
FORMATTERS = [
    "", "yyyyMMdd", "uuuuMMdd", "yyyy-MM-dd", "yyyyMMddHH", "yyyyMMddHHmmss", "yyyyMMdd'T'HHmm", "yyyy/M/d", "yyyyMM",
    "yyyyMMddHHmmssSSS", "yyyyMMdd HH:mm", "yyyyMMdd'''x'", "yyyyMMdd''''", "d.M.yyyy", "yyyyMMddmm",
    "yyyy-MM-dd HH:mm", "yyyy-MM-dd HH:mm:ss.S",
]  # fmt: skip


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a partition of each text, and one of null."""
    folder = tmp_path_factory.mktemp("odd") / "t"
    schema = pa.schema([("dt", pa.string()), ("n", pa.int32()), ("id", pa.int64())])
    table = lakebed.create(folder, "paimon", schema, partition_by=["dt", "n"], options={"bucket": "-1"})
    values = [*TEXTS, None]
    numbers = [None if text == "2024-01-01" else 7 for text in values]
    table.write(pa.table({"dt": values, "n": numbers, "id": range(len(values))}, schema))
    return folder


def going(table: Path, options: dict[str, str]) -> set[str]:
    return set(lakebed.open(table).expire(dry_run=True, options={**PARTITIONS, **options}).expired)


def theirs(jvm: PaimonJvm, verb: str, table: Path, options: dict[str, str]) -> set[tuple[str, ...]]:
    given = {"partition.expiration-time": "10 d", **options}
    return {tuple(line["partition"]) for line in jvm.tell(verb, table, *(f"{k}={v}" for k, v in given.items()))}


@pytest.mark.parametrize("pattern", ["", "$dt $n:00:00"])
def test_the_same_partitions_are_too_old(odd: Path, paimon_jvm: PaimonJvm, pattern: str) -> None:
    agreed = 0
    for formatter in FORMATTERS:
        options = {"partition.timestamp-formatter": formatter, "partition.timestamp-pattern": pattern}
        options = {key: value for key, value in options.items() if value}
        expected = {f"dt={dt}/n={n}" for dt, n in theirs(paimon_jvm, "old", odd, options)}
        assert {unquote(name) for name in going(odd, options)} == expected, formatter
        agreed += len(expected)
    assert agreed


def test_both_drop_the_same_and_go_on(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    ours, jvms = tmp_path / "ours", tmp_path / "jvms"
    table = lakebed.create(ours, "paimon", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "-1", "write-only": "true"})
    for day in ("2024-01-03", "2024-01-01", "2099-01-01", "2024-01-02"):
        table.write(pa.table({"dt": [day] * 3, "id": [1, 2, 3]}, SCHEMA))
    shutil.copytree(ours, jvms)
    options = {"partition.expiration-max-num": "2", "partition.expiration-batch-size": "1"}
    result = table.expire(options={**PARTITIONS, **options})
    dropped = theirs(paimon_jvm, "drop_old", jvms, options)
    assert {f"dt={day}" for (day,) in dropped} == set(result.expired) == {"dt=2024-01-01", "dt=2024-01-02"}
    for folder in (ours, jvms):
        here = lakebed.open(folder)
        assert [instant.action for instant in here.history()][-2:] == ["overwrite", "overwrite"]
        paimon_jvm.tell("compact", folder, 9)
        assert days(paimon_jvm, folder) == ["2024-01-03"] * 3 + ["2099-01-01"] * 3
        assert sorted(here.read().read_all()["dt"].to_pylist()) == days(paimon_jvm, folder)
    assert theirs(paimon_jvm, "drop_old", ours, {}) == {("2024-01-03",)}
    assert lakebed.open(jvms).expire(options=PARTITIONS).expired == ("dt=2024-01-03",)
    assert days(paimon_jvm, ours) == days(paimon_jvm, jvms) == ["2099-01-01"] * 3


def test_the_same_partitions_are_old_by_update_time(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    table = lakebed.create(
        tmp_path / "t", "paimon", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "1", "write-only": "true"}
    )
    now = time.time()
    for day, age in (("a", 20), ("b", 20), ("c", 5), ("a", 9)):
        with clock.set_clock(lambda age=age: now - age * 86_400):
            table.write(pa.table({"dt": [day], "id": [age]}, SCHEMA))
    options = {"partition.expiration-strategy": "update-time"}
    planned = going(tmp_path / "t", options)
    assert planned == {f"dt={day}" for (day,) in theirs(paimon_jvm, "old", tmp_path / "t", options)} == {"dt=b"}
    assert theirs(paimon_jvm, "drop_old", tmp_path / "t", options) == {("b",)}
    assert days(paimon_jvm, tmp_path / "t") == ["a", "a", "c"]


def days(jvm: PaimonJvm, table: Path) -> list[str]:
    return sorted(line["row"]["dt"] for line in jvm.dump(table)[0])
