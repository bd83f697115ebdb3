"""Reading the archive: each file at most once while the table is open, and only those that hold what is asked for."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import lakebed
from lakebed.formats.hudi.timeline import archived
from lakebed.kernel.files import open_store
from lakebed.testing.faults import FaultyStore
from tests.tables.hudi.timelines import FREE, Lake, at, commit_metadata, done_at, times

FILES = 40
PER_FILE = 2


def make(folder: Path, version: int, size: int = 0) -> None:
    """A table with so many archive files of two commits each, the odd ones last archived among them."""
    lake = Lake(folder, version)
    unmerged = {"hoodie.timeline.compaction.batch.size": 1000}
    for number in range(FILES):
        lake.commit(*range(number * PER_FILE + 1, number * PER_FILE + 3), data=commit_metadata(size=size))
        if number == 0:
            lake.commit(1000, 1001)
        lake.archive(2, 3, **unmerged)


def opens(store: FaultyStore) -> Counter[str]:
    """How often each archive file was read since the last call."""
    counted = Counter(
        call.path
        for call in store.calls
        if call.verb in ("read", "open_input") and (".commits_.archive." in call.path or call.path.endswith(".parquet"))
    )
    store.calls.clear()
    return counted


@pytest.fixture(params=[6, 8])
def counted(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FaultyStore, Callable[[int, int], list[str]]]:
    make(tmp_path, request.param)
    store = FaultyStore(open_store(tmp_path))
    table = lakebed.open(store)

    def commits(after: int, until: int) -> list[str]:
        found = table.state().archived.commits(done_at(after), done_at(until))  # type: ignore[attr-defined]
        return [commit.time for commit in found]

    return store, commits


@pytest.mark.slow
def test_no_archive_file_is_read_twice_and_files_out_of_range_not_again(
    counted: tuple[FaultyStore, Callable[[int, int], list[str]]],
) -> None:
    store, commits = counted
    opens(store)
    assert commits(59, 60) == [at(60)]
    first = opens(store)
    # A log file's frame does not tell its range, nor does the name of a Parquet file that an upgrade wrote: each is
    # looked at once. The payload of Parquet files is another read, of the one file that holds the instant.
    assert len(first) == FILES and sum(first.values()) <= FILES + 1
    assert commits(59, 60) == [at(60)]
    assert commits(9, 10) == [at(10)]
    assert sum(opens(store).values()) <= 2
    assert commits(300, 400) == []
    assert not opens(store)


@pytest.mark.slow
def test_a_file_that_was_forgotten_is_read_again_only_for_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, 6)
    monkeypatch.setattr(archived, "_REMEMBERED_BYTES", 100_000)  # one file of about sixty thousand bytes
    store = FaultyStore(open_store(tmp_path))
    table = lakebed.open(store)
    history = [instant.time for instant in table.history(archived=True) if instant.archived]
    assert history == times(range(1, FILES * PER_FILE + 1))
    assert set(opens(store).values()) == {1}
    assert table.history(archived=True) and not opens(store)
    for number in (60, 10):
        found = table.state().archived.commits(at(number - 1), at(number))  # type: ignore[attr-defined]
        assert [commit.time for commit in found] == [at(number)]
        assert [*opens(store).values()] == [1]


@pytest.mark.slow
def test_what_an_archival_adds_is_all_that_is_read_then(tmp_path: Path) -> None:
    make(tmp_path, 6)
    store = FaultyStore(open_store(tmp_path))
    table = lakebed.open(store)
    table.history(archived=True)
    opens(store)
    lake = Lake(tmp_path)
    lake.commit(1002, 1003)
    lake.archive(2, 3)
    assert at(1001) in [instant.time for instant in table.history(archived=True) if instant.archived]
    assert [*opens(store).values()] == [1]


def test_the_detail_of_an_archived_instant_comes_from_the_archive(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 8), data=commit_metadata(size=1400))
    lake.archive(2, 3)
    table = lakebed.open(tmp_path)
    (commit,) = table.state().archived.commits(at(2), at(3))  # type: ignore[attr-defined]
    assert (commit.time, commit.action, len(commit.commit.stats)) == (at(3), "commit", 2)
    assert table.archive(options={**FREE}).archived == ()
