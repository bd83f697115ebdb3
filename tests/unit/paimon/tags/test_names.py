"""Tags and branches as names of snapshots and as places to write to."""

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotInHistoryError, TableNotFoundError, UsageError
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.table import PaimonTable
from lakebed.testing.faults import FaultyStore
from tests.golden import unpack
from tests.tables.paimon.small import Make, contents, rows

AT_ONCE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}


class Heard:
    """A tag callback that remembers."""

    events: ClassVar[list[tuple[object, ...]]] = []

    def notify_creation(self, tag: str, snapshot_id: int) -> None:
        self.events.append((tag, snapshot_id))

    def notify_deletion(self, tag: str) -> None:
        self.events.append((tag,))
        raise RuntimeError("best effort")


class Racing(FaultyStore):
    """A store where snapshots expire just after a tag was removed and its neighbours were looked at."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The expiry comes before the first manifest list that is read after the tag is gone."""
        gone = any(call.verb.startswith("delete") and "tag-t" in call.path for call in self.calls)
        if gone and path.startswith("manifest/manifest-list") and not self.crashed:
            self.crashed = True
            lakebed.open(self.real.location).expire(options=AT_ONCE)
            self.crashed = False
            self.calls.clear()
        return super().read(path, start, length)


def test_a_tag_goes_while_snapshots_expire(make: Make) -> None:
    table = make()
    for n in range(5):
        table.write(rows(("a", 1, "v", n)), "overwrite")
        if n == 0:
            table.tag("t")
    table.expire(options={**AT_ONCE, "snapshot.num-retained.min": "4", "snapshot.num-retained.max": "4"})
    (file,) = [entry.file.file_name for entry in live_files(table.store, table.snapshots.tag("t"))]
    assert list(Path(table.location).rglob(file))
    racing = PaimonTable(Racing(table.store))
    racing.delete_tag("t")
    assert [instant.time for instant in table.history()] == ["5"], "the expiry came between"
    assert not list(Path(table.location).rglob(file))
    assert contents(table) == [("a", 1, "v", 4)]


def test_a_tag_keeps_its_name(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    Heard.events.clear()
    table = lakebed.open(make().location, {"tag.callbacks": "tests.unit.paimon.tags.test_names:Heard"})
    with pytest.raises(NotInHistoryError):
        table.tag("too-early")
    table.write(rows(("a", 1, "v", 1)))
    table.tag("first")
    table.tag("same")
    table.write(rows(("a", 2, "v", 1)))
    assert contents(table, as_of="tag:first") == contents(table, as_of="tag:same") == [("a", 1, "v", 1)]
    for name in ("first", "a/b", "7", ""):
        with pytest.raises(UsageError):
            table.tag(name)
    table.delete_tag("first")
    with pytest.raises(NotInHistoryError):
        table.delete_tag("first")
    assert Heard.events == [("first", 1), ("same", 1), ("first",)]
    assert "best effort" in caplog.text


def test_a_branch_is_written_beside_the_table(tmp_path: Path) -> None:
    folder = unpack("paimon", "tags_branches", into=tmp_path)
    main, branch = lakebed.open(folder), lakebed.open(folder, {"branch": "b1"})
    before = main.read().read_all()
    rows_before = branch.read().read_all().num_rows
    data = branch.read().read_all().slice(0, 1)
    key = branch.schema.get_field_index("k")
    branch.write(data.set_column(key, branch.schema.field("k"), pa.array([4711], pa.int32())))
    assert branch.read().read_all().num_rows == rows_before + 1
    assert main.read().read_all() == before


def test_a_branch_that_a_call_names_is_the_one_written(tmp_path: Path) -> None:
    folder = unpack("paimon", "tags_branches", into=tmp_path)
    main, branch = lakebed.open(folder), lakebed.open(folder, {"branch": "b1"})
    before, count = main.read().read_all(), branch.read().read_all().num_rows
    data = branch.read().read_all().slice(0, 1)
    key = branch.schema.get_field_index("k")
    data = data.set_column(key, branch.schema.field("k"), pa.array([4711], pa.int32()))
    main.write(data, options={"branch": "b1"})
    assert branch.read().read_all().num_rows == count + 1
    assert main.read().read_all() == before
    branch.write(data, options={"Branch": "main"})
    assert main.read().read_all().num_rows == before.num_rows + 1
    assert main.expire(dry_run=True, options={"branch": "b1"}).expired == ()
    for call in (lambda: main.write(data, options={"branch": "no"}), lambda: main.expire(options={"branch": "no"})):
        with pytest.raises(TableNotFoundError, match="b1"):
            call()


def test_rows_that_wait_are_spoken_of(make: Make) -> None:
    hidden: tuple[dict[str, str], ...] = ({"deletion__vectors_enabled": "true"}, {"merge__engine": "first-row"})
    for options in ({"bucket": "-2"}, *({**each, "write__only": "true"} for each in hidden)):
        table = make(**options)
        result = table.write(rows(("a", 1, "v", 1)))
        assert "compaction" in result.notes[0]
        assert contents(table) == []
    for options in ({}, *hidden):
        table = make(**options)
        assert table.write(rows(("a", 1, "v", 1))).notes == ()
        assert contents(table) == [("a", 1, "v", 1)]
