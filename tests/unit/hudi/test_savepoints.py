"""Tags of Hudi tables are savepoints: they are found by name, and cleans leave their files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, DataCleanedError, NotInHistoryError, UsageError
from lakebed.formats.hudi.codec.metadata import parse_savepoint
from lakebed.formats.hudi.codec.plans import SavepointMetadata, decode
from lakebed.formats.hudi.read.plan import commit_at, needed_files
from lakebed.formats.hudi.savepoints import make_savepoint
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel import clock
from lakebed.kernel.files import open_store
from lakebed.testing.faults import Call, Fault, FaultyStore
from tests.golden import unpack
from tests.tables.hudi.fresh import KINDS, fresh_table
from tests.tables.hudi.timelines import NO_COMPACTION

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
CLEAN = {"hoodie.clean.commits.retained": 1}
SAVED = ("mor_h015", "mor_v6", "mor_v8", "mor_v9")


def written(folder: Path, version: int, kind: str, commits: int = 2) -> HudiTable:
    table = fresh_table(folder, SCHEMA, version=version, kind=kind)
    for value in range(commits):
        write(table, value)
    assert isinstance(table, HudiTable)
    return table


def write(table: Table, value: int) -> str:
    rows = [{"dt": "ab"[n % 2], "id": n, "v": value} for n in range(4)]
    return table.write(pa.Table.from_pylist(rows, SCHEMA), mode="upsert").instant


def values(table: Table, as_of: str | None = None) -> set[int]:
    return set(table.read(["v"], as_of=as_of).read_all()["v"].to_pylist())


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_a_tag_outlives_cleans_until_it_is_deleted(tmp_path: Path, version: int, kind: str) -> None:
    table = written(tmp_path, version, kind)
    instant = table.newest()
    table.tag("before")
    for value in (2, 3):
        write(table, value)
        if kind == "MERGE_ON_READ":
            table.rewrite()
    table.expire(options=CLEAN)
    assert instant is not None
    again = lakebed.open(tmp_path)
    assert values(again, "tag:before") == values(again, f"tag:{instant.time}") == {1}
    assert values(again) == {3}
    again.delete_tag("before")
    assert [i for i in again.history() if i.action == "savepoint"] == []
    with pytest.raises(NotInHistoryError, match="before"):
        again.read(as_of="tag:before")
    write(again, 4)
    again.expire(options=CLEAN)
    with pytest.raises(DataCleanedError):
        values(again, instant.time)
    with pytest.raises(DataCleanedError):
        again.tag("late", instant)


@pytest.mark.parametrize(("version", "kind"), [(6, "MERGE_ON_READ"), (9, "COPY_ON_WRITE")])
def test_what_a_tag_writes(tmp_path: Path, version: int, kind: str) -> None:
    table = written(tmp_path, version, kind)
    first = table.history()[0]
    table.tag("first", first)
    folder = tmp_path / ".hoodie" / ("" if version == 6 else "timeline")
    assert (folder / f"{first.time}.savepoint.inflight").read_bytes() == b""
    (completed,) = folder.glob(f"{first.time}*.savepoint")
    metadata = decode(SavepointMetadata, completed.read_bytes())
    assert (metadata.comments, metadata.savepointed_by) == ("first", "lakebed")
    assert {*metadata.partition_metadata} == {"a", "b"}
    assert completed.name != f"{first.time}.savepoint" or version == 6


def test_names_that_are_taken_or_are_none(tmp_path: Path) -> None:
    table = written(tmp_path, 9, "COPY_ON_WRITE")
    first, second = table.history()
    table.tag("one", first)
    for name, snapshot in (("one", second), ("two", first), ("two", "tag:one"), ("4711", second), ("", second)):
        with pytest.raises(UsageError):
            table.tag(name, snapshot)
    with pytest.raises(NotInHistoryError):
        table.delete_tag("two")
    with pytest.raises(NotInHistoryError):
        table.tag("early", "2001-01-01")
    (tmp_path / ".hoodie" / "timeline" / "20990101000000000.commit.requested").write_bytes(b"")
    with pytest.raises(UsageError, match="requested"):
        table.tag("pending", "20990101000000000")
    table.tag(second.time, second)  # the instant's own text is a name
    assert values(table, f"tag:{second.time}") == {1}
    table.delete_tag(second.time)


def test_no_tag_of_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(NotInHistoryError):
        fresh_table(tmp_path, SCHEMA).tag("nothing")


def test_a_clean_that_began_meanwhile_is_seen(tmp_path: Path) -> None:
    table = written(tmp_path, 9, "COPY_ON_WRITE", commits=3)
    state = table.state()
    entry = commit_at(state, table.history()[0])
    files = needed_files(state, entry)
    table.expire(options=CLEAN)
    with pytest.raises(CommitConflictError, match="clean"):
        make_savepoint(table._context(state.config), state.timeline, entry, "late", files)
    timeline = tmp_path / ".hoodie" / "timeline"
    for path in [*timeline.glob("*.clean"), *timeline.glob("*.clean.inflight")]:
        path.unlink()
    with pytest.raises(DataCleanedError, match="takes a file"):
        make_savepoint(table._context(state.config), table.state().timeline, entry, "late", files)


@pytest.mark.parametrize("name", SAVED)
def test_the_files_are_those_that_hudi_names(name: str) -> None:
    table = lakebed.open(unpack("hudi", name))
    assert isinstance(table, HudiTable)
    state = table.state()
    for entry in state.timeline.entries:
        if entry.action != "savepoint":
            continue
        wanted = {p: set(names) for p, names in parse_savepoint(table.store.read(entry.file)).items()}
        ours = needed_files(state, commit_at(state, entry.time))
        assert {partition: set(names) for partition, names in ours.items()} == wanted


@pytest.mark.parametrize("version", [6, 8])
def test_a_commit_is_tagged_after_the_clustering_before_it_is_archived(tmp_path: Path, version: int) -> None:
    """A clean has deleted the file groups that the clustering replaced, so nothing is left of them but its record."""
    table = written(tmp_path, version, "MERGE_ON_READ")
    sorting = {"lakebed.rewrite.what": "clustering", "hoodie.clustering.plan.strategy.sort.columns": "id"}
    (clustering,) = table.rewrite(options=sorting).instants
    quiet = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
    rows = pa.Table.from_pylist([{"dt": "a", "id": 0, "v": 9}], SCHEMA)
    last = [table.write(rows, mode="upsert", options=quiet).instant for _ in range(4)][-1]
    assert table.expire(options=CLEAN).deleted_files
    least = {**CLEAN, **NO_COMPACTION, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    done = table.archive(options=least)
    assert clustering in done.archived
    table.tag("now", last)
    assert values(table, "tag:now") == {1, 9}


class Late(FaultyStore):
    """A process that stops right before it puts a file, until others have taken its lock for dead and have acted."""

    def __init__(self, folder: Path, before: str, act: Callable[[], object], time: list[float]) -> None:
        super().__init__(open_store(str(folder)))
        self.before, self.act, self.time = before, act, time

    def _fault(self, call: Call) -> Fault | None:
        if self.before and call.path.endswith(self.before):
            self.before = ""
            self.time[0] += 100
            self.act()
        return super()._fault(call)


@contextmanager
def virtual_time() -> Iterator[list[float]]:
    time = [0.0]

    def pause(seconds: float) -> None:
        time[0] += seconds

    with clock.set_clock(steady=lambda: time[0], pause=pause):
        yield time


@pytest.mark.parametrize("before", [".savepoint.inflight", ".savepoint"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_late_tag_does_not_take_the_place_of_another(tmp_path: Path, version: int, before: str) -> None:
    """Savepoints of version 9 have the time of their completion in their names, so both could be there."""
    first = written(tmp_path, version, "COPY_ON_WRITE").history()[0]
    with virtual_time() as time:
        store = Late(tmp_path, before, lambda: lakebed.open(tmp_path).tag("other", first), time)
        with pytest.raises(CommitConflictError):
            lakebed.open(store).tag("late", first)
        again = lakebed.open(tmp_path)
        assert [ref.name for ref in again.refs()] == ["other"] and values(again, "tag:other") == {0}
        assert len([*tmp_path.joinpath(".hoodie").rglob("*.savepoint")]) == 1


@pytest.mark.parametrize("before", [".savepoint.inflight", ".savepoint"])
def test_a_late_tag_goes_where_a_clean_has_its_files(tmp_path: Path, before: str) -> None:
    first = written(tmp_path, 9, "COPY_ON_WRITE", commits=3).history()[0]
    with virtual_time() as time:
        store = Late(tmp_path, before, lambda: lakebed.open(tmp_path).expire(options=CLEAN), time)
        with pytest.raises(CommitConflictError):
            lakebed.open(store).tag("late", first)
        again = lakebed.open(tmp_path)
        assert not again.refs()
        with pytest.raises(DataCleanedError):
            values(again, first.time)


@pytest.mark.parametrize("before", [".clean.requested", ".clean"])
def test_a_late_clean_leaves_the_files_of_a_tag(tmp_path: Path, before: str) -> None:
    """Where its files are gone before, the tag is refused."""
    first = written(tmp_path, 9, "COPY_ON_WRITE", commits=3).history()[0]

    def tag() -> None:
        with suppress(DataCleanedError):
            lakebed.open(tmp_path).tag("kept", first)

    with virtual_time() as time:
        with suppress(CommitConflictError):
            lakebed.open(Late(tmp_path, before, tag, time)).expire(options=CLEAN)
        again = lakebed.open(tmp_path)
        again.expire(options=CLEAN)
        assert [values(again, f"tag:{ref.name}") for ref in again.refs()] == ([{0}] if "requested" in before else [])
        assert len([*tmp_path.joinpath(".hoodie").rglob("*.clean")]) == 1 and values(again) == {2}
