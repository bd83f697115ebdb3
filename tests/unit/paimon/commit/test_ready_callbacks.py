"""The callbacks that lakebed brings: partitions in a SQL database, tags in an Iceberg catalog."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

import lakebed
from lakebed.callbacks import PublishIcebergTags, RegisterPartitions
from lakebed.errors import UsageError
from tests.tables.paimon.small import Make, rows

TAGS = "lakebed.callbacks:PublishIcebergTags"


def test_partitions_go_to_whatever_database_there_is(make: Make, tmp_path: Path) -> None:
    table, file = make(), tmp_path / "p.sqlite"
    for _ in range(2):
        writer = table.writer(callbacks=[RegisterPartitions(lambda: sqlite3.connect(file))])
        writer.write(rows(("a", 1, "v", 1), ("it's", 2, "v", 1)))
        writer.commit(messages=writer.prepare_commit())
    with sqlite3.connect(file) as connection:
        found = connection.execute("SELECT partition, snapshot_id FROM lakebed_partitions ORDER BY 1").fetchall()
    assert found == [('{"dt": "a"}', 1), ('{"dt": "it\'s"}', 1)]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A SQL catalog named `prod`, as pyiceberg's own configuration names it, with a table of two snapshots."""
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", type(pyiceberg_config())())
    found = load_catalog("prod")
    found.create_namespace("shop")
    data = pa.table({"id": pa.array([1], pa.int64())})
    table = found.create_table("shop.orders", data.schema)
    table.append(data)
    table.append(data)
    return found


def pyiceberg_config() -> object:
    """What pyiceberg read from the environment when it was imported."""
    from pyiceberg import catalog

    return catalog._ENV_CONFIG


def published(catalog: Catalog) -> tuple[dict[str, str], dict[str, int], int]:
    """The properties and tags that lakebed gave the Iceberg table, and how often its metadata changed."""
    table = catalog.load_table("shop.orders")
    properties = {key: value for key, value in table.properties.items() if key.startswith("lakebed.")}
    tags = {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"}
    return properties, tags, len(table.metadata.metadata_log)


def test_tags_are_published_in_an_iceberg_catalog(make: Make, catalog: Catalog) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table = lakebed.open(table.location, {"tag.callbacks": TAGS, f"tag.callback.{TAGS}.param": "prod:shop.orders"})
    table.tag("daily")
    assert published(catalog)[:2] == ({"lakebed.tag.daily": "1"}, {})
    table.delete_tag("daily")
    assert published(catalog)[:2] == ({}, {})


def test_publishing_again_changes_nothing(catalog: Catalog) -> None:
    first, second = (snapshot.snapshot_id for snapshot in catalog.load_table("shop.orders").snapshots())
    publish = PublishIcebergTags("prod:shop.orders")
    for _ in range(2):
        publish.notify_creation("daily", first)
        after = published(catalog)
        assert after[:2] == ({"lakebed.tag.daily": str(first)}, {"daily": first})
    publish.notify_creation("daily", first)
    assert published(catalog) == after
    publish.notify_creation("daily", second)
    assert published(catalog)[:2] == ({"lakebed.tag.daily": str(second)}, {"daily": second})
    for _ in range(2):
        publish.notify_deletion("daily")
        assert published(catalog)[:2] == ({}, {})
    gone = published(catalog)
    publish.notify_deletion("daily")
    assert published(catalog) == gone


def test_one_that_died_half_way_is_finished(catalog: Catalog) -> None:
    """The tag is there, its property is not, as after a crash between the two."""
    snapshot = catalog.load_table("shop.orders").snapshots()[0].snapshot_id
    catalog.load_table("shop.orders").manage_snapshots().create_tag(snapshot, "daily").commit()
    PublishIcebergTags("prod:shop.orders").notify_creation("daily", snapshot)
    assert published(catalog)[:2] == ({"lakebed.tag.daily": str(snapshot)}, {"daily": snapshot})


def test_a_table_that_is_not_there(make: Make, catalog: Catalog) -> None:
    with pytest.raises(UsageError, match=r"CATALOG:NAMESPACE\.TABLE"):
        PublishIcebergTags("orders")
    with pytest.raises(NoSuchTableError):
        PublishIcebergTags("prod:shop.nowhere").notify_creation("daily", 1)
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    options = {"tag.callbacks": TAGS, f"tag.callback.{TAGS}.param": "prod:shop.nowhere"}
    lakebed.open(table.location, options).tag("daily")  # best effort: the tag stands
    assert lakebed.open(table.location).read(as_of="tag:daily").read_all().num_rows == 1
