"""The retention of the archive: the oldest archived instants are dropped, and reads of them say so."""

import json
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import NotInHistoryError
from lakebed.hudi import timelines
from tests.tables.hudi.timelines import Lake, commit_metadata, reasons, times

BOTH = pytest.mark.parametrize("version", [6, 8])


@pytest.fixture
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(tmp_path, request.node.callspec.params.get("version", 6))


@pytest.mark.slow
@BOTH
def test_the_oldest_archived_instants_can_be_dropped(lake: Lake, version: int) -> None:
    for number in range(10, 240, 10):
        lake.commit(*range(number, number + 10))
        lake.archive(2, 3)
    archived = lake.archived()
    assert len(archived) == 228
    keep = {"lakebed.archive.retain-instants": 100}
    planned = lake.archive(2, 3, dry_run=True, **keep)
    assert planned.dropped == tuple(archived[:128])
    assert planned.dropped_files
    assert lake.archived() == archived
    result = lake.archive(2, 3, **keep)
    assert result.dropped == planned.dropped and result.dropped_files == planned.dropped_files
    assert lake.archived() == archived[128:]
    state = lakebed.open(lake.folder).state()  # type: ignore[attr-defined]
    with pytest.raises(NotInHistoryError, match=r"out of the table's history.*dropped by the retention"):
        state.archived.commits(archived[100], "")
    table = lakebed.open(lake.folder)
    with pytest.raises(NotInHistoryError, match="out of the table's history"):
        table.changes(after=archived[100]).read_all()
    assert lake.archive(2, 3, **keep).dropped == ()


@BOTH
def test_archived_instants_can_be_dropped_by_age(lake: Lake, version: int) -> None:
    lake.commit(*range(1, 20))
    lake.archive(2, 3)
    assert lake.archive(2, 3, **{"lakebed.archive.retain-time": "36500 d"}).dropped == ()
    result = lake.archive(2, 3, **{"lakebed.archive.retain-time": "0 ms"})
    assert result.dropped == () or len(result.dropped) == 17  # by this machine's clock the instants may lie ahead


def test_a_replace_commit_that_still_hides_files_is_not_dropped(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(1, 2)
    replaced = json.loads(commit_metadata("replacecommit")) | {"partitionToReplaceFileIds": {"": ["old-0"]}}
    lake.commit(3, action="replacecommit", data=json.dumps(replaced).encode())
    lake.commit(4, 5, 6)
    lake.clean(7, retained=5)
    lake.archive(1, 2)
    assert lake.archived() == times(range(1, 6))
    hidden = tmp_path / "old-0_0-0-0_1.parquet"
    hidden.touch()
    result = lake.archive(1, 2, **{"lakebed.archive.retain-instants": 0})
    assert result.dropped == tuple(times([1, 2]))
    assert "hides files that no clean has removed" in reasons(result, 3)
    hidden.unlink()
    assert lake.archive(1, 2, **{"lakebed.archive.retain-instants": 0}).dropped == tuple(times([3, 4, 5]))
    assert timelines(tmp_path)[0].size == 2
