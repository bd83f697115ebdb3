"""`table.inspect()` of Hudi tables: figures, findings with what to do, and what holds the timelines up."""

import datetime
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import OptionError
from lakebed.model.report import Finding, Health, TableReport
from tests.golden import unpack
from tests.tables.hudi.timelines import NO_COMPACTION, SAVEPOINT, Lake, at, container

GOLDEN = (
    "archived_v6",
    "archived_v8",
    "archived_upgraded_v9",
    "archived_savepoint_v6",
    "mor_mdt_v9",
    "mor_logonly_h015",
)


def found(report: TableReport, what: str) -> Finding:
    """The one finding whose text begins like this."""
    (finding,) = [finding for finding in report.findings if finding.what.startswith(what)]
    return finding


@pytest.mark.parametrize("name", GOLDEN)
def test_a_well_kept_table_is_good_and_stays_as_it_is(name: str) -> None:
    folder = unpack("hudi", name)
    before = {path: path.stat().st_size for path in sorted(folder.rglob("*"))}
    table = lakebed.open(folder)
    report = table.inspect()
    assert {path: path.stat().st_size for path in sorted(folder.rglob("*"))} == before
    assert (report.health, report.format, report.table) == (Health.GOOD, "hudi", table.location)
    history = table.history()
    timeline = report.figures["timeline"]
    assert (timeline["instants"], timeline["oldest"]) == (len(history), history[0].time)
    assert timeline["completed files read"] == sum(instant.state == "completed" for instant in history)
    old = [instant.time for instant in table.history(archived=True) if instant.archived]
    assert report.figures["archive"]["last archived"] in (old or [""])
    assert bool(report.figures["archive"]["files"]) == bool(old)
    files = report.figures["files"]
    assert files["file groups"] == len(table.plan_read().splits) and files["bytes"] > 0
    assert ("metadata table's timeline" in report.figures) == (name == "mor_mdt_v9")


def test_savepoints_older_folders_and_both_timelines_are_reported() -> None:
    report = lakebed.open(unpack("hudi", "archived_savepoint_v6")).inspect()
    assert report.figures["table"]["savepoints"] == 1
    assert "can be restored" in found(report, "savepoint ").what
    upgraded = lakebed.open(unpack("hudi", "archived_upgraded_v9")).inspect()
    assert "no longer need them" in found(upgraded, "4 archive files lie in an older folder").why


def test_both_timelines_and_who_holds_whom(tmp_path: Path) -> None:
    data = Lake(
        tmp_path,
        properties={
            "hoodie.table.metadata.partitions": "files",
            "hoodie.keep.min.commits": "20",
            "hoodie.keep.max.commits": "30",
        },
    )
    data.commit(*range(1, 51))
    Lake(tmp_path / ".hoodie/metadata", merge_on_read=True).commit(*range(1, 401), action="deltacommit")
    report = lakebed.open(tmp_path).inspect()
    assert report.figures["timeline"]["instants"] == 50
    assert report.figures["metadata table's timeline"]["instants"] == 400
    held = found(report, "30 old instants of the active timeline cannot be archived")
    assert held.health is Health.ATTENTION and "never compacted" in held.why and "compact the metadata" in held.remedy
    other = found(report, "380 old instants of the metadata table's active timeline")
    assert f"the data table's earliest commit {at(1)}" in other.why
    reasons = {blocker.reason.partition(":")[0] for blocker in report.blockers}
    assert reasons == {"the metadata table was never compacted", "metadata table"}
    assert report.health is Health.ATTENTION and report.advice[0] == held.remedy


def test_what_is_due_is_reported_with_the_command(tmp_path: Path) -> None:
    lake = Lake(
        tmp_path,
        properties={
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
            "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
        },
    )
    lake.commit(*range(1, 31))
    report = lakebed.open(tmp_path).inspect()
    due = found(report, "28 instants of the active timeline could be archived")
    assert due.remedy == f"lakebed archive {tmp_path}"
    assert "30 commits and no clean" in found(report, "30 commits").what
    lake.archive(2, 3)
    lake.clean(31)
    after = lakebed.open(tmp_path).inspect()
    assert after.health is Health.GOOD and after.findings == ()
    assert after.figures["archive"] == {
        "files": 1,
        "bytes": after.figures["archive"]["bytes"],
        "last archived": at(28),
        "files in older folders": 0,
    }


@pytest.mark.parametrize("version", [6, 8])
def test_what_a_crash_left_is_broken_and_named(tmp_path: Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.commit(1, 2, 5)
    lake.commit(3, data=b"")
    lake.commit(4, data=b'{"partitionToWriteStats": {')
    report = lakebed.open(tmp_path).inspect()
    assert report.health is Health.BROKEN
    assert found(report, f"the completed file {lake.timeline.relative_to(tmp_path)}/{at(3)}").remedy.startswith(
        "Restore"
    )
    assert found(report, f"{lake.timeline.relative_to(tmp_path)}/{lake.done_name(4, 'commit')} cannot be read").why
    assert "roll" in found(report, "a snapshot cannot be read").remedy.lower()
    assert "files" not in report.figures
    assert [finding.health.rank for finding in report.findings] == sorted(
        (finding.health.rank for finding in report.findings), reverse=True
    )


def test_a_torn_archive_is_broken_and_the_rest_is_reported(tmp_path: Path) -> None:
    lake = Lake(tmp_path, 8)
    lake.commit(*range(1, 6))
    lake.archive(1, 2)
    (lake.timeline / "history/manifest_1").write_text("{")
    report = lakebed.open(tmp_path).inspect()
    assert found(report, "the timelines cannot be judged").health is Health.BROKEN
    assert report.figures["timeline"]["last commit"] == at(5)


def test_pending_instants_by_kind_age_and_heartbeat(tmp_path: Path) -> None:
    lake = Lake(tmp_path, merge_on_read=True)
    lake.commit(1, action="deltacommit")
    lake.pending(2, "compaction", "requested")
    lake.pending(3, "deltacommit")
    lake.pending(4, "deltacommit")
    lake.pending(5, "clean")
    lake.put(f"{at(6)}.replacecommit.requested")
    now = datetime.datetime.now().strftime("%Y%m%d%H%M%S") + "000"
    lake.put(f"{now}.deltacommit.requested")
    heartbeat = tmp_path / f".hoodie/.heartbeat/{at(4)}"
    heartbeat.parent.mkdir()
    heartbeat.touch()
    report = lakebed.open(tmp_path).inspect()
    assert report.figures["timeline"]["pending"] == 6
    compaction = found(report, f"compaction {at(2)} was requested ")
    assert compaction.what.endswith(" days ago and has not run") and "withdraw" in compaction.remedy
    assert compaction.health is Health.ATTENTION
    dead, alive = found(report, f"deltacommit {at(3)}"), found(report, f"deltacommit {at(4)}")
    assert (dead.health, alive.health) == (Health.ATTENTION, Health.ATTENTION)
    assert "no heartbeat file" in dead.why and f"roll {at(3)} back" in dead.remedy and "has a heartbeat" in alive.why
    assert "lakebed.rewrite.what=clustering" in found(report, f"replacecommit {at(6)}").remedy
    assert found(report, f"clean {at(5)} was begun").health is Health.ATTENTION
    assert found(report, f"deltacommit {now} was requested less than an hour ago and has not run").health is Health.GOOD


ONE_OLD_WRITER = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}


@pytest.mark.parametrize("name", ["archived_v6", "archived_v8"])
def test_one_old_inflight_is_the_root_of_every_hold(name: str) -> None:
    """A pending write makes the cleaner retain more, so more stays: the report names the instant, not the settings."""
    folder = unpack("hudi", name)
    oldest = next(i for i in lakebed.open(folder).history() if i.action == "commit")
    pending = str(int(oldest.time) + 1)
    timeline = folder / (".hoodie" if name == "archived_v6" else ".hoodie/timeline")
    (timeline / f"{pending}.commit.requested").touch()
    (timeline / (f"{pending}.inflight" if name == "archived_v6" else f"{pending}.commit.inflight")).touch()
    table = lakebed.open(folder)
    result = table.archive(dry_run=True, options=ONE_OLD_WRITER)
    clock = f"{pending[:4]}-{pending[4:6]}-{pending[6:8]} {pending[8:10]}:{pending[10:12]}:{pending[12:14]}"
    assert not result.archived and result.blockers
    for blocker in result.blockers:
        assert f"commit {pending} is inflight" in blocker.reason and clock in blocker.reason
        assert f"roll {pending} back" in blocker.remedy
    assert pending in [blocker.instant for blocker in result.blockers]
    commits = [i.time for i in table.history() if i.action == "commit" and i.state == "completed"]
    assert set(commits[:-2]) <= {blocker.instant for blocker in result.blockers}
    report = table.inspect(ONE_OLD_WRITER)
    assert report.blockers == result.blockers
    assert report.health is Health.ATTENTION and any(f"roll {pending} back" in remedy for remedy in report.advice)


def test_settings_that_raise_what_stays_are_reported_for_each_commit_they_hold(tmp_path: Path) -> None:
    Lake(tmp_path).commit(*range(1, 21))
    asked = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 10}
    result = lakebed.open(tmp_path).archive(dry_run=True, options=asked)
    held = [blocker for blocker in result.blockers if blocker.instant not in result.archived]
    assert [blocker.instant for blocker in held] == [at(n) for n in range(10, 19)]
    assert {blocker.remedy for blocker in held} == {
        "Lower hoodie.cleaner.commits.retained, or keep more commits with hoodie.keep.min.commits"
    }


def test_a_chain_of_holds_is_walked_to_its_end(tmp_path: Path) -> None:
    """The metadata table is not compacted while an instant of the data table is pending, and a replace commit's files
    are not cleaned while a clean has not ended."""
    data = Lake(
        tmp_path,
        properties={
            "hoodie.table.metadata.partitions": "files",
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
        },
    )
    data.commit(*range(1, 11))
    data.commit(11, action="replacecommit")
    data.commit(*range(12, 31))
    data.pending(20, "clean")
    Lake(tmp_path / ".hoodie/metadata", merge_on_read=True).commit(*range(1, 41), action="deltacommit")
    asked = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}
    blockers = lakebed.open(tmp_path).archive(dry_run=True, options=asked).blockers
    by_instant = {blocker.instant: blocker for blocker in blockers}
    assert f"never compacted; writers do not compact it while clean {at(20)} is" in by_instant[at(1)].reason
    assert "Let the next clean finish it" in by_instant[at(1)].remedy
    assert f"hides files that no clean has removed; clean {at(20)} is" in by_instant[at(12)].reason
    other = lakebed.open(tmp_path / ".hoodie/metadata").archive(
        dry_run=True, options={"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    )
    held = next(blocker for blocker in other.blockers if blocker.instant == at(5))
    assert f"it stays there while clean {at(20)} is" in held.reason and "In the data table" in held.remedy


def test_inspect_takes_the_settings_of_the_writer(tmp_path: Path) -> None:
    Lake(tmp_path).commit(*range(1, 31))
    assert not lakebed.open(tmp_path).inspect().figures["timeline"]["due to be archived"]
    asked = {
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    }
    report = lakebed.open(tmp_path).inspect(asked)
    assert found(report, "28 instants of the active timeline could be archived")
    with pytest.raises(OptionError, match="hoodie"):
        lakebed.open(tmp_path).inspect({"hoodie.keep.min.comits": 2})


@pytest.mark.parametrize("content", [b"", b"no number", b"\xff\xfe"])
def test_a_version_file_without_a_number_falls_back_to_the_greatest_whole_manifest(
    tmp_path: Path, content: bytes
) -> None:
    lake = Lake(tmp_path, 8)
    lake.commit(*range(1, 21))
    lake.archive(2, 3)
    history = lake.timeline / "history"
    times_in_history = [instant.time for instant in lakebed.open(tmp_path).history(archived=True)]
    newest = max(int(path.name.partition("_")[2]) for path in history.glob("manifest_*"))
    (history / f"manifest_{newest + 1}").write_text('{"files": [{"fileName": "1_2_0.parquet", "fileLen": 5}]}')
    (history / f"manifest_{newest + 2}").write_text('{"files": [')
    (history / "_version_").write_bytes(content)
    table = lakebed.open(tmp_path)
    assert [instant.time for instant in table.history(archived=True)] == times_in_history
    assert table.inspect().figures["archive"]["files"] == 1
    lake.commit(*range(21, 31))
    lake.archive(2, 3)
    assert [i.time for i in lakebed.open(tmp_path).history(archived=True)] == [at(n) for n in range(1, 31)]


def test_a_savepoint_whose_files_are_gone_is_broken_and_one_past_archival_needs_attention(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 10))
    lake.savepoint(2, 5)
    lake.archive(2, 3, hoodie__archive__beyond__savepoint=True)
    schema = {
        **SAVEPOINT,
        "fields": [
            {
                "name": "partitionMetadata",
                "type": {
                    "type": "map",
                    "values": {
                        "type": "record",
                        "name": "HoodieSavepointPartitionMetadata",
                        "fields": [
                            {"name": "partitionPath", "type": "string"},
                            {"name": "savepointDataFile", "type": {"type": "array", "items": "string"}},
                        ],
                    },
                },
            }
        ],
    }
    kept = {"": {"partitionPath": "", "savepointDataFile": ["gone-0_0-0-0_1.parquet"]}}
    lake.put(lake.done_name(2, "savepoint"), container(schema, {"partitionMetadata": kept}))
    report = lakebed.open(tmp_path).inspect()
    gone = found(report, f"savepoint {at(2)} cannot be restored")
    assert gone.health is Health.BROKEN and "gone-0_0-0-0_1.parquet" in gone.why
    assert "4 commits after it are archived" in found(report, f"savepoint {at(5)} cannot be restored").why


def test_many_logs_many_small_groups_markers_and_a_lock(tmp_path: Path) -> None:
    lake = Lake(tmp_path, merge_on_read=True)
    lake.commit(*range(1, 14), action="deltacommit")
    (tmp_path / ".hoodie_partition_metadata").touch()
    for number in range(1, 13):
        (tmp_path / f".f1-0_{at(1)}.log.{number}_0-0-0").write_bytes(b"x")
        (tmp_path / f"g{number}-0_0-0-0_{at(2)}.parquet").write_bytes(b"x")
    (tmp_path / f".hoodie/.temp/{at(3)}/p").mkdir(parents=True)
    (tmp_path / ".hoodie/lock").touch()
    report = lakebed.open(tmp_path).inspect()
    files = report.figures["files"]
    assert (files["file groups"], files["log files"], files["most log files of a file group"]) == (13, 12, 12)
    assert (files["file groups without a base file"], files["small file groups"]) == (1, 13)
    assert "f1-0" in found(report, "1 file group has 10 or more log files").why
    assert "the table's root" in found(report, "1 partition has 10 or more file groups below 32 MB").why
    assert at(3) in found(report, "1 marker folder is left").why
    assert found(report, "the lock file .hoodie/lock is there").health is Health.GOOD
    lake.archive(2, 3, **NO_COMPACTION)
    assert not any("marker" in finding.what for finding in lakebed.open(tmp_path).inspect().findings)
