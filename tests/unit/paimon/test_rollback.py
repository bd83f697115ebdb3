"""What a rollback removes, and what it spares."""

import json
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.kernel.clock import set_clock
from lakebed.kernel.files import Store
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits
from tests.tables.paimon.small import Make, contents, rows

FIRST = [("a", 1, "v", 1)]


def test_files_and_later_tags_go(make: Make) -> None:
    table = make(changelog__producer="input")
    table.write(rows(*FIRST))
    table.tag("early")
    before = files(table)
    table.write(rows(("a", 2, "v", 1), ("b", 1, "v", 1)))
    table.tag("late")
    table.write(rows(("a", 1, "w", 2)), mode="upsert")
    done = table.rollback(1)
    assert (done.to, done.removed, done.kept) == ("1", ("3", "2"), ("1",))
    assert any("'late'" in note for note in done.notes)
    assert files(table) == before and {*done.deleted_files} >= {"tag/tag-late", "snapshot/snapshot-3"}
    assert contents(table) == contents(table, as_of="tag:early") == FIRST


def test_a_file_that_was_only_moved_up_a_level_stays(make: Make) -> None:
    table = make(bucket="-2")
    table.write(rows(*FIRST))
    table.rewrite()
    kept = contents(table)
    table.write(rows(("a", 5, "v", 1)))
    table.rewrite()
    table.rollback(2)
    assert contents(table) == kept == FIRST


def test_branches_keep_their_files(make: Make, tmp_path: Path) -> None:
    table = make()
    table.write(rows(*FIRST))
    table.write(rows(("a", 2, "v", 1)))
    for name in ("schema/schema-0", "snapshot/snapshot-2"):
        table.store.write(f"branch/branch-b/{name}", table.store.read(name))
    table.rollback(1)
    branch = lakebed.open(table.location, {"branch": "b"})
    assert contents(branch) == [*FIRST, ("a", 2, "v", 1)]


def test_a_commit_that_comes_between_is_an_error_and_keeps_its_files(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make()
    for number in (1, 2, 3):
        table.write(rows(("a", number, "v", 1)))
    delete = Store.delete_in_order

    def delete_beside_a_writer(store: Store, paths: object) -> None:
        lakebed.open(table.location).write(rows(("a", 9, "v", 1)))
        monkeypatch.undo()
        delete(store, paths)  # type: ignore[arg-type]

    monkeypatch.setattr(type(table.store), "delete_in_order", delete_beside_a_writer)
    with pytest.raises(CommitConflictError, match="snapshot 4 was committed"):
        table.rollback(1)
    assert [int(instant.time) for instant in table.history()] == [1, 2, 3, 4]
    assert len(contents(lakebed.open(table.location), as_of=4)) == 4
    assert table.rollback(1).removed == ("4", "3", "2")
    assert contents(table) == FIRST


def test_consumers_that_are_ahead_read_on_after_the_snapshot(make: Make) -> None:
    table = make()
    for number in (1, 2, 3, 4):
        table.write(rows(("a", number, "v", 1)))
    for name, following in {"ahead": 5, "next": 3, "behind": 2}.items():
        table.store.write(f"consumer/consumer-{name}", f'{{"nextSnapshot": {following}}}'.encode())
    planned = table.rollback(2, dry_run=True)
    assert [note for note in planned.notes if "'ahead'" in note] == [*planned.notes]
    assert table.rollback(2).notes == planned.notes
    kept = {name: json.loads(table.store.read(f"consumer/consumer-{name}")) for name in ("ahead", "next", "behind")}
    assert [kept[name]["nextSnapshot"] for name in kept] == [3, 3, 2]
    table.write(rows(("a", 9, "v", 1)))
    stream = lakebed.open(table.location, {"consumer-id": "ahead"}).stream()
    plan = stream.plan(stream.initial(), stream.latest(stream.initial(), Limits()))
    assert [row["id"] for row in run(plan, 1).read_all().to_pylist()] == [9]


def test_automatic_tags_are_made_anew_after_it(make: Make) -> None:
    table = lakebed.open(make().location, {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"})

    def commit(hour: int) -> None:
        with set_clock(lambda: 1_700_000_000 // 86_400 * 86_400 + hour * 3600):
            table.write(rows(("a", hour, "v", 1)))

    for hour in (1, 2, 3):
        commit(hour)
    names = {info.name for info in table.store.list("tag").files}
    moment = lakebed.open(table.location).history()[0].completed
    assert table.rollback(moment).to == "1"
    assert len(table.store.list("tag").files) == 1
    for hour in (2, 3):
        commit(hour)
    assert {info.name for info in table.store.list("tag").files} == names


def test_a_long_lived_changelog_that_goes_takes_its_files_along(make: Make) -> None:
    table = make(changelog__producer="input", bucket="1")
    for number in (1, 2, 3):
        table.write(rows(("a", number, "v", 1)))
    table.tag("first", 1)
    for number in (1, 2):  # as an engine leaves them whose changelogs outlive their snapshots
        table.store.write(f"changelog/changelog-{number}", table.store.read(f"snapshot/snapshot-{number}"))
        table.store.delete(f"snapshot/snapshot-{number}")
    table.store.write("changelog/LATEST", b"2")
    assert table.rollback("tag:first").removed == ("3",)
    left = [path for path in files(table) if "changelog" in path]
    assert [path for path in left if "/bucket-" not in path] == ["changelog/changelog-1"] and len(left) == 2
    assert table.store.read("changelog/LATEST") == b"1"
    assert contents(table) == FIRST


def files(table: lakebed.Table) -> set[str]:
    return {info.path for info in table.store.walk("") if "LATEST" not in info.path and "EARLIEST" not in info.path}
