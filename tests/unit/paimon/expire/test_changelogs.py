"""Changelogs that outlive their snapshots: how long they are kept, who reads them, and what their files need."""

import json
from pathlib import Path

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import DataCleanedError, OptionError
from lakebed.formats.paimon.expire import run as module
from lakebed.formats.paimon.expire.changelogs import ChangelogRetention
from lakebed.formats.paimon.options import OPTIONS
from lakebed.verbs.read import run
from lakebed.verbs.stream import drain
from tests.tables.paimon.small import Make, contents, rows

BY_HAND = {"write__only": "true"}
KEEP = {
    "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "100", "lakebed.owed.time-retained": "0 ms",
}  # fmt: skip


def filled(make: Make, commits: int = 6, **options: str) -> Table:
    """Each commit adds a row to partition a."""
    table = make(**{**BY_HAND, **options})
    for number in range(commits):
        table.write(rows(("a", number, "v", number)))
    return table


def changelogs(table: Table) -> list[int]:
    folder = Path(table.location) / "changelog"
    return sorted(int(path.name.partition("-")[2]) for path in folder.glob("changelog-*"))


def streamed(table: Table, start: int) -> list[int]:
    reader = lakebed.open(table.location, {"scan.snapshot-id": str(start)}).stream()
    return sorted(number for _, plan in drain(reader) for number in run(plan, 1).read_all()["id"].to_pylist())


@pytest.mark.parametrize("producer", ["none", "input"])
def test_they_are_read_after_their_snapshots(make: Make, producer: str) -> None:
    table = filled(make, changelog__producer=producer)
    first = (Path(table.location) / "snapshot" / "snapshot-1").read_bytes()
    begun = lakebed.open(table.location, {"scan.snapshot-id": "1"}).stream().initial()
    planned = table.expire(dry_run=True, options=KEEP)
    assert planned.notes == ("the changelogs of snapshots 1 to 5 would outlive them",)
    done = table.expire(options=KEEP)
    assert (done.expired, done.deleted_files) == (planned.expired, planned.deleted_files)
    assert done.notes == ("the changelogs of snapshots 1 to 5 outlive them",)
    assert (Path(table.location) / "changelog" / "changelog-1").read_bytes() == first
    assert changelogs(table) == [1, 2, 3, 4, 5] and (Path(table.location) / "changelog" / "LATEST").read_text() == "5"
    assert streamed(table, 1) == [0, 1, 2, 3, 4, 5]
    lists = {path.name for path in (Path(table.location) / "manifest").glob("manifest-list-*")}
    assert len(lists) == (12 if producer == "none" else 8), "a changelog file's list is all that a changelog needs"
    few = {**KEEP, "changelog.num-retained.max": "3"}
    assert table.expire(dry_run=True, options=few).notes == ("the changelogs 1 to 3 would go",)
    gone = table.expire(options=few)
    assert (gone.expired, gone.notes) == ((), ("the changelogs 1 to 3 went",))
    assert changelogs(table) == [4, 5] and (Path(table.location) / "changelog" / "EARLIEST").read_text() == "4"
    assert streamed(table, 4) == [3, 4, 5]
    with pytest.raises(DataCleanedError, match="4 to 6"):
        [*drain(lakebed.open(table.location).stream(), begun)]
    assert len(contents(table)) == 6


def test_appended_files_stay_for_them_and_compacted_ones_do_not(make: Make) -> None:
    table = filled(make, 3, bucket="1")
    table.rewrite()
    table.write(rows(("a", 9, "v", 9)))
    table.rewrite()
    bucket = Path(table.location) / "dt=a"
    before = len([*bucket.rglob("data-*")])
    table.expire(options=KEEP)
    assert streamed(table, 1) == [0, 1, 2, 9] and len([*bucket.rglob("data-*")]) == before - 1
    orphans = {"lakebed.expire.what": "orphan-files", "lakebed.expire.orphans.after": "1 h"}
    assert table.expire(dry_run=True, options=orphans).kept == ()
    table.expire(options={**KEEP, "changelog.num-retained.max": "2"})
    assert changelogs(table) == [5] and len([*bucket.rglob("data-*")]) <= 2 and len(contents(table)) == 4


@pytest.mark.parametrize(
    ("options", "left", "reason"),
    [
        ({}, [1, 2, 3, 4, 5], "younger than changelog.time-retained"),
        ({"changelog.num-retained.max": "4"}, [3, 4, 5], "younger"),
        ({"changelog.num-retained.max": "4", "snapshot.expire.limit": "1"}, [1], "the newest changelog stays"),
        ({"changelog.time-retained": "0 ms"}, [5], "the newest changelog stays"),
        ({"changelog.time-retained": "0 ms", "changelog.num-retained.min": "4"}, [3, 4, 5], "num-retained.min"),
        ({"changelog.num-retained.max": "1"}, [], ""),
    ],
)
def test_how_long(make: Make, options: dict[str, str], left: list[int], reason: str) -> None:
    table = filled(make)
    result = table.expire(options={**KEEP, **options})
    kept, marks = result.kept, [path for path in result.deleted_files if path.startswith("changelog/")]
    assert marks == [], "a changelog that ends with its snapshot has no file"
    assert changelogs(table) == left
    assert any(reason in one.reason for one in kept if one.what.startswith("changelogs")) or not reason
    assert len(contents(table)) == 6


def test_a_consumer_and_a_tag_hold_what_they_need(make: Make) -> None:
    table = filled(make)
    table.tag("t", 2)
    at_tag = contents(table, as_of="tag:t")
    table.expire(options=KEEP)
    consumer = Path(table.location) / "consumer" / "consumer-job"
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 3}))
    few = {**KEEP, "changelog.num-retained.max": "2"}
    assert any("consumer 'job'" in one.reason for one in table.expire(options=few).kept)
    assert changelogs(table) == [3, 4, 5] and streamed(table, 3) == [2, 3, 4, 5]
    consumer.unlink()
    table.expire(options=few)
    assert changelogs(table) == [5] and contents(table, as_of="tag:t") == at_tag


def test_a_consumer_may_hold_changelogs_alone(make: Make) -> None:
    """Rule: CoreOptions.consumerChangelogOnly. Where changelogs go with their snapshots it holds these."""
    table = filled(make)
    consumer = Path(table.location) / "consumer" / "consumer-job"
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 3}))
    alone = {"consumer.changelog-only": "true"}
    together = {key: text for key, text in KEEP.items() if not key.startswith("changelog.")}
    assert table.expire(options={**together, **alone}).expired == ("1", "2")
    assert table.expire(options={**KEEP, "changelog.num-retained.max": "2"}).expired == ()
    few = table.expire(options={**KEEP, **alone, "changelog.num-retained.max": "2"})
    assert few.expired == ("3", "4", "5")
    assert any("consumer 'job'" in one.reason for one in few.kept if one.what.startswith("changelogs"))
    assert changelogs(table) == [3, 4, 5] and streamed(table, 3) == [2, 3, 4, 5]


def test_those_of_another_branch_stay(make: Make) -> None:
    """Ids of branches coincide."""
    table = filled(make)
    table.tag("t", 6)
    table.branch("b", "tag:t")
    branch = lakebed.open(table.location, {"branch": "b"})
    for number in range(7, 9):
        branch.write(rows(("a", number, "v", number)))
    branch.expire(options=KEEP)
    table.write(rows(("a", 20, "v", 1)))
    table.write(rows(("a", 21, "v", 1)))
    for _ in range(2):
        table.expire(options={**KEEP, "changelog.num-retained.max": "2"})
    reader = lakebed.open(table.location, {"branch": "b", "scan.snapshot-id": "7"}).stream()
    assert [n for _, plan in drain(reader) for n in run(plan, 1).read_all()["id"].to_pylist()] == [7, 8]


def test_without_options_that_ask_for_more_nothing_outlives(make: Make) -> None:
    for options in ({}, {"changelog.num-retained.max": "1"}, {"changelog.time-retained": "1 min"}):
        assert ChangelogRetention.of(OPTIONS.parse({"snapshot.num-retained.max": "10", **options})) is None
    assert ChangelogRetention.of(OPTIONS.parse({"changelog.num-retained.max": "10"})) is None, "snapshots have no bound"
    for options in ({"changelog.num-retained.min": "11"}, {"changelog.time-retained": "2 h"}):
        assert ChangelogRetention.of(OPTIONS.parse(options)) is not None
    table = filled(make)
    with pytest.raises(OptionError, match=r"changelog\.num-retained\.max"):
        table.expire(options={**KEEP, "changelog.num-retained.min": "7", "changelog.num-retained.max": "5"})


def test_a_snapshot_that_expired_meanwhile_is_not_copied(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table, keep = filled(make), module.keep_changelogs

    def after_a_rival(*arguments: object) -> None:
        monkeypatch.setattr(module, "keep_changelogs", keep)
        lakebed.open(table.location).expire(options=KEEP)
        keep(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "keep_changelogs", after_a_rival)
    table.expire(options=KEEP)
    assert changelogs(table) == [1, 2, 3, 4, 5] and streamed(table, 1) == [0, 1, 2, 3, 4, 5]


def test_commits_keep_them_too(make: Make) -> None:
    spelled = {key.replace("-", "__").replace(".", "_"): value for key, value in KEEP.items()}
    table = make(**spelled, changelog__producer="input")
    for number in range(4):
        assert table.write(rows(("a", number, "v", number))).notes == ()
    assert [instant.time for instant in table.history()] == ["4"] and streamed(table, 1) == [0, 1, 2, 3]
