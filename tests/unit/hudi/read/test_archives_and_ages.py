"""Old tables, archives that hold what a read must know, damage seen from the table, and tables on object stores."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptBlocksWarning
from lakebed.kernel.files import open_store
from lakebed.kernel.files.local import LocalStore
from lakebed.testing.hudi_log import avro_data_block
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from lakebed.verbs.table import Table
from tests.golden import unpack
from tests.tables.hudi import writing
from tests.tables.hudi.archiving import archive
from tests.tables.hudi.writing import HudiFolder, changed, rows, t
from tests.unit.kernel.conftest import bucket, s3_endpoint, s3_options  # noqa: F401 - fixtures

BOTH = pytest.mark.parametrize("version", [6, 8])


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by([("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")])


@pytest.mark.parametrize("name", ["mor_h015", "cow_h015", "archived_mor_h015"])
def test_table_version_5_lies_as_version_6_does(name: str, tmp_path: Path) -> None:
    folder = unpack("hudi", name, into=tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    assert "hoodie.table.version=6" in text
    properties.chmod(0o644)
    properties.write_text(text.replace("hoodie.table.version=6", "hoodie.table.version=5"))
    old, new = lakebed.open(folder), lakebed.open(unpack("hudi", name))
    assert _sorted(old.read().read_all()).equals(_sorted(new.read().read_all()))
    assert [i.time for i in old.history(archived=True)] == [i.time for i in new.history(archived=True)]


def test_instants_of_fourteen_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of before 0.10, and then newer ones in the same table."""

    def mixed(number: float) -> str:
        return t(number)[:14] if number < 3 else t(number)

    monkeypatch.setattr(writing, "t", mixed)
    table = HudiFolder(tmp_path)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "x": f"{k}1"} for k in "ab"])])
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 2, "x": "a2"}]))])
    table.done(3, [table.log("g", 1, table.data(3, [{"id": "b", "ts": 3, "x": "b3"}]), 2)])
    opened = table.open(**{"read__start-commit": mixed(1)})
    assert rows(opened, "x") == {"a": "a2", "b": "b3"}
    assert rows(opened, "x", as_of=mixed(2)) == {"a": "a2", "b": "b1"}
    assert changed(opened, "x", after=mixed(1), until=mixed(2)) == {"a": "a2"}
    assert changed(opened, "x", after=mixed(2)) == {"b": "b3"}
    batches = [run(plan, 1).read_all() for _, plan in drain(opened.stream(["x"]), limits=Limits(commits=1))]
    assert [sorted(batch["x"].to_pylist()) for batch in batches] == [["a1", "b1"], ["a2"], ["b3"]]


# ---- archives --------------------------------------------------------------------------------------------------------


@BOTH
def test_a_replacement_that_was_archived_too_early_still_counts(tmp_path: Path, version: int) -> None:
    """Its replaced files were never cleaned: without it their rows would come twice."""
    table = HudiFolder(tmp_path, version, table__type="COPY_ON_WRITE")
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "x": "old"} for k in "ab"])], "commit")
    new = table.base("h", 2, [{"id": k, "ts": 2, "x": "new"} for k in "ab"])
    table.done(2, [new], "replacecommit", operation="CLUSTER", replaced={"": ["g"]})
    table.done(3, [table.base("i", 3, [{"id": "c", "ts": 3, "x": "c"}])], "commit")
    wanted = {"a": "new", "b": "new", "c": "c"}
    assert rows(table.open(), "x") == wanted
    archive(table, [(1, "commit"), (2, "replacecommit")])
    assert rows(table.open(), "x") == wanted
    assert rows(table.open(), "x", as_of=t(3.5)) == wanted
    assert changed(table.open(), "x") == wanted


@contextmanager
def _opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each file is read or opened."""
    found: Counter[str] = Counter()

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: LocalStore, path: str, *rest: Any, **named: Any) -> Any:
            found[path] += 1
            return method(self, path, *rest, **named)

        return counted

    with monkeypatch.context() as patch:
        for name in ("read", "open_input"):
            patch.setattr(LocalStore, name, counting(getattr(LocalStore, name)))
        yield found


def _long_archive(folder: Path, version: int) -> HudiFolder:
    """Twelve commits, the first ten archived in five files."""
    table = HudiFolder(folder, version, table__type="COPY_ON_WRITE")
    for number in range(1, 13):
        table.done(number, [table.base(f"g{number}", number, [{"id": f"k{number}", "x": str(number)}])], "commit")
    for number in range(1, 6):
        archive(table, [(2 * number - 1, "commit"), (2 * number, "commit")], number)
    return table


# Archived commits are what the test is about.
@pytest.mark.filterwarnings("ignore:the reader has fallen behind:lakebed.errors.ReadWarning")
@BOTH
def test_each_archive_file_is_read_once_and_none_for_nothing(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = _long_archive(tmp_path, version).open()
    half = 0.5 if version >= 8 else 0
    with _opens(monkeypatch) as active:
        assert changed(opened, "x", after=t(11 + half)) == {"k12": "12"}
    in_archive = {path for path in active if ".commits_.archive" in path}
    assert not in_archive, "a range of the active timeline needs no archive"
    for low, high, wanted in ((6, 7, {"k7": "7"}), (2, 4, {"k3": "3", "k4": "4"})):
        with _opens(monkeypatch) as asked:
            assert changed(opened, "x", after=t(low + half), until=t(high + half)) == wanted
        archive = {path: n for path, n in asked.items() if ".commits_.archive" in path or path.endswith("_0.parquet")}
        assert all(count == 1 for count in archive.values()), "no file twice in one call"
        if version >= 8:
            assert {path.rpartition("/")[2][:17] for path in archive} == {t(high - 1 if high == 4 else high)}


def test_a_large_archive_is_searched_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot looks for replacements only, and holds no more than a window of the archive."""
    table = _long_archive(tmp_path, 6)
    monkeypatch.setattr("lakebed.formats.hudi.timeline.archived._WINDOW", 1000)
    monkeypatch.setattr("lakebed.formats.hudi.timeline.archived._REMEMBERED_BYTES", 0)
    lengths = []
    read = LocalStore.read

    def measured(self: LocalStore, path: str, *rest: Any) -> bytes:
        data = read(self, path, *rest)
        if "archive" in path:
            lengths.append(len(data))
        return data

    monkeypatch.setattr(LocalStore, "read", measured)
    opened = table.open()
    assert len(rows(opened, "x")) == 12
    assert lengths and max(lengths) <= 1100
    before = len(lengths)
    assert len(rows(opened, "x")) == 12
    assert len(lengths) == before, "what is known of a file stays known"


# ---- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@BOTH
def test_a_log_cut_or_doubled_anywhere_gives_the_rows_of_its_whole_blocks(tmp_path: Path, version: int) -> None:
    """At each of its bytes, or at some: the rows are those of its whole blocks, and a warning says what is skipped."""
    rules = {"record__merge__mode": "COMMIT_TIME_ORDERING", "populate__meta__fields": "false"}
    rules |= {"compaction__payload__class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}
    table = HudiFolder(tmp_path, version, {"id": "string", "x": "string"}, **rules)
    table.done(1, [])
    first = avro_data_block(table.schema(), [{"id": "a", "x": "a2"}, {"id": "b", "x": "b2"}], t(2))
    whole = first + table.deletes(2, {"b": None})
    path = tmp_path / table.log("g", 2 if version >= 8 else 1, b"")
    table.done(2, [path.name], deletes=1)
    plan = table.open().plan_read(["id", "x"])  # nothing is known of the file's size

    def found(content: bytes, torn: bool) -> dict[str, str]:
        path.write_bytes(content)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            read = pa.Table.from_batches([b for split in plan.splits for b in plan.read(split)], plan.schema)
        assert [type(warning.message) for warning in told] == [CorruptBlocksWarning] * torn
        assert read.num_rows == len(set(read["id"].to_pylist()))
        return dict(zip(*(column.to_pylist() for column in read.columns), strict=True))

    step = 1 if version == 6 else 5
    for place in sorted({*range(0, len(whole), step), len(first) - 1, len(first), len(first) + 1, len(whole)}):
        torn = place not in (0, len(first), len(whole))
        before_delete = {"a": "a2", "b": "b2"} if place >= len(first) else {}
        assert found(whole[:place], torn or not place) == (before_delete if place < len(whole) else {"a": "a2"}), place
        twice = whole[:place] + whole if version == 6 else whole + whole[:place]
        # version 8: the first block comes once more, after the delete
        rewritten = version == 8 and len(first) <= place < len(whole)
        assert found(twice, torn) == ({"a": "a2", "b": "b2"} if rewritten else {"a": "a2"}), place


# ---- object stores ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mor_v6", "mor_v9", "cdc_cow_v8", "archived_mor_v8"])
def test_a_table_on_an_object_store_reads_the_same(
    name: str,
    bucket: str,  # noqa: F811
    s3_options: dict[str, str],  # noqa: F811
) -> None:
    folder, url = unpack("hudi", name), f"{bucket}/tables/{name}"
    store = open_store(url, s3_options)
    for path in folder.rglob("*"):
        if path.is_file():
            store.write(path.relative_to(folder).as_posix(), path.read_bytes())
    far, near = lakebed.open(url, s3_options), lakebed.open(folder)
    assert _sorted(far.read().read_all()).equals(_sorted(near.read().read_all()))
    moment = sorted(i.completed or i.time for i in near.history() if i.state == "completed")[-3]

    def since(table: Table) -> pa.Table:
        return _sorted(table.changes(after=moment).read_all())

    assert since(far).equals(since(near))
    assert [i.time for i in far.history(archived=True)] == [i.time for i in near.history(archived=True)]
