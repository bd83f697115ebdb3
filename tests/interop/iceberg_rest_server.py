"""The REST catalog server of Iceberg's own tests, over a SQLite catalog, on this machine for as long as a test runs."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.conftest import java, named
from tests.interop.served import free_port, served


@contextmanager
def rest_server(folder: Path) -> Iterator[str]:
    """The address of a server whose tables lie in `folder`; AssertionError when it does not answer in time."""
    port = free_port()
    settings = {
        "CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": str(folder),
        "CATALOG_URI": f"jdbc:sqlite:{folder}/rest.db",
    }  # fmt: skip
    command = java(
        "-Xmx512m", f"-Djava.io.tmpdir={folder}", "-cp", f"{named('LAKEBED_ICEBERG_REST_JARS')}/*",
        "org.apache.iceberg.rest.RESTCatalogServer",
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    with served(command, folder, lambda: _answers(address), settings):
        yield address


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/v1/config", timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
