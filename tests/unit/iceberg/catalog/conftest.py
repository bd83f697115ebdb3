"""Catalog servers on this machine, and the options that open them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from moto.core.exceptions import JsonRESTError
from moto.glue.responses import GlueResponse

from tests.tables.iceberg import hive_metastore, rest_server
from tests.tables.iceberg.hive_metastore import Metastore
from tests.tables.iceberg.rest_server import RestCatalog
from tests.unit.kernel.conftest import s3_endpoint

__all__ = ["s3_endpoint"]


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestCatalog]:
    catalog = RestCatalog(tmp_path / "rest")
    server = rest_server.serve(catalog)
    yield catalog
    server.shutdown()
    server.server_close()


@pytest.fixture
def hive(tmp_path: Path) -> Iterator[Metastore]:
    metastore = Metastore(tmp_path / "hive")
    listening = hive_metastore.serve(metastore)
    yield metastore
    listening.close()


@dataclass
class Glue:
    """A Glue server that checks the versions of tables, as Amazon's does. `repeat_changes` carries out every change
    twice, as after a lost answer; `deny_changes` refuses them."""

    endpoint: str
    warehouse: str
    repeat_changes: bool = False
    deny_changes: bool = False
    refused: list[str] = field(default_factory=list)


@pytest.fixture
def glue(s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Glue:
    glue, change = Glue(s3_endpoint, str(tmp_path / "glue")), GlueResponse.update_table

    def checked(response: Any) -> Any:
        if glue.deny_changes:
            raise JsonRESTError("AccessDeniedException", "not yours")
        for _ in range(1 + glue.repeat_changes):
            name = response.parameters["TableInput"]["Name"]
            table = response.glue_backend.get_table(response.parameters["DatabaseName"], name)
            if response.parameters["VersionId"] != table.as_dict()["VersionId"]:
                glue.refused.append(name)
                raise JsonRESTError("ConcurrentModificationException", "another version is there")
            answer = change(response)
        return answer

    monkeypatch.setattr(GlueResponse, "update_table", checked)
    return glue


def options_of(server: RestCatalog | Metastore | Glue) -> dict[str, str]:
    """The options that open a server's catalog."""
    if isinstance(server, Glue):
        settings = {
            "type": "glue", "warehouse": server.warehouse, "glue.endpoint": server.endpoint,
            "glue.region": "us-east-1", "glue.access-key-id": "key", "glue.secret-access-key": "hush",
            "glue.max-retries": "1",
        }  # fmt: skip
    elif isinstance(server, Metastore):
        settings = {
            "type": "hive", "uri": server.url, "lock-check-min-wait-time": "0.01", "lock-check-max-wait-time": "0.05",
            "lock-check-retries": "6",
        }  # fmt: skip
    else:
        settings = {"type": "rest", "uri": server.url}
    return {f"lakebed.catalog.{key}": value for key, value in settings.items()}


@pytest.fixture(params=["rest", "hive", "glue", "sql"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The options of a catalog of each kind."""
    if request.param == "sql":
        settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/sql"}
        return {f"lakebed.catalog.{key}": value for key, value in settings.items()}
    return options_of(request.getfixturevalue(request.param))
