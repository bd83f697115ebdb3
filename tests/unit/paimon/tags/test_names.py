"""Tags and branches as names of snapshots and as places to write to."""

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotInHistoryError, RetryableError, TableNotFoundError, UsageError
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.table import PaimonTable
from lakebed.kernel import clock
from lakebed.kernel.files import PutOutcome, open_store
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


def test_a_tag_moves(make: Make) -> None:
    """To another snapshot, with the files that it alone needed, and with the time to live of the call."""
    Heard.events.clear()
    table = lakebed.open(
        make().location,
        {"tag.callbacks": "tests.unit.paimon.tags.test_names:Heard", "tag.default-time-retained": "2 h"},
    )
    for n in range(3):
        table.write(rows(("a", 1, "v", n)), "overwrite")
        table.tag(f"t{n}")
    table.tag("also", "tag:t0")
    table.tag("none yet", replace=True)
    assert Heard.events[-1] == ("none yet", 3) and [
        bool(ref.ends) for ref in table.refs() if ref.name == "none yet"
    ] == [True]
    table.expire(options=AT_ONCE)
    files = {n: live_files(table.store, table.snapshots.tag(f"t{n}"))[0].file.file_name for n in range(3)}
    told = len(Heard.events)
    table.tag("t1", "tag:t0", "7 d", replace=True)
    assert contents(table, as_of="tag:t1") == [("a", 1, "v", 0)]
    assert not list(Path(table.location).rglob(files[1])) and list(Path(table.location).rglob(files[0]))
    for name in ("t0", "also", "t1"):
        assert list(Path(table.location).rglob(files[0])), "another tag has its snapshot"
        table.tag(name, replace=True)
    assert not list(Path(table.location).rglob(files[0]))
    table.tag("t0", replace=True)
    assert {ref.name: (ref.instant, not ref.ends) for ref in table.refs() if ref.kind == "tag"} == {
        "also": ("3", True), "none yet": ("3", False), "t0": ("3", True), "t1": ("3", True), "t2": ("3", False),
    }  # fmt: skip
    assert len(Heard.events) == told and contents(table, as_of="tag:t0") == contents(table)
    for wrong in ({"snapshot": "tag:none"}, {"snapshot": 1}, {"time_retained": "soon"}):
        with pytest.raises((NotInHistoryError, UsageError)):
            table.tag("t0", replace=True, **wrong)
    with pytest.raises(UsageError, match="replace it"):
        table.tag("t0")


def test_a_tag_stays_when_its_next_snapshot_expires_meanwhile(make: Make) -> None:
    table = make()
    for n in range(4):
        table.write(rows(("a", 1, "v", n)), "overwrite")
        if n == 0:
            table.tag("t")

    class Racing(FaultyStore):
        def write(self, path: str, data: bytes) -> None:
            if path == "tag/tag-t" and not self.crashed:
                self.crashed = True
                lakebed.open(self.real.location).expire(options=AT_ONCE)
                self.crashed = False
            super().write(path, data)

    with pytest.raises(NotInHistoryError, match="expired meanwhile"):
        PaimonTable(Racing(table.store)).tag("t", 2, replace=True)
    assert contents(table, as_of="tag:t") == [("a", 1, "v", 0)]
    table.expire(options=AT_ONCE)
    assert contents(table, as_of="tag:t") == [("a", 1, "v", 0)]


def test_a_tag_gets_another_name(make: Make) -> None:
    Heard.events.clear()
    options = {"tag.callbacks": "tests.unit.paimon.tags.test_names:Heard"}
    table = lakebed.open(make().location, options)
    table.write(rows(("a", 1, "v", 1)))
    table.tag("old", time_retained="7 d")
    table.tag("other")
    before = table.store.read("tag/tag-old")
    table.rename_tag("old", "new")
    table.rename_tag("new", "new")
    assert [info.name for info in table.store.list("tag").files] == ["tag-new", "tag-other"]
    assert table.store.read("tag/tag-new") == before and len(Heard.events) == 2
    table.write(rows(("a", 2, "v", 1)))
    table.tag("later")
    for name, to in (("new", "later"), ("none", "x"), ("new", "a/b"), ("new", "7"), ("new", "")):
        with pytest.raises((UsageError, NotInHistoryError)):
            table.rename_tag(name, to)
    automatic = lakebed.open(table.location, {"tag.automatic-creation": "process-time"})
    automatic.tag("2024-01-01", "tag:new")
    with pytest.raises(UsageError, match="second automatic tag"):
        automatic.rename_tag("new", "2024-01-02")
    automatic.rename_tag("2024-01-01", "2024-01-02")
    assert contents(table, as_of="tag:2024-01-02") == [("a", 1, "v", 1)]


class Blind(FaultyStore):
    """A store where snapshots expire just before a tag is made, and that then fails to read so many times."""

    def __init__(self, folder: str, failing: int) -> None:
        super().__init__(open_store(folder))
        self.failing, self.is_made = failing, False

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        lakebed.open(self.real.location).expire(options=AT_ONCE)
        self.is_made = True
        return super().put_if_absent(path, data)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self.is_made and self.failing:
            self.failing -= 1
            raise RetryableError("no answer", file=path)
        return super().read(path, start, length)


@pytest.mark.parametrize("failing", [1, 99])
def test_a_tag_whose_snapshot_cannot_be_looked_for_is_taken_back(make: Make, failing: int) -> None:
    """A tag of files that are gone would stop every clean-up."""
    table = make(write__only="true")
    for n in range(3):
        table.write(rows(("a", 1, "v", n)), "overwrite")
    late = lakebed.open(Blind(table.location, failing))
    with clock.set_clock(pause=lambda _: None), pytest.raises(NotInHistoryError if failing == 1 else RetryableError):
        late.tag("late", 1)
    assert [ref.name for ref in table.refs()] == ["main"]
    table.expire(options={"lakebed.expire.what": "orphan-files"})
    assert contents(table) == [("a", 1, "v", 2)]
