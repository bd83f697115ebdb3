"""Tables whose buckets are being resized: while a clustering is pending, writers put rows into the old file group and a
second time into those that the clustering will make."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lakebed
from tests.golden import expected, unpack
from tests.golden.compare import load
from tests.tables.hudi.rings import RING, ROWS, batch
from tests.tables.hudi.writing import HudiFolder, changed, rows, t

BOTH = pytest.mark.parametrize("version", [6, 8])


def _pending(folder: Path, version: int) -> HudiFolder:
    """Group g holds a, b, c; clustering 3 is requested, then 4 updates a, deletes b and adds d, everywhere twice."""
    table = HudiFolder(folder, version)
    rows_1 = [{"id": key, "ts": 1, "x": f"{key}1"} for key in "abc"]
    table.done(1, [table.log("g", 1, table.data(1, rows_1))], inserts=3)
    table.state(3, "replacecommit.requested" if version == 6 else "clustering.requested")
    rows_4 = [{"id": "a", "ts": 4, "x": "a4"}, {"id": "d", "ts": 4, "x": "d4"}]
    block = table.data(4, rows_4) + table.deletes(4, {"b": None})
    old = table.log("g", 1 if version == 6 else 4, block, version=2)
    copies = [table.log("h", 3, table.data(4, rows_4[:1])), table.log("i", 3, table.data(4, rows_4[1:]))]
    copies[1] = table.log("i", 3, table.data(4, rows_4[1:]) + table.deletes(4, {"b": None}))
    table.done(4, [old, *copies], deletes=1, inserts=1)
    return table


def _done(folder: Path, version: int) -> HudiFolder:
    """The same, then the clustering makes h of a and c, and i of b; completed after the second copies were written."""
    table = _pending(folder, version)
    writer = [
        table.base("h", 3, [{"id": k, "ts": 1, "x": f"{k}1", "_hoodie_commit_time": t(1)} for k in "ac"]),
        table.base("i", 3, [{"id": "b", "ts": 1, "x": "b1", "_hoodie_commit_time": t(1)}]),
    ]
    table.done(3, writer, action="replacecommit", completed=5, operation="CLUSTER", replaced={"": ["g"]})
    return table


@BOTH
@pytest.mark.parametrize("make", [_pending, _done])
def test_rows_come_once(tmp_path: Path, version: int, make: Any) -> None:
    table = make(tmp_path, version)
    assert rows(table.open(), "x") == {"a": "a4", "c": "c1", "d": "d4"}
    assert rows(table.open(), "x", as_of=t(2)) == {"a": "a1", "b": "b1", "c": "c1"}
    assert changed(table.open(), "x") == {"a": "a4", "c": "c1", "d": "d4"} | {"b": "-D"}
    assert changed(table.open(), "x", after=t(1)) == {"a": "a4", "b": "-D", "d": "d4"}


@BOTH
@pytest.mark.parametrize("make", [_pending, _done])
def test_full_changes_come_once(tmp_path: Path, version: int, make: Any) -> None:
    actual = make(tmp_path, version).open(cdc__enabled=True).changes(["id", "x"]).read_all().to_pylist()
    wanted = [("+I", "a1"), ("+I", "b1"), ("+I", "c1"), ("-U", "a1"), ("+U", "a4"), ("-D", "b1"), ("+I", "d4")]
    assert Counter((row["_row_kind"], row["x"]) for row in actual) == Counter(wanted)


@BOTH
@pytest.mark.parametrize("make", [_pending, _done])
def test_a_changelog_holds_each_change_once(tmp_path: Path, version: int, make: Any) -> None:
    table = make(tmp_path, version)
    if make is _done:  # a later write goes to the new buckets alone
        log = table.log("h", 3 if version == 6 else 6, table.data(6, [{"id": "c", "ts": 6, "x": "c6"}]), version=2)
        table.done(6, [log])
    actual = table.open(changelog__enabled=True).changes(["id", "x"], after=t(1)).read_all().to_pylist()
    wanted = [("+I", "a", "a4"), ("+I", "d", "d4"), ("-D", "b", None)]
    wanted += [("+I", "c", "c6")] if make is _done else []
    assert Counter((row["_row_kind"], row["id"], row["x"]) for row in actual) == Counter(wanted)


@BOTH
@pytest.mark.parametrize("make", [_pending, _done])
def test_the_changelog_has_no_second_copies(tmp_path: Path, version: int, make: Any) -> None:
    writer = make(tmp_path, version)
    log = writer.log("h", 3 if version == 6 else 6, writer.data(6, [{"id": "c", "ts": 6, "x": "c6"}]), version=2)
    writer.done(6, [log] if make is _done else [])
    actual = writer.open(changelog__enabled=True).changes(["id", "x"], after=t(1.6)).read_all().to_pylist()
    reported = [(row["_row_kind"], row["id"], row["x"]) for row in actual]
    wanted = [("+I", "a", "a4"), ("+I", "d", "d4"), ("-D", "b", None)]
    assert reported == wanted + [("+I", "c", "c6")] * (make is _done)


@BOTH
def test_writes_after_the_clustering(tmp_path: Path, version: int) -> None:
    table = _done(tmp_path, version)
    log = table.log("h", 3 if version == 6 else 6, table.data(6, [{"id": "c", "ts": 6, "x": "c6"}]), version=2)
    table.done(6, [log])
    assert rows(table.open(), "x") == {"a": "a4", "c": "c6", "d": "d4"}
    assert changed(table.open(), "x", after=t(5)) == {"c": "c6"}
    assert changed(table.open(), "x", after=t(1)) == {"a": "a4", "b": "-D", "c": "c6", "d": "d4"}
    actual = table.open(cdc__enabled=True).changes(["x"], after=t(5)).read_all()
    assert actual["x"].to_pylist() == ["c1", "c6"]


@BOTH
def test_a_bucket_whose_clustering_had_no_row_for_it(tmp_path: Path, version: int) -> None:
    """It has no base file: its log, named by the clustering's instant, is all of it."""
    table = _pending(tmp_path, version)
    writer = [table.base("h", 3, [{"id": k, "ts": 1, "x": f"{k}1", "_hoodie_commit_time": t(1)} for k in "abc"])]
    block = table.data(4, [{"id": "a", "ts": 4, "x": "a4"}]) + table.deletes(4, {"b": None})
    table.log("h", 3, block)
    table.log("i", 3, table.data(4, [{"id": "d", "ts": 4, "x": "d4"}]) * 2)
    table.done(3, writer, action="replacecommit", completed=5, operation="CLUSTER", replaced={"": ["g"]})
    assert rows(table.open(), "x") == {"a": "a4", "c": "c1", "d": "d4"}
    assert changed(table.open(), "x", after=t(1)) == {"a": "a4", "b": "-D", "d": "d4"}


@BOTH
def test_second_copies_of_a_write_under_way_are_none(tmp_path: Path, version: int) -> None:
    table = _done(tmp_path, version)
    table.log("h", 3, table.data(7, [{"id": "a", "ts": 7, "x": "a7"}]), version=9)
    table.state(7, "deltacommit.inflight")
    assert rows(table.open(), "x") == {"a": "a4", "c": "c1", "d": "d4"}


def test_what_another_table_left_in_the_folder_is_no_row() -> None:
    folder = unpack("hudi", "consistent_hash_h015")
    wanted = {
        row["_hoodie_record_key"]: (row["_hoodie_commit_time"], row["v"])
        for row in load(expected(folder) / "snapshot.jsonl")
    }
    for actual in (lakebed.open(folder).read(), lakebed.open(folder).changes()):
        table = actual.read_all()
        assert table.num_rows == len(wanted) == 61
        assert {r["id"]: (r["_hoodie_commit_time"], r["v"]) for r in table.to_pylist()} == wanted


def test_logs_from_before_the_timeline_that_no_archived_write_named(tmp_path: Path) -> None:
    """Without an archive only the buckets of consistent hashing show that a group is not the table's."""
    table = HudiFolder(tmp_path)
    table.log("old", 1, table.data(1, [{"id": "z", "ts": 1, "x": "z1"}]))
    table.done(5, [table.log("g", 5, table.data(5, [{"id": "a", "ts": 5, "x": "a5"}]))])
    assert rows(table.open(), "x") == {"a": "a5", "z": "z1"}
    buckets = tmp_path / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata"
    buckets.mkdir(parents=True)
    (buckets / "00000000000000.hashing_meta").write_text(json.dumps({"nodes": [{"value": 1, "fileIdPrefix": "g"}]}))
    assert rows(table.open(), "x") == {"a": "a5"}


@BOTH
def test_a_clustering_that_was_taken_back(tmp_path: Path, version: int) -> None:
    """Its second copies stay behind, named by commits: no rows, and nothing that is missing."""
    table = _pending(tmp_path, version)
    next(table.timeline.glob(f"{t(3)}.*.requested")).unlink()
    assert rows(table.open(), "x") == {"a": "a4", "c": "c1", "d": "d4"}
    assert changed(table.open(), "x", after=t(1)) == {"a": "a4", "b": "-D", "d": "d4"}


def test_log_files_of_an_overwrites_lost_attempt_are_no_rows(tmp_path: Path) -> None:
    """Other replacements than clusterings name all of their files, as any write does."""
    table = HudiFolder(tmp_path, 8)
    table.done(1, [table.log("g", 1, table.data(1, [{"id": "a", "ts": 1, "x": "a1"}]))])
    named = table.log("h", 2, table.data(2, [{"id": "a", "ts": 2, "x": "a2"}]))
    table.log("i", 2, table.data(2, [{"id": "a", "ts": 2, "x": "a2"}]))
    table.done(2, [named], action="replacecommit", operation="INSERT_OVERWRITE", replaced={"": ["g"]})
    assert rows(table.open(), "x") == {"a": "a2"}


def test_a_group_without_base_file_that_a_delta_commit_rewrote(tmp_path: Path) -> None:
    """As of before the rewrite its older log files count, though their commits were archived."""
    table = HudiFolder(tmp_path)
    table.log("g", 1, table.data(1, [{"id": "a", "ts": 1, "x": "a1"}]))
    table.done(2, [table.log("h", 2, table.data(2, [{"id": "b", "ts": 2, "x": "b2"}]))])
    table.done(3, [table.base("g", 3, [{"id": "a", "ts": 3, "x": "a3"}])])
    table.done(4, [table.log("g", 3, table.data(4, [{"id": "a", "ts": 4, "x": "a4"}]))])
    assert rows(table.open(), "x") == {"a": "a4", "b": "b2"}
    assert rows(table.open(), "x", as_of=t(2)) == {"a": "a1", "b": "b2"}


@pytest.mark.parametrize("partitions", [["dt"], []])
def test_an_overwrite_of_buckets_that_no_row_has_come_to_deletes_what_was_there(
    tmp_path: Path, partitions: list[str]
) -> None:
    """It gives them all new file groups, and names the old ones of all."""
    described = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.table.cdc.enabled": True}
    table = lakebed.create(tmp_path / "t", "hudi", ROWS, ["id"], partitions, {**described, **RING})
    table.write(batch(0, v="old"))
    before = table.history()[-1].time
    table.write(batch(2, v="new"), "overwrite")
    changes = lakebed.open(table.location, {"cdc.enabled": True}).changes(["id", "v"], after=before)
    assert sorted((row["_row_kind"], row["v"]) for row in changes.read_all().to_pylist()) == [
        ("+I", "new"),
        ("-D", "old"),
    ]
