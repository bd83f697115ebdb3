"""What users of other readers ran into, one small table each, where no other test of this folder is about it."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import CorruptBlocksWarning, DataCleanedError, ReadWarning
from lakebed.verbs.read import run
from lakebed.verbs.stream import drain
from tests.tables.hudi.archiving import archive
from tests.tables.hudi.writing import HudiFolder, changed, rows, t

BOTH = pytest.mark.parametrize("version", [6, 8])


def _reported(work: Any) -> tuple[Any, list[Warning]]:
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        actual = work()
    return actual, [warning.message for warning in reported if isinstance(warning.message, Warning)]


# ---- damage that is skipped is reported ------------------------------------------------------------------------------


@BOTH
def test_torn_bytes_are_counted_and_told_and_take_no_good_block_along(tmp_path: Path, version: int) -> None:
    """A doubled marker, a torn block whose inside holds a marker, foreign bytes between blocks."""
    table = HudiFolder(tmp_path, version)
    table.done(1, [table.base("g", 1, [{"id": "z", "ts": 1, "x": "z"}])])
    blocks = [table.data(2, [{"id": key, "ts": 2, "x": key}]) for key in "abc"]
    torn = table.data(2, [{"id": "d", "ts": 2, "x": "#HUDI#"}])[:-5]
    content = b"#HUDI#" + blocks[0] + torn + blocks[1] + b"foreign" + blocks[2]
    path = table.log("g", 2 if version >= 8 else 1, content)
    table.done(2, [path])
    actual, reported = _reported(lambda: rows(table.open(), "x"))
    assert actual == {"z": "z", "a": "a", "b": "b", "c": "c"}
    [warning] = reported
    assert isinstance(warning, CorruptBlocksWarning)
    assert (warning.ranges, warning.size) == (3, 6 + len(torn) + 7)
    assert (warning.table, warning.file) == (str(tmp_path), path)
    assert path in str(warning)


def test_each_file_is_told_by_itself_also_from_threads(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path)
    table.done(1, [table.base(group, 1, [{"id": group, "ts": 1}]) for group in "ghi"])
    logs = [table.log(group, 1, table.data(2, [{"id": group, "ts": 2, "x": "new"}]) + b"torn") for group in "gh"]
    table.done(2, logs)
    actual, reported = _reported(lambda: rows(table.open(read__tasks=3), "x"))
    assert actual == {"g": "new", "h": "new", "i": None}
    assert {warning.file for warning in reported if isinstance(warning, CorruptBlocksWarning)} == set(logs)


@BOTH
def test_what_a_plan_warns_of_is_told_to_who_reads(tmp_path: Path, version: int) -> None:
    table = HudiFolder(tmp_path, version, table__type="COPY_ON_WRITE")
    for number in range(1, 5):
        table.done(number, [table.base(f"g{number}", number, [{"id": f"k{number}", "x": str(number)}])], "commit")
    archive(table, [(1, "commit"), (2, "commit")])
    half = 0.5 if version >= 8 else 0
    actual, reported = _reported(lambda: changed(table.open(), "x", after=t(1 + half)))
    assert actual == {"k2": "2", "k3": "3", "k4": "4"}
    assert [type(warning) for warning in reported] == [ReadWarning]
    assert "archived" in str(reported[0])


# ---- archived commits ------------------------------------------------------------------------------------------------


def _ten(folder: Path, version: int, commits: int = 10) -> HudiFolder:
    """Copy-on-write, one file group: each commit n brings key n and writes key 0 again."""
    table = HudiFolder(folder, version, table__type="COPY_ON_WRITE")
    for number in range(1, commits + 1):
        actual = [{"id": f"k{n}", "ts": n, "x": f"v{n}", "_hoodie_commit_time": t(n)} for n in range(1, number + 1)]
        actual.append({"id": "k0", "ts": number, "x": f"v{number}", "_hoodie_commit_time": t(number)})
        table.done(number, [table.base("g", number, actual)], "commit", previous=t(number - 1))
    return table


@BOTH
@pytest.mark.filterwarnings("ignore::lakebed.errors.ReadWarning")
def test_a_range_inside_the_archive_and_one_across_its_border(tmp_path: Path, version: int) -> None:
    half = 0.5 if version >= 8 else 0
    table = _ten(tmp_path, version)
    ranges = [(2, 4), (5, 8), (0, 10), (6, 7)]
    whole = [changed(table.open(), "x", after=t(low + half), until=t(high + half)) for low, high in ranges]
    assert whole[0] == {"k3": "v3", "k4": "v4", "k0": "v4"}
    archive(table, [(number, "commit") for number in range(1, 7)])
    opened = table.open()
    for (low, high), wanted in zip(ranges, whole, strict=True):
        assert changed(opened, "x", after=t(low + half), until=t(high + half)) == wanted


@BOTH
@pytest.mark.filterwarnings("ignore::lakebed.errors.ReadWarning")
def test_an_archived_range_whose_files_are_gone_is_an_error_or_the_newest_rows(tmp_path: Path, version: int) -> None:
    half = 0.5 if version >= 8 else 0
    table = _ten(tmp_path, version)
    archive(table, [(number, "commit") for number in range(1, 7)])
    for number in range(1, 10):
        next(tmp_path.glob(f"*_{t(number)}.parquet")).unlink()
    given = {"after": t(2 + half), "until": t(4 + half)}
    with pytest.raises(DataCleanedError):
        changed(table.open(), "x", **given)
    scanned = table.open(read__streaming__fallback="full-scan")
    assert changed(scanned, "x", **given) == {"k3": "v3", "k4": "v4"}


@BOTH
def test_writes_that_end_after_a_batch_and_are_archived_before_the_next_are_delivered(
    tmp_path: Path, version: int
) -> None:
    table = HudiFolder(tmp_path, version)
    table.done(1, [table.base("g", 1, [{"id": "a", "x": "a"}])])
    table.state(2, "deltacommit.inflight")
    late = table.base("h", 2, [{"id": "b", "x": "late"}])
    table.done(3, [table.base("i", 3, [{"id": "c", "x": "c"}])])
    opened = table.open(**{"read__start-commit": t(1)})
    [(position, _)] = list(drain(opened.stream(["id"])))
    table.done(2, [late], completed=5)
    for number in (6, 7):
        table.done(number, [table.base(f"n{number}", number, [{"id": f"n{number}", "x": "n"}])])
    (table.timeline / f"{t(2)}.deltacommit.inflight").unlink()
    archive(table, [(number, "deltacommit") for number in (1, 2, 3, 6)])
    actual: list[str] = []
    for _, plan in drain(opened.stream(["id"]), position):
        assert plan.warnings, "the reader has fallen behind"
        with pytest.warns(ReadWarning, match="fallen behind"):
            actual += run(plan, 1).read_all()["id"].to_pylist()
    assert sorted(actual) == ["b", "n6", "n7"]


@pytest.mark.parametrize("compacted", [False, True])
def test_the_log_of_an_archived_commit_belongs_to_its_slice(tmp_path: Path, compacted: bool) -> None:
    """Its completion time is in the archive alone, and says whether a later compaction holds its rows."""
    table = HudiFolder(tmp_path, 8)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "x": "base"} for k in "ab"])])
    log = table.log("g", 2, table.data(2, [{"id": "a", "ts": 2, "x": "log"}]))
    table.done(2, [log], completed=2.5 if compacted else 6)
    a = {"id": "a", "ts": 2, "x": "folded"} if compacted else {"id": "a", "ts": 1, "x": "base"}
    folded = table.base("g", 4, [a, {"id": "b", "ts": 1, "x": "base"}])
    table.done(4, [folded], "commit", operation="COMPACT", completed=5)
    table.done(7, [table.base("h", 7, [{"id": "c", "ts": 7, "x": "c"}])])
    wanted = {"a": "folded" if compacted else "log", "b": "base", "c": "c"}
    assert rows(table.open(), "x") == wanted
    archive(table, [(1, "deltacommit"), (2, "deltacommit"), (4, "commit")])
    assert rows(table.open(), "x") == wanted


# ---- slices and keys -------------------------------------------------------------------------------------------------


@BOTH
def test_logs_are_merged_by_version_and_attempt_and_not_by_name(tmp_path: Path, version: int) -> None:
    """Versions 2, 9, 10 and attempts 9, 10: by text 10 would come first. Without ordering values the last one wins."""
    rules = {"record__merge__mode": "COMMIT_TIME_ORDERING"}
    rules |= {"compaction__payload__class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}
    table = HudiFolder(tmp_path, version, **rules)
    table.done(1, [table.base("g", 1, [{"id": "k", "x": "base"}])])
    logs = []
    for place, (number, token) in enumerate([(2, "0-9-1"), (9, "0-1-1"), (10, "0-2-9"), (10, "0-2-10"), (1, "1-0-1")]):
        block = table.data(2, [{"id": "k", "x": f"{number} {token}"}, {"id": f"only{place}", "x": "x"}])
        logs.append(table.log("g", 2 if version >= 8 else 1, block, number, token=token))
    table.done(2, logs)
    actual = rows(table.open(), "x")
    assert actual["k"] == "10 0-2-10"
    assert len(actual) == 6


def test_two_writers_of_one_bucket_without_a_base_file(tmp_path: Path) -> None:
    """Each with a log of its own; the one that began first ends last. Ranges go by completion."""
    table = HudiFolder(tmp_path, 8)
    table.state(1, "deltacommit.inflight")
    written = [{"id": "a", "ts": 2, "x": "first"}, {"id": "b", "ts": 1, "x": "b"}]
    first = table.log("00000000-b", 1, table.data(1, written))
    second = table.log("00000000-b", 2, table.data(2, [{"id": "a", "ts": 1, "x": "second"}]), token="1-1-1")
    table.done(2, [second], completed=3)
    assert rows(table.open(), "x") == {"a": "second"}
    table.done(1, [first], completed=4)
    assert rows(table.open(), "x") == {"a": "first", "b": "b"}
    assert changed(table.open(), "x", until=t(3)) == {"a": "second"}
    assert changed(table.open(), "x", after=t(3), until=t(4)) == {"a": "first", "b": "b"}


@BOTH
@pytest.mark.parametrize("payload", ["DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload"])
def test_both_table_types_agree_on_one_script(tmp_path: Path, version: int, payload: str) -> None:
    """Inserts, an update, a late update, a delete: copy-on-write has the rows that its writer merged."""
    by_time = payload == "DefaultHoodieRecordPayload"
    rules = {"compaction__payload__class": f"org.apache.hudi.common.model.{payload}"}
    rules |= {"record__merge__mode": "EVENT_TIME_ORDERING" if by_time else "COMMIT_TIME_ORDERING"}
    base = [{"id": k, "ts": 5, "x": "base"} for k in "abcd"]
    updates = [{"id": "a", "ts": 6, "x": "new"}, {"id": "b", "ts": 4, "x": "late"}]
    merge_on_read = HudiFolder(tmp_path / "mor", version, **rules)
    merge_on_read.done(1, [merge_on_read.base("g", 1, base)])
    content = merge_on_read.data(2, updates) + merge_on_read.deletes(2, {"c": None})
    merge_on_read.done(2, [merge_on_read.log("g", 2 if version >= 8 else 1, content)], deletes=1)
    copy_on_write = HudiFolder(tmp_path / "cow", version, table__type="COPY_ON_WRITE", **rules)
    copy_on_write.done(1, [copy_on_write.base("g", 1, base)], "commit")
    old = {"_hoodie_commit_time": t(1)}
    merged = [updates[0], {**base[1], **old} if by_time else updates[1], {**base[3], **old}]
    copy_on_write.done(2, [copy_on_write.base("g", 2, merged)], "commit", deletes=1, previous=t(1))
    assert rows(merge_on_read.open(), "x", "ts") == rows(copy_on_write.open(), "x", "ts")
    after = t(1.5 if version >= 8 else 1)
    ranges = [changed(table.open(), "x", after=after) for table in (merge_on_read, copy_on_write)]
    assert ranges[0] == ranges[1]


def test_keys_are_the_text_that_each_writer_gave_them(tmp_path: Path) -> None:
    """Key generators wrote `a` or `id:a`, timestamps as text or numbers: an update finds the row of its own."""
    table = HudiFolder(tmp_path, table__recordkey__fields="id,ts")
    texts = {
        "plain": "a",
        "named": "id:a",
        "number": "id:a,ts:1700000000000000",
        "text": "id:a,ts:2023-11-14 22:13:20.0",
    }
    base = [{"id": name, "ts": 1, "x": "base", "_hoodie_record_key": text} for name, text in texts.items()]
    table.done(1, [table.base("g", 1, base)])
    block = table.data(2, [{**row, "ts": 2, "x": "new"} for row in base if row["id"] in ("plain", "number")])
    table.done(2, [table.log("g", 1, block)])
    assert rows(table.open(), "x") == {"plain": "new", "named": "base", "number": "new", "text": "base"}


def test_read_optimized_says_nothing_of_logs_and_a_plain_read_never_leaves_them_out(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path)
    table.done(1, [table.base("g", 1, [{"id": "a", "ts": 1, "x": "old"}])])
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 2, "x": "new"}]))])
    table.done(3, [table.log("h", 3, table.data(3, [{"id": "b", "ts": 1, "x": "log alone"}]))])
    assert rows(table.open(), "x") == {"a": "new", "b": "log alone"}
    assert rows(table.open(hoodie__datasource__query__type="read_optimized"), "x") == {"a": "old"}
