"""The server and the proxy themselves: what they count, and how they fail."""

import threading

import pytest

from lakebed.errors import StorageError
from lakebed.kernel.files import FileInfo, open_store
from tests.objectstore.server import StoreServer


def test_requests_are_counted(store_server: StoreServer) -> None:
    store = open_store(store_server.url(), store_server.options)
    files = {f"d/{n}": b"x" * n for n in range(1, 21)}
    assert store_server.measure(lambda: store.write_many(files)).kinds == {"PUT": 20}
    counted = store_server.measure(lambda: store.read_many(list(files)), enough=1)
    assert counted.result == list(files.values())
    assert counted.steps == 1 and counted.kinds == {"GET": 20} and counted.bytes_out == sum(range(1, 21))
    assert counted.at_once > 10
    counted = store_server.measure(lambda: [store.read(path) for path in files])
    assert counted.steps == 20 and counted.at_once == 1
    assert store_server.measure(lambda: store.list("d").files, enough=1).kinds == {"LIST": 1}
    assert store_server.measure(lambda: store.size("d/1"), enough=1).kinds == {"HEAD": 1}
    assert store_server.measure(lambda: store.read("d/9", 1, 2), enough=1).kinds == {"GETr": 1}
    removed = store_server.measure(lambda: store.delete_many(files), tries=1)
    assert removed.kinds == {"DELETES": 1} and not list(store.walk())


def test_a_folder_is_uploaded(store_server: StoreServer, tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b c").write_bytes(b"1")
    assert list(open_store(store_server.upload(tmp_path), store_server.options).walk()) == [FileInfo("a/b c", 1)]


@pytest.mark.parametrize("fault", ["503", "500", "reset-before", "cut"])
def test_a_fault_meets_what_it_names(store_server: StoreServer, fault: str) -> None:
    store = open_store(store_server.url(), store_server.options)
    store.write("a", b"a" * 1000)
    with store_server.fault(fault, method="GET", target="/a$", times=2):
        store_server.clear()
        assert store.read("a") == b"a" * 1000
        assert [entry.fault for entry in store_server.requests()] == [fault, fault, ""]


def test_a_refusal(store_server: StoreServer) -> None:
    store = open_store(store_server.url(), store_server.options)
    with store_server.fault("403", code="ExpiredToken"), pytest.raises(StorageError, match="ExpiredToken"):
        store.read("a")


def test_many_at_once(store_server: StoreServer) -> None:
    store = open_store(store_server.url(), store_server.options)
    store.write("large", bytes(4 << 20))
    threads = [threading.Thread(target=store.read, args=("large",)) for _ in range(16)]
    store_server.clear()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(entry.bytes_out for entry in store_server.requests()) == 16 * (4 << 20)
