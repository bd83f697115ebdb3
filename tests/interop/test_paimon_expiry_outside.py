"""Partitions and changelogs expire as by Paimon's Java engine, and each goes on with what the other expired."""

import datetime
import json
import shutil
import time
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel import clock
from lakebed.verbs.read import run
from lakebed.verbs.stream import drain
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


def test_both_mark_partitions_alike(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    schema = pa.schema([pa.field("dt", pa.date32(), False), pa.field("h", pa.string()), ("id", pa.int64())])
    table = lakebed.create(tmp_path / "t", "paimon", schema, partition_by=["dt", "h"], options={"bucket": "-1"})
    day = datetime.date(2024, 1, 2)
    table.write(pa.table({"dt": [day], "h": ["a/b"], "id": [1]}, schema))
    (path,) = table.mark_partition_done([{"dt": day, "h": "a/b"}])
    assert (tmp_path / "t" / path).parent == next((tmp_path / "t").rglob("bucket-0")).parent
    ours = json.loads((tmp_path / "t" / path).read_text())
    paimon_jvm.tell("done", tmp_path / "t", path.removesuffix("/_SUCCESS"))
    theirs_ = json.loads((tmp_path / "t" / path).read_text())
    assert theirs_["creationTime"] == ours["creationTime"] and theirs_["modificationTime"] > ours["modificationTime"]
    table.mark_partition_done([{"dt": "2024-01-02", "h": "a/b"}])
    assert json.loads((tmp_path / "t" / path).read_text())["creationTime"] == ours["creationTime"]
    assert len(paimon_jvm.dump(tmp_path / "t")[0]) == 1


KEEP = {
    "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "6", "lakebed.owed.time-retained": "0 ms",
}  # fmt: skip


def files(table: Path) -> set[str]:
    """The files of a table, but for hints and lakebed's own."""
    found = (str(path.relative_to(table)) for path in table.rglob("*") if path.is_file())
    return {name for name in found if not name.startswith((".", "schema/")) and "/." not in name}


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_changelogs_outlive_snapshots_as_the_references_do(
    tmp_path: Path, paimon_jvm: PaimonJvm, producer: str
) -> None:
    ours = tmp_path / "ours"
    options = {"bucket": "1", "changelog-producer": producer, "num-sorted-run.compaction-trigger": "3"}
    options |= {"snapshot.num-retained.max": "99", "changelog.num-retained.max": "100"}
    made = lakebed.create(ours, "paimon", SCHEMA, ["dt", "id"], ["dt"], options)
    given = [f"{key}={value}" for key, value in KEEP.items() if not key.startswith("lakebed")]
    for turn in range(2):
        for number in range(5):
            made.write(pa.table({"dt": ["a", "b"], "id": [number, turn]}, SCHEMA))
        made.write(pa.table({"dt": ["b"], "id": [7]}, SCHEMA), mode="overwrite")
        made.rewrite()
        jvms = Path(shutil.copytree(ours, tmp_path / f"jvms-{turn}"))
        paimon_jvm.tell("retain", jvms, *given)
        planned = made.expire(dry_run=True, options=KEEP)
        done = made.expire(options=KEEP)
        assert (done.expired, done.deleted_files) == (planned.expired, planned.deleted_files)
        # The reference keeps the rows of changelogs that went until the changelog that deletes them goes too.
        assert not files(ours) - files(jvms)
        more = files(jvms) - files(ours)
        assert all("/data-" in name for name in more) and (producer == "none" or not more)
        for kind in ("snapshot", "changelog"):
            for name in (f"{kind}/EARLIEST", f"{kind}/LATEST"):
                assert (ours / name).exists() or not (jvms / name).exists()
        left = [int(path.name.partition("-")[2]) for path in (ours / "changelog").glob("changelog-*")]
        assert len(left) == 4
        expected = changes_since(paimon_jvm, jvms, min(left), f"theirs-{turn}")
        assert changes_since(paimon_jvm, ours, min(left), f"ours-{turn}") == expected
        assert sorted(stream(ours, min(left))) == expected
        assert sorted(stream(jvms, min(left))) == expected
    assert days(paimon_jvm, ours) == sorted(made.read().read_all()["dt"].to_pylist())


def changes_since(jvm: PaimonJvm, table: Path, start: int, consumer: str) -> list[str]:
    """The changes that the reference's stream gives from a snapshot on."""
    newest = int(lakebed.open(table).history()[-1].time)
    lines = [line for _ in range(start, newest + 1) for line in jvm.follow(table, consumer, start)]
    shutil.rmtree(table / "consumer", ignore_errors=True)
    return sorted(f"{line['kind']} {line['row']['dt']} {line['row']['id']}" for line in lines)


def stream(table: Path, start: int) -> list[str]:
    reader = lakebed.open(table, {"scan.snapshot-id": str(start)}).stream()
    rows = [row for _, plan in drain(reader) for row in run(plan, 1).read_all().to_pylist()]
    return [f"{row['_row_kind']} {row['dt']} {row['id']}" for row in rows]
