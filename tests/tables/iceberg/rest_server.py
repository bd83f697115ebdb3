"""A REST catalog on this machine: the few endpoints of the specification that a writer needs, and failures on demand.

The tables' metadata is made of what comes over the wire. (Commits to the reference's own server are in tests/interop.)
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_to_json
from lakebed.formats.iceberg.codec.updates import applied, unmet
from lakebed.formats.iceberg.definition import new_metadata
from lakebed.kernel.commit.turns import as_rival
from lakebed.testing.simulation.catalog import is_behind


@dataclass
class Failure:
    """The answer to one commit: a status, 0 for a connection that is cut; `after` it was carried out."""

    status: int
    after: bool = False


@dataclass
class RestCatalog:
    """What the server holds. `failures` are taken from the front, one a commit; `commits` are the bodies that came.

    `defaults` are settings for all clients, `config` and `credentials` what comes with a table, and `views` names of
    views. `meanwhile` are taken from the front, too, and run before a commit.
    """

    warehouse: Path
    namespaces: set[str] = field(default_factory=set)
    tables: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    commits: list[dict[str, Any]] = field(default_factory=list)
    views: set[str] = field(default_factory=set)
    defaults: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    credentials: list[dict[str, Any]] = field(default_factory=list)
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)
    """The answers to questions for plans, from the front: to POST plan, GET plan and POST tasks."""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Those questions, and what is no longer wanted."""
    hidden_metadata: bool = False
    """Commits are answered with a location that cannot be read."""
    turn: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match [method, *path.strip("/").split("/")[1:]]:
            case ["GET", "config"]:
                endpoints = {"endpoints": [*_BASE, *_PLANNING]} if self.plans else {}
                return 200, {"defaults": self.defaults, "overrides": {}, **endpoints}
            case ["HEAD", "namespaces", namespace, "views", name]:
                return (204 if f"{namespace}.{name}" in self.views else 404), None
            case ["POST", "namespaces"]:
                self.namespaces.add(".".join(body["namespace"]))
                return 200, {"namespace": body["namespace"], "properties": {}}
            case ["POST", "namespaces", namespace, "tables"]:
                return self._create(namespace, body)
            case ["POST", "namespaces", namespace, "register"]:
                return self._register(namespace, body)
            case ["GET", "namespaces", namespace, "tables", name]:
                return self._load(f"{namespace}.{name}")
            case ["POST", "namespaces", namespace, "tables", name]:
                return self._commit(f"{namespace}.{name}", body)
            case ["GET" | "POST" | "DELETE", "namespaces", _, "tables", _, "plan" | "tasks", *_]:
                self.asked.append((f"{method} {path.partition('/tables/')[2]}", body))
                return (204, None) if method == "DELETE" else (200, self.plans.pop(0))
        return problem(404, f"no such endpoint: {method} {path}")

    def _create(self, namespace: str, body: Any) -> tuple[int, Any]:
        name = f"{namespace}.{body['name']}"
        if namespace not in self.namespaces:
            return problem(404, "no such namespace")
        if name in self.tables:
            return problem(409, "already exists")
        properties = dict(body["properties"])
        version = int(properties.pop("format-version", 2))
        place = body.get("location") or f"{self.warehouse}/{namespace}/{body['name']}"
        schema = Schema.model_validate(body["schema"])
        spec = PartitionSpec.model_validate(body["partition-spec"])
        document = dict(new_metadata(place, schema, spec, version, properties))
        if body.get("stage-create"):
            return 200, {"metadata": document, "config": self.config, "storage-credentials": self.credentials}
        self._publish(name, document)
        return self._load(name)

    def _register(self, namespace: str, body: Any) -> tuple[int, Any]:
        with self.turn:
            name, place = f"{namespace}.{body['name']}", body["metadata-location"]
            failure = self.failures.pop(0) if self.failures else Failure(200)
            if namespace not in self.namespaces:
                return problem(404, "no such namespace")
            if failure.status != 200 and not failure.after:
                return problem(failure.status, "as the test wants it")
            if name in self.tables:
                return problem(409, "already exists")
            self.tables[name] = place, json.loads(Path(place).read_bytes())
            if failure.status != 200:
                return problem(failure.status, "as the test wants it, though it was carried out")
            return self._load(name)

    def _load(self, name: str) -> tuple[int, Any]:
        if name not in self.tables:
            return problem(404, f"no such table: {name}")
        location, document = self.tables[name]
        found = {"metadata-location": location, "metadata": document, "config": self.config}
        return 200, {**found, "storage-credentials": self.credentials}

    def _commit(self, name: str, body: Any) -> tuple[int, Any]:
        if self.meanwhile:
            with as_rival():
                self.meanwhile.pop(0)()
        with self.turn:
            self.commits.append(body)
            failure = self.failures.pop(0) if self.failures else Failure(200)
            if failure.status != 200 and not failure.after:
                return problem(failure.status, "as the test wants it")
            if name not in self.tables:
                return problem(404, f"no such table: {name}")
            location, document = self.tables[name]
            reason = unmet(TableMetadata(document), body["requirements"])
            if reason is not None:
                return problem(409, reason)
            if is_behind(TableMetadata(document), body["updates"]):  # as the reference's server answers it
                return problem(400, "Cannot add a snapshot of an older state", "ValidationException")
            self._publish(name, applied(TableMetadata(document), body["updates"], time.time_ns() // 10**6, location))
            if failure.status != 200:
                return problem(failure.status, "as the test wants it, though it was carried out")
            status, found = self._load(name)
            return status, {**found, "metadata-location": "/not/there.json"} if self.hidden_metadata else found

    def _publish(self, name: str, document: dict[str, Any]) -> None:
        number = len(list(Path(document["location"], "metadata").glob("*.metadata.json")))
        place = Path(document["location"], "metadata", f"{number:05}-{uuid.uuid4()}.metadata.json")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(metadata_to_json(document))
        self.tables[name] = str(place), json.loads(place.read_bytes())


_TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
_BASE = (f"GET {_TABLE}", f"POST {_TABLE}")
_PLANNING = (
    f"POST {_TABLE}/plan", f"GET {_TABLE}/plan/{{plan-id}}", f"DELETE {_TABLE}/plan/{{plan-id}}",
    f"POST {_TABLE}/tasks",
)  # fmt: skip


def problem(status: int, message: str, kind: str = "Problem") -> tuple[int, Any]:
    return status, {"error": {"message": message, "type": kind, "code": status}}


def serve(catalog: RestCatalog) -> ThreadingHTTPServer:
    """The server, started; `catalog.url` is where."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, found = catalog.answer(self.command, self.path.partition("?")[0], json.loads(body or b"{}"))
            if not status:
                self.close_connection = True
                return
            said = b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_HEAD = do_DELETE = handle_one

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    catalog.url = f"http://127.0.0.1:{server.server_address[1]}"
    return server
