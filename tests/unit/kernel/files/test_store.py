"""What every store does, whichever it is."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import UnsupportedError
from lakebed.kernel.files import FileInfo, PutOutcome, Store


def test_nothing_is_there_at_first(store: Store) -> None:
    assert store.list() == store.list("no/such") and store.list().files == () and store.list().folders == ()
    assert list(store.walk()) == list(store.walk("no/such")) == []
    assert not store.exists("a")
    for call in (store.size, store.modified, store.read, store.open_input, lambda path: store.read(path, 1, 2)):
        with pytest.raises(FileNotFoundError, match="a"):
            call("a")


@pytest.mark.parametrize("name", ["dt=2024-01-01/f", "a%2Fb/f", "a b/é#1?", "a:b/+,@=&", "x/.hidden"])
def test_names_come_back_as_they_were_written(store: Store, name: str) -> None:
    store.write(name, b"abc")
    folder, _, _ = name.rpartition("/")
    assert store.read(name) == b"abc" and store.size(name) == 3 and store.exists(name)
    assert store.list().folders == (folder,) and store.list().files == ()
    assert store.list(folder).files == tuple(store.walk()) == tuple(store.walk(folder)) == (FileInfo(name, 3),)
    assert FileInfo(name, 3).name == name.rpartition("/")[2]
    assert store.url(name) == f"{store.location}/{name}"


def test_a_file_says_when_it_was_written(store: Store) -> None:
    began = time.time()
    store.write("a/b", b"x")
    assert began - 60 < store.modified("a/b") < time.time() + 60


def test_a_listing_is_one_folder_deep_and_sorted_and_a_walk_is_all(store: Store) -> None:
    for name in ("b", "a", "d/e/f", "d/c", "da/x"):
        store.write(name, name.encode())
    assert store.list().folders == ("d", "da")
    assert [info.path for info in store.list().files] == ["a", "b"]
    assert store.list("d").folders == ("e",)
    assert [info.path for info in store.list("d").files] == ["d/c"]
    assert sorted(info.path for info in store.walk()) == ["a", "b", "d/c", "d/e/f", "da/x"]
    assert sorted(info.path for info in store.walk("d")) == ["d/c", "d/e/f"]


def test_empty_files_are_files(store: Store) -> None:
    store.write("x/empty", b"")
    store.write("x/empty2", b"1")
    assert sorted(store.walk(), key=lambda info: info.path) == [FileInfo("x/empty", 0), FileInfo("x/empty2", 1)]
    assert store.list("x").files == (FileInfo("x/empty", 0), FileInfo("x/empty2", 1))
    assert store.read("x/empty") == store.open_input("x/empty").read() == b""


@pytest.mark.parametrize(
    ("start", "length", "want"),
    [(0, None, b"0123456789"), (3, None, b"3456789"), (3, 4, b"3456"), (8, 100, b"89"), (10, 5, b""), (99, 1, b"")],
)
def test_ranges(store: Store, start: int, length: int | None, want: bytes) -> None:
    store.write("f", b"0123456789")
    assert store.read("f", start, length) == want


def test_a_write_replaces_all(store: Store) -> None:
    store.write("a/f", b"a long one")
    store.write("a/f", b"short")
    assert store.read("a/f") == b"short" and store.size("a/f") == 5


def test_parquet_goes_out_and_comes_in(store: Store) -> None:
    table = pa.table({"id": range(50_000), "text": [f"row {n}" for n in range(50_000)]})
    with store.open_output("dt=1/data.parquet") as sink:
        pq.write_table(table, sink, row_group_size=10_000)
    with store.open_input("dt=1/data.parquet") as source:
        assert pq.ParquetFile(source).read_row_groups([1, 3], columns=["id"]).num_rows == 20_000
    assert pq.read_table(store.open_input("dt=1/data.parquet")).equals(table)
    assert store.size("dt=1/data.parquet") == store.list("dt=1").files[0].size


def test_output_that_failed_is_not_there(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.open_output("a/f") as sink:
        sink.write(b"half")
        raise ZeroDivisionError
    assert not store.exists("a/f") and list(store.walk()) == []


def test_put_if_absent_has_one_winner(store: Store) -> None:
    assert store.put_if_absent("snapshot/snapshot-1", b"mine") is PutOutcome.CREATED
    assert store.put_if_absent("snapshot/snapshot-1", b"theirs") is PutOutcome.EXISTS
    assert store.read("snapshot/snapshot-1") == b"mine"
    assert [info.path for info in store.walk()] == ["snapshot/snapshot-1"]


def test_deletes(store: Store) -> None:
    for name in ("a", "d/1", "d/e/2", "dd/3", "k/4"):
        store.write(name, b"x")
    store.delete("a")
    store.delete("a")
    store.delete_folder("d")
    store.delete_folder("d")
    store.delete_many(["k/4", "k/5"])
    assert [info.path for info in store.walk()] == ["dd/3"]
    store.delete_in_order(["dd/1", "dd/3"])
    assert list(store.walk()) == []


def test_many_files_are_read_in_the_order_asked(store: Store) -> None:
    names = [f"m/{number}" for number in range(20)]
    for name in names:
        store.write(name, name.encode())
    store.write("m/empty", b"")
    assert [*store.read_many([*names[::-1], "m/empty"])] == [*(name.encode() for name in names[::-1]), b""]
    assert [*store.read_many([])] == []
    with pytest.raises(FileNotFoundError, match="m/x"):
        store.read_many(["m/0", "m/x"])


@pytest.mark.slow
@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a\0b"])
@pytest.mark.parametrize(
    "verb", ["list", "size", "read", "open_input", "write", "put_if_absent", "delete", "delete_folder"]
)
def test_paths_that_leave_the_table_are_refused(store: Store, verb: str, path: str) -> None:
    data = (b"x",) if verb in ("write", "put_if_absent") else ()
    with pytest.raises(UnsupportedError, match="leaves the table"):
        getattr(store, verb)(path, *data)
    with pytest.raises(UnsupportedError), store.open_output(path):
        pass
    with pytest.raises(UnsupportedError):
        list(store.walk(path))
