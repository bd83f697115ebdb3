"""Tags that live for a time, and the files that go with a tag."""

import datetime
import json
import pickle
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import NotInHistoryError, UsageError
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, Store
from tests.tables.paimon.small import Make, contents, rows

ONLY_TAGS = {"lakebed.expire.what": "tags"}
EXPIRE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}


def later(seconds: float) -> AbstractContextManager[None]:
    """The clock so many seconds ahead."""
    then = clock.now() + seconds
    return clock.set_clock(lambda: then)


def test_a_tag_says_how_long_it_lives(make: Make) -> None:
    table = lakebed.open(make().location, {"tag.default-time-retained": "2 d"})
    table.write(rows(("a", 1, "v", 1)))
    begin = datetime.datetime.now()
    table.tag("week", time_retained="7 d")
    table.tag("moment", time_retained=datetime.timedelta(milliseconds=1500))
    table.tag("default")
    told = {name: json.loads(table.store.read(f"tag/tag-{name}")) for name in ("week", "moment", "default")}
    assert [told[name]["tagTimeRetained"] for name in told] == [604_800.0, 1.5, 172_800.0]
    assert abs(datetime.datetime(*told["week"]["tagCreateTime"][:6]) - begin) < datetime.timedelta(seconds=9)
    for wrong in ("soon", 7, datetime.timedelta(-1)):
        with pytest.raises(UsageError):
            table.tag("wrong", time_retained=wrong)
    plain = make()
    plain.write(rows(("a", 1, "v", 1)))
    plain.tag("for ever")
    assert plain.store.read("tag/tag-for ever") == plain.store.read("snapshot/snapshot-1")


def test_tags_go_when_their_time_is_over(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.tag("hour", time_retained="1 h")
    table.tag("day", time_retained="1 d")
    table.tag("for ever")
    table.store.write("tag/tag-damaged", b"{}")
    assert table.expire(options=ONLY_TAGS).expired == ()
    with later(3601):
        planned = table.expire(dry_run=True, options=ONLY_TAGS)
        assert (planned.expired, planned.deleted_files) == (("hour",), ("tag/tag-hour",))
        reasons = {kept.what: kept.reason for kept in planned.kept}
        assert reasons["tag 'for ever'"] == "it has no time to live" and "lives until" in reasons["tag 'day'"]
        assert reasons["tag 'damaged'"] == "it cannot be read"
    store = type(table.store)
    with later(90_000):  # ahead of the store's, whose time counts
        assert table.expire(options=ONLY_TAGS).expired == ()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "modified", lambda store, path: clock.now())
            assert {*table.expire(options=ONLY_TAGS).expired} == {"hour", "day"}
    assert {*names(table)} == {"for ever", "damaged"}


def test_commits_end_tags_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make()
    monkeypatch.setattr(type(table.store), "modified", lambda store, path: clock.now())
    for options, goes in (({}, False), ({"tag.default-time-retained": "1 d"}, True), (EXPIRE, True)):
        table.write(rows(("a", 1, "v", 1)), options={"tag.time-expire-enabled": "false"})
        table.tag("short", time_retained="1 s")
        with later(2):
            table.write(rows(("a", 1, "v", 1)), options={**EXPIRE, "tag.time-expire-enabled": "false"})
            assert table.write(rows(("a", 1, "v", 1)), options=options).notes == ()
        assert ("short" not in names(table)) is goes
        if not goes:
            table.delete_tag("short")


def test_the_files_of_a_tag_go_with_it(make: Make) -> None:
    table = make(bucket="1")
    for number in (1, 2, 3, 4):
        table.write(rows(("a", number, "v", 1)), mode="overwrite")
        table.tag(f"t{number}")
    before = files(table)
    assert table.expire(options=EXPIRE).expired == ("1", "2", "3")
    table.tag("same", 4)
    alone = lakebed.open(shutil.copytree(table.location, f"{table.location}-copy"))
    for name in ("t2", "t4", "t1", "same", "t3"):
        alone.delete_tag(name)
    orphans = alone.expire(dry_run=True, options={"lakebed.expire.what": "orphan-files"})
    assert contents(alone) == [("a", 4, "v", 1)] and orphans.deleted_files == () == orphans.kept
    table.branch("b", "tag:t3")
    for name in ("t1", "t2", "t3"):
        assert len(contents(table, as_of=f"tag:{name}")) == 1
        table.delete_tag(name)
    assert len([path for path in files(table) if path.startswith("dt=a")]) == 2
    assert [row[1] for row in contents(lakebed.open(table.location, {"branch": "b"}))] == [3]
    assert [row[1] for row in contents(table, as_of="tag:t4")] == [4]
    table.delete_branch("b")
    table.delete_tag("t4")
    table.delete_tag("same")
    assert contents(table) == [("a", 4, "v", 1)]
    assert {path for path in files(table) if path.startswith("manifest")} < before
    with pytest.raises(NotInHistoryError):
        table.delete_tag("t4")


def test_a_damaged_tag_can_be_deleted(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table.store.write("tag/tag-damaged", b"{}")
    table.tag("whole")
    table.delete_tag("whole")
    table.delete_tag("damaged")
    assert names(table) == []


def files(table: Table) -> set[str]:
    return {info.path for info in table.store.walk("")}


def test_a_tag_that_an_expiry_does_not_see_yet(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table, late, other = make(bucket="1"), make(bucket="1"), Store.delete_many
    for each in (table, late):
        for number in (1, 2, 3):
            each.write(rows(("a", number, "v", 1)), mode="overwrite")

    def tag_first(store: Store, paths: Iterable[str]) -> None:
        monkeypatch.undo()
        lakebed.open(table.location).tag("just in time", 1)
        other(store, paths)

    monkeypatch.setattr(type(table.store), "delete_many", tag_first)
    assert table.expire(options=EXPIRE).expired == ("1", "2")
    assert contents(table, as_of="tag:just in time") == [("a", 1, "v", 1)]
    put = type(late.store).put_if_absent

    def expire_first(store: Store, path: str, data: bytes) -> PutOutcome:
        monkeypatch.undo()
        lakebed.open(late.location).expire(options=EXPIRE)
        return put(store, path, data)

    monkeypatch.setattr(type(late.store), "put_if_absent", expire_first)
    with pytest.raises(NotInHistoryError, match="expired meanwhile"):
        late.tag("too late", 2)
    assert names(late) == []


def test_a_writer_with_tags_travels(make: Make) -> None:
    table = lakebed.open(make().location, {"tag.automatic-creation": "process-time"})
    sink = pickle.loads(pickle.dumps(table.sink()))
    assert sink.commit_options.tags.automatic.periods.length == datetime.timedelta(1)


def names(table: Table) -> list[str]:
    return [info.name.removeprefix("tag-") for info in table.store.list("tag").files]
