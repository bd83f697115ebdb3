"""What may be archived and what holds the rest: each guard in both layouts, with the blocker that the result names."""

from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import OptionError
from lakebed.hudi import timelines
from tests.tables.hudi.timelines import FREE, NO_COMPACTION, Lake, at, reasons, times

BOTH = pytest.mark.parametrize("version", [6, 8])


@pytest.fixture
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(tmp_path, request.node.callspec.params.get("version", 6))


@BOTH
def test_archival_begins_above_the_maximum_and_leaves_the_minimum(lake: Lake, version: int) -> None:
    lake.commit(1, 2, 3)
    result = lake.archive(2, 3)
    assert (result.archived, result.kept) == ((), tuple(times([1, 2, 3])))
    assert "not more than hoodie.keep.max.commits=3" in reasons(result, 1)
    lake.commit(4)
    result = lake.archive(2, 3)
    assert (result.archived, result.kept) == (tuple(times([1, 2])), tuple(times([3, 4])))
    assert result.blockers == ()


@BOTH
def test_a_dry_run_changes_nothing_and_says_the_same(lake: Lake, version: int) -> None:
    lake.commit(1, 2, 3, 5, 6, 7)
    lake.pending(4)
    before = sorted(path for path in lake.folder.rglob("*"))
    planned = lake.archive(dry_run=True)
    assert sorted(path for path in lake.folder.rglob("*")) == before
    done = lake.archive()
    assert (planned.archived, planned.kept, planned.blockers) == (done.archived, done.kept, done.blockers)
    assert planned.dry_run and not done.dry_run


@BOTH
def test_a_pending_write_holds_and_is_named(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 4), *range(5, 162))
    lake.pending(4)
    result = lake.archive(100, 150)
    assert result.archived == tuple(times([1, 2]))
    assert reasons(result, 3).startswith(f"commit {at(4)} is inflight: every commit from {at(3)} on stays")
    assert f"roll {at(4)} back" in reasons(result, 4)
    assert {blocker.instant for blocker in result.blockers} == {*times(range(3, 62))}
    for name in (f"{at(4)}.commit.requested", f"{at(4)}.inflight"):
        (lake.timeline / name).unlink()
    lake.archive(100, 150)
    assert lake.active() == times(range(62, 162))


@BOTH
def test_one_commit_before_the_oldest_pending_write_stays(lake: Lake, version: int) -> None:
    lake.commit(1, *range(3, 11))
    lake.pending(2)
    assert lake.archive(2, 4).archived == ()
    assert lake.active()[0] == at(1)


@BOTH
def test_a_pending_compaction_holds_until_it_is_done(tmp_path: Path, version: int) -> None:
    lake = Lake(tmp_path, version, merge_on_read=True)
    lake.commit(1, 2, 3, action="deltacommit")
    lake.pending(4, "compaction", "requested")
    lake.commit(*range(5, 35), action="deltacommit")
    result = lake.archive(5, 10, **NO_COMPACTION)
    assert result.archived == tuple(times([1, 2]))
    assert f"compaction {at(4)} is requested" in reasons(result, 10)
    assert "lakebed.rewrite.what=compaction" in reasons(result, 10)
    assert f"compaction {at(4)} is requested and was never completed" in reasons(result, 4)
    lake.commit(4, action="compaction")
    assert lake.archive(5, 10, **NO_COMPACTION).archived == tuple(times(range(3, 30)))


@BOTH
@pytest.mark.parametrize(
    ("deltas", "wanted", "gone"),
    [(3, 5, range(1, 6)), (5, 5, range(1, 7)), (9, 5, range(1, 11)), (9, 20, range(1, 6))],
)
def test_delta_commits_are_kept_for_the_next_compaction(
    tmp_path: Path, version: int, deltas: int, wanted: int, gone: range
) -> None:
    lake = Lake(tmp_path, version, merge_on_read=True)
    lake.commit(*range(1, 6), action="deltacommit")
    lake.commit(6, action="compaction")
    lake.commit(*range(7, 7 + deltas), action="deltacommit")
    result = lake.archive(1, 2, **{"hoodie.compact.inline.max.delta.commits": wanted})
    assert result.archived == tuple(times(gone))
    if result.archived != tuple(times(range(1, 6 + deltas))):
        assert f"{deltas} since the compaction {at(6)}" in reasons(result, max(gone) + 1)
    other = {**NO_COMPACTION, "hoodie.compact.inline.max.delta.commits": wanted}
    assert lake.archive(1, 2, dry_run=True, **other).archived == tuple(times(range(max(gone) + 1, 6 + deltas)))


def test_delta_commits_stay_from_the_first_on_when_nothing_was_compacted(tmp_path: Path) -> None:
    lake = Lake(tmp_path, merge_on_read=True)
    lake.commit(1, 2, 3, action="deltacommit")
    result = lake.archive(1, 2)
    assert result.archived == ()
    assert "3 and no compaction yet" in reasons(result, 1)


@BOTH
def test_a_savepoint_holds_all_from_there_on(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 61))
    lake.savepoint(10, 30)
    result = lake.archive(5, 10)
    assert result.archived == tuple(times(range(1, 10)))
    assert f"the savepoint of {at(10)} holds every commit" in reasons(result, 55)
    assert "hoodie.archive.beyond.savepoint=true" in reasons(result, 55)


@BOTH
def test_beyond_savepoints_only_the_savepointed_commits_stay(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 61))
    lake.savepoint(10, 30)
    everything = lake.history()
    result = lake.archive(5, 10, hoodie__archive__beyond__savepoint=True)
    assert lake.active("commit") == times([10, 30, 58, 59, 60])  # savepointed commits count among those that stay
    assert lake.active("savepoint") == times([10, 30])
    assert "a savepoint keeps this instant" in reasons(result, 10)
    assert lake.history() == everything
    (report,) = timelines(lake.folder)
    assert [(s.instant, s.missing, s.archived_after, s.restorable) for s in report.savepoints] == [
        (at(10), (), 46, False),
        (at(30), (), 27, False),
    ]


@BOTH
def test_a_replace_commit_stays_until_its_replaced_files_are_cleaned(lake: Lake, version: int) -> None:
    lake.commit(1)
    lake.commit(2, action="replacecommit")
    lake.commit(*range(3, 9))
    result = lake.archive(2, 3)
    assert result.archived == tuple(times([1]))
    assert f"replace commit {at(2)} hides files that no clean has removed" in reasons(result, 2)
    assert "Run a clean" in reasons(result, 2)
    lake.clean(9, retained=2)
    assert f"which retained all from {at(2)} on" in reasons(lake.archive(2, 3), 2)
    lake.clean(10, retained=5)
    assert lake.archive(2, 3).archived == tuple(times(range(2, 7)))


def test_a_clean_not_by_commits_frees_the_replace_commits_before_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(1)
    lake.commit(2, action="replacecommit")
    lake.clean(3)
    lake.commit(4, action="replacecommit")
    lake.commit(5, 6, 7)
    assert lake.archive(2, 3).archived == tuple(times([1, 2]))


@BOTH
def test_clean_and_rollback_instants(lake: Lake, version: int) -> None:
    """Layout 1 counts each kind by itself; layout 2 takes those requested before the newest commit that goes."""
    lake.commit(*range(10, 130, 10))
    lake.clean(*range(11, 71, 10))
    lake.rollback(15, 75)
    result = lake.archive(6, 7)
    assert [t for t in result.archived if t in times(range(10, 130, 10))] == times(range(10, 70, 10))
    if version == 6:
        assert lake.active("clean", "rollback") == [*times([11]), *times([15]), *times(range(21, 71, 10)), *times([75])]
        assert "6 completed clean instants are not more than" not in reasons(result, 11)
        lake.clean(125, 126)
        assert lake.archive(6, 7).archived == tuple(times([11, 21]))
    else:
        assert lake.active("clean", "rollback") == times([61, 75])


def test_the_metadata_table_of_layout_1_holds_all_instants_from_its_compaction_on(tmp_path: Path) -> None:
    lake = Lake(tmp_path, properties={"hoodie.table.metadata.partitions": "files"})
    lake.commit(*range(1, 10))
    metadata = Lake(tmp_path / ".hoodie/metadata", merge_on_read=True)
    metadata.commit(*range(1, 10), action="deltacommit")
    result = lake.archive(2, 3)
    assert result.archived == ()
    assert "the metadata table was never compacted" in reasons(result, 1)
    assert lake.archive(2, 3, dry_run=True, hoodie__metadata__enable=False).archived == tuple(times(range(1, 8)))
    metadata.commit(5, action="compaction")
    result = lake.archive(2, 3)
    assert result.archived == tuple(times(range(1, 5)))
    assert f"the metadata table was last compacted at {at(5)}" in reasons(result, 5)


def test_the_metadata_table_of_layout_2_holds_commits_completed_after_its_compaction(tmp_path: Path) -> None:
    lake = Lake(tmp_path, 8, properties={"hoodie.table.metadata.partitions": "files"})
    lake.commit(*range(1, 10))
    metadata = Lake(tmp_path / ".hoodie/metadata", 8, merge_on_read=True)
    metadata.commit(5, action="compaction")
    result = lake.archive(2, 3)
    assert result.archived == tuple(times(range(1, 5)))
    assert f"commit {at(5)} completed after the metadata table's compaction {at(5)}" in reasons(result, 5)


@BOTH
def test_a_metadata_table_waits_for_the_data_tables_writes_alone(tmp_path: Path, version: int) -> None:
    """An old rollback of the data table holds nothing up; its earliest commit and its earliest pending action do."""
    data = Lake(tmp_path, version)
    data.rollback(1)
    data.commit(*range(50, 61))
    metadata = Lake(tmp_path / ".hoodie/metadata", version, merge_on_read=True)
    metadata.commit(*range(2, 61), action="deltacommit")
    result = metadata.archive(2, 3, **NO_COMPACTION)
    assert result.archived == tuple(times(range(2, 50)))
    assert f"the data table's earliest commit {at(50)} needs" in reasons(result, 50)
    data.pending(49, "clean")
    data.commit(48)
    assert f"earliest commit {at(48)}" in reasons(metadata.archive(2, 3, **NO_COMPACTION), 50)
    (data.timeline / data.done_name(48, "commit")).unlink()
    assert f"pending instant {at(48)}" in reasons(metadata.archive(2, 3, **NO_COMPACTION), 50)


def test_both_timelines_are_reported(tmp_path: Path) -> None:
    data = Lake(tmp_path, properties={"hoodie.table.metadata.partitions": "files"})
    data.commit(*range(1, 51))
    metadata = Lake(tmp_path / ".hoodie/metadata", merge_on_read=True)
    metadata.commit(*range(1, 401), action="deltacommit")
    one, other = timelines(tmp_path, {"hoodie.keep.min.commits": 20, "hoodie.keep.max.commits": 30})
    assert (one.name, one.size, one.oldest, one.due) == ("data", 50, at(1), 0)
    assert {b.reason for b in one.blockers} == {"the metadata table was never compacted"}
    assert (other.name, other.size, other.oldest, other.due) == ("metadata", 400, at(1), 0)
    assert f"the data table's earliest commit {at(1)}" in other.blockers[0].reason


@BOTH
def test_what_the_cleaner_retains_raises_both_bounds(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 41))
    result = lake.archive(5, 6, hoodie__cleaner__policy="KEEP_LATEST_COMMITS", hoodie__clean__commits__retained=20)
    assert lake.active() == times(range(20, 41))
    assert result.settings["hoodie.keep.min.commits"].startswith("21: raised from 5, since the cleaner retains")
    assert result.settings["hoodie.keep.max.commits"].startswith("22: raised from 6")
    assert at(21) in result.settings["hoodie.keep.min.commits"]
    result = lake.archive(5, 6, hoodie__cleaner__policy="KEEP_LATEST_COMMITS", hoodie__clean__commits__retained=4)
    assert result.settings["hoodie.keep.min.commits"] == "5: as given"


@pytest.mark.parametrize(
    "given",
    [
        {"hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 3},
        {"hoodie.keep.min.commits": -1, "hoodie.keep.max.commits": 3},
        {"hoodie.keep.min.commits": "few"},
        {"hoodie.keep.max.comits": 3},
        {"hoodie.archive.beyond.savepoint": "perhaps"},
        {"hoodie.keep.max.commits": 20},
    ],
)
def test_impossible_settings_are_refused_and_nothing_is_touched(tmp_path: Path, given: dict[str, Any]) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    before = lake.names()
    with pytest.raises(OptionError, match=r"hoodie\.(keep|archive)"):
        lakebed.open(tmp_path).archive(options=given)
    assert lake.names() == before


def test_the_tables_own_properties_count_and_the_callers_options_go_before_them(tmp_path: Path) -> None:
    lake = Lake(tmp_path, properties={"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"})
    lake.commit(*range(1, 7))
    table = lakebed.open(tmp_path)
    result = table.archive(dry_run=True, options=FREE)
    assert result.archived == tuple(times([1, 2, 3]))
    assert result.settings["hoodie.keep.min.commits"] == "3: the table's property"
    assert table.archive(dry_run=True, options={**FREE, "hoodie.keep.min.commits": 2}).archived == tuple(
        times(range(1, 5))
    )
    lake.set_properties({"hoodie.keep.min.commits": "9", "hoodie.keep.max.commits": "4"})
    with pytest.raises(OptionError, match="begins above the maximum"):
        table.archive(dry_run=True, options=FREE)


@BOTH
def test_a_run_that_would_move_too_few_can_be_left_out(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 6))
    result = lake.archive(2, 3, **{"lakebed.archive.min-instants": 4})
    assert result.archived == ()
    assert "3 instants could go, fewer than lakebed.archive.min-instants=4" in reasons(result, 2)
    lake.commit(6)
    assert len(lake.archive(2, 3, **{"lakebed.archive.min-instants": 4}).archived) == 4


@BOTH
def test_a_run_can_be_limited(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 10))
    result = lake.archive(2, 3, hoodie__archive__limit__instants=3)
    assert result.archived == tuple(times([1, 2, 3]))
    assert "at most 3 instants" in reasons(result, 4)
    lake.archive(2, 3, hoodie__archive__limit__instants=3)
    assert lake.archived() == times(range(1, 7))


@BOTH
def test_a_table_that_never_archived_has_an_empty_archive(lake: Lake, version: int) -> None:
    lake.commit(1, 2, 3)
    assert lake.archived() == []


def test_archive_files_in_an_older_folder_are_reported(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 8))
    lake.archive(2, 3)
    lake.set_properties({"hoodie.archivelog.folder": "history"})
    lake.commit(8, 9)
    lake.archive(2, 3)
    assert lake.archived() == times(range(1, 8))
    (report,) = timelines(tmp_path)
    assert (report.legacy, report.legacy_needed) == ((".hoodie/archived/.commits_.archive.1_1-0-1",), True)
