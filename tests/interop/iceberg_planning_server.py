"""A REST catalog that plans scans, by the handlers of Iceberg's own runtime, for as long as a test runs."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.conftest import HERE, java, named
from tests.interop.served import free_port, served


@contextmanager
def planning_server(folder: Path) -> Iterator[str]:
    """The address of a server of the tables of `folder`/catalog.db; AssertionError when it does not answer in time."""
    port = free_port()
    rest = Path(named("LAKEBED_ICEBERG_REST_JARS"))
    jars = [*rest.glob("hadoop-client-*.jar"), *rest.glob("slf4j-*.jar"), *rest.glob("commons-logging-*.jar")]
    path = ":".join([f"{named('LAKEBED_ICEBERG_41_JARS')}/*", *map(str, jars)])
    source = HERE / "jvm" / "planning" / "PlanningCatalog.java"
    command = java("-Xmx512m", f"-Djava.io.tmpdir={folder}", "-cp", path, str(source), str(port), str(folder))
    address = f"http://127.0.0.1:{port}"
    with served(command, folder, lambda: _answers(address)):
        yield address


def requests(address: str) -> list[str]:
    """What plans the server was asked for."""
    with urllib.request.urlopen(f"{address}/requests", timeout=30) as answer:
        text: str = answer.read().decode()
    return text.splitlines()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/v1/config", timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
