"""What the expiry of an Iceberg table's snapshots asks of an object store, by snapshots."""

from __future__ import annotations

from typing import Any

import pytest

import lakebed
from lakebed.kernel.files import open_store
from tests.objectstore.server import StoreServer
from tests.objectstore.test_iceberg_commit import maker, rows

ALL_BUT_ONE = {"retain_last": "1", "older_than": "2100-01-01T00:00:00"}


def overwriter(server: StoreServer, snapshots: int) -> Any:
    def made() -> Any:
        table = maker(server, 0)()
        direct = lakebed.open(table.location, server.direct)
        for number in range(snapshots):
            direct.write(rows(100 * number, 20), mode="overwrite")
        return lakebed.open(table.location, server.options)

    return made


@pytest.mark.parametrize("snapshots", [4, 16])
def test_expire(store_server: StoreServer, snapshots: int) -> None:
    """Manifests and lists are read once and together, and files go by one request."""
    made = overwriter(store_server, snapshots)
    counted = store_server.measure(lambda table: table.expire(options=ALL_BUT_ONE), made, enough=12)
    assert len(counted.result.expired) == snapshots - 1
    assert counted.steps <= 13
    assert counted.kinds["DELETES"] + counted.kinds["DELETE"] == 2
    read = [entry.target for entry in counted.log if entry.method == "GET" and entry.target.endswith(".avro")]
    assert len(read) == len(set(read))


def test_a_dry_run_writes_nothing(store_server: StoreServer) -> None:
    made = overwriter(store_server, 4)
    counted = store_server.measure(lambda table: table.expire(dry_run=True, options=ALL_BUT_ONE), made, enough=4)
    assert counted.steps <= 4 and {*counted.kinds} <= {"GET"}
    assert len(counted.result.deleted_files) > 4


def test_files_that_cannot_be_removed_are_kept(store_server: StoreServer) -> None:
    table = overwriter(store_server, 3)()
    with store_server.fault("403", method="POST", target="delete", skip=1):
        result = table.expire(options=ALL_BUT_ONE)
    assert len(result.expired) == 2 and not result.deleted_files
    kept = [skipped for skipped in result.kept if "could not be removed" in skipped.reason]
    standing = {info.path for info in open_store(table.location, store_server.direct).walk()}
    assert kept and {skipped.what for skipped in kept} <= standing


def test_orphans(store_server: StoreServer) -> None:
    def made() -> Any:
        table = maker(store_server, 3)()
        open_store(table.location, store_server.direct).write_many({f"data/p=1/{n}.parquet": b"x" for n in range(40)})
        return table

    options = {"expire-snapshots": "false", "remove-orphan-files": "true"}
    counted = store_server.measure(lambda table: table.expire(options=options), made, enough=10)
    assert len(counted.result.kept) == 40
    assert counted.steps <= 12 and counted.kinds["LIST"] == 1
