"""The S3 server of the bench, and tables on it that every run finds as they were made."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.objectstore.server import StoreServer

ROOT = Path(__file__).resolve().parents[2]
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"


def started() -> StoreServer:
    """versitygw behind the proxy, built on the first run where there is a Go compiler; moto's server elsewhere."""
    program = ROOT / ".cache" / "s3" / "versitygw"
    if not program.exists() and (go := shutil.which("go")):
        print(f"building {VERSITYGW}, once, in some minutes", flush=True)
        settings = {**os.environ, "GOBIN": str(program.parent), "GOFLAGS": "-mod=mod"}
        subprocess.run([go, "install", VERSITYGW], env=settings, cwd="/", check=False)
    os.environ.setdefault("LAKEBED_S3_SERVER", str(program) if program.exists() else "moto")
    os.environ["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:1"  # nothing leaves this machine
    return StoreServer()


@dataclass
class Place:
    """A table on the server. `catalog` is the file of its SQLite catalog, where it has one."""

    url: str
    catalog: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class Tables:
    """Tables that are made once and put back as they were before each run."""

    def __init__(self, server: StoreServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self._client = server.client()
        self._made: dict[tuple[Any, ...], tuple[Place, dict[str, tuple[str, bytes]], bytes]] = {}

    def fresh(self, make: Callable[..., Place], *arguments: Any) -> Place:
        """The table that `make(tables, *arguments)` made, with the files that it had then and no others."""
        key = (make.__name__, *arguments)
        if key not in self._made:
            place = make(self, *arguments)
            catalog = place.catalog.read_bytes() if place.catalog else b""
            with ThreadPoolExecutor(8) as pool:
                tags = self._tags(place.url)
                kept = dict(zip(tags, zip(tags.values(), pool.map(self._get, tags), strict=True), strict=True))
            self._made[key] = place, kept, catalog
        place, kept, catalog = self._made[key]
        if place.catalog:
            place.catalog.write_bytes(catalog)
        now = self._tags(place.url)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._delete, now.keys() - kept.keys()))
            list(pool.map(lambda key: self._put(key, kept[key][1]), [k for k in kept if now.get(k) != kept[k][0]]))
        return place

    def _tags(self, url: str) -> dict[str, str]:
        prefix = url.removeprefix(f"s3://{self.server.bucket}/") + "/"
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.server.bucket, Prefix=prefix)
        return {found["Key"]: found["ETag"] for page in pages for found in page.get("Contents", ())}

    def _get(self, key: str) -> bytes:
        return bytes(self._client.get_object(Bucket=self.server.bucket, Key=key)["Body"].read())

    def _put(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.server.bucket, Key=key, Body=data)

    def _delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.server.bucket, Key=key)
