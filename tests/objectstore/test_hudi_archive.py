"""What an archival of a Hudi timeline asks of an object store, as the timeline grows."""

from pathlib import Path

import pytest

import lakebed
from tests.objectstore.server import StoreServer
from tests.tables.hudi.timelines import Lake

BOUNDS = {
    "hoodie.keep.min.commits": 4,
    "hoodie.keep.max.commits": 6,
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
}


@pytest.mark.parametrize(("version", "besides"), [(6, 18), (8, 24)])
def test_only_the_deletes_of_commits_wait_for_each_other(
    store_server: StoreServer, tmp_path: Path, version: int, besides: int
) -> None:
    for commits in (10, 40):
        lake = Lake(tmp_path / str(commits), version)
        lake.commit(*range(1, commits + 1))
        counted = store_server.measure(
            lambda url: lakebed.open(url, store_server.options).archive(options=BOUNDS),
            lambda lake=lake: store_server.upload(lake.folder),
            enough=commits - 4 + besides - 2,
        )
        archived = commits - 4
        assert len(counted.result.archived) == archived
        assert counted.steps <= archived + besides
        assert counted.requests <= 2 * archived + besides + 12
        ordered = [entry for entry in counted.log if "delete" in entry.target or entry.method == "DELETE"]
        assert len(ordered) <= archived + 2, "all pending state files go by one request"


@pytest.mark.parametrize("version", [6, 8])
def test_a_dry_run_takes_as_many_steps_for_any_timeline(
    store_server: StoreServer, tmp_path: Path, version: int
) -> None:
    for commits in (10, 60):
        lake = Lake(tmp_path / str(commits), version)
        lake.commit(*range(1, commits + 1))
        url = store_server.upload(lake.folder)
        counted = store_server.measure(
            lambda url=url: lakebed.open(url, store_server.options).archive(options=BOUNDS, dry_run=True),
            enough=4,
            requests=7,
        )
        assert len(counted.result.archived) == commits - 4
        assert counted.steps <= 4 and counted.requests <= 7
