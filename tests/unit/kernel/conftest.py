"""An S3 server on this machine."""

import secrets
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import FaultyStore


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_options(s3_endpoint: str) -> dict[str, str]:
    return s3_settings(s3_endpoint)


@pytest.fixture
def bucket(s3_endpoint: str) -> str:
    """The URL of a fresh bucket."""
    name = f"bucket-{secrets.token_hex(8)}"
    urllib.request.urlopen(urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT")).close()
    return f"s3://{name}"


@pytest.fixture(params=["local", "s3", "faulty"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A fresh store of each kind; the faulty one has no fault."""
    if request.param == "s3":
        options = request.getfixturevalue("s3_options")
        return open_store(f"{request.getfixturevalue('bucket')}/some/table", options)
    local = open_store(tmp_path / "table")
    return local if request.param == "local" else FaultyStore(local)


def s3_settings(endpoint: str) -> dict[str, str]:
    settings = {
        "aws_endpoint": endpoint,
        "aws_region": "us-east-1",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "hush",
    }
    return {f"lakebed.storage.setting.{key}": value for key, value in settings.items()}
