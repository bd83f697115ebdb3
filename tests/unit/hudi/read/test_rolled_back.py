"""Streams over a table of which a rollback or a restore took commits back: those that were read are reported."""

from pathlib import Path

import pytest

from lakebed.errors import NotInHistoryError, ReadWarning
from lakebed.formats.hudi.read.position import StreamPosition
from lakebed.formats.hudi.read.spark_options import spark_stream
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.files import open_store
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.tables.hudi.archiving import archive
from tests.tables.hudi.writing import HudiFolder, t

BOTH = pytest.mark.parametrize("version", [6, 8])
WARN = {"lakebed.stream.rolled-back": "warn"}


def _written(folder: Path, version: int, commits: int) -> HudiFolder:
    """One file group per commit."""
    writer = HudiFolder(folder, version, table__type="COPY_ON_WRITE")
    for number in range(1, commits + 1):
        writer.done(number, [writer.base(f"g{number}", number, [{"id": f"k{number}"}])], "commit", inserts=1)
    return writer


def _all(table: HudiTable) -> str:
    """The position of a stream that has read everything."""
    stream = table.stream()
    return stream.latest(StreamPosition("").text(), Limits())


def _take_back(writer: HudiFolder, number: int) -> None:
    next(path for path in writer.timeline.iterdir() if path.name.startswith(t(number))).unlink()
    next(writer.folder.glob(f"g{number}-*")).unlink()


@BOTH
def test_a_commit_that_was_taken_back_is_told(tmp_path: Path, version: int) -> None:
    writer = _written(tmp_path, version, 3)
    table = HudiTable(open_store(tmp_path), {})
    position = _all(table)
    _take_back(writer, 3)
    with pytest.raises(NotInHistoryError, match=t(3)):
        table.stream().latest(position, Limits())
    writer.done(9, [writer.base("h", 9, [{"id": "k9"}])], "commit", inserts=1)
    with pytest.raises(NotInHistoryError, match=r"lakebed\.stream\.rolled-back = warn"):
        list(drain(table.stream(), position))
    with pytest.raises(NotInHistoryError):
        table.stream().plan(StreamPosition("").text(), position)
    ((end, plan),) = drain(HudiTable(open_store(tmp_path), WARN).stream(["id"]), position)
    assert any(f"1 commit that this stream has read was rolled back: {t(3)}" in text for text in plan.warnings)
    with pytest.warns(ReadWarning, match="rolled back"):
        assert run(plan, 1).read_all()["id"].to_pylist() == ["k9"]
    assert table.stream().latest(end, Limits()) == end, "reported once"


@BOTH
def test_a_failed_write_that_was_rolled_back_is_none_of_it(tmp_path: Path, version: int) -> None:
    writer = _written(tmp_path, version, 2)
    writer.state(1.5, "commit.inflight", b"")
    table = HudiTable(open_store(tmp_path), {})
    position = _all(table)
    (writer.timeline / f"{t(1.5)}.commit.inflight").unlink()
    assert table.stream().latest(position, Limits()) == position


@BOTH
def test_archived_commits_were_not_taken_back(tmp_path: Path, version: int) -> None:
    """Neither while an archival under way has removed some instants before others, nor after a restore."""
    writer = _written(tmp_path, version, 6)
    table = HudiTable(open_store(tmp_path), {})
    position = StreamPosition.parse(_all(table))
    archive(writer, [(2, "commit"), (3, "commit")])
    assert t(1) in table.state().timeline.by_time
    assert position.vanished(table.state()) == ()
    archive(writer, [(1, "commit")], 2)
    (writer.timeline / (f"{t(8)}.restore" if version < 8 else f"{t(8)}_{t(8.5)}.restore")).write_bytes(b"{}")
    assert position.vanished(table.state()) == ()
    _take_back(writer, 6)
    assert position.vanished(table.state()) == (t(6),)


def test_a_restore_to_before_the_timeline_is_told_where_the_archive_lacks_the_commits(tmp_path: Path) -> None:
    writer = _written(tmp_path, 8, 4)
    table = HudiTable(open_store(tmp_path), {})
    position = StreamPosition.parse(_all(table))
    for number in (2, 3, 4):
        _take_back(writer, number)
    archive(writer, [(1, "commit")])
    (writer.timeline / f"{t(8)}_{t(8.5)}.restore").write_bytes(b"{}")
    writer.done(9, [writer.base("h", 9, [{"id": "k9"}])], "commit", inserts=1)
    assert table.state().timeline.start == t(9)
    assert position.vanished(table.state()) == tuple(t(number) for number in (2, 3, 4))


@BOTH
def test_the_face_of_hudis_own_source_tells_it_too(tmp_path: Path, version: int) -> None:
    writer = _written(tmp_path, version, 4)
    table = HudiTable(open_store(tmp_path), {})
    position = _all(table)
    _take_back(writer, 3)
    _take_back(writer, 4)
    (writer.timeline / (f"{t(8)}.restore" if version < 8 else f"{t(8)}_{t(8.5)}.restore")).write_bytes(b"{}")
    writer.done(9, [writer.base("h", 9, [{"id": "k9"}])], "commit", inserts=1)
    with pytest.raises(NotInHistoryError, match="2 commits that this stream has read were rolled back"):
        spark_stream(table.state, {}).latest(position, Limits())
    ((_, plan),) = drain(spark_stream(table.state, WARN, ["id"]), position)
    with pytest.warns(ReadWarning, match=f"{t(3)}, {t(4)}"):
        assert run(plan, 1).read_all()["id"].to_pylist() == ["k9"]
