"""The changelog (`changelog.enabled`): what files hold, unmerged, in order, with its kind; and the merge types."""

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import DataCleanedError, OptionError
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.files import open_store
from lakebed.testing.hudi_log import write_block
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.golden import unpack
from tests.tables.hudi.writing import COLUMNS, HudiFolder, t

BOTH = pytest.mark.parametrize("version", [6, 8])
FLINK = {**COLUMNS, "_hoodie_operation": "string"}
CHANGELOG = {"changelog.enabled": "true"}
ALL = Limits()
Told = list[tuple[str, str, str | None]]


def _row(key: str, ts: int, x: str, operation: str | None = None) -> dict[str, Any]:
    return {"id": key, "ts": ts, "x": x, **({"_hoodie_operation": operation} if operation else {})}


def _reported(table: pa.Table) -> Told:
    return [(row["_row_kind"], row["id"], row["x"]) for row in table.to_pylist()]


def _open(writer: HudiFolder, **options: str) -> HudiTable:
    return HudiTable(open_store(writer.folder), {**CHANGELOG, **{k.replace("__", "."): v for k, v in options.items()}})


def _changes(writer: HudiFolder, columns: Iterable[str] = ("id", "x"), where: str | None = None, **ends: Any) -> Told:
    return _reported(_open(writer).changes(list(dict.fromkeys([*columns])), where, **ends).read_all())


def _after(version: int, number: int) -> str:
    return t(number + 0.5 if version >= 8 else number)


def _written(folder: Path, version: int, columns: dict[str, str] = FLINK) -> HudiFolder:
    """A base file, then two delta commits of a writer that keeps row kinds; the second has delete blocks."""
    writer = HudiFolder(folder, version, columns)
    writer.done(1, [writer.base("g", 1, [_row(k, 1, f"{k}1") for k in "abc"])], inserts=3)
    first = writer.data(2, [_row("a", 2, "a1", "-U"), _row("a", 2, "a2", "U"), _row("d", 2, "d2", "I")])
    first += writer.data(2, [_row("a", 3, "a2", "-U"), _row("a", 3, "a3", "U"), _row("d", 3, "d2", "D")])
    writer.done(2, [writer.log("g", 2 if version >= 8 else 1, first)])
    second = writer.deletes(3, {"b": None}) + writer.data(3, [_row("b", 1, "late")]) + writer.deletes(3, {"c": 9})
    writer.done(3, [writer.log("g", 3 if version >= 8 else 1, second, version=1 if version >= 8 else 2)], deletes=2)
    return writer


SECOND: Told = [
    ("-U", "a", "a1"), ("+U", "a", "a2"), ("+I", "d", "d2"), ("-U", "a", "a2"), ("+U", "a", "a3"), ("-D", "d", "d2")
]  # fmt: skip
THIRD: Told = [("-D", "b", None), ("+I", "b", "late"), ("-D", "c", None)]
FIRST: Told = [("+I", "a", "a1"), ("+I", "b", "b1"), ("+I", "c", "c1")]


@BOTH
def test_changes_are_those_that_the_log_holds_in_its_order(tmp_path: Path, version: int) -> None:
    writer = _written(tmp_path, version)
    assert _changes(writer) == FIRST + SECOND + THIRD
    assert _changes(writer, after=_after(version, 1), until=_after(version, 2)) == SECOND
    assert _changes(writer, after=_after(version, 2)) == THIRD
    assert _changes(writer, where="x = 'a2'", after=_after(version, 1)) == [("+U", "a", "a2"), ("-U", "a", "a2")]
    full = _open(writer).changes(after=_after(version, 2)).read_all().to_pylist()
    assert {row["_hoodie_commit_time"] for row in full} == {t(3)}
    assert [row["_hoodie_record_key"] for row in full] == ["b", "b", "c"]
    assert [row["ts"] for row in full] == [None, 1, 9]


@BOTH
def test_streams_and_ranges_give_the_same(tmp_path: Path, version: int) -> None:
    writer = _written(tmp_path, version)

    def streamed(start: str, limits: Limits = ALL) -> list[Told]:
        stream = _open(writer, **{"read.start-commit": start}).stream(["id", "x"])
        plans = [pickle.loads(pickle.dumps(plan)) for _, plan in drain(stream, limits=limits)]
        return [_reported(run(plan, 1).read_all()) for plan in plans]

    assert streamed(t(2) if version < 8 else t(2.5), Limits(commits=1)) == [SECOND, THIRD]
    assert streamed("earliest") == [FIRST + SECOND + THIRD], "the base file, then the log"
    ranged = _open(writer, **{"read.start-commit": t(2), "read.end-commit": t(2)}).read(["id", "x"]).read_all()
    assert _reported(ranged) == SECOND
    assert _reported(_open(writer, **{"read.end-commit": t(3)}).read(["id", "x"]).read_all()) == THIRD


@BOTH
def test_a_batch_gives_base_rows_then_the_log(tmp_path: Path, version: int) -> None:
    writer = _written(tmp_path, version)
    assert _reported(_open(writer).read(["id", "x"]).read_all()) == FIRST + SECOND + THIRD
    assert _reported(_open(writer).read(["id", "x"], as_of=t(2)).read_all()) == FIRST + SECOND
    compacted = [
        {**_row(k, ts, x), "_hoodie_commit_time": t(at)} for k, ts, x, at in (("a", 3, "a3", 2), ("b", 1, "b1", 1))
    ]
    writer.done(4, [writer.base("g", 4, compacted)], "commit", operation="COMPACT")
    assert _reported(_open(writer).read(["id", "x"]).read_all()) == [("+I", "a", "a3"), ("+I", "b", "b1")]
    assert _changes(writer, after=_after(version, 1)) == SECOND + THIRD, "a compaction brings nothing"


@BOTH
def test_logs_that_were_cleaned_are_named(tmp_path: Path, version: int) -> None:
    writer = _written(tmp_path, version)
    log = tmp_path / f".g-0_{t(2 if version >= 8 else 1)}.log.1_0-1-1"
    writer.done(4, [writer.base("g", 4, [_row("a", 3, "a3")])], "commit", operation="COMPACT")
    log.unlink()
    with pytest.raises(DataCleanedError, match=r"log\.1"):
        _changes(writer, after=_after(version, 1))
    assert _changes(writer, after=_after(version, 2)) == THIRD


def test_without_operations_rows_are_inserts_and_marks_are_deletes(tmp_path: Path) -> None:
    writer = HudiFolder(tmp_path, 6, {**COLUMNS, "_hoodie_is_deleted": "boolean"})
    rows = [{**_row("a", 1, "a1"), "_hoodie_is_deleted": None}, {**_row("a", 2, "gone"), "_hoodie_is_deleted": True}]
    writer.done(1, [writer.log("g", 1, writer.data(1, rows))], inserts=1)
    assert _changes(writer) == [("+I", "a", "a1"), ("-D", "a", "gone")]


def test_blocks_of_others_in_one_file_and_blocks_taken_back_do_not_count(tmp_path: Path) -> None:
    """Table version 6 appends the blocks of several commits to one file, failed ones and their rollback among them."""
    writer = HudiFolder(tmp_path, 6, COLUMNS)
    back = {HeaderKey.INSTANT_TIME: t(4), HeaderKey.TARGET_INSTANT_TIME: t(2), HeaderKey.COMMAND_BLOCK_TYPE: "0"}
    content = writer.data(1, [_row("a", 1, "a1")]) + writer.data(2, [_row("a", 2, "failed")])
    content += write_block(BlockKind.COMMAND, back, b"") + writer.data(3, [_row("a", 3, "a3")])
    path = writer.log("g", 1, content)
    writer.done(1, [path], inserts=1)
    writer.done(3, [path])
    assert _changes(writer) == [("+I", "a", "a1"), ("+I", "a", "a3")]
    assert _changes(writer, after=t(1)) == [("+I", "a", "a3")]


@BOTH
def test_a_key_that_moves_is_deleted_before_it_comes(tmp_path: Path, version: int) -> None:
    writer = HudiFolder(tmp_path, version)
    writer.done(1, [writer.base("z", 1, [_row("a", 1, "a")])], inserts=1)
    left = writer.log("z", 2 if version >= 8 else 1, writer.deletes(2, {"a": None}))
    other = writer.base("b", 2, [_row("a", 2, "moved")])
    writer.done(2, [other, left], deletes=1, inserts=1)
    assert _changes(writer, after=_after(version, 1)) == [("-D", "a", None), ("+I", "a", "moved")]


@BOTH
def test_what_the_merge_types_show(tmp_path: Path, version: int) -> None:
    """skip_merge merges the log's rows among themselves, skip_combine does not; neither meets the base rows."""
    writer = HudiFolder(tmp_path, version)
    writer.done(1, [writer.base("g", 1, [_row(k, 5, f"{k}1") for k in "abc"])], inserts=3)
    log = writer.data(2, [_row("a", 7, "a7"), _row("a", 6, "a6"), _row("b", 8, "b8"), _row("d", 1, "d1")])
    log += writer.deletes(2, {"b": 9, "c": 9})
    writer.done(2, [writer.log("g", 2 if version >= 8 else 1, log)], deletes=2)

    def shown(kind: str, key: str = "merge.type") -> list[str]:
        return lakebed.open(tmp_path, {key: kind}).read(["x"]).read_all()["x"].to_pylist()

    base = ["a1", "b1", "c1"]
    assert shown("payload_combine") == ["a7", "d1"]
    assert sorted(shown("skip_merge")) == sorted([*base, "a7", "d1"])
    assert shown("skip_combine") == [*base, "a7", "a6", "b8", "d1"], "in the order of the log"
    assert shown("REALTIME_SKIP_COMBINE", "hoodie.datasource.merge.type") == shown("skip_combine")
    with pytest.raises(OptionError, match="skip_combine"):
        shown("skip")


def test_two_kinds_of_changes_at_once_are_refused(tmp_path: Path) -> None:
    writer = _written(tmp_path, 8)
    for options in ({"cdc.enabled": "true"}, {"hoodie.datasource.query.type": "read_optimized"}):
        for read in ("read", "changes", "stream"):
            with pytest.raises(OptionError, match=next(iter(options))):
                getattr(_open(writer, **options), read)()


@pytest.mark.parametrize("name", ["mor_logonly_v6", "mor_v8", "merge_event_v9", "mor_rollback_h015", "partial_v9"])
def test_every_data_row_of_a_real_table_is_told_once(name: str) -> None:
    """Held against the newest versions: each row of the snapshot that whole log rows made is among the changes."""
    folder = unpack("hudi", name)
    changelog = lakebed.open(folder, CHANGELOG).read().read_all()
    snapshot = lakebed.open(folder).read().read_all()
    seen = set(
        zip(changelog["_hoodie_record_key"].to_pylist(), changelog["_hoodie_commit_time"].to_pylist(), strict=True)
    )
    wanted = zip(snapshot["_hoodie_record_key"].to_pylist(), snapshot["_hoodie_commit_time"].to_pylist(), strict=True)
    assert set(wanted) <= seen
    assert changelog.num_rows >= snapshot.num_rows
