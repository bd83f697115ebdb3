"""Expiry: which snapshots go, what holds the others, and that no file goes which something needs."""

import itertools
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.callbacks import Committed
from lakebed.errors import CorruptError, NotInHistoryError, OptionError
from lakebed.formats.paimon.commit import attempt
from lakebed.model.commit import Outcome
from lakebed.verbs.read import run
from lakebed.verbs.stream import drain
from tests.golden import names, unpack
from tests.tables.paimon.small import Make, contents, rows

AT_ONCE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
NOTHING_OWED = {**AT_ONCE, "lakebed.owed.time-retained": "0 ms"}
BY_HAND = {"write__only": "true"}


def ids(table: lakebed.Table) -> list[int]:
    return [int(instant.time) for instant in table.history()]


def filled(make: Make, commits: int = 6, **options: str) -> lakebed.Table:
    """Each commit overwrites partition b, and adds a row to a."""
    table = make(**{**BY_HAND, **options})
    for number in range(commits // 2):
        table.write(rows(("a", number, "v", number)))
        table.write(rows(("b", number, "v", number)), "overwrite")
    return table


def files(table: lakebed.Table) -> set[str]:
    root = Path(table.location)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_the_oldest_go_with_what_only_they_need(make: Make) -> None:
    table = filled(make)
    before, rows_before = files(table), contents(table)
    planned = table.expire(dry_run=True, options=AT_ONCE)
    assert (planned.expired, planned.dry_run) == (("1", "2", "3", "4", "5"), True)
    assert files(table) == before
    done = table.expire(options=AT_ONCE)
    assert done.expired == planned.expired
    assert set(done.deleted_files) == set(planned.deleted_files) == before - files(table)
    assert ids(table) == [6]
    assert contents(table) == rows_before
    assert sorted(path.name for path in Path(table.location).rglob("data-*")) == sorted(
        Path(name).name for name in files(table) if "data-" in name
    )
    assert len([name for name in files(table) if name.startswith("dt=b/")]) == 1
    assert (Path(table.location) / "snapshot" / "EARLIEST").read_text() == "6"
    table.write(rows(("a", 9, "v", 9)))
    assert len(contents(table)) == len(rows_before) + 1
    with pytest.raises(NotInHistoryError):
        contents(table, as_of=3)


def test_a_tag_that_cannot_be_read_holds_everything_until_it_goes(make: Make) -> None:
    table = filled(make)
    table.tag("cut", 2)
    tag = Path(table.location) / "tag" / "tag-cut"
    tag.write_bytes(tag.read_bytes()[:40])
    before = files(table)
    for act in (
        lambda: table.expire(options=AT_ONCE),
        lambda: table.rollback(3),
        lambda: table.expire(options={"lakebed.expire.what": "orphan-files"}),
    ):
        with pytest.raises(CorruptError, match=r"tag/tag-cut.*Restore the file from a copy, or delete tag 'cut'"):
            act()
    assert files(table) == before
    table.delete_tag("cut")
    assert table.expire(options=AT_ONCE).expired == ("1", "2", "3", "4", "5")


@pytest.mark.parametrize(
    ("options", "left", "reason"),
    [
        ({}, [1, 2, 3, 4, 5, 6], "num-retained.min"),
        ({"snapshot.num-retained.min": "1"}, [1, 2, 3, 4, 5, 6], "time-retained"),
        ({"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"}, [3, 4, 5, 6], "time-retained"),
        ({**AT_ONCE, "snapshot.num-retained.min": "3", "snapshot.num-retained.max": "9"}, [4, 5, 6], "min"),
        ({**AT_ONCE, "snapshot.expire.limit": "2"}, [3, 4, 5, 6], "limit"),
    ],
)
def test_what_stays_and_why(make: Make, options: dict[str, str], left: list[int], reason: str) -> None:
    table = filled(make)
    result = table.expire(options=options)
    assert ids(table) == left
    assert any(reason in kept.reason for kept in result.kept)
    with pytest.raises(OptionError, match="num-retained"):
        table.expire(options={"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "4"})


def test_a_tag_keeps_its_files(make: Make) -> None:
    table = filled(make)
    table.tag("kept", 3)
    at_tag, now = contents(table, as_of=3), contents(table)
    result = table.expire(options=AT_ONCE)
    assert any("tag 'kept'" in kept.reason for kept in result.kept)
    assert contents(table, as_of="tag:kept") == at_tag
    assert contents(table) == now
    table.delete_tag("kept")


def test_a_branch_keeps_its_files(tmp_path: Path) -> None:
    folder = unpack("paimon", "tags_branches", into=tmp_path)
    main = lakebed.open(folder)
    shutil.rmtree(folder / "consumer")
    branches = main._history.branches()  # type: ignore[attr-defined]
    before = {name: contents(lakebed.open(folder, {"branch": name})) for name in ["main", *branches]}
    for name in ("main", *branches):
        lakebed.open(folder, {"branch": name}).expire(options=NOTHING_OWED)
        assert len(lakebed.open(folder, {"branch": name}).history()) <= 1
    assert {name: contents(lakebed.open(folder, {"branch": name})) for name in ["main", *branches]} == before
    for tag in main._history.tags():  # type: ignore[attr-defined]
        assert contents(main, as_of=f"tag:{tag}") is not None


def test_a_consumer_keeps_what_it_has_still_to_read(make: Make) -> None:
    table = filled(make)
    consumer = Path(table.location) / "consumer" / "consumer-job"
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 4}))
    result = table.expire(options=AT_ONCE)
    assert ids(table) == [4, 5, 6]
    assert any("consumer 'job'" in kept.reason for kept in result.kept)
    consumer.write_text("{}")
    with pytest.raises(CorruptError, match="consumer"):
        table.expire(options=AT_ONCE)


def test_a_consumer_gets_the_rows_that_an_overwrite_removed(make: Make) -> None:
    table = make(streaming__read__overwrite="true")
    table.write(rows(("a", 1, "v", 1)))
    stream = lakebed.open(table.location, {"consumer-id": "job", "scan.mode": "latest-full"}).stream()
    (position,) = [end for end, _ in drain(stream)]
    for n in range(2, 5):
        table.write(rows(("a", n, "w", n)), "overwrite")
    result = table.expire(options=AT_ONCE)
    assert result.expired == ()
    assert any("consumer 'job'" in kept.reason for kept in result.kept)
    changes = [row for _, plan in drain(stream, position) for row in run(plan, 1).read_all().to_pylist()]
    assert sorted(row["id"] for row in changes if row["_row_kind"] == "-D") == [1, 2, 3]
    assert sorted(row["id"] for row in changes if row["_row_kind"] == "+I") == [2, 3, 4]
    assert len(table.expire(options=AT_ONCE).expired) == 3


def test_a_consumer_that_did_not_move_for_long_holds_nothing(make: Make) -> None:
    table = filled(make)
    folder = Path(table.location) / "consumer"
    folder.mkdir()
    for name, hours in (("old", 49), ("new", 47)):
        (folder / f"consumer-{name}").write_text(json.dumps({"nextSnapshot": 2 if name == "old" else 4}))
        moved = time.time() - hours * 3600
        os.utime(folder / f"consumer-{name}", (moved, moved))
    options = {**AT_ONCE, "consumer.expiration-time": "2 d"}
    planned = table.expire(dry_run=True, options=options)
    assert "consumer/consumer-old" in planned.deleted_files
    assert sorted(path.name for path in folder.iterdir()) == ["consumer-new", "consumer-old"]
    result = table.expire(options=options)
    assert (result.expired, result.deleted_files) == (planned.expired, planned.deleted_files)
    assert [path.name for path in folder.iterdir()] == ["consumer-new"]
    assert ids(table) == [4, 5, 6]


def test_the_newest_snapshot_of_a_live_stream_stays(make: Make) -> None:
    """By it a batch that is replayed after a pause is known."""
    table = make(**BY_HAND)
    for identifier in (1, 2):
        writer = table.writer("stream")
        writer.write(rows(("a", identifier, "v", 1)))
        writer.commit(identifier, writer.prepare_commit())
    for number in range(4):
        table.write(rows(("b", number, "v", 1)))
    result = table.expire(options=AT_ONCE)
    assert ids(table) == [2, 3, 4, 5, 6]
    assert any("stream" in kept.reason for kept in result.kept)
    writer = table.writer("stream")
    writer.write(rows(("a", 2, "again", 1)))
    assert writer.commit(2, writer.prepare_commit()).outcome is Outcome.SKIPPED
    assert len(contents(table)) == 6
    table.expire(options=NOTHING_OWED)
    assert ids(table) == [6]


def test_snapshots_that_a_callback_has_not_seen_stay(make: Make) -> None:
    class Broken:
        def __init__(self) -> None:
            self.seen: list[int] = []
            self.broken = True

        def call(self, commit: Committed) -> None:
            if self.broken:
                raise RuntimeError("down")
            self.seen.append(commit.snapshot_id)

    table, broken = make(**AT_ONCE_AS_KEYS), Broken()
    for number in range(3):
        writer = table.writer("u", callbacks=[broken])
        writer.write(rows(("a", number, "v", 1)))
        assert any("down" in note for note in writer.commit(messages=writer.prepare_commit()).notes)
    assert ids(table) == [1, 2, 3]
    broken.broken = False
    writer = table.writer("u", callbacks=[broken])
    writer.write(rows(("a", 9, "v", 1)))
    writer.commit(messages=writer.prepare_commit())
    assert broken.seen == [1, 2, 3, 4]
    assert ids(table) == [4]


def test_snapshots_that_expired_before_a_callback_saw_them_are_told(make: Make) -> None:
    """Other engines' expiry does not wait for callbacks."""

    seen: list[int] = []

    class Late:
        def call(self, commit: Committed) -> None:
            seen.append(commit.snapshot_id)

    table = make(**BY_HAND)
    writer = table.writer("u", callbacks=[Late()])
    writer.write(rows(("a", 0, "v", 1)))
    assert writer.commit(messages=writer.prepare_commit()).notes == ()
    for number in range(3):
        table.write(rows(("a", number, "v", 1)))
    for number in (1, 2, 3):
        (Path(table.location) / f"snapshot/snapshot-{number}").unlink()
    writer.write(rows(("a", 9, "v", 1)))
    (note,) = writer.commit(messages=writer.prepare_commit()).notes
    assert "was not called for snapshots 2 to 3" in note and seen == [1, 4, 5]


AT_ONCE_AS_KEYS = {
    "snapshot_num__retained_min": "1", "snapshot_num__retained_max": "1", "snapshot_time__retained": "1 ms",
}  # fmt: skip


def test_commits_expire_too(make: Make) -> None:
    table = make(**AT_ONCE_AS_KEYS)
    for number in range(4):
        table.write(rows(("a", number, "v", 1)))
        assert ids(table) == [number + 1]
    quiet = make(**AT_ONCE_AS_KEYS, write__only="true")
    for number in range(4):
        quiet.write(rows(("a", number, "v", 1)))
    assert ids(quiet) == [1, 2, 3, 4]


@pytest.mark.parametrize(("expire", "left"), [(None, [4]), (True, [4]), (False, [1, 2, 3, 4])])
def test_a_commit_without_files_expires_unless_told_not_to(make: Make, expire: bool | None, left: list[int]) -> None:
    table = make(**BY_HAND)
    for number in range(4):
        table.write(rows(("a", number, "v", 1)))
    options = {**AT_ONCE, "write-only": "false"}
    writer = lakebed.open(table.location, options).writer()
    if expire is not None:
        writer.expire_for_empty_commit(expire)
    assert writer.commit(messages=[]).outcome is Outcome.SKIPPED
    assert ids(table) == left


def test_changelog_and_index_files_go_too(make: Make) -> None:
    table = make(bucket="-1", changelog__producer="input", **BY_HAND)
    for number in range(5):
        table.write(rows(("a", number, "v", 1)))
    before = contents(table)
    table.expire(options=AT_ONCE)
    assert len([name for name in files(table) if "changelog-" in name]) == 1
    assert len([name for name in files(table) if name.startswith("index/")]) == 1
    assert contents(table) == before
    table.write(rows(*[("a", number, "w", 2) for number in range(5)]))
    assert len(contents(table)) == 5


EXPIRABLE = [name for name in names("paimon") if name not in ("rollback",)]


@pytest.mark.parametrize("name", EXPIRABLE)
def test_the_tables_of_the_jvm_read_the_same_after_it(name: str, tmp_path: Path) -> None:
    folder = unpack("paimon", name, into=tmp_path)
    shutil.rmtree(folder / "consumer", ignore_errors=True)
    table = lakebed.open(folder)
    tags = {tag: as_text(table.read(as_of=f"tag:{tag}")) for tag in table._history.tags()}  # type: ignore[attr-defined]
    before = as_text(table.read())
    result = table.expire(options=NOTHING_OWED)
    assert as_text(table.read()) == before
    assert {tag: as_text(table.read(as_of=f"tag:{tag}")) for tag in tags} == tags
    assert len(table.history()) == 1
    for path in result.deleted_files:
        assert not (Path(table.location) / path).exists()
    again = table.expire(options=NOTHING_OWED)
    assert (again.expired, again.deleted_files) == ((), ())


def as_text(reader: pa.RecordBatchReader) -> list[str]:
    return sorted(map(repr, reader.read_all().to_pylist()))


@pytest.mark.slow
def test_a_level_change_deletes_no_file(tmp_path: Path) -> None:
    """A compaction that only lifts a file to another level names it as deleted and as added."""
    folder = unpack("paimon", "pk_universal", into=tmp_path)
    table = lakebed.open(folder)
    for keep in itertools.count(len(table.history()) - 1, -1):
        if keep == 0:
            break
        before = as_text(table.read())
        table.expire(options={**NOTHING_OWED, "snapshot.num-retained.min": keep, "snapshot.num-retained.max": keep})
        assert len(table.history()) == keep
        assert as_text(table.read()) == before
        oldest = table.history()[0]
        assert as_text(table.read(as_of=int(oldest.time))) is not None


def test_a_commit_whose_base_expires_meanwhile_is_tried_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(**BY_HAND, commit_min__retry__wait="1 ms")
    table.write(rows(("a", 1, "v", 1)))
    read = attempt.data_manifests

    def after_a_rival(*arguments: Any) -> Any:
        monkeypatch.setattr(attempt, "data_manifests", read)
        lakebed.open(table.location).write(rows(("a", 2, "rival", 1)), "overwrite")
        assert table.expire(options=AT_ONCE).expired == ("1",)
        return read(*arguments)

    monkeypatch.setattr(attempt, "data_manifests", after_a_rival)
    assert table.write(rows(("a", 3, "v", 1))).snapshot_id == 3
    assert contents(table) == [("a", 2, "rival", 1), ("a", 3, "v", 1)]
    manifests = {path.name for path in (Path(table.location) / "manifest").glob("manifest-list-*")}
    assert len(manifests) == 4, "those of the lost try are gone"


def test_what_a_changelog_that_outlives_its_snapshot_names_stays(make: Make) -> None:
    """As an engine leaves it that keeps changelogs longer than snapshots."""
    table = filled(make)
    root = Path(table.location)
    (root / "changelog").mkdir()
    shutil.copy(root / "snapshot" / "snapshot-2", root / "changelog" / "changelog-2")
    document = json.loads((root / "changelog" / "changelog-2").read_text())
    reference = lakebed.open(shutil.copytree(root, root.with_name("without")))
    shutil.rmtree(root.with_name("without") / "changelog")
    gone = {*table.expire(options=AT_ONCE).deleted_files}
    kept = {*reference.expire(options=AT_ONCE).deleted_files} - gone
    assert f"manifest/{document['deltaManifestList']}" in kept
    assert len([name for name in kept if "data-" in name]) == 1  # the row that snapshot 2 put into partition b
    assert kept <= files(table)
