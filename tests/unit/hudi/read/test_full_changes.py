"""Full changes (`cdc.enabled`): change logs of every mode, replaced file groups, compactions, what was cleaned."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import DataCleanedError, ReadWarning, UnsupportedError
from lakebed.formats.hudi.codec.log import BlockKind
from lakebed.formats.hudi.read.moved_keys import Touch, partitions_together
from lakebed.testing.hudi_log import avro_data_block
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from lakebed.verbs.table import Table
from tests.tables.hudi.writing import HudiFolder, t

MODES = ("op_key_only", "data_before", "data_before_after")
BOTH = pytest.mark.parametrize("version", [6, 8])
Row = dict[str, Any]


def _kinds(table: Table, **read: Any) -> list[tuple[str, str, str]]:
    return _rows(table.changes(["id", "x"], **read).read_all().to_pylist())


def _rows(rows: list[Row]) -> list[tuple[str, str, str]]:
    return [(row["_row_kind"], row["id"], row["x"]) for row in rows]


def _change_log(
    table: HudiFolder, instant: float, mode: str, changes: list[tuple[str, Row | None, Row | None]]
) -> bytes:
    """A block of a change log as the mode has it."""
    user = json.loads(table.schema())
    image = ["null", user]
    fields: list[tuple[str, Any]] = [("op", ["null", "string"])]
    if mode == "data_before_after":
        fields += [("ts_ms", ["null", "string"]), ("before", image), ("after", ["null", "row"])]
    else:
        fields.append(("record_key", ["null", "string"]))
        fields += [("before", image)] if mode == "data_before" else []
    schema = {"type": "record", "name": "cdc", "fields": [{"name": n, "type": k, "default": None} for n, k in fields]}
    full = [
        {
            "op": op,
            "ts_ms": t(instant),
            "record_key": (before or after or {})["id"],
            "before": before and {**dict.fromkeys(table.columns), **before},
            "after": after and {**dict.fromkeys(table.columns), **after},
        }
        for op, before, after in changes
    ]
    names = [name for name, _ in fields]
    rows = [{name: row[name] for name in names} for row in full]
    return avro_data_block(json.dumps(schema), rows, t(instant), kind=BlockKind.CDC_DATA)


def _logged(folder: Path, version: int, mode: str) -> HudiFolder:
    """Copy-on-write with a change log: an insert of a and b, then an update of a, a delete of b, an insert of c."""
    properties = {"table__type": "COPY_ON_WRITE", "table__cdc__enabled": "true", "table__keygenerator__type": "SIMPLE"}
    table = HudiFolder(folder, version, **properties, table__cdc__supplemental__logging__mode=mode.upper())
    a, b = {"id": "a", "ts": 1, "x": "a1"}, {"id": "b", "ts": 1, "x": "b1"}
    table.done(1, [table.base("g", 1, [a, b])], "commit", inserts=2)
    new, c = {"id": "a", "ts": 2, "x": "a2"}, {"id": "c", "ts": 2, "x": "c2"}
    base = table.base("g", 2, [new, c])
    changes: list[tuple[str, Row | None, Row | None]] = [("u", a, new), ("d", b, None), ("i", None, c)]
    table.log("g", 2, _change_log(table, 2, mode, changes), cdc=True)
    table.done(2, [base], "commit", deletes=1, inserts=1, previous=t(1))
    return table


@BOTH
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_whole_rows(tmp_path: Path, version: int, mode: str) -> None:
    table = _logged(tmp_path, version, mode).open(cdc__enabled=True)
    second = [("-D", "b", "b1"), ("-U", "a", "a1"), ("+U", "a", "a2"), ("+I", "c", "c2")]
    assert sorted(_kinds(table, after=t(1.5 if version >= 8 else 1))) == sorted(second)
    assert sorted(_kinds(table)[:2]) == [("+I", "a", "a1"), ("+I", "b", "b1")]
    meta = table.changes(after=t(1.6 if version >= 8 else 1)).read_all().to_pylist()
    assert {row["_hoodie_commit_time"] for row in meta} == {t(2)}
    assert sorted({row["_hoodie_record_key"] for row in meta}) == ["a", "b", "c"]
    where = table.changes(["x"], "x = 'a1'", after=t(1.6 if version >= 8 else 1)).read_all().to_pylist()
    assert where == [{"x": "a1", "_row_kind": "-U"}], "the predicate is asked of each row"


@pytest.mark.parametrize("mode", MODES)
def test_cleaned_files_need_whole_rows_in_the_log(tmp_path: Path, mode: str) -> None:
    writer = _logged(tmp_path, 6, mode)
    (tmp_path / f"g-0_0-1-1_{t(1)}.parquet").unlink()
    table = writer.open(cdc__enabled=True)
    if mode == "data_before_after":
        assert len(_kinds(table, after=t(1))) == 4
    else:
        with pytest.raises(DataCleanedError):
            _kinds(table, after=t(1))


@BOTH
def test_an_overwrite_deletes_then_inserts(tmp_path: Path, version: int) -> None:
    writer = _logged(tmp_path, version, "data_before_after")
    new = writer.base("h", 3, [{"id": "a", "ts": 3, "x": "a3"}])
    writer.done(3, [new], "replacecommit", operation="INSERT_OVERWRITE", replaced={"": ["g"]}, inserts=1)
    actual = _kinds(writer.open(cdc__enabled=True), after=t(2.6 if version >= 8 else 2))
    assert actual == [("-D", "a", "a2"), ("-D", "c", "c2"), ("+I", "a", "a3")]


@BOTH
@pytest.mark.parametrize("gone", ["the newest base file", "all files"])
def test_an_overwrite_whose_old_files_a_clean_is_removing_is_told_as_cleaned(
    gone: str, version: int, tmp_path: Path
) -> None:
    """The clean has not ended, so no metadata say what it removed."""
    writer = _logged(tmp_path, version, "data_before_after")
    new = writer.base("h", 3, [{"id": "a", "ts": 3, "x": "a3"}])
    writer.done(3, [new], "replacecommit", operation="INSERT_OVERWRITE", replaced={"": ["g"]}, inserts=1)
    for path in tmp_path.glob("g-0_*" if gone == "all files" else f"g-0_*{t(2)}.parquet"):
        path.unlink()
    after = t(2.6 if version >= 8 else 2)
    with pytest.raises(DataCleanedError, match="were cleaned"):
        _kinds(writer.open(cdc__enabled=True), after=after)
    with pytest.warns(ReadWarning, match="are left out"):  # the newest rows: a batch goes without such deletes
        assert _kinds(writer.open(), after=after) == [("+I", "a", "a3")]


@BOTH
def test_a_key_that_moves_to_another_group_is_deleted_before_it_comes_back(tmp_path: Path, version: int) -> None:
    writer = HudiFolder(tmp_path, version)
    writer.done(1, [writer.base("z", 1, [{"id": k, "ts": 1, "x": k} for k in "ab"])], inserts=2)
    writer.done(2, [writer.log("z", 2 if version >= 8 else 1, writer.deletes(2, {"a": None}))], deletes=1)
    writer.done(3, [writer.base("b", 3, [{"id": "a", "ts": 3, "x": "back"}])], inserts=1)
    actual = _kinds(writer.open(cdc__enabled=True), after=t(1.6 if version >= 8 else 1))
    assert actual == [("-D", "a", "a"), ("+I", "a", "back")]


@BOTH
@pytest.mark.parametrize("target", ["b", "zz"])
@pytest.mark.parametrize("partition", ["", "p"])
def test_a_key_that_moves_within_one_commit_is_deleted_before_it_is_inserted(
    tmp_path: Path, version: int, target: str, partition: str
) -> None:
    """To a group of its partition or, by a global index, of another one; whichever group comes first."""
    writer = HudiFolder(tmp_path, version)
    writer.done(1, [writer.base("z", 1, [{"id": k, "ts": 1, "x": k} for k in "abc"])], inserts=3)
    log = writer.deletes(2, {"a": None}) + writer.data(2, [{"id": "b", "ts": 2, "x": "b2"}])
    left = writer.log("z", 2 if version >= 8 else 1, log)
    came = writer.base(target, 2, [{"id": "a", "ts": 2, "x": "moved"}], partition)
    writer.done(2, [left, came] if target == "zz" else [came, left], deletes=1, inserts=1)
    table = writer.open(cdc__enabled=True)
    after = t(1.6 if version >= 8 else 1)
    assert len(table.plan_changes(after=after).splits) == 1, "one task, or any could come first"
    actual = _kinds(table, after=after)
    assert actual[0] == ("-D", "a", "a") and ("+I", "a", "moved") in actual and len(actual) == 4
    assert actual.index(("-U", "b", "b")) + 1 == actual.index(("+U", "b", "b2"))


def test_file_groups_that_keys_cannot_move_between_are_read_apart() -> None:
    def together(*touches: tuple[str, str, str, bool, bool]) -> dict[str, str]:
        return partitions_together([Touch(*touch) for touch in touches], ())

    left = ("1", "p", "g", True, False)
    assert together(left, ("2", "q", "h", False, True)) == {}, "another commit, another partition"
    assert together(("1", "p", "g", True, True), ("1", "q", "h", False, False)) == {}, "one group alone"
    assert together(("2", "p", "g", True, False), ("1", "p", "h", False, True)) == {}, "an insert before the delete"
    assert together(left, ("2", "p", "h", False, True)) == {"p": "p"}
    later = (("2", "r", "i", True, False), ("2", "q", "h", False, True))
    assert together(left, ("1", "q", "h", True, True), *later) == {"p": "p", "q": "p", "r": "p"}


@BOTH
def test_rows_that_a_clustering_moved_keep_the_order_of_their_changes(tmp_path: Path, version: int) -> None:
    """They change in one group before, in another after it: both are read together, or either could come first."""
    writer = HudiFolder(tmp_path, version)
    writer.done(1, [writer.base("z", 1, [{"id": "a", "ts": 1, "x": "a"}])], inserts=1)
    writer.done(2, [writer.log("z", 2 if version >= 8 else 1, writer.data(2, [{"id": "a", "ts": 2, "x": "a2"}]))])
    moved = [{"id": "a", "ts": 2, "x": "a2", "_hoodie_commit_time": t(2)}]
    writer.done(3, [writer.base("b", 3, moved)], "replacecommit", operation="CLUSTER", replaced={"": ["z"]})
    writer.done(4, [writer.log("b", 4 if version >= 8 else 3, writer.data(4, [{"id": "a", "ts": 4, "x": "a4"}]))])
    table = writer.open(cdc__enabled=True)
    after = t(1.6 if version >= 8 else 1)
    assert len(table.plan_changes(after=after).splits) == 1
    assert _kinds(table, after=after) == [("-U", "a", "a"), ("+U", "a", "a2"), ("-U", "a", "a2"), ("+U", "a", "a4")]


@BOTH
def test_services_change_nothing_and_late_rows_neither(tmp_path: Path, version: int) -> None:
    writer = HudiFolder(tmp_path, version)
    writer.done(1, [writer.base("g", 1, [{"id": k, "ts": 10, "x": k} for k in "ab"])], inserts=2)
    rows = [{"id": "a", "ts": 5, "x": "late"}, {"id": "b", "ts": 11, "x": "b2"}]
    writer.done(2, [writer.log("g", 2 if version >= 8 else 1, writer.data(2, rows))])
    full = [
        {"id": "a", "ts": 10, "x": "a", "_hoodie_commit_time": t(1)},
        {"id": "b", "ts": 11, "x": "b2", "_hoodie_commit_time": t(2)},
    ]
    writer.done(3, [writer.base("g", 3, full)], "commit", operation="COMPACT")
    table = writer.open(cdc__enabled=True)
    assert _kinds(table, after=t(1.6 if version >= 8 else 1)) == [("-U", "b", "b"), ("+U", "b", "b2")]
    assert _kinds(table, after=t(2.6 if version >= 8 else 2)) == []


def test_changes_of_log_files_can_wait_for_their_compaction(tmp_path: Path) -> None:
    writer = HudiFolder(tmp_path, 6, table__keygenerator__type="SIMPLE", table__cdc__enabled="true")
    a = {"id": "a", "ts": 1, "x": "a1"}
    writer.done(1, [writer.base("g", 1, [a])], inserts=1)
    new = {"id": "a", "ts": 2, "x": "a2", "_hoodie_commit_time": t(2)}
    writer.done(2, [writer.log("g", 1, writer.data(2, [new]))])
    options = {"cdc__enabled": True, "read__cdc__from__changelog": True, "read__start-commit": t(1)}
    assert _kinds(writer.open(**options), after=t(1)) == []
    stream = writer.open(**options).stream(["id", "x"])
    ((first, _),) = drain(stream, limits=Limits(commits=1))
    assert stream.latest(first, Limits()) == first, "a delta commit alone brings nothing"
    writer.done(3, [writer.base("g", 3, [new])], "commit", operation="COMPACT", previous=t(1))
    with pytest.raises(UnsupportedError, match=r"read\.cdc\.from\.changelog = false"):
        _kinds(writer.open(**options), after=t(1))
    user = {name: value for name, value in new.items() if name[0] != "_"}
    writer.log("g", 3, _change_log(writer, 3, "data_before_after", [("u", a, user)]), cdc=True)
    wanted = [("-U", "a", "a1"), ("+U", "a", "a2")]
    assert _kinds(writer.open(**options), after=t(1)) == wanted
    ((_, plan),) = drain(writer.open(**options).stream(["id", "x"]), first)
    assert _rows(run(plan, 1).read_all().to_pylist()) == wanted
    assert _kinds(writer.open(cdc__enabled=True), after=t(1)) == wanted, "or they come at once, and once"
