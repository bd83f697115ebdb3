"""The health report: figures of real tables, and each trouble named with its remedy."""

import json
from pathlib import Path

import pytest

import lakebed
from lakebed.callbacks import Committed
from lakebed.model.report import Health, TableReport
from tests.golden import names, unpack
from tests.tables.paimon.small import Make, rows


def found(report: TableReport, word: str) -> str:
    """The remedy of the one finding that speaks of something; "" when none does."""
    remedies = [finding.remedy for finding in report.findings if word in finding.what]
    assert len(remedies) <= 1
    return remedies[0] if remedies else ""


def test_a_healthy_table(make: Make) -> None:
    table = make()
    empty = table.inspect()
    assert (empty.health, empty.findings, empty.blockers) == (Health.GOOD, (), ())
    assert empty.figures["snapshots"]["snapshots"] == 0
    table.write(rows(("a", 1, "v", 1), ("b", 2, "v", 1)))
    table.tag("first")
    report = table.inspect()
    assert report.health is Health.GOOD
    assert (report.format, report.table) == ("paimon", table.location)
    assert report.figures["table"]["bucket mode"] == "HASH_FIXED"
    files = report.figures["files"]
    assert (files["files"], files["partitions"], files["level 0 files"]) == (2, 2, 2)
    assert files["bytes"] == sum(path.stat().st_size for path in Path(table.location).rglob("data-*"))
    snapshots = report.figures["snapshots"]
    assert (snapshots["latest"], snapshots["tags"], snapshots["rows in files"]) == (1, "first", 2)


def test_rows_that_wait(make: Make) -> None:
    table = make(bucket="-2")
    table.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1)))
    report = table.inspect()
    assert found(report, "2 rows in 1 partition are in postponed buckets") == "table.rewrite()"
    assert (report.figures["files"]["postponed rows"], report.health) == (2, Health.ATTENTION)
    table.rewrite()
    assert table.inspect().health is Health.GOOD
    hidden = make(merge__engine="first-row", write__only="true")
    hidden.write(rows(("a", 1, "v", 1)))
    assert found(hidden.inspect(), "1 row is in 1 file of level 0") == "table.rewrite()"
    hidden.rewrite()
    assert hidden.inspect().health is Health.GOOD


def test_many_runs_and_many_small_files(make: Make) -> None:
    table, appended = make(bucket="1", write__only="true"), make(primary_key=(), bucket="-1")
    for number in range(5):
        assert table.inspect().health is Health.GOOD
        table.write(rows(("a", number, "v", 1)))
        appended.write(rows(("a", number, "v", 1)))
    assert found(table.inspect(), "5 sorted runs or more; dt=a/bucket-0 has 5") == "table.rewrite()"
    assert found(appended.inspect(), "5 small files in 1 bucket")


def test_what_holds_expiry_back_is_a_blocker(make: Make) -> None:
    table = make(write__only="true", snapshot_num__retained_min="1", snapshot_time__retained="0 ms")
    writer = table.writer("stream")
    writer.write(rows(("a", 1, "v", 1)))
    writer.commit(1, writer.prepare_commit())
    for number in range(3):
        table.write(rows(("b", number, "v", 1)))
    report = table.inspect()
    (blocker,) = report.blockers
    assert blocker.instant == "1"
    assert "stream" in blocker.reason
    assert blocker.remedy in report.advice
    free = lakebed.open(table.location, {"lakebed.owed.time-retained": "0 ms"})
    assert found(free.inspect(), "3 snapshots may expire") == "table.expire()"
    consumer = Path(table.location) / "consumer" / "consumer-job"
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 2}))
    report = free.inspect()
    assert found(report, "1 snapshot may expire")
    assert "consumer/consumer-job" in report.blockers[0].remedy
    free.expire()
    assert not found(free.inspect(), "may expire")


def test_a_callback_that_is_owed(make: Make) -> None:
    class Broken:
        name = "notify"

        def call(self, commit: Committed) -> None:
            raise RuntimeError("down")

    table = make()
    writer = table.writer(callbacks=[Broken()])
    writer.write(rows(("a", 1, "v", 1)))
    writer.commit(messages=writer.prepare_commit())
    assert ".lakebed/callbacks/notify" in found(table.inspect(), "callback notify was not called")


def test_what_is_broken(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    (stray := Path(table.location) / "snapshot" / "snapshot-2#1").write_text("half")
    assert "no writer is running" in found(table.inspect(), "1 foreign file is among the metadata")
    stray.unlink()
    for file in Path(table.location).rglob("data-*"):
        file.unlink()
    report = table.inspect()
    assert report.health is Health.BROKEN
    assert found(report, "1 data file of the newest snapshot is missing")
    for file in (Path(table.location) / "manifest").iterdir():
        file.unlink()
    report = table.inspect()
    assert report.health is Health.BROKEN
    assert found(report, "cannot be read")


@pytest.mark.parametrize("name", names("paimon"))
def test_every_golden_table_has_a_report(name: str) -> None:
    table = lakebed.open(unpack("paimon", name))
    report = table.inspect()
    assert report.health is not Health.BROKEN
    assert report.figures["snapshots"]["snapshots"] == len(table.history())
    assert all(finding.what and finding.remedy for finding in report.findings)
