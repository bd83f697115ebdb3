"""Branches that are made, removed and followed."""

from contextlib import nullcontext
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import (
    CommitConflictError,
    LakebedError,
    NotInHistoryError,
    RetryableError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.paimon.branches import Branches
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import PutOutcome, open_store
from lakebed.kernel.files.local import LocalStore
from lakebed.testing.faults import Crash, FaultyStore
from lakebed.verbs.read import run
from lakebed.verbs.stream import drain
from tests.golden import unpack
from tests.tables.paimon.small import Make, contents, rows
from tests.unit.paimon.expire.test_run import AT_ONCE


def test_a_branch_of_a_tag_has_its_rows_and_schemas(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.alter(lakebed.add_column("more", "string"))
    table.write(rows(("a", 2, "v", 1)))
    table.tag("t")
    table.alter(lakebed.add_column("later", "string"))
    table.write(rows(("a", 3, "v", 1)))
    table.branch("b", "tag:t")
    branch = lakebed.open(table.location, {"branch": "b"})
    assert contents(branch) == contents(table, as_of="tag:t") == contents(branch, as_of="tag:t")
    assert [instant.time for instant in branch.history()] == ["2"]
    branch.write(rows(("b", 9, "v", 1)))
    assert len(contents(branch)) == len(contents(table)) == 3
    folder = Path(table.location) / "branch/branch-b"
    assert sorted(path.name for path in (folder / "schema").iterdir()) == ["schema-0", "schema-1"]


def test_a_tag_outlives_its_snapshot(make: Make) -> None:
    table = make(write__only="true")
    table.write(rows(("a", 1, "v", 1)))
    table.tag("t")
    table.write(rows(("a", 1, "w", 1)))
    table.expire(options={"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1})
    table.branch("b", "tag:t")
    table.delete_tag("t")
    table.write(rows(("a", 1, "x", 1)))
    table.expire(options={"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1})
    assert contents(lakebed.open(table.location, {"branch": "b"})) == [("a", 1, "v", 1)]


def test_an_empty_branch_has_the_newest_schema(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.branch("empty")
    branch = lakebed.open(table.location, {"branch": "empty"})
    assert contents(branch) == []
    assert branch.schema == table.schema
    with pytest.raises(NotInHistoryError, match="no snapshot"):
        table.fast_forward("empty")
    branch.write(rows(("b", 7, "v", 1)))
    table.fast_forward("empty")
    assert contents(table) == [("b", 7, "v", 1)]


@pytest.mark.parametrize("name", ["main", "", " ", "7", "a/b", "../x", "a\\b", "..", "a\0b"])
def test_names_that_branches_cannot_have(make: Make, name: str) -> None:
    table = make()
    for act in (table.branch, table.delete_branch, table.fast_forward):
        with pytest.raises(LakebedError):
            act(name)
    assert not (Path(table.location) / "branch").exists()


def test_what_is_refused(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.branch("b")
    with pytest.raises(UsageError, match="already a branch"):
        table.branch("b")
    with pytest.raises(UsageError, match="only a tag"):
        table.branch("c", 1)
    with pytest.raises(NotInHistoryError):
        table.branch("c", "tag:none")
    for act in (table.delete_branch, table.fast_forward):
        with pytest.raises(NotInHistoryError, match="Branches: b"):
            act("c")
    branch = lakebed.open(table.location, {"branch": "b"})
    for act in (branch.delete_branch, branch.fast_forward):
        with pytest.raises(UsageError):
            act("b")
    with pytest.raises(UsageError, match="in use"):
        lakebed.open(table.location, {"scan.fallback-branch": "b"}).delete_branch("b")
    assert History(open_store(table.location)).branches() == ["b"]


def test_a_catalog_that_commits_keeps_its_branches(make: Make) -> None:
    history = History(open_store(make().location))
    history.publisher = lambda *_: pytest.fail("nothing is published")
    with pytest.raises(UnsupportedError):
        Branches(history).create("b")


def test_a_deleted_branch_is_gone_and_can_be_made_again(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.tag("t")
    table.branch("b", "tag:t")
    lakebed.open(table.location, {"branch": "b"}).write(rows(("a", 2, "v", 1)))
    table.delete_branch("b")
    assert not (Path(table.location) / "branch/branch-b").exists()
    with pytest.raises(TableNotFoundError):
        lakebed.open(table.location, {"branch": "b"})
    table.branch("b", "tag:t")
    assert contents(lakebed.open(table.location, {"branch": "b"})) == contents(table)


def test_a_fast_forward_takes_snapshots_schemas_and_tags(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.write(rows(("a", 2, "v", 1)))
    table.tag("early", 1)
    table.tag("t")
    table.branch("b", "tag:t")
    table.write(rows(("a", 3, "main", 1)))
    table.alter(lakebed.add_column("of_main", "string"))
    table.write(rows(("a", 4, "main", 1)))
    table.tag("of-main")
    branch = lakebed.open(table.location, {"branch": "b"})
    branch.alter(lakebed.add_column("of_branch", "int32"))
    branch.write(rows(("b", 5, "branch", 1)))
    branch.tag("of-branch")
    wanted = contents(branch)
    table.fast_forward("b")
    for seen in (table, lakebed.open(table.location)):
        assert contents(seen) == wanted
        assert seen.schema == branch.schema
        assert [instant.time for instant in seen.history()] == ["1", "2", "3"]
    assert History(open_store(table.location)).tags() == ["early", "of-branch", "t"]
    table.write(rows(("c", 6, "v", 1)))
    assert len(contents(table)) == len(wanted) + 1
    assert contents(branch) == wanted


def test_a_commit_between_ends_the_fast_forward(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.tag("t")
    table.branch("b", "tag:t")
    lakebed.open(table.location, {"branch": "b"}).write(rows(("a", 2, "branch", 1)))
    replace = Branches._replace_tags_and_schemas

    def meanwhile(self: Branches, name: str, oldest: Snapshot) -> None:
        lakebed.open(table.location).write(rows(("a", 3, "main", 1)))
        replace(self, name, oldest)

    monkeypatch.setattr(Branches, "_replace_tags_and_schemas", meanwhile)
    with pytest.raises(CommitConflictError):
        table.fast_forward("b")
    assert ("a", 3, "main", 1) in contents(table)


def test_paimons_own_branch_is_followed(tmp_path: Path) -> None:
    folder = unpack("paimon", "tags_branches", into=tmp_path)
    table, branch = lakebed.open(folder), lakebed.open(folder, {"branch": "b1"})
    table.fast_forward("b1")
    assert table.read().read_all().sort_by("k") == branch.read().read_all().sort_by("k")
    assert [instant.time for instant in table.history()] == ["1", "2"]
    table.delete_branch("empty_b")
    assert History(open_store(folder)).branches() == ["b1"]


@pytest.mark.parametrize("verb", ["rollback", "expire"])
def test_the_changelog_of_snapshots_that_two_branches_have_stays(make: Make, verb: str) -> None:
    """Both have them once one was put where the other is. What the other does then spares the files of its streams."""
    table = make(primary_key=("dt", "id"), changelog__producer="input")
    table.write(rows(("a", 1, "v", 1)))
    table.tag("t")
    table.branch("b", "tag:t")
    branch = lakebed.open(table.location, {"branch": "b"})
    for number in range(2, 5):
        branch.write(rows(("a", number, "v", number)))
    table.fast_forward("b")
    if verb == "rollback":
        branch.rollback(2)
    else:
        few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
        assert len(branch.expire(options=few).expired) == 3
    reader = lakebed.open(table.location, {"read.start-commit": "earliest"}).stream()
    told = [row["id"] for _, plan in drain(reader) for row in run(plan, 1).read_all().to_pylist()]
    assert sorted(told) == [1, 2, 3, 4]


class Forgetful(FaultyStore):
    """A store that does not delete the note that a branch is being made: it fails, or the process dies."""

    def __init__(self, folder: str, dies: bool) -> None:
        super().__init__(open_store(folder))
        self.dies = dies

    def delete(self, path: str) -> None:
        if path.startswith(".lakebed/branches/"):
            raise Crash("before the note goes") if self.dies else RetryableError("no answer", file=path)
        super().delete(path)


@pytest.mark.parametrize("dies", [False, True])
def test_a_branch_that_was_made_gets_no_snapshot_again_that_has_expired(make: Make, dies: bool) -> None:
    table = make(write__only="true")
    table.write(rows(("a", 1, "v", 1)))
    table.tag("t")
    with pytest.raises(Crash) if dies else nullcontext():
        lakebed.open(Forgetful(table.location, dies)).branch("b", "tag:t")
    branch = lakebed.open(table.location, {"branch": "b"})
    for number in (2, 3):
        branch.write(rows(("a", number, "v", 1)))
    branch.expire(options=AT_ONCE)
    assert [instant.time for instant in branch.history()] == ["3"]
    table.branch("b", "tag:t")
    assert [instant.time for instant in branch.history()] == ["3"]
    assert len(contents(branch)) == 3
    with pytest.raises(UsageError, match="already a branch"):
        table.branch("b", "tag:t")


@pytest.mark.parametrize("file", [".lakebed/branches/b", "schema/schema-0"])
def test_a_put_that_is_not_answered_is_looked_for(make: Make, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    put, failed = LocalStore.put_if_absent, []

    def silent(self: LocalStore, path: str, data: bytes) -> PutOutcome:
        outcome = put(self, path, data)
        if path.endswith(file) and not failed:
            failed.append(path)
            raise RetryableError("no answer", file=path)
        return outcome

    monkeypatch.setattr(LocalStore, "put_if_absent", silent)
    table.branch("b")
    assert failed and "b" in [ref.name for ref in table.refs() if ref.kind == "branch"]
