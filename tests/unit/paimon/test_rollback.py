"""What a rollback removes, and what it spares."""

from pathlib import Path

import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.kernel.files import Store
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
    assert len(contents(lakebed.open(table.location), as_of=4)) == 4
    assert table.rollback(1).removed == ("4",)
    assert contents(table) == FIRST


def files(table: lakebed.Table) -> set[str]:
    return {info.path for info in table.store.walk("") if "LATEST" not in info.path and "EARLIEST" not in info.path}
