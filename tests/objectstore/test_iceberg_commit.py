"""What commits to an Iceberg table ask of an object store, by partitions, files and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.objectstore.server import StoreServer

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.float64())])


def rows(start: int, count: int, partitions: int = 4) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {"id": numbers, "p": pa.array([n % partitions for n in numbers], pa.int32()), "v": [float(n) for n in numbers]},
        SCHEMA,
    )


def maker(
    server: StoreServer, commits: int = 3, partitions: int = 4, options: Mapping[str, str] = {}
) -> Callable[[], Any]:
    """Makes a table of so many appends, each of a file per partition, and opens it."""

    def made() -> Any:
        url = server.url()
        table = lakebed.create(url, "iceberg", SCHEMA, ["id", "p"], ["p"], {**server.direct, **options})
        for commit in range(commits):
            table.write(rows(1000 * commit, 100, partitions))
        return lakebed.open(url, server.options)

    return made


def test_create(store_server: StoreServer) -> None:
    def created() -> Any:
        return lakebed.create(store_server.url(), "iceberg", SCHEMA, options=store_server.options)

    assert store_server.measure(created, enough=4).steps <= 4


@pytest.mark.parametrize("partitions", [1, 16])
@pytest.mark.parametrize("commits", [1, 12])
def test_append(store_server: StoreServer, partitions: int, commits: int) -> None:
    """Load, data files, the head's manifest list, manifest and list, metadata, hint."""
    made = maker(store_server, commits, partitions)
    counted = store_server.measure(lambda table: table.write(rows(90_000, 100, partitions)), made, enough=6)
    assert counted.steps <= (6 if partitions == 1 else 7)  # on a busy machine sixteen threads begin one after the other
    assert counted.kinds["PUT"] == partitions + 4
    assert counted.kinds["LIST"] == 0 and counted.kinds["HEAD"] == 1
    assert counted.requests <= partitions + 11


def test_a_second_append_of_a_table_costs_no_more(store_server: StoreServer) -> None:
    def written() -> Any:
        table = maker(store_server)()
        table.write(rows(80_000, 100))
        return table

    counted = store_server.measure(lambda table: table.write(rows(90_000, 100)), written, enough=6)
    assert counted.steps <= 6 and counted.requests <= 15


def test_a_new_manifest_that_is_merged_at_once_is_never_written(store_server: StoreServer) -> None:
    made = maker(store_server, 3, 1, {"commit.manifest.min-count-to-merge": "2"})
    counted = store_server.measure(lambda table: table.write(rows(90_000, 100, 1)), made, enough=7)
    assert counted.steps <= 7
    assert sum("-m" in entry.target and entry.method == "PUT" for entry in counted.log) == 1
    assert counted.kinds["DELETES"] + counted.kinds["DELETE"] == 0


def test_old_metadata_goes_by_one_request(store_server: StoreServer) -> None:
    options = {
        "write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"
    }  # fmt: skip
    made = maker(store_server, 5, 1, options)
    counted = store_server.measure(lambda table: table.write(rows(90_000, 100, 1)), made, enough=7)
    assert counted.steps <= 7  # one of them looks whether the claim came in time
    assert counted.kinds["DELETES"] + counted.kinds["DELETE"] == 1


@pytest.mark.parametrize(("mode", "steps"), [("overwrite", 7), ("upsert", 12), ("delete", 11)])
@pytest.mark.parametrize("version", ["2", "3"])
def test_changes(store_server: StoreServer, mode: str, steps: int, version: str) -> None:
    made = maker(store_server, options={"format-version": version})
    data = rows(1050, 100) if mode != "delete" else rows(1050, 100).select(["id", "p"])
    counted = store_server.measure(lambda table: table.write(data, mode=mode), made, enough=steps)
    assert counted.steps <= steps


def test_an_upserts_steps_do_not_grow_with_the_files(store_server: StoreServer) -> None:
    made = maker(store_server, commits=8)
    counted = store_server.measure(lambda table: table.write(rows(0, 9000), mode="upsert"), made, enough=12)
    assert counted.steps <= 14


def test_a_tag(store_server: StoreServer) -> None:
    assert store_server.measure(lambda table: table.tag("a"), maker(store_server), enough=4).steps <= 4


def test_append_by_a_catalog(store_server: StoreServer, tmp_path: Path) -> None:
    """The metadata file is read once. What the catalog's database is asked is not counted."""
    numbers = iter(range(100))

    def made() -> str:
        name = f"local:shop.orders{next(numbers)}"
        table = lakebed.create(name, "iceberg", SCHEMA, partition_by=["p"], options={**options, **store_server.direct})
        table.write(rows(0, 100))
        return name

    place = {"uri": f"sqlite:///{tmp_path / 'catalog.db'}", "type": "sql", "warehouse": store_server.url()}
    options = {f"lakebed.catalog.{key}": value for key, value in place.items()}
    given = {**options, **store_server.options}
    counted = store_server.measure(lambda name: lakebed.open(name, given).write(rows(900, 100)), made, enough=5)
    assert counted.steps <= 5
    assert sum("metadata.json" in entry.target and entry.method == "GET" for entry in counted.log) == 1
    opened = store_server.measure(lambda table: table.write(rows(900, 100)), lambda: lakebed.open(made(), given))
    assert opened.steps <= 4 and opened.kinds["GET"] == 1


def test_a_lost_race_looks_again_only_at_what_changed(store_server: StoreServer) -> None:
    """The retry reads the newer metadata and its manifest list, and writes no data file and no manifest again."""

    def raced() -> Any:
        table = maker(store_server, options={"commit.retry.min-wait-ms": "1"})()
        with table.writer() as writer:
            writer.write(rows(70_000, 100))
            writer.prepare_commit()
        lakebed.open(table.location, store_server.direct).write(rows(80_000, 100))
        return writer

    counted = store_server.measure(lambda writer: writer.commit(), raced, enough=11)
    puts = [entry.target for entry in counted.log if entry.method == "PUT"]
    assert not [target for target in puts if "/data/" in target]
    assert sum("-m" in target for target in puts) == 1
    assert sum("/snap-" in target for target in puts) <= 2
    assert counted.steps <= 12
