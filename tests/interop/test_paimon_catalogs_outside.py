"""Catalogs and schema changes beside Paimon's own Java engine: they name and change tables, and so do we, in turn."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError
from lakebed.formats.paimon.alter.requests import requests_of
from tests.interop.conftest import Peer, java, named
from tests.tables.paimon import hive_metastore
from tests.tables.paimon.hive_metastore import Metastore
from tests.tables.paimon.rest_server import Warehouse, serving

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    jars = named("LAKEBED_PAIMON_CLASSPATH")
    peer = peer_on([jars, f"{jars.split(os.pathsep)[0].removesuffix('classes')}iceberg/*"], tmp_path_factory)
    yield peer
    peer.close()


@pytest.fixture
def hive_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """The newest release of Paimon's Hive catalog that there is, 1.2.0, with Hive's own client."""
    classes = named("LAKEBED_PAIMON_CLASSPATH").split(os.pathsep)[0]
    jars = classes.removesuffix("classes")
    logging = [f"{jars}paimon/{name}.jar" for name in ("commons-logging-1.1.3", "slf4j-nop-1.7.36", "slf4j-api-1.7.32")]
    hadoop = [f"{jars}paimon/hadoop-client-{name}-3.3.6.jar" for name in ("api", "runtime")]
    peer = peer_on([classes, f"{jars}paimon-hive/*", *hadoop, *logging], tmp_path_factory)
    yield peer
    peer.close()


def peer_on(class_path: Sequence[str], folders: pytest.TempPathFactory) -> Peer:
    folder = folders.mktemp("catalogs")
    options = ["-Xmx512m", "-Duser.timezone=UTC", f"-Djava.io.tmpdir={folder}"]
    return Peer(java(*options, "-cp", os.pathsep.join(class_path), "PaimonCatalogPeer"), folder)


def ask(jvm: Peer, *words: object) -> list[str]:
    *lines, failure = jvm.ask(*words, end="\x04")
    assert not failure, f"{failure} {jvm.errors()}"
    return lines


@pytest.fixture(params=["filesystem", "jdbc", "rest"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    metastore, folder = request.param, tmp_path / "w"
    given = {"metastore": metastore, "warehouse": str(folder)}
    if metastore == "jdbc":
        yield {**given, "uri": f"jdbc:sqlite:{tmp_path / 'c.sqlite'}"}
    elif metastore == "filesystem":
        yield given
    else:
        with serving(Warehouse(folder, token="t")) as uri:
            yield {**given, "uri": uri, "token": "t", "token.provider": "bear"}


def test_a_table_is_the_same_in_both(jvm: Peer, settings: dict[str, str]) -> None:
    shop = lakebed.catalog("shop", {f"lakebed.catalog.{key}": text for key, text in settings.items()})
    theirs = ",".join(f"{key}={text}" for key, text in settings.items())
    shop.create("db.ours", SCHEMA, ["id"], (), {"bucket": 1})
    ask(jvm, "create", theirs, "db", "theirs")
    assert shop.tables("db") == sorted(ask(jvm, "list", theirs, "db")) == ["ours", "theirs"]
    for name in ("ours", "theirs"):
        shop.open(f"db.{name}").write(pa.table({"id": [1], "v": ["we"]}, SCHEMA))
        ask(jvm, "write", theirs, "db", name, 2, "they")
        table = shop.open(f"db.{name}")
        table.alter(lakebed.add_column("w", "INT", default=7))
        table.write(pa.table({"id": [3], "v": ["we again"]}))
        ask(jvm, "write", theirs, "db", name, 4, "they again")
        assert sorted(ask(jvm, "rows", theirs, "db", name)) == ["1 we", "2 they", "3 we again", "4 they again"]
        assert sorted(shop.open(f"db.{name}").read(["id", "w"]).read_all().column("w").to_pylist(), key=str) == [
            7, 7, None, None,
        ]  # fmt: skip
    ask(jvm, "drop", theirs, "db", "ours")
    shop.drop("db.theirs")
    assert shop.tables("db") == ask(jvm, "list", theirs, "db") == []


def test_one_metastore_for_both(hive_jvm: Peer, tmp_path: Path) -> None:
    """What the metastore shows of a table of ours is what it shows of one of theirs, and both work on with each."""
    metastore = Metastore(tmp_path / "hive")
    with hive_metastore.serving(metastore) as uri:
        given = {"metastore": "hive", "uri": uri, "warehouse": str(tmp_path / "w")}
        shop = lakebed.catalog("shop", {f"lakebed.catalog.{key}": text for key, text in given.items()})
        theirs = ",".join(f"{key}={text}" for key, text in given.items())
        shop.create("db.ours", SCHEMA, ["id"], (), {"bucket": 1})
        ask(hive_jvm, "create", theirs, "db", "theirs")
        shown = [metastore.tables["db", name] for name in ("ours", "theirs")]
        assert shown[0].parameters == shown[1].parameters and shown[0].tableType == shown[1].tableType
        ours, made = [
            (t.sd.cols, t.sd.inputFormat, t.sd.outputFormat, t.sd.serdeInfo.serializationLib, t.retention)
            for t in shown
        ]
        assert ours == made
        assert shop.tables("db") == sorted(ask(hive_jvm, "list", theirs, "db")) == ["ours", "theirs"]
        for name in ("ours", "theirs"):
            shop.open(f"db.{name}").write(pa.table({"id": [1], "v": ["we"]}, SCHEMA))
            ask(hive_jvm, "write", theirs, "db", name, 2, "they")
            assert not shop.open(f"db.{name}").alter(lakebed.add_column("w", "INT")).notes
            ask(hive_jvm, "write", theirs, "db", name, 3, "they")
            assert sorted(ask(hive_jvm, "rows", theirs, "db", name)) == ["1 we", "2 they", "3 they"]
        ask(hive_jvm, "drop", theirs, "db", "ours")
        shop.drop("db.theirs")
        assert shop.tables("db") == ask(hive_jvm, "list", theirs, "db") == []
        assert not [*(tmp_path / "w" / "db.db").iterdir()]


COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), False), ("n", pa.int32()), ("t", pa.string()), ("ts", pa.timestamp("us")),
        ("s", pa.struct([("x", pa.int32()), ("deep", pa.list_(pa.struct([("y", pa.int32())])))])),
        ("m", pa.map_(pa.string(), pa.list_(pa.int32()))), pa.field("p", pa.string(), False),
    ]
)  # fmt: skip
TYPES = ("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "CHAR(3)", "VARCHAR(3)", "STRING",
         "BINARY(3)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE")  # fmt: skip
CHANGES: list[Sequence[Any]] = [
    [lakebed.add_column("new", pa.struct([("a", pa.list_(pa.int32()))]), comment="c", after="n"),
     lakebed.rename_column("n", "number"), lakebed.drop_column("s.x"), lakebed.move_column("t", first=True),
     lakebed.add_column("s.deep.element.z", "DATE"), lakebed.widen("m.value.element", "BIGINT"),
     lakebed.set_default("t", "'a'"), lakebed.set_comment("s.deep", "d"), lakebed.set_comment(None, "whole"),
     lakebed.set_option("num-levels", 4), lakebed.remove_option("file.format"), lakebed.rename_column("id", "key")],
    [lakebed.add_column("new", "INT", first=True), lakebed.move_column("new", after="t")],
    [lakebed.rename_column("n", "t")], [lakebed.add_column("t", "INT")], [lakebed.drop_column("gone")],
    [lakebed.drop_column("id")], [lakebed.drop_column("p")], [lakebed.rename_column("p", "q")],
    [lakebed.widen("id", "INT")], [lakebed.widen("p", "INT")], [lakebed.set_nullable("n", False)],
    [lakebed.set_nullable("n", True)], [lakebed.set_default("n", "x")],
    [lakebed.set_option("merge-engine", "first-row")], [lakebed.set_option("bucket", 4)],
    [lakebed.set_option("bucket", -1)], [lakebed.remove_option("bucket")],
    [lakebed.set_option("sequence.field", "gone")], [lakebed.set_option("rowkind.field", "t")],
    [lakebed.set_option("snapshot.num-retained.min", 0)], [lakebed.set_option("primary-key", "n")],
    [lakebed.set_option("alter-column-null-to-not-null.disabled", False)],
    *([lakebed.widen(column, kind)] for column in ("n", "t", "ts") for kind in TYPES),
]  # fmt: skip


def test_the_same_changes_give_the_same_schemas(jvm: Peer, tmp_path: Path) -> None:
    """Each list of changes on two tables, by us and by the engine: the same schema files, or both refuse."""
    theirs, different = f"warehouse={tmp_path}", []
    row = {"id": 1, "n": 1, "t": "x", "ts": None, "s": None, "m": None, "p": "a"}
    keys = (["p", "id"], ["p"], {"bucket": "2", "file.format": "parquet"})
    first = lakebed.create(tmp_path / "db.db" / "first", "paimon", COLUMNS, *keys)
    first.write(pa.Table.from_pylist([row], COLUMNS))
    for number, changes in enumerate(CHANGES):
        made = []
        for who in ("ours", "theirs"):
            place = tmp_path / "db.db" / f"{who}{number}"
            shutil.copytree(tmp_path / "db.db" / "first", place)
            table, refused = lakebed.open(place), ""
            try:
                if who == "ours":
                    table.alter(changes)
                else:
                    body = {"changes": requests_of(table.table_schema, changes, True)}  # type: ignore[attr-defined]
                    refused = jvm.ask("alter", theirs, "db", place.name, json.dumps(body), end="\x04")[-1]
            except LakebedError as error:
                refused = str(error)
            file = place / "schema" / "schema-1"
            same = file if file.exists() else file.with_name("schema-0")  # we make no version of no change
            schema = {} if refused else {**json.loads(same.read_text()), "id": 1}
            made.append(({key: value for key, value in schema.items() if key != "timeMillis"}, refused))
        if made[0][0] != made[1][0]:
            different.append((changes, made))
    shown = "\n".join(f"{changes}\n  ours   {ours}\n  theirs {theirs}" for changes, (ours, theirs) in different)
    assert not different, shown
