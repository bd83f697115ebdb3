"""What a snapshot is made of: users' reports about slices, blocks and merging, each as a test of its kind."""

import json
import shutil
from pathlib import Path

import pytest

from lakebed.errors import CorruptError, DataCleanedError, ReadWarning, UnsupportedError
from lakebed.formats.hudi.codec.log import HeaderKey
from lakebed.testing.hudi_log import rollback_block
from tests.tables.hudi.writing import COLUMNS, HudiFolder, changed, foreign_block, rows, t

BOTH = pytest.mark.parametrize("version", [6, 8])


def _based(folder: Path, version: int = 6, **properties: str) -> HudiFolder:
    """A table with one base file: keys a, b, c at ts 10."""
    writer = HudiFolder(folder, version, **properties)
    base = writer.base("g", 1, [{"id": key, "ts": 10, "x": f"{key}1"} for key in "abc"])
    writer.done(1, [base], "deltacommit", operation="BULK_INSERT")
    return writer


def _slice_time(version: int, slice_instant: float, commit: float) -> float:
    """What a log file's name bears."""
    return commit if version >= 8 else slice_instant


@BOTH
def test_base_and_log_by_event_time(tmp_path: Path, version: int) -> None:
    table = _based(tmp_path, version)
    block = table.data(
        2, [{"id": "a", "ts": 20, "x": "a2"}, {"id": "b", "ts": 5, "x": "late"}, {"id": "c", "ts": 10, "x": "tie"}]
    )
    table.done(2, [table.log("g", _slice_time(version, 1, 2), block)])
    assert rows(table.open(), "x") == {"a": "a2", "b": "b1", "c": "tie"}


@BOTH
def test_base_and_log_by_commit_time(tmp_path: Path, version: int) -> None:
    mode = (
        {"record__merge__mode": "COMMIT_TIME_ORDERING"}
        if version >= 8
        else {"compaction__payload__class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}
    )
    table = _based(tmp_path, version, **mode)
    table.done(2, [table.log("g", _slice_time(version, 1, 2), table.data(2, [{"id": "b", "ts": 5, "x": "late"}]))])
    assert rows(table.open(), "x") == {"a": "a1", "b": "late", "c": "c1"}


@BOTH
def test_deletes_with_and_without_ordering_values(tmp_path: Path, version: int) -> None:
    """An older delete loses, a tie or a newer one wins. One without a value wins over what was before it; a row after
    it takes its place in the log, and then meets the base row by its own value, as in Hudi's compaction."""
    table = _based(tmp_path, version)
    first = table.deletes(2, {"a": 5, "b": 10, "c": None}) + table.data(2, [{"id": "d", "ts": 1, "x": "d2"}])
    table.done(2, [table.log("g", _slice_time(version, 1, 2), first)])
    assert rows(table.open(), "x") == {"a": "a1", "d": "d2"}
    second = table.data(3, [{"id": "b", "ts": 9, "x": "older than its delete"}, {"id": "c", "ts": 1, "x": "late"}])
    table.done(3, [table.log("g", _slice_time(version, 1, 3), second, version=2)])
    assert rows(table.open(), "x") == {"a": "a1", "c": "c1", "d": "d2"}
    third = table.deletes(4, {"c": None}) + table.data(4, [{"id": "c", "ts": 11, "x": "newer"}])
    table.done(4, [table.log("g", _slice_time(version, 1, 4), third, version=3)])
    assert rows(table.open(), "x") == {"a": "a1", "c": "newer", "d": "d2"}


@pytest.mark.parametrize(
    ("base", "log", "winner"), [(None, 5, "log"), (5, None, "base"), (None, None, "log"), (5, 5, "log")]
)
def test_null_is_the_lowest_ordering_value(tmp_path: Path, base: int | None, log: int | None, winner: str) -> None:
    table = HudiFolder(tmp_path)
    table.done(1, [table.base("g", 1, [{"id": "a", "ts": base, "x": "base"}])])
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": log, "x": "log"}]))])
    actual = table.open().read(["ts", "x"]).read_all()
    assert actual.to_pylist() == [{"ts": base if winner == "base" else log, "x": winner}]
    assert str(actual.schema.field("ts").type) == "int64"


def test_ordering_by_several_fields(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path, 9, table__ordering__fields="ts,n")
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 5, "n": 5, "x": "base"} for k in "abc"])])
    log = table.data(
        2,
        [
            {"id": "a", "ts": 5, "n": 4, "x": "late"},
            {"id": "b", "ts": 5, "n": 5, "x": "tie"},
            {"id": "c", "ts": 4, "n": 9, "x": "late"},
        ],
    )
    table.done(2, [table.log("g", 2, log)])
    assert rows(table.open(), "x") == {"a": "base", "b": "tie", "c": "base"}


# The log is cut short here on purpose.
@pytest.mark.filterwarnings("ignore::lakebed.errors.CorruptBlocksWarning")
@pytest.mark.parametrize("target", [1, 2])
def test_a_rollback_takes_back_its_own_target_alone(tmp_path: Path, target: int) -> None:
    table = HudiFolder(tmp_path)
    content = table.data(1, [{"id": "a", "x": "a1"}]) + b"#HUDI#garbage" + rollback_block(t(3), t(target))
    path = table.log("g", 1, content)
    table.done(1, [path])
    assert rows(table.open(), "x") == ({} if target == 1 else {"a": "a1"})


def test_blocks_after_a_rollback_of_the_same_instant_count(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path)
    log = (
        table.data(2, [{"id": "a", "x": "first try"}])
        + rollback_block(t(3), t(2))
        + table.data(2, [{"id": "b", "x": "second"}])
    )
    table.done(2, [table.log("g", 1, log)])
    assert rows(table.open(), "x") == {"b": "second"}


def test_a_retried_tasks_blocks_count_once(tmp_path: Path) -> None:
    """The same block twice is one row a key; two different blocks of one instant both count."""
    table = _based(tmp_path)
    block = table.data(2, [{"id": "a", "ts": 20, "x": "a2"}])
    other = table.data(2, [{"id": "b", "ts": 20, "x": "b2"}])
    table.done(2, [table.log("g", 1, block + block + other)])
    assert rows(table.open(), "x") == {"a": "a2", "b": "b2", "c": "c1"}


def test_files_of_a_retried_task_are_not_the_commits(tmp_path: Path) -> None:
    table = _based(tmp_path)
    table.base("g", 1, [{"id": "a", "x": "of a dead attempt"}], token="0-1-9")
    table.base("h", 1, [{"id": "z", "x": "of a dead attempt"}], token="0-1-9")
    table.done(2, [table.base("k", 2, [{"id": "k", "x": "k2"}])])
    table.base("m", 2, [{"id": "m", "x": "of a dead attempt"}])
    assert rows(table.open(), "x") == {"a": "a1", "b": "b1", "c": "c1", "k": "k2"}


def test_rows_written_while_a_compaction_is_planned(tmp_path: Path) -> None:
    """Slices before and after the plan are read as one, before and after the compaction completes."""
    table = _based(tmp_path)
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 20, "x": "a2"}]))])
    table.state(5, "compaction.requested")
    table.done(6, [table.log("g", 5, table.data(6, [{"id": "b", "ts": 20, "x": "b6"}]))])
    wanted = {"a": "a2", "b": "b6", "c": "c1"}
    assert rows(table.open(), "x") == wanted
    table.state(5, "compaction.inflight")
    compacted = [
        {"id": k, "ts": 10, "x": x, "_hoodie_commit_time": t(c)}
        for k, x, c in (("a", "a2", 2), ("b", "b1", 1), ("c", "c1", 1))
    ]
    base = table.base("g", 5, compacted)
    assert rows(table.open(), "x") == wanted
    table.done(5, [base], "commit", operation="COMPACT")
    assert rows(table.open(), "x") == wanted


def test_several_slices_without_a_base_file(tmp_path: Path) -> None:
    table = _based(tmp_path)
    for planned, commit, key in ((3, 4, "a"), (5, 6, "b"), (7, 8, "c")):
        table.state(planned, "compaction.requested")
        table.done(
            commit, [table.log("g", planned, table.data(commit, [{"id": key, "ts": 20, "x": f"{key}{commit}"}]))]
        )
    assert rows(table.open(), "x") == {"a": "a4", "b": "b6", "c": "c8"}


def test_version_8_puts_logs_by_completion(tmp_path: Path) -> None:
    """A log that completed before a compaction was planned is in it; one that completed while it ran is after it."""
    table = _based(tmp_path, 8)
    table.done(2, [table.log("g", 2, table.data(2, [{"id": "a", "ts": 20, "x": "folded"}]))], completed=3)
    table.done(4, [table.log("g", 4, table.data(4, [{"id": "b", "ts": 20, "x": "after"}]))], completed=7)
    base = table.base("g", 5, [{"id": k, "ts": 10, "x": f"base {k}"} for k in "abc"])
    assert rows(table.open(), "x") == {"a": "folded", "b": "after", "c": "c1"}
    table.done(5, [base], "commit", completed=8, operation="COMPACT")
    assert rows(table.open(), "x") == {"a": "base a", "b": "after", "c": "base c"}


def test_a_block_of_an_unfinished_instant_is_passed_over(tmp_path: Path) -> None:
    """... and what comes behind it is read, also when its instant is greater than the newest completed one."""
    table = _based(tmp_path)
    table.log("g", 1, table.data(4, [{"id": "a", "ts": 30, "x": "inflight"}]), version=1)
    table.state(4, "deltacommit.inflight")
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "b", "ts": 20, "x": "b2"}]), version=2)])
    assert rows(table.open(), "x") == {"a": "a1", "b": "b2", "c": "c1"}


def test_inflight_writes_are_invisible(tmp_path: Path) -> None:
    table = _based(tmp_path, 8)
    table.state(3, "deltacommit.inflight")
    table.log("g", 3, table.data(3, [{"id": "a", "ts": 30, "x": "inflight"}]))
    table.base("h", 3, [{"id": "h", "x": "inflight"}])
    assert rows(table.open(), "x") == {"a": "a1", "b": "b1", "c": "c1"}


def test_an_empty_completed_file_is_not_completed(tmp_path: Path) -> None:
    table = _based(tmp_path)
    table.base("h", 3, [{"id": "h", "x": "crashed"}])
    table.state(3, "deltacommit")
    with pytest.warns(ReadWarning, match="is empty, so its instant does not count"):
        assert rows(table.open(), "x") == {"a": "a1", "b": "b1", "c": "c1"}
    assert [(i.time, i.state) for i in table.open().history()] == [(t(1), "completed"), (t(3), "inflight")]


def test_a_log_compaction_stands_where_its_blocks_stood(tmp_path: Path) -> None:
    table = _based(tmp_path, compaction__payload__class="org.apache.hudi.common.model.OverwriteWithLatestAvroPayload")
    paths = [table.log("g", 1, table.data(n, [{"id": "a", "ts": n, "x": f"a{n}"}]), version=n) for n in (2, 3, 5)]
    for number, path in zip((2, 3, 5), paths, strict=True):
        table.done(number, [path])
    folded = table.data(
        4, [{"id": "a", "ts": 3, "x": "a3"}], headers={HeaderKey.COMPACTED_BLOCK_TIMES: f"{t(2)},{t(3)}"}
    )
    path = table.log("g", 1, folded, version=6)
    assert rows(table.open(), "x")["a"] == "a5"
    table.done(4, [path], operation="LOG_COMPACT")
    assert rows(table.open(), "x")["a"] == "a5"


def test_replaced_file_groups_are_gone(tmp_path: Path) -> None:
    table = _based(tmp_path, 8)
    new = table.base("h", 3, [{"id": "h", "x": "h3"}])
    table.done(3, [new], "replacecommit", operation="INSERT_OVERWRITE", replaced={"": ["g"]})
    assert rows(table.open(), "x") == {"h": "h3"}
    assert rows(table.open(), "x", as_of=t(1)) == {"a": "a1", "b": "b1", "c": "c1"}


@BOTH
@pytest.mark.parametrize("lost", ["the base file", "a log file", "a whole group", "the partition"])
def test_a_lost_file_of_the_newest_state_is_an_error_that_names_it(tmp_path: Path, version: int, lost: str) -> None:
    table = HudiFolder(tmp_path, version, table__partition__fields="p")
    (tmp_path / ".hoodie_partition_metadata").unlink()
    for group, partition in (("g", "p=1"), ("h", "p=1"), ("k", "p=2")):
        (tmp_path / partition).mkdir(exist_ok=True)
        (tmp_path / partition / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        table.base(group, 1, [{"id": f"{group}1", "x": "old"}], partition)
    older = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")]
    table.done(1, older, operation="BULK_INSERT")
    newer = [table.base(g, 2, [{"id": f"{g}1", "x": "new"}], "p=1" if g < "k" else "p=2") for g in "ghk"]
    table.done(2, newer, "commit", operation="COMPACT")
    for path in older:  # as a clean does
        (tmp_path / path).unlink()
    log = table.log("g", _slice_time(version, 2, 3), table.data(3, [{"id": "g1", "x": "log"}], "p=1"), 1, "p=1")
    table.done(3, [log])
    assert rows(table.open(), "x") == {"g1": "log", "h1": "new", "k1": "new"}
    gone = {"the base file": newer[0], "a log file": log, "a whole group": newer[1], "the partition": newer[2]}[lost]
    shutil.rmtree(tmp_path / "p=2") if lost == "the partition" else (tmp_path / gone).unlink()
    with pytest.raises(CorruptError) as raised:
        rows(table.open(), "x")
    assert (raised.value.file, raised.value.instant) == (gone, t(3 if gone == log else 2))
    with pytest.raises(DataCleanedError):
        rows(table.open(), "x", as_of=t(3))
    if lost == "a log file":
        assert rows(table.open(hoodie__datasource__query__type="read_optimized"), "x")["g1"] == "new"
    table.done(4, [], "replacecommit", operation="DELETE_PARTITION", replaced={"p=1": ["g", "h"], "p=2": ["k"]})
    assert rows(table.open(), "x") == {}, "what was replaced may be gone"


def test_a_group_of_logs_alone(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path)
    table.done(1, [table.log("g", 1, table.data(1, [{"id": k, "x": k} for k in "abc"]))])
    assert rows(table.open(), "x") == {"a": "a", "b": "b", "c": "c"}
    assert rows(table.open(hoodie__datasource__query__type="read_optimized"), "x") == {}


def test_columns_added_and_widened(tmp_path: Path) -> None:
    """Old base files and old log blocks lack a column and hold an int where the table has a long."""
    old = {"id": "string", "ts": "long", "x": "string", "n": "int"}
    new = {**old, "n": "long", "more": "string"}
    table = HudiFolder(tmp_path, columns=new)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "n": 1} for k in "abc"], columns=old)], columns=old)
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 2, "n": 2}], columns=old))], columns=old)
    table.done(3, [table.log("g", 1, table.data(3, [{"id": "b", "ts": 3, "n": 1 << 40, "more": "m"}]), version=2)])
    assert rows(table.open(), "n", "more") == {"a": (2, None), "b": (1 << 40, "m"), "c": (1, None)}
    assert rows(table.open(), "n", as_of=t(2)) == {"a": 2, "b": 1, "c": 1}


def test_rows_that_say_they_are_deleted(tmp_path: Path) -> None:
    columns = {**COLUMNS, "_hoodie_is_deleted": "boolean"}
    table = HudiFolder(tmp_path, columns=columns)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 10, "x": k} for k in "ab"])])
    gone = [{"id": "a", "ts": 20, "_hoodie_is_deleted": True}, {"id": "b", "ts": 5, "_hoodie_is_deleted": True}]
    table.done(2, [table.log("g", 1, table.data(2, gone))])
    assert rows(table.open(), "x") == {"b": "b"}


def test_an_operation_column_of_change_data(tmp_path: Path) -> None:
    """Op = D in the log, or in a base file after compaction, means gone."""
    columns = {**COLUMNS, "Op": "string"}
    table = HudiFolder(
        tmp_path, columns=columns, compaction__payload__class="org.apache.hudi.common.model.AWSDmsAvroPayload"
    )
    table.done(
        1,
        [
            table.base(
                "g", 1, [{"id": "a", "Op": "I", "x": "a"}, {"id": "b", "Op": "D"}, {"id": "c", "Op": "I", "x": "c"}]
            )
        ],
    )
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "Op": "D"}]))])
    assert rows(table.open(), "x") == {"c": "c"}


def test_an_unknown_payload_is_refused_by_name(tmp_path: Path) -> None:
    table = _based(tmp_path, compaction__payload__class="com.example.OurPayload")
    assert rows(table.open(), "x") == {"a": "a1", "b": "b1", "c": "c1"}, "base files alone need no merging"
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 20, "x": "a2"}]))])
    with pytest.raises(UnsupportedError, match=r"com\.example\.OurPayload.*skip_combine"):
        table.open().read()
    actual = table.open(hoodie__datasource__merge__type="skip_combine").read(["id", "x"]).read_all()
    assert sorted(actual["x"].to_pylist()) == ["a1", "a2", "b1", "c1"]


def test_skip_merge_gives_base_rows_then_log_rows(tmp_path: Path) -> None:
    table = _based(tmp_path)
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 20, "x": "a2"}]))])
    actual = table.open(hoodie__datasource__merge__type="skip_merge").read(["x"]).read_all()
    assert actual["x"].to_pylist() == ["a1", "b1", "c1", "a2"]


def test_partial_updates_take_what_they_bring(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path, 8)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 10, "x": f"x {k}", "n": 1} for k in "abcd"])])
    partial = {HeaderKey.IS_PARTIAL: "true"}
    one = table.data(
        2,
        [{"id": k, "ts": ts, "n": 2} for k, ts in (("a", 20), ("b", 5), ("d", 20))],
        columns={"id": "string", "ts": "long", "n": "int"},
        headers=partial,
    )
    two = table.data(
        3,
        [{"id": "a", "ts": 15, "x": "between"}, {"id": "d", "ts": 30, "x": "newer"}],
        columns={"id": "string", "ts": "long", "x": "string"},
        headers=partial,
    )
    table.done(2, [table.log("g", 2, one)])
    table.done(3, [table.log("g", 3, two)])
    assert rows(table.open(), "x", "n") == {"a": ("between", 2), "b": ("x b", 1), "c": ("x c", 1), "d": ("newer", 2)}


def test_predicates_never_change_who_wins(tmp_path: Path) -> None:
    """Statistics say that no base row has x = late; the base rows still beat the late log rows."""
    table = _based(tmp_path)
    table.done(
        2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 5, "x": "late"}, {"id": "b", "ts": 20, "x": "new"}]))]
    )
    assert rows(table.open(), "x", where="x = 'late'") == {}
    assert rows(table.open(), "x", where="x = 'new' or id = 'c'") == {"b": "new", "c": "c1"}
    assert changed(table.open(), "x", after=t(1), where="x = 'late'") == {}


def test_damage_to_a_whole_block_is_an_error(tmp_path: Path) -> None:
    table = _based(tmp_path)
    content = bytearray(table.data(2, [{"id": "a", "ts": 20, "x": "a2"}]))
    content[30] = 0x7F
    table.done(2, [table.log("g", 1, bytes(content))])
    with pytest.raises(CorruptError, match=r"log\.1"):
        table.open().read().read_all()


def test_blocks_that_no_data_table_holds(tmp_path: Path) -> None:
    table = _based(tmp_path)
    table.done(2, [table.log("g", 1, foreign_block(4, 2))])
    with pytest.raises(UnsupportedError, match="HFile"):
        table.open().read().read_all()


@pytest.mark.parametrize("version", ["4", "7", "10", "x"])
def test_table_versions_that_are_not_read(tmp_path: Path, version: str) -> None:
    table = _based(tmp_path, table__version=version)
    with pytest.raises(UnsupportedError, match=f"version {version} is not supported"):
        table.open()


def test_settings_from_the_backup_of_an_interrupted_update(tmp_path: Path) -> None:
    table = _based(tmp_path)
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    properties.rename(properties.with_suffix(".properties.backup"))
    properties.write_text("#cut")
    assert rows(table.open(), "x") == {"a": "a1", "b": "b1", "c": "c1"}


def test_renamed_columns(tmp_path: Path) -> None:
    """The history of column ids says that n was called x before, and that today's x is another column."""

    def internal(version: float, names: list[str]) -> dict[str, object]:
        fields = [
            {"id": number, "name": name, "optional": True, "type": "string"}
            for number, name in enumerate(names)
            if name
        ]
        return {"max_column_id": 9, "version_id": int(t(version)), "type": "record", "fields": fields}

    old = {"id": "string", "ts": "long", "x": "string"}
    new = {"id": "string", "ts": "long", "n": "string", "x": "string"}
    before, now = internal(1, ["id", "ts", "x"]), internal(3, ["id", "ts", "n", "x"])
    table = HudiFolder(tmp_path, columns=new)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "x": f"base {k}"} for k in "abc"], columns=old)], columns=old)
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 2, "x": "log a"}], columns=old))], columns=old)
    table.done(3, [table.log("g", 1, table.data(3, [{"id": "b", "ts": 3, "n": "new b", "x": "other"}]), version=2)])
    commit = tmp_path / ".hoodie" / f"{t(3)}.deltacommit"
    actual = json.loads(commit.read_text())
    actual["extraMetadata"]["latest_schema"] = json.dumps(now)
    commit.write_text(json.dumps(actual))
    (tmp_path / ".hoodie" / ".schema").mkdir()
    history = tmp_path / ".hoodie" / ".schema" / f"{t(3)}.schemacommit"
    history.write_text(json.dumps({"schemas": [now, before]}))
    assert rows(table.open(), "n", "x") == {"a": ("log a", None), "b": ("new b", "other"), "c": ("base c", None)}
    assert rows(table.open(), "n", where="n = 'base c'") == {"c": "base c"}

    whole = {"a": ("log a", None), "b": ("new b", "other"), "c": ("base c", None)}
    assert changed(table.open(), "n", "x") == whole
    early = changed(table.open(), "n", until=t(2))
    assert early == {"a": "log a", "b": "base b", "c": "base c"}, "a range from before the renaming, in today's columns"
    table.done(4, [], action="replacecommit", operation="CLUSTER")
    assert rows(table.open(), "n", "x") == whole, "the newest commit names no schema with ids"
    del actual["extraMetadata"]["latest_schema"]
    commit.write_text(json.dumps(actual))
    assert rows(table.open(), "n", "x") == whole, "no commit does, the history alone"
    assert rows(table.open(), "x", as_of=t(2)) == {"a": "log a", "b": "base b", "c": "base c"}
