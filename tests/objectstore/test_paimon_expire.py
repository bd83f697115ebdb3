"""How often the expiry of a Paimon table's snapshots asks an object store, and waits in a row."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.objectstore.server import Counted, StoreServer

KEPT = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000", "bucket": "1"}
EVERYTHING = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "lakebed.storage.cache": "0"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])


def table_of(place: Path, snapshots: int) -> Path:
    """A table of so many snapshots; every second one overwrites the rows before it."""
    table = lakebed.create(place, "paimon", SCHEMA, ["id"], [], KEPT)
    for number in range(snapshots):
        rows = pa.table({"id": [number], "v": ["x"]}, SCHEMA)
        table.write(rows, mode="overwrite" if number % 2 else "append")
    return place


def expired(server: StoreServer, place: Path, dry_run: bool = False, enough: int | None = None) -> Counted:
    def prepare() -> Any:
        return lakebed.open(server.upload(place), {**server.options, **EVERYTHING})

    return server.measure(lambda table: table.expire(dry_run=dry_run), prepare, enough=enough)


@pytest.mark.parametrize("snapshots", [6, 30])
def test_an_expiry(store_server: StoreServer, tmp_path: Path, snapshots: int) -> None:
    local = table_of(tmp_path / "t", snapshots)
    counted = expired(store_server, local, enough=12)
    assert len(counted.result.expired) == snapshots - 1
    # The schemas, the hints, both ends, the other snapshots; then what goes, while the store is asked for its time;
    # then the list of it, the snapshots, their files, and the list again.
    assert counted.steps <= 16
    # the snapshots, their files, the list of both, and the file that shows the time
    assert sum(counted.kinds[kind] for kind in ("DELETES", "DELETE")) == 4
    assert counted.kinds["PUT"] == 3
    paths = Counter(
        entry.target.partition("?")[0]
        for entry in counted.log
        if entry.method == "GET" and "/manifest/" in entry.target
    )
    assert set(paths.values()) == {1}
    ids = Counter(
        entry.target.partition("?")[0]
        for entry in counted.log
        if "/snapshot/snapshot-" in entry.target and entry.method == "GET"
    )
    assert Counter(ids.values()) == {1: snapshots, 2: 1}  # the one that stays is looked for once more at the end


def test_what_stays_readable(store_server: StoreServer, tmp_path: Path) -> None:
    place = table_of(tmp_path / "t", 9)
    lakebed.open(place).tag("kept", 4)
    url = store_server.upload(place)
    remote = lakebed.open(url, {**store_server.options, **EVERYTHING})
    dry = remote.expire(dry_run=True)
    result = remote.expire()
    local = lakebed.open(place).expire(options={k: v for k, v in EVERYTHING.items() if k.startswith("snapshot")})
    assert sorted(dry.deleted_files) == sorted(result.deleted_files) == sorted(local.deleted_files)
    assert result.kept == local.kept
    for as_of in (None, "tag:kept"):
        assert remote.read(as_of=as_of).read_all() == lakebed.open(place).read(as_of=as_of).read_all()
    assert not remote.expire().deleted_files


def test_a_dry_run_writes_nothing(store_server: StoreServer, tmp_path: Path) -> None:
    counted = expired(store_server, table_of(tmp_path / "t", 6), dry_run=True, enough=9)
    assert set(counted.kinds) <= {"LIST", "GET"}
    assert counted.steps <= 11


def test_nothing_is_due(store_server: StoreServer, tmp_path: Path) -> None:
    place = table_of(tmp_path / "t", 6)
    url = store_server.upload(place)
    given = {**store_server.options, "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "100"}
    counted = store_server.measure(lambda table: table.expire(), lambda: lakebed.open(url, given), enough=3)
    assert not counted.result.expired
    # schemas, unfinished expiries and staged rows are listed; both hints, both ends and the place after the newest
    assert counted.kinds == {"LIST": 3, "GET": 5}
    assert counted.steps <= 4


def test_an_interrupted_expiry_is_finished_together(store_server: StoreServer, tmp_path: Path) -> None:
    place = table_of(tmp_path / "t", 6)
    journal = place / ".lakebed" / "expire" / "left.json"
    journal.parent.mkdir(parents=True)
    left = [f"bucket-0/data-left-{number}.parquet" for number in range(20)]
    for path in left:
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_bytes(b"x")
    journal.write_text('{"snapshots": [], "files": [' + ", ".join(f'"{path}"' for path in left) + "]}")
    counted = expired(store_server, place)
    assert set(left) < set(counted.result.deleted_files)
    assert sum(counted.kinds[kind] for kind in ("DELETES", "DELETE")) <= 6
