"""Catalogs of Paimon tables: what every kind of them promises, and what each keeps."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    NotWrittenError,
    OptionError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.paimon.commit import loop
from lakebed.verbs.catalog import Catalog

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])


@pytest.fixture(params=["filesystem", "jdbc"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return {
        "lakebed.catalog.metastore": request.param,
        "lakebed.catalog.warehouse": str(tmp_path / "warehouse"),
        "lakebed.catalog.uri": f"jdbc:sqlite:{tmp_path / 'catalog.sqlite'}",
    }


@pytest.fixture
def shop(options: dict[str, str]) -> Catalog:
    return lakebed.catalog("shop", options)


def test_a_table_lives_under_its_name(shop: Catalog, options: dict[str, str]) -> None:
    made = lakebed.create("shop:sales.orders", "paimon", SCHEMA, ["id"], options={**options, "bucket": "1"})
    made.write(pa.table({"id": [1], "v": ["x"]}))
    opened = lakebed.open("shop:sales.orders", options)
    assert opened.read().read_all().to_pylist() == [{"id": 1, "v": "x"}]
    assert opened.location.endswith("/sales.db/orders")
    assert shop.open("sales.orders", {"scan.snapshot-id": 1}).read(["v"]).read_all().to_pylist() == [{"v": "x"}]
    opened.alter(lakebed.add_column("w", "INT"))
    assert made.schema.names == ["id", "v", "w"]
    assert (shop.databases(), shop.tables("sales")) == (["sales"], ["orders"])
    with pytest.raises(TableExistsError, match="already has a table"):
        shop.create("sales.orders", SCHEMA)
    with pytest.raises(UsageError, match="has 1 table\\."):
        shop.drop_database("sales")
    shop.drop("sales.orders")
    assert shop.tables("sales") == [] and not Path(opened.location).exists()
    for call in (shop.drop, shop.open):
        with pytest.raises(TableNotFoundError, match=r"no table 'sales\.orders'"):
            call("sales.orders")
    shop.create("sales.orders", SCHEMA, ["id"])
    assert shop.open("sales.orders").read().read_all().num_rows == 0


def test_databases(shop: Catalog) -> None:
    shop.create_database("empty")
    shop.create_database("empty")
    assert shop.databases() == ["empty"] and shop.tables("empty") == []
    shop.drop_database("empty")
    assert shop.databases() == []
    for call in (shop.tables, shop.drop_database):
        with pytest.raises(TableNotFoundError, match="no database 'empty'"):
            call("empty")


@pytest.mark.parametrize("name", ["orders", "a.b.c", "../x.y", "a/b.c", "a.b$snapshots", "a.b%2f", "", ".", "a.", 7])
def test_names_that_are_none(shop: Catalog, name: str) -> None:
    for call in (shop.open, shop.drop, lambda text: shop.create(text, SCHEMA)):
        with pytest.raises(UsageError, match="name of a table"):
            call(name)
    with pytest.raises(UsageError, match="cannot name a database"):
        shop.create_database("a/b")
    with pytest.raises(UsageError, match="cannot name a database"):
        shop.tables("..")


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIMON_CATALOG__MY_SHOP__WAREHOUSE", str(tmp_path))
    monkeypatch.setenv("PAIMON_CATALOG__MY_SHOP__TABLE_DEFAULT__FILE__FORMAT", "orc")
    lakebed.create("my-shop:a.b", "paimon", SCHEMA, options={"file.compression": "none"})
    made = lakebed.catalog("my-shop").open("a.b")
    assert made.table_schema.options == {"file.format": "orc", "file.compression": "none"}  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="Did you mean 'warehouse'"):
        lakebed.catalog("my-shop", {"lakebed.catalog.warehous": "x"})
    with pytest.raises(UnsupportedError, match="takes none"):
        lakebed.catalog("my-shop", {"lakebed.catalog.lock.enabled": True})
    with pytest.raises(UsageError, match=r"no catalog 'other' is configured.*lakebed\.catalog\.metastore"):
        lakebed.catalog("other")
    with pytest.raises(UsageError, match="PAIMON_CATALOG__OTHER__WAREHOUSE"):
        lakebed.catalog("other", {"lakebed.catalog.metastore": "filesystem"})
    with pytest.raises(UnsupportedError, match=r"database of MySQL.*jdbc:sqlite:"):
        lakebed.catalog("other", {"lakebed.catalog.metastore": "jdbc", "lakebed.catalog.uri": "jdbc:mysql://x"})
    with pytest.raises(UsageError, match="only works when the catalog is opened"):
        lakebed.catalog("my-shop").open("a.b", {"lakebed.catalog.warehouse": "x"})
    with pytest.raises(OptionError, match="unknown option"):
        lakebed.catalog("my-shop").open("a.b", {"bukket": "x"})


def test_what_the_database_holds(tmp_path: Path) -> None:
    """The tables of Paimon's JdbcCatalog, with its key and the properties of a database."""
    file = tmp_path / "c.sqlite"
    options = {
        "lakebed.catalog.metastore": "jdbc", "lakebed.catalog.warehouse": str(tmp_path / "w"),
        "lakebed.catalog.uri": f"jdbc:sqlite:{file}", "lakebed.catalog.catalog-key": "mine",
    }  # fmt: skip
    shop = lakebed.catalog("shop", options)
    shop.create("a.t", SCHEMA)
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT * FROM paimon_tables").fetchall() == [("mine", "a", "t")]
        assert dict(database.execute("SELECT property_key, property_value FROM paimon_database_properties")) == {
            "exists": "true", "location": str(tmp_path / "w" / "a.db"),
        }  # fmt: skip
    assert lakebed.catalog("shop", {**options, "lakebed.catalog.catalog-key": "other"}).databases() == []
    file.write_bytes(b"not a database, and longer than the header of one")
    with pytest.raises(StorageError, match="refused"):
        shop.databases()


def test_the_lock_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of Paimon's JdbcCatalogLock. One that is older than it says is nobody's."""
    file = tmp_path / "c.sqlite"
    settings = {"metastore": "jdbc", "warehouse": str(tmp_path / "w"), "uri": f"jdbc:sqlite:{file}",
                "lock.enabled": "true", "lock-acquire-timeout": "100 ms", "lock-check-max-sleep": "20 ms"}  # fmt: skip
    options = {f"lakebed.catalog.{key}": text for key, text in settings.items()}
    table = lakebed.catalog("shop", options).create("a.t", SCHEMA)
    rows = pa.table({"id": [1], "v": ["x"]}, SCHEMA)
    table.write(rows)
    seen: list[object] = []
    claim = loop.claim_snapshot

    def watched(*arguments: Any) -> Any:
        with sqlite3.connect(file) as database:
            seen.append(database.execute("SELECT lock_id FROM paimon_distributed_locks").fetchall())
        return claim(*arguments)

    monkeypatch.setattr(loop, "claim_snapshot", watched)
    pickle.loads(pickle.dumps(table.sink()))
    table.write(rows)
    assert seen == [[("jdbc.a.t",)]]
    insert = "INSERT INTO paimon_distributed_locks VALUES ('jdbc.a.t', datetime('now', ?), 5)"
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT * FROM paimon_distributed_locks").fetchall() == []
        database.execute(insert, ("+0 seconds",))
    with pytest.raises(NotWrittenError, match="another writer holds it"):
        table.write(rows)
    with sqlite3.connect(file) as database:
        database.execute("UPDATE paimon_distributed_locks SET acquired_at = datetime('now', '-7 seconds')")
    assert table.write(rows).instant == "3"
    with pytest.raises(UnsupportedError, match="takes none"):
        lakebed.catalog("shop", {**options, "lakebed.catalog.lock.type": "hive"})
