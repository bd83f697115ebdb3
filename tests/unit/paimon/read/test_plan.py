"""The splits of a plan: packed as Paimon packs them where nothing is merged, else one for each bucket."""

from pathlib import Path

import pytest

import lakebed
from tests.tables.paimon.small import SCHEMA, contents, rows


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten small files in one partition, and one in another."""
    folder = tmp_path_factory.mktemp("plan") / "t"
    table = lakebed.create(folder, "paimon", SCHEMA, [], ["dt"])
    for number in range(10):
        table.write(rows(("a", number, "v", 1)))
    table.write(rows(("b", 10, "v", 1)))
    return folder


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [10, 1]),
        ({"source.split.target-size": "16 mb"}, [4, 4, 2, 1]),
        ({"source.split.target-size": "16 mb", "source.split.open-file-cost": "8 mb"}, [2, 2, 2, 2, 2, 1]),
        ({"source.split.target-size": "16 mb", "source.split.open-file-cost": "0 b"}, [10, 1]),
        ({"source.split.target-size": "1 b"}, [1] * 11),
    ],
)
def test_small_files_count_what_it_costs_to_open_them(
    location: Path, options: dict[str, str], sizes: list[int]
) -> None:
    table = lakebed.open(location, options)
    plan = table.plan_read()
    assert [len(split.files) for split in plan.splits] == sizes
    assert len({split.group for split in plan.splits}) == len(sizes)
    assert all(split.size == sum(file.file_size for file in split.files) for split in plan.splits)
    assert contents(table) == contents(lakebed.open(location))


def test_a_bucket_that_is_merged_is_one_split(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["dt", "id"], [], {"bucket": "1"})
    for number in range(4):
        table.write(rows(("a", number % 2, "v", number)))
    table = lakebed.open(tmp_path / "t", {"source.split.target-size": "1 b"})
    assert [len(split.files) for split in table.plan_read().splits] == [4]
