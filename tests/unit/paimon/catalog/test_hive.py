"""A Hive metastore as a catalog of Paimon tables: what it shows, locks, partitions, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hive_metastore.ttypes import MetaException, SerDeInfo, StorageDescriptor, Table

import lakebed
from lakebed.errors import (
    CommitUnknownError,
    NotWrittenError,
    RetryableError,
    RuntimeMissingError,
    SchemaError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.paimon.catalog import metastore as client
from lakebed.formats.paimon.codec.hive_types import hive_type
from lakebed.formats.paimon.codec.types import type_from_json
from tests.tables.paimon.hive_metastore import Metastore, serving

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string()), pa.field("dt", pa.date32(), False)])
ROWS = pa.table({"id": [1, 2], "v": ["x", "y"], "dt": pa.array([0, 1], pa.int32()).cast(pa.date32())}, SCHEMA)
KEYS = (["dt", "id"], ["dt"], {"bucket": 1, "metastore.partitioned-table": True})


@pytest.fixture
def metastore(tmp_path: Path) -> Metastore:
    return Metastore(tmp_path / "hive")


@pytest.fixture
def options(metastore: Metastore, tmp_path: Path) -> Iterator[dict[str, str]]:
    with serving(metastore) as uri:
        settings = {"metastore": "hive", "uri": uri, "warehouse": str(tmp_path / "w")}
        yield {f"lakebed.catalog.{key}": text for key, text in settings.items()}


def test_what_the_metastore_shows(options: dict[str, str], metastore: Metastore, tmp_path: Path) -> None:
    table = lakebed.create("shop:sales.orders", "paimon", SCHEMA, *KEYS[:2], options={**options, **KEYS[2]})
    shown = metastore.tables["sales", "orders"]
    assert metastore.databases["sales"].locationUri == f"file:{tmp_path}/w/sales.db"
    assert (shown.sd.location, shown.tableType) == (f"file:{tmp_path}/w/sales.db/orders", "MANAGED_TABLE")
    assert shown.parameters == {
        "table_type": "PAIMON", "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler", "bucket": "1",
        "metastore.partitioned-table": "true", "primary-key": "dt,id", "partition": "dt", "bucket-key": "id",
    }  # fmt: skip
    assert shown.sd.inputFormat == "org.apache.paimon.hive.mapred.PaimonInputFormat"
    assert [(c.name, c.type) for c in (*shown.sd.cols, *shown.partitionKeys)] == [
        ("id", "bigint"), ("v", "string"), ("dt", "date"),
    ]  # fmt: skip
    result = table.alter([lakebed.add_column("w", "INT", comment="of it"), lakebed.set_option("num-levels", 3)])
    assert not result.notes
    shown = metastore.tables["sales", "orders"]
    assert [(c.name, c.type, c.comment) for c in shown.sd.cols][-1] == ("w", "int", "of it")
    assert shown.parameters["num-levels"] == "3"
    table.alter(lakebed.remove_option("num-levels"))
    assert "num-levels" not in metastore.tables["sales", "orders"].parameters
    metastore.failing["alter_table_with_environment_context"] = MetaException(message="incompatible")
    note = table.alter(lakebed.drop_column("w")).notes[-1]
    assert "shows the columns of before" in note and "incompatible" in note
    assert lakebed.open("shop:sales.orders", options).schema.names == ["id", "v", "dt"]


def test_partitions_are_entered(options: dict[str, str], metastore: Metastore, tmp_path: Path) -> None:
    shop = lakebed.catalog("shop", options)
    table = shop.create("sales.orders", SCHEMA, *KEYS)
    table.write(ROWS)
    there = metastore.partitions["sales", "orders"]
    assert {values: part.sd.location for values, part in there.items()} == {
        (day,): f"file:{tmp_path}/w/sales.db/orders/dt={day}" for day in ("0", "1")
    }
    asked = len(metastore.asked)
    table.write(ROWS)
    assert len(metastore.asked) == asked or metastore.asked[asked:] == ["get_table", "add_partitions_req"]
    metastore.failing["add_partitions_req"] = MetaException(message="not now")
    assert lakebed.open("shop:sales.orders", options).write(ROWS).instant == "3"  # it stands, and the log says the rest
    shop.create("sales.quiet", SCHEMA, *KEYS[:2], {"bucket": 1}).write(ROWS)
    assert ("sales", "quiet") not in metastore.partitions


def test_expired_partitions_go(options: dict[str, str], metastore: Metastore) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("day", pa.string(), False)])
    given = {"metastore.partitioned-table": True, "partition.expiration-time": "7 d", "write-only": True,
             "partition.timestamp-formatter": "yyyy-MM-dd"}  # fmt: skip
    shop = lakebed.catalog("shop", options)
    table = shop.create("a.t", schema, [], ["day"], given)
    for day in ("2001-01-01", "2001-01-02", "9999-01-01"):
        table.write(pa.table({"id": [1], "day": [day]}, schema))
    there = metastore.partitions["a", "t"]
    del there["2001-01-02",]
    assert len(table.expire(options={"lakebed.expire.what": "partitions"}).expired) == 2
    assert [*there] == [("9999-01-01",)]


def test_external_tables(options: dict[str, str], metastore: Metastore, tmp_path: Path) -> None:
    shop, place = lakebed.catalog("shop", options), tmp_path / "mine"
    lakebed.create(place, "paimon", SCHEMA, ["dt", "id"], ["dt"], {"bucket": 1}).write(ROWS)
    file = place / "schema" / "schema-0"
    file.write_text(
        file.read_text().replace('"bucket"', '"paimon_location" : "/elsewhere", "EXTERNAL" : "FALSE", "bucket"')
    )
    with pytest.raises(SchemaError, match="other columns or keys"):
        shop.create("a.t", SCHEMA, options={"path": place})
    assert shop.tables("a") == []
    assert shop.create("a.t", SCHEMA, *KEYS[:2], {"path": place}).read().read_all().num_rows == 2
    shown = metastore.tables["a", "t"].parameters  # a table's own options do not choose its place
    assert (shown["EXTERNAL"], shown["bucket"]) == ("TRUE", "1") and "paimon_location" not in shown
    with pytest.raises(TableExistsError):
        shop.create("a.t", SCHEMA)
    shop.drop("a.t")
    assert lakebed.open(place).read().read_all().num_rows == 2
    with pytest.raises(TableNotFoundError):
        shop.open("a.t")
    (tmp_path / "w" / "a.db").mkdir(parents=True)
    lakebed.create(tmp_path / "w" / "a.db" / "left", "paimon", SCHEMA)
    with pytest.raises(TableExistsError, match="does not name"):
        shop.create("a.left", SCHEMA)
    other = lakebed.catalog("other", {**options, "lakebed.catalog.table.type": "external",
                                      "lakebed.catalog.location-in-properties": "true"})  # fmt: skip
    other.create("b.t", SCHEMA)
    assert metastore.tables["b", "t"].parameters["paimon_location"] == f"file:{tmp_path}/w/b.db/t"
    assert metastore.tables["b", "t"].sd.location is None and metastore.databases["b"].parameters
    other.drop("b.t")
    assert lakebed.open(tmp_path / "w" / "b.db" / "t").schema == SCHEMA
    for metastore_kind in ("filesystem", "jdbc"):
        settings = {"metastore": metastore_kind, "warehouse": str(tmp_path / "x"), "uri": f"jdbc:sqlite:{tmp_path}/c"}
        with pytest.raises(UnsupportedError, match="option path"):
            plain = {f"lakebed.catalog.{key}": text for key, text in settings.items()}
            lakebed.catalog("plain", plain).create("a.t", SCHEMA, options={"path": place})


def test_tables_of_others(options: dict[str, str], metastore: Metastore, tmp_path: Path) -> None:
    shop = lakebed.catalog("shop", options)
    shop.create("a.ours", SCHEMA)
    other = Table(tableName="theirs", dbName="a", tableType="EXTERNAL_TABLE", parameters={"table_type": "ICEBERG"},
                  sd=StorageDescriptor(inputFormat="x", serdeInfo=SerDeInfo()))  # fmt: skip
    metastore.create_table(other)
    metastore.create_table(Table(tableName="view", dbName="a", tableType="VIRTUAL_VIEW"))
    assert shop.tables("a") == ["ours"]
    for call in (shop.open, shop.drop):
        with pytest.raises(UnsupportedError, match="has ICEBERG for it"):
            call("a.theirs")
    with pytest.raises(TableExistsError):
        shop.create("a.theirs", SCHEMA)
    assert not (tmp_path / "w" / "a.db" / "theirs").exists()
    shop.drop("a.ours")
    with pytest.raises(StorageError, match="not empty"):
        shop.drop_database("a")  # the reference would take the tables of others with it
    assert ("a", "theirs") in metastore.tables
    with pytest.raises(UsageError, match="capital letters"):
        shop.create("a.Orders", SCHEMA)


def test_a_drop_leaves_what_is_no_table(options: dict[str, str], metastore: Metastore, tmp_path: Path) -> None:
    shop = lakebed.catalog("shop", options)
    shop.create("a.t", SCHEMA)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "file").write_text("mine")
    metastore.tables["a", "t"].sd.location = str(tmp_path / "home")
    with pytest.raises(TableNotFoundError):
        shop.open("a.t")
    shop.drop("a.t")
    assert (tmp_path / "home" / "file").exists()


def test_commits_hold_the_lock(options: dict[str, str], metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.001)
    held = {**options, "lakebed.catalog.lock.enabled": "true", "lakebed.catalog.lock-acquire-timeout": "50 ms",
            "lakebed.catalog.lock-check-max-sleep": "10 ms"}  # fmt: skip
    table = lakebed.catalog("shop", held).create("a.t", SCHEMA, ["dt", "id"], ["dt"], {"bucket": 1})
    metastore.asked.clear()
    table.write(ROWS)
    table.alter(lakebed.add_column("w", "INT"))
    calls = [name for name in metastore.asked if "lock" in name]
    assert calls == ["lock", "unlock"] * 2 and not metastore.locks
    metastore.lock_states = [2]  # waiting
    table.write(ROWS)
    metastore.locks[99] = ("a", "t")
    files = sorted(Path(table.location).glob("*/*-*"))
    with pytest.raises(NotWrittenError, match="another writer holds it"):
        table.write(ROWS)
    assert sorted(Path(table.location).glob("*/*-*")) == files  # its manifests went
    metastore.locks.clear()
    metastore.fail_unlock = True
    assert table.write(ROWS).instant == "3"
    again = pickle.loads(pickle.dumps(table.sink()))
    metastore.locks.clear()
    assert again is not None
    plain = lakebed.open("shop:a.t", options)
    metastore.asked.clear()
    metastore.fail_unlock = False
    plain.write(ROWS)  # a local folder needs none
    assert not metastore.asked
    with pytest.raises(UnsupportedError, match="takes none"):
        lakebed.catalog("shop", {**held, "lakebed.catalog.lock.type": "jdbc"})


def test_failures(options: dict[str, str], metastore: Metastore, tmp_path: Path) -> None:
    shop = lakebed.catalog("shop", options)
    metastore.failing["create_table"] = MetaException(message="quota")
    with pytest.raises(StorageError, match="quota"):
        shop.create("a.t", SCHEMA)
    metastore.failing.clear()
    shop.create("a.t", SCHEMA)  # nothing was left in its way
    metastore.failing["create_table"], metastore.after = MetaException(message="gone after it was done"), True
    shop.create("a.u", SCHEMA)
    assert shop.tables("a") == ["t", "u"] and shop.open("a.u").schema == SCHEMA
    metastore.after = False
    metastore.fail_look = True
    with pytest.raises(CommitUnknownError):
        shop.create("a.v", SCHEMA)
    metastore.failing.clear()
    metastore.fail_look = False
    two = {**options, "lakebed.catalog.uri": f"thrift://127.0.0.1:9,{metastore.url}"}
    assert lakebed.catalog("shop", two).tables("a")[0] == "t"
    with pytest.raises(RetryableError, match="did not answer"):
        lakebed.catalog("shop", {**options, "lakebed.catalog.uri": "thrift://127.0.0.1:9"}).databases()
    for uri in ("http://x:1", "thrift://", "thrift://x:port"):
        with pytest.raises(UsageError, match="thrift"):
            lakebed.catalog("shop", {**options, "lakebed.catalog.uri": uri})
    for key in ("hive-conf-dir", "metastore.client.class", "hive.metastore.sasl.enabled"):
        with pytest.raises(UnsupportedError, match=key):
            lakebed.catalog("shop", {**options, f"lakebed.catalog.{key}": "true"})


def test_without_the_client(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(client, "import_module", missing)
    with pytest.raises(RuntimeMissingError, match=r"lakebed\[hive\]"):
        lakebed.catalog("shop", options).databases()


@pytest.mark.parametrize(
    ("paimon", "hive"),
    [("CHAR(255)", "char(255)"), ("CHAR(256)", "string"), ("VARCHAR(65535)", "varchar(65535)"), ("STRING", "string"),
     ("DECIMAL(10, 2)", "decimal(10,2)"), ("TIME(3)", "string"), ("BYTES", "binary"),
     ("VARIANT", "struct<value:binary,metadata:binary>"),
     ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp with local time zone"),
     ({"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "TINYINT"}}, "map<string,array<tinyint>>"),
     ({"type": "ROW", "fields": [{"id": 1, "name": "a", "type": {"type": "MULTISET", "element": "INT"}}]},
      "struct<a:map<int,int>>")],
)  # fmt: skip
def test_types(paimon: Any, hive: str) -> None:
    assert hive_type(type_from_json(paimon)) == hive
