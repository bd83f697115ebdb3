"""The sentences of docs/archive.md on clean, savepoint and archive, each held to what happens."""

from pathlib import Path

import lakebed
from lakebed.formats.hudi.codec.archive_v1 import ArchivedEntry, parse_archive
from lakebed.formats.hudi.codec.lsm import read_payloads
from lakebed.hudi import post_commit, timelines
from lakebed.kernel.scratch import Scratch
from tests.tables.hudi.timelines import FREE, NO_COMPACTION, Lake, at, commit_metadata, reasons, times

DOCUMENT = Path(__file__).parents[4] / "docs/archive.md"
RETAINING = {"hoodie.cleaner.policy": "KEEP_LATEST_COMMITS"}


def says(sentence: str) -> None:
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    assert sentence in text, f"docs/archive.md no longer says: {sentence}"


def test_1_the_cleaner_does_not_need_archival(tmp_path: Path) -> None:
    """A clean may retain commits long after the timeline's start; nothing was archived for it."""
    says("it removes old file versions whether or not their commits are still active")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    lake.clean(9, retained=7)
    assert (lake.active("commit"), lake.archived()) == (times(range(1, 9)), [])


def test_2_archival_follows_the_cleaner(tmp_path: Path) -> None:
    says("it leaves the commits that the cleaner retains, and one before them")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 31))
    lake.archive(2, 3, **RETAINING, hoodie__clean__commits__retained=10)
    assert lake.active() == times([20, *range(21, 31)])


def test_3_a_replace_commit_waits_for_the_clean(tmp_path: Path) -> None:
    says("is archived only after a clean has removed the files that it replaced")
    lake = Lake(tmp_path)
    lake.commit(1, action="replacecommit")
    lake.commit(*range(2, 9))
    assert lake.archive().archived == ()
    lake.clean(9, retained=7)
    assert at(1) in lake.archive().archived


def test_4_a_savepoint_keeps_its_commit_and_everything_after_it(tmp_path: Path) -> None:
    says("A savepoint keeps its commit and everything after it in the active timeline.")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 20))
    lake.savepoint(5)
    lake.archive()
    assert lake.active("commit") == times(range(5, 20))


def test_5_after_the_savepoint_is_deleted_archival_goes_on_at_once(tmp_path: Path) -> None:
    says("Nobody has to archive a savepoint before it can be cleaned")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 20))
    lake.savepoint(5)
    assert at(5) not in lake.archive().archived
    for path in lake.timeline.glob("*.savepoint*"):
        path.unlink()
    assert lake.archive().archived == tuple(times(range(5, 18)))


def test_6_beyond_a_savepoint_restore_is_given_up(tmp_path: Path) -> None:
    says("Hudi's restore to that savepoint is then no longer possible")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 20))
    lake.savepoint(5)
    lake.archive(hoodie__archive__beyond__savepoint=True)
    assert lake.active("commit") == times([5, 19])
    assert not timelines(tmp_path)[0].savepoints[0].restorable


def test_7_clean_instants_by_themselves_or_with_the_commits(tmp_path: Path) -> None:
    says("they are counted by themselves. From version 8 on they go with the commits around them.")
    for version, gone in ((6, [12, 14, 16, 18]), (8, [])):
        lake = Lake(tmp_path / str(version), version)
        lake.commit(*range(1, 31, 2))
        lake.clean(*range(12, 24, 2))
        lake.savepoint(1)
        assert lake.archive().archived == tuple(times(gone))


def test_a_savepointed_commit_counts_among_those_that_are_left(tmp_path: Path) -> None:
    says("Savepointed commits count among those that are left.")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 10))
    lake.savepoint(2)
    lake.archive(3, 4, hoodie__archive__beyond__savepoint=True)
    assert lake.active("commit") == times([2, 8, 9])


def test_all_three_states_are_archived_and_a_pending_instant_never_by_itself(tmp_path: Path) -> None:
    says("A pending instant is never archived by itself.")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    lake.pending(3, "clean", "requested")
    result = lake.archive()
    state = "clean 20260101000300000 is requested and was never completed"
    assert state in reasons(result, 3)
    entries = {(e.action, e.state) for e in _entries(tmp_path)}
    assert entries == {("commit", "REQUESTED"), ("commit", "INFLIGHT"), ("commit", "COMPLETED")}


def test_the_archive_holds_what_each_state_file_held(tmp_path: Path) -> None:
    says("each with what that file held, such as a clean's plan, a commit's counts so far, a compaction's plan")
    lake = Lake(tmp_path, merge_on_read=True)
    lake.commit(1, action="compaction")
    lake.commit(*range(2, 6))
    lake.put(f"{at(2)}.inflight", commit_metadata(size=700))
    lake.clean(*range(11, 15))
    lake.archive(2, 3, **NO_COMPACTION)
    held = {(e.instant, e.action, e.state): set(e.metadata()) for e in _entries(tmp_path)}
    assert held[at(11), "clean", "REQUESTED"] == held[at(11), "clean", "INFLIGHT"] == {"hoodieCleanerPlan"}
    assert held[at(11), "clean", "COMPLETED"] == {"hoodieCleanMetadata"}
    assert held[at(2), "commit", "INFLIGHT"] == held[at(2), "commit", "COMPLETED"] == {"hoodieCommitMetadata"}
    assert held[at(2), "commit", "REQUESTED"] == set()
    assert held[at(1), "compaction", "REQUESTED"] == {"hoodieCompactionPlan"}
    assert held[at(1), "commit", "COMPLETED"] == {"hoodieCommitMetadata"}


def test_from_version_8_on_one_row_holds_the_completed_file_and_the_plan(tmp_path: Path) -> None:
    says("one row per instant, with the completed file and the plan")
    lake = Lake(tmp_path, 8)
    lake.clean(1, retained=1)
    lake.commit(*range(2, 6))
    plan, done = (lake.timeline / name for name in (f"{at(1)}.clean.requested", lake.done_name(1, "clean")))
    wanted = {at(1): ("clean", done.read_bytes(), plan.read_bytes())}
    wanted |= {at(n): ("commit", (lake.timeline / lake.done_name(n, "commit")).read_bytes(), None) for n in (2, 3)}
    assert lake.archive(2, 3).archived == tuple(times([1, 2, 3]))
    (file,) = (tmp_path / ".hoodie/timeline/history").glob("*.parquet")
    table = read_payloads(file.read_bytes())
    found = zip(*(table[name].to_pylist() for name in ("instantTime", "action", "metadata", "plan")), strict=True)
    assert {time: tuple(rest) for time, *rest in found} == wanted


def test_archival_needs_no_commit_and_happens_after_one(tmp_path: Path) -> None:
    says("A call of `table.archive` or `lakebed archive`, at any time: archival needs no commit.")
    says("archives if that is due (unless `hoodie.archive.automatic=false`)")
    options = {**FREE, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    lake = Lake(tmp_path)
    lake.commit(*range(1, 6))
    assert post_commit(tmp_path, at(5), {**options, "hoodie.archive.automatic": False}).archived == ()
    assert post_commit(tmp_path, at(5), options).archived == tuple(times([1, 2, 3]))
    lake.commit(6, 7)
    assert lakebed.open(tmp_path).archive(options=options).archived == tuple(times([4, 5]))


def test_the_oldest_go_above_the_maximum_until_the_minimum_is_left(tmp_path: Path) -> None:
    says("commits are archived only when there are more than `hoodie.keep.max.commits`; then the oldest go until")
    lake = Lake(tmp_path)
    lake.commit(*range(1, 6))
    assert lake.archive(2, 5).archived == ()
    lake.commit(6)
    assert lake.archive(2, 5).archived == tuple(times([1, 2, 3, 4]))


def test_the_batch_is_no_threshold_and_min_instants_is_one(tmp_path: Path) -> None:
    says("`hoodie.commits.archival.batch` is the most *records* per block")
    lake = Lake(tmp_path)
    lake.commit(1, 2, 3, 4)
    held = lake.archive(2, 3, **{"lakebed.archive.min-instants": 10}, hoodie__commits__archival__batch=10)
    assert held.archived == ()
    assert lake.archive(2, 3, hoodie__commits__archival__batch=10).archived == tuple(times([1, 2]))


def _entries(folder: Path) -> tuple[ArchivedEntry, ...]:
    return parse_archive([path.read_bytes() for path in folder.glob(".hoodie/archived/.commits*")], Scratch()).entries
