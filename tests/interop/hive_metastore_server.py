"""A metastore of Apache Hive with a database of its own, on this machine for as long as a test runs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.conftest import HERE, java, named
from tests.interop.served import free_port, served

_OPEN = ("lang", "lang.reflect", "net", "util", "util.concurrent")
"""Packages of Java that this release of Hive looks into."""


@contextmanager
def hive_metastore(folder: Path) -> Iterator[str]:
    """The address of a metastore whose warehouse is `folder`; AssertionError when it does not answer in time."""
    port = free_port()
    command = java(
        "-Xmx512m", *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPEN),
        f"-Djava.io.tmpdir={folder}", f"-Dderby.stream.error.file={folder}/derby.log",
        "-cp", f"{named('LAKEBED_HIVE_METASTORE_JARS')}/*",
        str(HERE / "jvm" / "hive" / "HiveMetastore.java"), str(port), str(folder),
    )  # fmt: skip
    with served(command, folder, lambda: _answers(port)):
        yield f"thrift://127.0.0.1:{port}"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False
