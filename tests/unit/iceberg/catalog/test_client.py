"""The errors for a catalog that cannot be opened or does not answer."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import CorruptError, LakebedError, RuntimeMissingError, StorageError, UsageError
from lakebed.formats.iceberg.catalog.client import open_catalog
from tests.tables.iceberg import commits
from tests.tables.iceberg.rest_server import RestCatalog, problem
from tests.tables.iceberg.small import create, data_file, ids
from tests.unit.iceberg.catalog.conftest import options_of


def told(kind: type[LakebedError], **settings: str) -> str:
    with pytest.raises(kind) as caught:
        lakebed.open("nowhere:db.t", {f"lakebed.catalog.{key}": value for key, value in settings.items()})
    return str(caught.value)


@pytest.fixture
def closed() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_catalog_that_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.formats.iceberg.catalog.client.list_catalogs", lambda: ["prod", "test"])
    said = told(UsageError)
    assert "no catalog 'nowhere' is configured: pyiceberg's configuration has prod, test" in said
    assert "PYICEBERG_CATALOG__NOWHERE__URI" in said and "lakebed.catalog.type" in said


@pytest.mark.parametrize(
    ("given", "wanted"), [("rset", "Did you mean 'rest'?"), ("xyz", "Types: sql, rest, hive, glue")]
)
def test_a_type_that_there_is_not(given: str, wanted: str) -> None:
    assert f"unknown type of catalog '{given}'. {wanted}" in told(UsageError, type=given)


def test_an_address_that_says_nothing() -> None:
    assert "Check lakebed.catalog.type" in told(UsageError, uri="ftp://x")
    assert "cannot open the catalog 'nowhere': URI missing" in told(UsageError, type="rest")


@pytest.mark.parametrize(("kind", "scheme"), [("rest", "http"), ("hive", "thrift")])
def test_an_address_where_nobody_listens(closed: str, kind: str, scheme: str) -> None:
    said = told(StorageError, type=kind, uri=f"{scheme}://{closed}")
    assert "the catalog 'nowhere' did not answer" in said and "lakebed.catalog.uri" in said


@pytest.mark.parametrize(("kind", "module", "extra"), [
    ("hive", "hive_metastore.ThriftHiveMetastore", "lakebed[hive]"), ("glue", "boto3", "lakebed[glue]"),
])  # fmt: skip
def test_a_client_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, closed: str, kind: str, module: str, extra: str
) -> None:
    monkeypatch.delitem(sys.modules, f"pyiceberg.catalog.{kind}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    said = told(RuntimeMissingError, type=kind, uri=f"thrift://{closed}")
    assert said.endswith(f'Install it: pip install "{extra}"')


def test_a_catalog_that_stops_answering(rest: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create("cat:db.t", 2, **options_of(rest))
    monkeypatch.setattr(rest, "answer", lambda *_: (0, None))
    with pytest.raises(StorageError, match=r"'cat' did not answer as it should.*try again"):
        table.operations.load()
    monkeypatch.setattr(rest, "answer", lambda *_: problem(403, "no"))
    with pytest.raises(StorageError, match=r"refused: Problem: no\. Give credentials"):
        table.operations.load()


def test_metadata_that_is_gone(rest: RestCatalog) -> None:
    options = options_of(rest)
    table = create("cat:db.t", 2, **options)
    location = table.operations.load().location
    Path(location).unlink()
    assert table.operations.load().location == location  # its name is unique for ever: it is read once
    with pytest.raises(CorruptError, match="the catalog names this file as the current one"):
        lakebed.open("cat:db.t", options)


def test_only_settings_of_storage_go_to_the_catalog(rest: RestCatalog) -> None:
    options = {**options_of(rest), "s3.region": "x", "lakebed.storage.setting.aws_region": "y", "custom": "z"}
    properties = open_catalog("cat", options).properties
    assert properties["s3.region"] == "x" and properties["lakebed.storage.setting.aws_region"] == "y"
    assert "custom" not in properties


def test_retries_of_amazons_clients_are_numbers() -> None:
    options = {"type": "glue", "glue.region": "us-east-1", "glue.max-retries": "3"}
    assert open_catalog("cat", {f"lakebed.catalog.{key}": value for key, value in options.items()}).name == "cat"


@pytest.mark.slow
def test_a_catalog_of_pyicebergs_own_configuration(rest: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    create("cat:db.t", 2, **options_of(rest))
    monkeypatch.setenv("PYICEBERG_CATALOG__MINE__URI", rest.url)
    monkeypatch.setenv("PYICEBERG_CATALOG__MINE__TYPE", "rest")
    from pyiceberg.utils.config import Config

    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    table = lakebed.open("mine:db.t")
    commits.append(table.operations, [data_file(table, [5])])  # type: ignore[attr-defined, arg-type]
    assert ids(table) == [5]  # type: ignore[arg-type]
