"""The REST catalog server of Iceberg's own tests, over a SQLite catalog, on this machine for as long as a test runs."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.conftest import java, named


@contextmanager
def rest_server(folder: Path, seconds: float = 300) -> Iterator[str]:
    """The address of a server whose tables lie in `folder`; AssertionError when it does not answer in time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": str(folder),
        "CATALOG_URI": f"jdbc:sqlite:{folder}/rest.db",
    }  # fmt: skip
    command = java(
        "-Xmx512m", f"-Djava.io.tmpdir={folder}", "-cp", f"{named('LAKEBED_ICEBERG_REST_JARS')}/*",
        "org.apache.iceberg.rest.RESTCatalogServer",
    )  # fmt: skip
    with (folder / "server.txt").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **settings})
        try:
            address = f"http://127.0.0.1:{port}"
            began = time.monotonic()
            while not _answers(address):
                said = (folder / "server.txt").read_text(encoding="utf-8")[-2000:]
                assert process.poll() is None and time.monotonic() - began < seconds, said
                time.sleep(0.2)
            yield address
        finally:
            process.terminate()
            process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/v1/config", timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
