"""What archival writes and deletes: broken files, leftovers, many and large files, locks, retention."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import CorruptError, UsageError
from lakebed.formats.hudi.archive.compact_lsm import candidates, clean_up, compact
from lakebed.formats.hudi.archive.write_lsm import publish
from lakebed.formats.hudi.archive.write_v1 import archive_files
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.log import parse_log
from lakebed.formats.hudi.codec.lsm import LsmFile, lsm_batch, lsm_name, lsm_writer, read_instants
from lakebed.formats.hudi.timeline.archive_manifest import load_history
from lakebed.hudi import post_commit
from lakebed.kernel.files import open_store
from lakebed.kernel.scratch import Scratch
from lakebed.testing.faults import FaultyStore
from tests.tables.hudi.timelines import FREE, Lake, at, commit_metadata, reasons, times

BOTH = pytest.mark.parametrize("version", [6, 8])


@pytest.fixture
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(tmp_path, request.node.callspec.params.get("version", 6) if hasattr(request.node, "callspec") else 6)


# ---- files that cannot be read ---------------------------------------------------------------------------------------


@BOTH
def test_leftover_service_instants_are_skipped_and_named(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 11), *range(12, 40))
    lake.pending(11, "rollback")
    lake.put(f"{at(5)}.clean.requested")
    lake.put(f"{at(5)}.clean.inflight")
    result = lake.archive(5, 10)
    assert result.archived == tuple(times([*range(1, 11), *range(12, 35)]))
    assert "clean" in reasons(result, 5) and "never completed" in reasons(result, 5)
    assert "rollback" in reasons(result, 11) and "never completed" in reasons(result, 11)


@BOTH
@pytest.mark.parametrize("content", [b"", b"{ torn", b"Obj\x01 torn"], ids=["empty", "torn JSON", "torn Avro"])
def test_strict_mode_stops_at_a_file_that_cannot_be_read_and_deletes_nothing(
    lake: Lake, version: int, content: bytes
) -> None:
    lake.commit(1, 2, 3, *range(5, 31))
    lake.commit(4, data=content)
    before = lake.names()
    with pytest.raises(CorruptError) as caught:
        lake.archive(5, 10)
    assert caught.value.instant == at(4)
    assert caught.value.file.endswith(lake.done_name(4, "commit"))
    assert "Nothing was" in caught.value.todo
    assert lake.names() == before


@BOTH
def test_lenient_mode_leaves_an_empty_commit_and_goes_on(lake: Lake, version: int) -> None:
    lake.commit(1, 2, 3, *range(5, 31))
    lake.commit(4, data=b"")
    result = lake.archive(5, 10, hoodie__fail__on__timeline__archiving=False)
    assert result.archived == tuple(times([1, 2, 3, *range(5, 27)]))
    assert lake.active() == times([4, *range(27, 31)])
    assert "its completed file is empty" in reasons(result, 4)
    state = lakebed.open(lake.folder).state()  # type: ignore[attr-defined]
    view = state.view()
    assert view.order(at(20)) is not None, "an archived commit behind the empty one still counts"
    assert view.order(at(4)) is None


@BOTH
def test_lenient_mode_goes_no_further_than_a_commit_that_cannot_be_read(lake: Lake, version: int) -> None:
    """Readers would take archived commits behind it for uncommitted ones."""
    lake.commit(1, 2, 3, *range(5, 31))
    lake.commit(4, data=b"{ torn")
    result = lake.archive(5, 10, hoodie__fail__on__timeline__archiving=False)
    assert result.archived == tuple(times([1, 2, 3]))
    assert "cannot be archived" in reasons(result, 4)
    assert f"commit {at(4)} before it cannot be read" in reasons(result, 5)
    assert lake.active() == times(range(4, 31))


def test_lenient_mode_leaves_a_clean_that_cannot_be_read_and_goes_on(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    lake.clean(*range(11, 19))
    lake.put(lake.done_name(12, "clean"), b"no container")
    result = lake.archive(2, 3, hoodie__fail__on__timeline__archiving=False)
    assert lake.active("clean") == times([12, 17, 18])
    assert "cannot be archived" in reasons(result, 12)


# ---- markers, plans, heartbeats --------------------------------------------------------------------------------------


@BOTH
def test_markers_of_completed_and_archived_instants_go_those_of_a_pending_one_stay(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 9))
    lake.pending(9)
    for number in (1, 8, 9, 99):
        nested = lake.folder / f".hoodie/.temp/{at(number)}/dt=1/x"
        nested.mkdir(parents=True)
        (nested / "f.parquet.marker.CREATE").touch()
    auxiliary = lake.folder / ".hoodie/.aux"
    auxiliary.mkdir()
    for number in (1, 8):
        (auxiliary / f"{at(number)}.compaction.requested").touch()
    lake.archive(2, 3)
    markers = {path.name for path in (lake.folder / ".hoodie/.temp").iterdir() if any(path.rglob("*.CREATE"))}
    assert markers == {at(9), at(99)}  # nobody knows of the last one: its writer may be about to begin
    assert [path.name for path in auxiliary.iterdir()] == [f"{at(8)}.compaction.requested"]


@BOTH
def test_after_a_commit_markers_go_the_timeline_is_archived_and_the_heartbeat_stops(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 9))
    marker = lake.folder / f".hoodie/.temp/{at(8)}/a.marker"
    heartbeat = lake.folder / f".hoodie/.heartbeat/{at(8)}"
    for path in (marker, heartbeat):
        path.parent.mkdir(parents=True)
        path.touch()
    options = {**FREE, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    off = post_commit(lake.folder, at(8), {**options, "hoodie.archive.automatic": False})
    assert (off.archived, marker.exists(), heartbeat.exists()) == ((), False, False)
    result = post_commit(lakebed.open(lake.folder), lakebed.open(lake.folder).history()[-1], options)
    assert result.archived == tuple(times(range(1, 7)))


def test_the_heartbeat_stops_even_when_the_archival_fails(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(1, *range(3, 9))
    lake.commit(2, data=b"")
    heartbeat = tmp_path / f".hoodie/.heartbeat/{at(8)}"
    heartbeat.parent.mkdir()
    heartbeat.touch()
    result = post_commit(tmp_path, at(8), {**FREE, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3})
    assert result.archived == () and any("the timeline was not archived" in note for note in result.notes)
    assert not heartbeat.exists()


def test_a_pending_instant_is_not_ended_by_post_commit(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(1)
    lake.pending(2)
    heartbeat = tmp_path / f".hoodie/.heartbeat/{at(2)}"
    heartbeat.parent.mkdir()
    heartbeat.touch()
    with pytest.raises(UsageError, match="is inflight"):
        post_commit(tmp_path, at(2))
    assert heartbeat.exists()


# ---- many files, large files -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_small_archive_files_are_merged(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    number = 0
    store = open_store(tmp_path)
    for _ in range(50):
        lake.commit(*range(number + 1, number + 3))
        number += 2
        lake.archive(1, 2, hoodie__archive__merge__enable=True)
        assert len(archive_files(store, ".hoodie/archived")) <= 10
    files = archive_files(store, ".hoodie/archived")
    entries = parse_archive([store.read(info.path) for info in files], Scratch()).entries
    assert sorted({entry.instant for entry in entries}) == times(range(1, number))
    assert len(entries) == 3 * (number - 1)
    assert not (tmp_path / ".hoodie/archived/mergeArchivePlan").exists()


@pytest.mark.slow
def test_a_large_archive_file_ends_the_run_of_small_ones(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    small = {
        "hoodie.archive.merge.enable": True,
        "hoodie.archive.merge.files.batch.size": 2,
        "hoodie.archive.merge.small.file.limit.bytes": 60_000,
    }
    for number in range(1, 30):
        lake.commit(number)
        lake.archive(1, 2, **small)
    sizes = [info.size for info in archive_files(open_store(tmp_path), ".hoodie/archived")]
    assert len(sizes) < 14 and all(size > 60_000 for size in sizes[:-1])
    assert lake.archived() == times(range(1, 29))


MEASURED = """
import resource, sys
import lakebed
from lakebed.formats.hudi.archive import encode, write_lsm, write_v1
def kilobytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
options = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.commits.archival.batch": 10,
           "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}
table = lakebed.open(sys.argv[1])
table.archive(dry_run=True, options=options)
before = kilobytes()
result = table.archive(options=options)
print(len(result.archived), kilobytes() - before)
"""


@pytest.mark.slow
@BOTH
def test_memory_is_bounded_by_bytes_whatever_the_count(lake: Lake, version: int) -> None:
    """Commits of 20 MB of metadata each, ten per block, are archived within 100 MB of memory."""
    large = commit_metadata(size=20 << 20)
    assert len(large) > 20 << 20
    count = 10
    lake.commit(*range(1, count + 1), data=large)
    lake.commit(count + 1, count + 2)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(lake.folder)], capture_output=True, text=True, check=True
    )
    archived, grown = (int(word) for word in done.stdout.split())
    assert archived == count
    assert grown < 100 << 10
    if version == 6:
        files = archive_files(open_store(lake.folder), ".hoodie/archived")
        assert sum(len(parse_log((lake.folder / info.path).read_bytes()).blocks) for info in files) > 1


@pytest.mark.slow
def test_a_run_reads_no_more_of_the_archive_however_old_the_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    costs = []
    for number in range(1, 60):
        lake.commit(number)
        if number > 2:
            store = FaultyStore(open_store(tmp_path))
            options = {**FREE, "hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2}
            lakebed.open(store).archive(options=options, engine=lakebed.LocalEngine(1))
            costs.append(len(store.calls))
    assert len(set(costs[4::2])) == 1 and len(archive_files(open_store(tmp_path), ".hoodie/archived")) > 20


def test_a_file_above_the_limit_does_not_stop_the_merging_of_levels(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    files = []
    for number in range(1, 12):
        rows = [(at(number), at(number), "commit", b"x" * (6000 if number == 1 else 10), None)]
        name = lsm_name(at(number), at(number), 0)
        with store.open_output(f"h/{name}") as sink, lsm_writer(sink) as writer:
            writer.write_batch(lsm_batch(rows))
        files.append(LsmFile(name, store.size(f"h/{name}") + (60_000 if number == 1 else 0), at(number), at(number), 0))
    history = publish(store, "h", load_history(store, "h"), files, lambda: None)
    assert len(candidates(files, 0, 10, limit=60_000)) == 10
    history, levels = compact(store, "h", history, 10, lambda: None, limit=60_000)
    assert levels == 1
    assert [(file.first, file.last, file.level) for file in history.files] == [
        (at(1), at(1), 0),
        (at(2), at(11), 1),
    ]
    merged = read_instants(store.read(f"h/{history.files[1].name}"))
    assert merged["instantTime"].to_pylist() == times(range(2, 12))
    assert load_history(store, "h") == history


def test_manifests_and_unlisted_files_are_cleaned_up(tmp_path: Path) -> None:
    lake = Lake(tmp_path, 8)
    for number in range(1, 31):
        lake.commit(number)
        lake.archive(1, 2, hoodie__timeline__compaction__batch__size=3)
    folder = tmp_path / ".hoodie/timeline/history"
    stray = folder / f"{at(1)}_{at(2)}_0.parquet"
    stray.write_bytes(b"left by a crash")
    others = folder / f"{at(1)}_{at(3)}_0.parquet"
    others.write_bytes(b"somebody is about to publish it")
    os.utime(stray, (0, 0))
    lake.commit(31, 32)
    lake.archive(1, 2, hoodie__timeline__compaction__batch__size=3)
    assert not stray.exists() and others.exists()
    manifests = [path for path in folder.iterdir() if path.name.startswith("manifest_")]
    assert 3 <= len(manifests) <= 6
    assert lake.archived() == times(range(1, 32))
    assert clean_up(open_store(tmp_path), ".hoodie/timeline/history", 3, lambda: None) == []


def test_a_migrated_archive_whose_names_are_no_ranges_is_merged_whole(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    files = []
    for low in (1, 11):
        order = [low + 3, low, low + 4, low + 1]
        name = lsm_name(at(order[0]), at(order[-1]), 0)
        with store.open_output(f"h/{name}") as sink, lsm_writer(sink) as writer:
            writer.write_batch(lsm_batch([(at(n), at(n), "commit", b"x", None) for n in order]))
        files.append(LsmFile(name, store.size(f"h/{name}"), at(order[0]), at(order[-1]), 0))
    history = publish(store, "h", load_history(store, "h"), files, lambda: None)
    history, _ = compact(store, "h", history, 2, lambda: None)
    (merged,) = history.files
    assert (merged.first, merged.last, merged.level) == (at(1), at(15), 1)
