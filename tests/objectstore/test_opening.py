"""How often opening a table asks an object store, whatever its format, and how often it waits in a row."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import TableNotFoundError
from lakebed.formats import format_of
from lakebed.kernel.files import open_store
from tests.objectstore.server import StoreServer

STEPS = {"hudi": 2, "paimon": 3, "iceberg": 2}
"""How often opening waits: for the root's listing, and for each level of metadata that says what the table is."""
REQUESTS = {"hudi": 3, "paimon": 4, "iceberg": 6}


@pytest.fixture(params=["hudi", "paimon", "iceberg"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A table of each format, and its format."""
    kind: str = request.param
    if kind == "hudi":
        return kind, Path(lakebed.example("orders"))
    table = lakebed.create(tmp_path / "t", kind, {"id": "int64"}, options={})
    for number in range(3):
        table.write(pa.table({"id": [number]}))
    return kind, tmp_path / "t"


def test_requests(store_server: StoreServer, place: tuple[str, Path]) -> None:
    kind, folder = place
    url = store_server.upload(folder)
    counted = store_server.measure(lambda: lakebed.open(url, store_server.options), enough=STEPS[kind])
    assert counted.result.format == kind
    assert counted.requests <= REQUESTS[kind]
    assert counted.steps <= STEPS[kind] + 1  # one for a busy machine


def test_the_format_is_in_the_listing_of_the_root(store_server: StoreServer, place: tuple[str, Path]) -> None:
    kind, folder = place
    store = open_store(store_server.upload(folder), store_server.options)
    counted = store_server.measure(lambda: format_of(store), tries=1)
    assert counted.result == kind
    assert counted.kinds == {"LIST": 1 if kind == "hudi" else 2}


def test_no_table(store_server: StoreServer) -> None:
    url = store_server.url()

    def open_it() -> None:
        with pytest.raises(TableNotFoundError, match="not a Hudi, Paimon or Iceberg table"):
            lakebed.open(url, store_server.options)

    assert store_server.measure(open_it, tries=1).requests <= 2


def test_a_branch_that_is_not_there(store_server: StoreServer, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", {"id": "int64"}, options={})
    table.write(pa.table({"id": [1]}))
    url = store_server.upload(tmp_path / "t")
    with pytest.raises(TableNotFoundError, match="branch 'audit'"):
        lakebed.open(url, {**store_server.options, "branch": "audit"})


def test_other_files_do_not_slow_it(store_server: StoreServer, place: tuple[str, Path]) -> None:
    kind, folder = place
    url = store_server.upload(folder)
    open_store(url, store_server.options).write_many({f"other/{number}": b"x" for number in range(50)})
    counted = store_server.measure(lambda: lakebed.open(url, store_server.options), tries=1)
    assert counted.requests <= REQUESTS[kind]
