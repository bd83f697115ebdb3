"""`scan.fallback-branch`: partitions that a branch does not have come from another one."""

import json
import pickle
import shutil
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import TableNotFoundError, UnsupportedError
from lakebed.verbs.read import run
from tests.tables.paimon.small import Make, contents, rows


@pytest.fixture(params=[("dt", "id"), ()], ids=["keyed", "append"])
def location(request: pytest.FixtureRequest, make: Make) -> Path:
    """Partitions a and b on main, b and c on the branch `old`."""
    table = make(primary_key=request.param, **{} if request.param else {"bucket": "-1"})
    folder = Path(table.location)
    branch = folder / "branch" / "branch-old"
    shutil.copytree(folder / "schema", branch / "schema")
    lakebed.open(folder, {"branch": "old"}).write(rows(("b", 1, "old", 1), ("c", 1, "old", 1)))
    table.write(rows(("a", 1, "new", 1), ("b", 2, "new", 1)))
    return folder


def values(location: Path, **options: str) -> list[tuple[str, int, str]]:
    table = lakebed.open(location, {"scan.fallback-branch": "old", **options})
    return [row[:3] for row in contents(table)]


def test_partitions_come_whole_from_one_branch(location: Path) -> None:
    assert values(location) == [("a", 1, "new"), ("b", 2, "new"), ("c", 1, "old")]
    table = lakebed.open(location, {"scan.fallback-branch": "old"})
    assert sorted(table.read(["dt"], "id = 1").read_all()["dt"].to_pylist()) == ["a", "c"]
    assert table.read(["v"], "dt = 'b' and id = 1").read_all().num_rows == 0
    plan = pickle.loads(pickle.dumps(table.plan_read(["id"])))
    assert run(plan, 2).read_all().num_rows == 3


def test_the_other_branch_as_it_was(location: Path) -> None:
    lakebed.open(location, {"branch": "old"}).write(rows(("d", 1, "later", 1)))
    for number, time in ((1, 1_700_000_000_000), (2, 1_700_000_200_000)):
        path = location / "branch" / "branch-old" / "snapshot" / f"snapshot-{number}"
        path.write_text(json.dumps({**json.loads(path.read_text()), "timeMillis": time}))
    path = location / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), "timeMillis": 1_700_000_100_000}))
    assert [row[0] for row in values(location, **{"scan.snapshot-id": "1"})] == ["a", "b", "c"]
    assert [row[0] for row in values(location)] == ["a", "b", "c", "d"]


def test_a_branch_without_the_same_columns_or_at_all(location: Path) -> None:
    with pytest.raises(TableNotFoundError, match="nowhere"):
        values(location, **{"scan.fallback-branch": "nowhere"})
    path = location / "branch" / "branch-old" / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    path.write_text(json.dumps({**schema, "fields": schema["fields"][:-1]}))
    with pytest.raises(UnsupportedError, match="other columns"):
        values(location)


def test_the_branch_itself_and_its_changes(location: Path) -> None:
    assert values(location, branch="old") == [("b", 1, "old"), ("c", 1, "old")]
    changes = lakebed.open(location, {"scan.fallback-branch": "old"}).changes().read_all()
    assert sorted(changes["dt"].to_pylist()) == ["a", "b"]
