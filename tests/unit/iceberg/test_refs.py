"""Branches, tags, cherry-picks and staged writes: what becomes the head of what, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    CommitConflictError,
    LakebedError,
    NotInHistoryError,
    OptionError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.engine import LocalEngine
from lakebed.verbs.write import Mode, finalize_and_commit
from tests.tables.iceberg.small import create, ids


def rows(*numbers: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [p] * len(numbers)})


def made(folder: Path, version: int = 2, **properties: str) -> IcebergTable:
    """A table with rows 0 and 1, a snapshot each, and the branch `side` at the first, where row 7 is added."""
    table = create(folder / "t", version, **properties)
    table.write(rows(0))
    table.branch("side")
    table.write(rows(1))
    opened(table, branch="side").write(rows(7))
    return table


def opened(table: lakebed.Table, **options: str) -> IcebergTable:
    again = lakebed.open(table.location, {key.replace("_", "."): text for key, text in options.items()})
    assert isinstance(again, IcebergTable)
    return again


def audited(folder: Path, version: int = 2) -> IcebergTable:
    """A table whose writes may be staged, with row 0."""
    table = create(folder / "t", version, **{"write.wap.enabled": "true"})
    table.write(rows(0))
    return table


def stage(table: lakebed.Table, name: str, data: pa.Table, **how: Any) -> str:
    return table.write(data, options={"wap.id": name, **how.pop("options", {})}, **how).instant


def summary(table: IcebergTable, snapshot: str) -> dict[str, str]:
    return dict(table.table_metadata.snapshot(int(snapshot)).summary)


def changes_nothing(table: IcebergTable, act: Callable[[], Any]) -> Any:
    before = table.operations.load().location
    result = act()
    assert table.operations.load().location == before
    return result


# ---- branches and tags -----------------------------------------------------------------------------------------------


def test_a_branch_or_tag_moves_only_when_it_is_replaced(tmp_path: Path) -> None:
    table = made(tmp_path)
    first, second, side = (instant.time for instant in table.history())
    table.tag("t", first, "9 d")
    with pytest.raises(UsageError, match=r"already a tag 't'.*replace=True"):
        table.tag("t", second)
    for act in (lambda: table.branch("t", replace=True), lambda: table.tag("side", replace=True)):
        with pytest.raises(UsageError, match=r"is a (tag, not a branch|branch, not a tag)"):
            act()
    planned = changes_nothing(table, lambda: table.tag("t", second, replace=True, dry_run=True))
    assert (planned.before, planned.to, planned.added, planned.removed) == (first, second, (second,), ())
    moved = table.tag("t", second, replace=True)
    assert (
        not moved.dry_run and table.table_metadata.refs["t"].max_ref_age_ms == 9 * 86_400_000
    )  # kept, as none is given
    assert ids(table, as_of="tag:t") == [0, 1]
    done = table.branch("main", at="branch:side", replace=True)
    assert (done.before, done.to, done.added, done.removed) == (second, side, (side,), (second,))
    assert ids(table) == [0, 7] and done.notes == ()  # the tag has what left
    assert table.branch("other", at=first).to == first


def test_what_only_a_deleted_branch_has_is_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    side = opened(table, branch="side").newest()
    assert side is not None
    planned = changes_nothing(table, lambda: table.delete_branch("side", dry_run=True))
    assert planned.notes == (f"no other branch or tag has snapshots {side.time}: they expire by age",)
    assert (planned.before, planned.to) == (side.time, "")
    table.tag("keep", side.time)
    assert table.delete_branch("side").notes == ()
    assert changes_nothing(table, lambda: table.delete_tag("keep", dry_run=True)).kind == "tag"


def test_retention_is_kept_by_every_commit_and_honoured_by_expiry(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    table.write(rows(0))
    table.branch("side", options={"min-snapshots-to-keep": 2, "max-snapshot-age-ms": 1, "max-ref-age-ms": 10**12})
    side = opened(table, branch="side")
    for number in (1, 2, 3):
        side.write(rows(number))
    side.rollback(side.history()[2].time)
    side.write(rows(4))
    ref = table.table_metadata.refs["side"]
    assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms) == (2, 1, 10**12)
    done = table.retain("side", {"min-snapshots-to-keep": 3})
    assert done.before == done.to and table.table_metadata.refs["side"].max_snapshot_age_ms == 1
    newest = [instant.time for instant in table.history()]
    assert set(table.expire(options={"older-than": "2100-01-01"}).expired) == {newest[3]}  # 3 stay, main has the first
    table.tag("t")
    for act, error in (
        (lambda: table.retain("t", {"min-snapshots-to-keep": 1}), "'t' is a tag, which has no min-snapshots-to-keep"),
        (lambda: table.retain("side", {"max-ref-age-ms": 0}), "option 'max-ref-age-ms' is '0'"),
        (lambda: table.branch("b", options={"min-snapshot-to-keep": 1}), "Did you mean 'min-snapshots-to-keep'"),
        (lambda: table.retain("none", {}), "no branch or tag 'none'.*main, side, t"),
    ):
        with pytest.raises(LakebedError, match=error):
            changes_nothing(table, act)


def test_a_branch_of_an_empty_table_begins_with_a_snapshot_without_rows(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    assert changes_nothing(table, lambda: table.branch("audit", dry_run=True)).notes
    done = table.branch("audit", options={"max-ref-age-ms": 5})
    assert table.table_metadata.refs["audit"].max_ref_age_ms == 5 and "main" not in table.table_metadata.refs
    assert summary(table, done.to)["operation"] == "append" and ids(opened(table, branch="audit")) == []
    opened(table, branch="audit").write(rows(1))
    assert ids(table) == []
    assert table.fast_forward("audit").before == "" and ids(table) == [1]
    with pytest.raises(UsageError, match="already a branch 'audit'"):
        table.branch("audit")


def test_fast_forward_follows_branches_and_tags_and_only_ahead(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(UsageError, match=r"'main' has snapshots that 'side' does not have.*replace=True"):
        table.fast_forward("side")
    table.tag("later")
    first, second, _side = (instant.time for instant in table.history())
    table.rollback(first)
    planned = changes_nothing(table, lambda: table.fast_forward("later", dry_run=True))
    assert (planned.before, planned.to, planned.added) == (first, second, (second,))
    assert table.fast_forward("later").to == second and ids(table) == [0, 1]
    assert changes_nothing(table, lambda: table.fast_forward("later")).added == ()
    with pytest.raises(NotInHistoryError, match="no branch or tag 'nowhere'"):
        table.fast_forward("nowhere")


def test_any_snapshot_becomes_the_head_where_that_is_asked_for(tmp_path: Path) -> None:
    table = made(tmp_path)
    first, second, side = (instant.time for instant in table.history())
    with pytest.raises(UsageError, match="any_snapshot=True"):
        table.rollback(side)
    planned = changes_nothing(table, lambda: table.rollback(side, dry_run=True, any_snapshot=True))
    assert (planned.removed, planned.kept) == ((second,), (side, first))
    assert any(side in note for note in planned.notes)
    table.rollback("branch:side", any_snapshot=True)
    assert ids(table) == [0, 7]
    assert [id for _, id in table.table_metadata.snapshot_log] == [int(first), int(second), int(side)]
    table.rollback(second, any_snapshot=True)
    assert ids(table) == [0, 1]


# ---- cherry-picks and staged writes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_a_staged_upsert_of_new_keys_is_not_repeated_where_the_branch_has_moved_on(
    tmp_path: Path, version: int
) -> None:
    """Others may have written the same keys since, and an append does not look for them."""
    table = audited(tmp_path, version)
    upsert = {"upsert.keys": "id"}
    for name in ("one", "two"):
        table.write(rows(1), "upsert", {**upsert, "wap.id": name})
    table.publish("one")
    assert ids(table) == [0, 1]
    for dry_run in (True, False):
        with pytest.raises(UsageError, match="neither an append nor"):
            table.publish("two", dry_run=dry_run)
    table.write(rows(1), "upsert", upsert)
    assert ids(table) == [0, 1]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_staged_write_is_published_by_its_name(tmp_path: Path, version: int) -> None:
    table = audited(tmp_path, version)
    done = table.write(rows(1), options={"wap.id": "one"})
    assert "publish('one')" in done.notes[0] and ids(table) == [0]
    two = stage(table, "two", rows(2))
    assert changes_nothing(table, lambda: table.publish("one", dry_run=True)).to == done.instant
    assert table.publish("one").to == done.instant and ids(table) == [0, 1]  # its parent is the head
    planned = changes_nothing(table, lambda: table.publish("two", dry_run=True))
    assert (planned.to, "add 1 data file with 1 row and" in planned.notes[0]) == ("", True)
    picked = table.publish("two")
    assert ids(table) == [0, 1, 2] and picked.before == done.instant and picked.added == (picked.to,)
    published = summary(table, picked.to)
    assert (published["source-snapshot-id"], published["published-wap-id"]) == (two, "two")
    assert (published["operation"], published["added-records"], published["total-records"]) == ("append", "1", "3")
    if version == 3:
        assert sorted(table.read(["_row_id"]).read_all()["_row_id"].to_pylist()) == [0, 1, 3]
    for act, error in (
        (lambda: table.publish("one"), f"has snapshot {done.instant} already"),
        (lambda: table.cherry_pick(two), "has the changes of snapshot"),
        (lambda: table.publish("none"), "no snapshot is staged as 'none'"),
    ):
        with pytest.raises(LakebedError, match=error):
            changes_nothing(table, act)


def test_a_name_is_published_once(tmp_path: Path) -> None:
    table = audited(tmp_path)
    first, second = stage(table, "x", rows(1)), stage(table, "x", rows(2))
    with pytest.raises(UsageError, match=rf"2 snapshots are staged as 'x'.*{first}, {second}"):
        changes_nothing(table, lambda: table.publish("x"))
    table.cherry_pick(int(second))
    for act in (lambda: table.publish("x"), lambda: table.cherry_pick(first)):
        with pytest.raises(UsageError, match="'x' was published already"):
            changes_nothing(table, act)
    assert ids(table) == [0, 2]


def test_overwrites_are_picked_while_their_partitions_are_as_they_were(tmp_path: Path) -> None:
    table = audited(tmp_path)
    table.write(rows(5, p="b"))
    good, bad = (stage(table, name, rows(6, p="b"), mode="overwrite") for name in ("good", "bad"))
    whole = stage(table, "whole", rows(9), mode="overwrite", options={"overwrite-mode": "static"})
    table.write(rows(1))
    assert table.publish("good", dry_run=True).notes[0].endswith("remove 1 data file")
    done = table.publish("good")
    found = summary(table, done.to)
    assert ids(table) == [0, 1, 6] and found["operation"] == "overwrite" and found["source-snapshot-id"] == good
    for act in (lambda: table.publish("bad"), lambda: table.publish("bad", dry_run=True)):
        with pytest.raises(CommitConflictError, match=f"overwrite {bad} replaces has changed since"):
            changes_nothing(table, act)
    with pytest.raises(UsageError, match=f"snapshot {whole} cannot be picked: it is neither an append nor"):
        changes_nothing(table, lambda: table.cherry_pick(whole))
    table.rollback(table.history()[1].time)
    assert table.cherry_pick(whole).to == whole and ids(table) == [9]  # on top of its own parent


def test_a_pick_goes_on_the_branch_that_is_open(tmp_path: Path) -> None:
    table = made(tmp_path)
    second = table.history()[1].time
    side = opened(table, branch="side")
    assert side.cherry_pick(second).name == "side"
    assert (ids(side), ids(table)) == ([0, 1, 7], [0, 1])
    table.delete_branch("side")
    with pytest.raises(NotInHistoryError, match="branch 'side' does not exist"):
        side.cherry_pick(second)


def test_a_pick_meets_a_commit_and_an_expiry_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = audited(tmp_path)
    stage(table, "one", rows(1))
    stage(table, "gone", rows(2))
    commit = table.operations.commit
    rivals = [lambda: opened(table).write(rows(3))]

    def beaten(*args: Any, **named: Any) -> Any:
        while rivals:
            rivals.pop()()
        return commit(*args, **named)

    monkeypatch.setattr(table.operations, "commit", beaten)
    done = table.publish("one")  # was a fast-forward when it was planned
    assert ids(table) == [0, 1, 3] and summary(table, done.to)["published-wap-id"] == "one"
    rivals.append(lambda: opened(table).expire(options={"older-than": "2100-01-01"}))
    with pytest.raises(NotInHistoryError):
        table.publish("gone")
    assert ids(opened(table)) == [0, 1, 3]
    assert opened(table).expire(options={"remove-orphan-files": True}).deleted_files == ()


def test_where_no_write_may_be_staged(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    for options in ({"wap.id": "x"}, {"wap.branch": "x"}):
        with pytest.raises(UsageError, match=r"needs a table with write\.wap\.enabled=true"):
            lakebed.open(table.location, options).write(rows(1))
    table = audited(tmp_path / "audited")
    for act, error in (
        (lambda: table.rewrite(options={"wap.id": "x"}), "a rewrite cannot be staged"),
        (lambda: opened(table, wap_branch="x").write(rows(1), options={"wap.id": "x"}), "are given"),
        (lambda: lakebed.open(table.location, {"wap.branch": "x", "branch": "main"}), "are given"),
    ):
        with pytest.raises(OptionError, match=error):
            changes_nothing(table, act)
    with (
        pytest.raises(UsageError, match="numbered commits cannot stage them as 'x'"),
        opened(table, wap_id="x").writer() as writer,
    ):
        writer.write(rows(1))
        writer.commit(1, writer.prepare_commit())
    assert len([*(Path(table.location) / "data").rglob("*.parquet")]) == 1
    with pytest.raises(UsageError, match="numbered commits"):
        opened(table, wap_id="x").writer(commit_user="me")


def test_a_branch_for_the_audit_begins_with_its_first_write(tmp_path: Path) -> None:
    table = audited(tmp_path)
    audit = opened(table, wap_branch="audit")
    assert audit.branch_name == "main" and ids(audit) == [0]
    with pytest.raises(NotInHistoryError, match="branch 'audit' does not exist"):
        audit.rewrite()
    audit.write(rows(1))
    assert (ids(audit), ids(table), audit.branch_name) == ([0, 1], [0], "audit")
    table.write(rows(2))
    audit.write(rows(1), mode="delete", options={"upsert.keys": "id"})
    assert ids(audit) == [0]
    first = create(tmp_path / "empty", **{"write.wap.enabled": "true"})
    fresh = opened(first, wap_branch="audit")
    fresh.write(rows(3), mode="upsert", options={"upsert.keys": "id"})
    assert (ids(fresh), ids(first)) == ([3], [])


def test_every_write_of_a_branch_leaves_the_others(tmp_path: Path) -> None:
    table = made(tmp_path)
    side = opened(table, branch="side")
    with side.writer(commit_user="me") as writer:
        writer.write(rows(8))
        messages = writer.prepare_commit()
        assert writer.filter_and_commit({4: messages}) == 1
    side.write(rows(7, 9), mode="upsert", options={"upsert.keys": "id"})
    side.write(rows(5, p="b"), mode="overwrite")
    side.write(rows(9), mode="delete", options={"upsert.keys": "id"})
    assert side.rewrite(options={"rewrite-all": True}).groups
    assert side.rewrite(options={"lakebed.rewrite.what": "manifests"}) is not None
    assert (ids(side), ids(table)) == ([0, 5, 7, 8], [0, 1])
    with pytest.raises(NotInHistoryError, match="branch 't' is a tag, not a branch"):
        table.tag("t")
        opened(table, branch="t")
    with pytest.raises(NotInHistoryError, match=r"branch 'sid' does not exist.*main, side"):
        opened(table, branch="sid")


def test_a_stream_into_a_branch_commits_each_batch_once(tmp_path: Path) -> None:
    """As Spark's sinks do: a sink a batch, with the commit user of the checkpoint and the number of the batch."""
    table = audited(tmp_path)

    def batch(number: int, **options: str) -> str:
        sink = opened(table, **options).sink_for(rows().schema, Mode.APPEND, commit_user="query")
        plan = sink.plan(2)
        task = plan.task_writer()
        for part in rows(number).to_batches():
            task.write(part)
        return finalize_and_commit(sink, plan, task.finish(), LocalEngine(), number).instant

    for options in ({"wap_branch": "audit"}, {"branch": "audit"}):
        assert [bool(batch(number, **options)) for number in (1, 2)] == [options == {"wap_branch": "audit"}] * 2
    assert (ids(opened(table, branch="audit")), ids(table)) == ([0, 1, 2], [0])
    assert batch(1) and ids(table) == [0, 1]  # main knows nothing of it
    table.rollback("branch:audit", any_snapshot=True)
    assert not batch(2) and ids(table) == [0, 1, 2]
    with pytest.raises(UsageError, match="numbered commits"):
        batch(3, wap_id="x")


@pytest.mark.parametrize("act", ["write", "rewrite"])
def test_a_branch_that_was_deleted_meanwhile_is_not_made_anew(tmp_path: Path, act: str) -> None:
    table = made(tmp_path)
    side = opened(table, branch="side")
    if act == "rewrite":
        with pytest.raises(NotInHistoryError, match="'side' does not exist"):
            table.delete_branch("side")
            side.rewrite(options={"rewrite-all": True})
        return
    with side.writer() as writer:
        writer.write(rows(8))
        messages = writer.prepare_commit()
        table.delete_branch("side")
        with pytest.raises(CommitConflictError, match="there is no branch 'side' any more"):
            writer.commit(1, messages)
    assert [*table.table_metadata.refs] == ["main"]


def test_formats_without_them_say_so(tmp_path: Path) -> None:
    hudi = lakebed.open(lakebed.example("orders"))
    paimon = lakebed.create(tmp_path / "p.db/t", "paimon", pa.schema([("id", pa.int64())]))
    for table in (hudi, paimon):
        acts: list[Callable[[], Any]] = [
            lambda: table.cherry_pick(1), lambda: table.publish("x"), lambda: table.retain("x", {})  # noqa: B023
        ]  # fmt: skip
        for act in acts:
            with pytest.raises(UnsupportedError, match=f"{table.format} tables have no"):
                act()
