"""What a rewrite of an Iceberg table asks of an object store, by files."""

from __future__ import annotations

import pytest

from tests.objectstore.server import StoreServer
from tests.objectstore.test_iceberg_commit import maker, rows


@pytest.mark.parametrize("commits", [5, 13])
@pytest.mark.parametrize("options", [{}, {"lakebed.rewrite.concat-min-row-group-bytes": "1"}], ids=["encode", "join"])
def test_rewrite(store_server: StoreServer, commits: int, options: dict[str, str]) -> None:
    """Each data file, manifest and list is read once, and all of them together."""
    made = maker(store_server, commits)
    counted = store_server.measure(lambda table: table.rewrite(options=options).files_before, made, enough=11)
    assert counted.result == 4 * commits
    assert counted.steps <= 12
    read = [
        entry.target for entry in counted.log if entry.method == "GET" and not entry.target.endswith((".json", ".text"))
    ]
    assert len(read) == len(set(read)) == 4 * commits + commits + 1
    assert counted.kinds["HEAD"] == 1 and counted.kinds["LIST"] == 0


def test_a_dry_run(store_server: StoreServer) -> None:
    made = maker(store_server, 5)
    counted = store_server.measure(lambda table: table.rewrite(dry_run=True), made, enough=3)
    assert counted.steps <= 3 and not counted.kinds["PUT"]


def test_rewrite_with_deletes(store_server: StoreServer) -> None:
    def made():
        table = maker(store_server, 4)()
        for commit in range(4):
            table.write(rows(1000 * commit, 50), mode="upsert")
        return table

    counted = store_server.measure(lambda table: table.rewrite().files_before, made, enough=14)
    assert counted.result == 32
    assert counted.steps <= 16


def test_position_deletes(store_server: StoreServer) -> None:
    def made():
        table = maker(store_server, 2)()
        for start in range(0, 60, 10):
            table.write(rows(start, 10).select(["id", "p"]), mode="delete")
        return table

    options = {"lakebed.rewrite.what": "position-deletes"}
    counted = store_server.measure(lambda table: table.rewrite(options=options).files_before, made, enough=13)
    assert counted.result > 4
    assert counted.steps <= 13


def test_manifests(store_server: StoreServer) -> None:
    made = maker(store_server, 8, 1)
    options = {"lakebed.rewrite.what": "manifests"}
    counted = store_server.measure(lambda table: table.rewrite(options=options).files_before, made, enough=7)
    assert counted.result == 8
    assert counted.steps <= 7
