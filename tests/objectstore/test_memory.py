"""Reading from an object store holds no more than it is told to: bytes fetched ahead, the cache, and what was read."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.kernel.files import FileInfo, open_store
from lakebed.kernel.files.cache import CACHE
from lakebed.kernel.files.fetching import TAIL
from lakebed.kernel.parquet.chunks import fetch_chunks
from tests.objectstore.server import StoreServer
from tests.tables.hudi.writing import META, HudiFolder, t

MB = 1 << 20
BOUND = 16 * MB
COLUMNS, GROUP_ROWS, GROUPS = 16, 1 << 16, 20
LARGE = COLUMNS * GROUP_ROWS * 8 * GROUPS
"""160 MB in row groups of 8 MB."""
OPTIONS = {"lakebed.storage.bytes-in-flight": str(BOUND), "lakebed.storage.cache": str(MB)}
BOUNDED = {
    "iceberg": {"write.parquet.row-group-size-bytes": str(8 * MB), "write.target-file-size-bytes": str(1 << 30)},
    "paimon": {"parquet.block.size": str(8 * MB), "target-file-size": "1 gb", "bucket": "-1"},
}

pytestmark = pytest.mark.slow


def rows(count: int, seed: int = 1) -> pa.Table:
    chance = np.random.default_rng(seed)  # so that nothing compresses
    return pa.table({f"c{number}": chance.random(count) for number in range(COLUMNS)})


def written(server: StoreServer | None, tmp_path: Path, format: str, files: int, count: int) -> str:
    """A table of so many files with so many rows each, on the server or else on the disk."""
    if format == "hudi":
        folder = written_hudi(tmp_path / f"hudi-{files}-{count}", files, count)
        return server.upload(folder) if server else str(folder)
    place = server.url("memory.db/t") if server else str(tmp_path / f"memory.db/{files}-{count}")
    options = {**BOUNDED[format], **(server.direct if server else {})}
    table = lakebed.create(place, format, rows(1).schema, options=options)
    for seed in range(files):
        table.write(rows(count, seed))
    return place


def written_hudi(folder: Path, files: int, count: int) -> Path:
    if folder.exists():
        return folder
    lake = HudiFolder(folder, 6, {"id": "string", **{f"c{number}": "double" for number in range(COLUMNS)}})
    names = []
    for seed in range(files):
        name = f"{seed:08d}-0_0-1-1_{t(1)}.parquet"
        ids = pa.array(np.char.add(f"{seed}-", np.arange(count).astype(str)))
        full = rows(count, seed).add_column(0, "id", ids)
        for column in reversed(META):
            full = full.add_column(0, column, ids if column == "_hoodie_record_key" else pa.repeat(t(1), count))
        pq.write_table(full, folder / name, row_group_size=GROUP_ROWS, store_schema=False)
        names.append(name)
    lake.done(1, names)
    return folder


def measured(location: str, small: str, options: dict[str, str]) -> dict[str, Any]:
    """What reading the table took, in a process of its own that had read a small one."""
    given = json.dumps({"location": location, "small": small, "options": options})
    command = [sys.executable, "-m", "tests.objectstore.peak", given]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


@pytest.mark.parametrize("format", ["iceberg", "paimon", "hudi"])
def test_a_large_file_is_never_held_whole(store_server: StoreServer, tmp_path: Path, format: str) -> None:
    """Except where it has one row group: lakebed's Paimon writer makes one of what it has in memory."""
    large = GROUP_ROWS * GROUPS
    options = {**store_server.options, **OPTIONS}
    places = (written(store_server, tmp_path, format, 1, large), written(store_server, tmp_path, format, 1, 1000))
    found = measured(*places, options)
    assert found["rows"] == large
    limit = LARGE + 3 * BOUND if format == "paimon" else 8 * BOUND
    assert found["grew"] < limit, f"{found['grew'] / MB:.0f} MB for a file of {LARGE / MB:.0f} MB"


@pytest.mark.parametrize("format", ["iceberg", "paimon", "hudi"])
def test_many_files_are_never_held_together(store_server: StoreServer, tmp_path: Path, format: str) -> None:
    small = written(store_server, tmp_path, format, 1, 1000)
    location = written(store_server, tmp_path, format, 80, GROUP_ROWS // 4)
    found = measured(location, small, {**store_server.options, **OPTIONS})
    assert found["rows"] == 80 * GROUP_ROWS // 4
    assert found["grew"] < 10 * BOUND, f"{found['grew'] / MB:.0f} MB more for 80 files of 2 MB"


def test_chunks_are_fetched_ahead_within_the_bound(store_server: StoreServer, tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    pq.write_table(rows(GROUP_ROWS * GROUPS), path, row_group_size=GROUP_ROWS, store_schema=False)
    store = open_store(store_server.upload(tmp_path), {**store_server.options, **OPTIONS})
    store_server.clear()
    with store.open_input("large.parquet", path.stat().st_size) as source:
        file = pq.ParquetFile(source)
        fetch_chunks(source, file.metadata, None, range(COLUMNS))
        assert BOUND // 2 < settled(fetched(store_server), BOUND // 2 + 1) <= BOUND + TAIL
        assert file.read_row_group(0).num_rows == GROUP_ROWS
        assert settled(fetched(store_server)) <= BOUND + TAIL + 3 * 8 * MB


def test_files_are_fetched_ahead_within_the_bound(store_server: StoreServer) -> None:
    store = open_store(store_server.url(), {**store_server.options, **OPTIONS})
    files = [FileInfo(f"f{number}", MB) for number in range(40)]
    store.write_many({file.path: bytes(file.size) for file in files})
    store_server.clear()
    with store.fetching(files):
        assert settled(fetched(store_server), BOUND) == BOUND
        for file in files[:4]:
            with store.open_input(file.path, file.size) as source:
                assert source.size() == MB
        assert settled(fetched(store_server), BOUND + 4 * MB) == BOUND + 4 * MB


def fetched(server: StoreServer) -> Callable[[], int]:
    return lambda: sum(entry.bytes_out for entry in server.requests())


def settled(value: Callable[[], int], least: int = 0) -> int:
    """The value once it is what must come at `least`, however slow the machine, and doesn't change any more."""
    last, until = -1, time.monotonic() + 120
    while ((now := value()) != last or now < least) and time.monotonic() < until:
        last = now
        time.sleep(0.5)
    return now


def test_the_cache_keeps_to_its_bound(store_server: StoreServer) -> None:
    store = open_store(store_server.url(), {**store_server.options, **OPTIONS})
    files = [FileInfo(f"f{number}", 100_000) for number in range(40)]
    store.write_many({file.path: bytes(file.size) for file in files})
    CACHE.clear()
    store.read_immutable(files)
    assert MB // 2 < CACHE.size <= MB
    counted = store_server.measure(lambda: store.read_immutable(files[-5:]), tries=1)
    assert counted.requests == 0 and [len(data) for data in counted.result] == [100_000] * 5


def test_no_cache(store_server: StoreServer) -> None:
    store = open_store(store_server.url(), {**store_server.options, "lakebed.storage.cache": "off"})
    store.write("a", b"a")
    CACHE.clear()
    counted = store_server.measure(lambda: [store.read_immutable([FileInfo("a", 1)]) for _ in range(2)], tries=1)
    assert counted.kinds == {"GET": 2} and CACHE.size == 0
