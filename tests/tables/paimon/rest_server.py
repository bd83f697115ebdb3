"""A small server that speaks Paimon's REST protocol over a folder: for tests of its clients.

It applies the JSON of SchemaChange by itself, with no code of lakebed, and refuses what its own checks refuse. `faults`
are answers to give in place of its own: `(method, end of the path) -> status`; with `after` the work is done first.
"""

from __future__ import annotations

import json
import shutil
import threading
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PREFIX = "paimon"
NOBODY = {"owner": "", "createdAt": 1, "createdBy": "", "updatedAt": 1, "updatedBy": ""}


class Refused(Exception):
    def __init__(self, status: int, message: str = "refused") -> None:
        super().__init__(message)
        self.status = status


class Warehouse:
    """The state of a server, and what it was asked."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.folder, self.token = folder, token
        self.ids: dict[tuple[str, str], str] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.faults: dict[tuple[str, str], tuple[int, bool]] = {}
        self.data_token: dict[str, Any] | None = None
        self.lock = threading.Lock()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        parts = [urllib.parse.unquote(part) for part in path.split("/")[1:]]
        if parts == ["v1", "config"]:
            overrides = {"prefix": PREFIX, "data-token.enabled": str(self.data_token is not None).lower()}
            return {"defaults": {"unknown-to-lakebed": "x"}, "overrides": overrides}
        assert parts[:3] == ["v1", PREFIX, "databases"], path
        match method, parts[3:]:
            case "GET", []:
                return self.page("databases", sorted(place.stem for place in self.folder.glob("*.db")), query)
            case "POST", []:
                place = self.folder / f"{body['name']}.db"
                if place.exists():
                    raise Refused(409)
                place.mkdir(parents=True)
                return {}
            case "DELETE", [database]:
                shutil.rmtree(self.database(database))
                return {}
            case "GET", [database, "tables"]:
                return self.page("tables", sorted(name for base, name in self.ids if base == database), query)
            case "POST", [database, "tables"]:
                return self.create(database, body)
            case "GET", [database]:
                self.database(database)
                return {"id": database, "name": database, "location": str(self.folder / f"{database}.db"),
                        "options": {}, **NOBODY}  # fmt: skip
            case "GET", [database, "tables", table, "snapshot"]:
                return self.newest(self.table(database, table) / "snapshot")
            case "GET", [database, "tables", table, "token"]:
                return self.data_token
            case "POST", [database, "tables", table, "commit"]:
                return self.commit(database, table, body)
            case "GET", [database, "tables", table]:
                place = self.table(database, table)
                version, schema = self.schema(place)
                return {"id": self.ids[database, table], "name": table, "path": str(place), "isExternal": False,
                        "schemaId": version, "schema": schema, **NOBODY}  # fmt: skip
            case "POST", [database, "tables", table]:
                self.alter(self.table(database, table), body["changes"])
                return {}
            case "DELETE", [database, "tables", table]:
                shutil.rmtree(self.table(database, table))
                del self.ids[database, table]
                return {}
        raise Refused(404, f"no such path {path}")

    def page(self, key: str, names: list[str], query: dict[str, str]) -> Any:
        """Two names a page."""
        if key == "tables":
            self.database(self.asked[-1][1].split("/")[4])
        start = int(query.get("pageToken", 0))
        return {key: names[start : start + 2], "nextPageToken": str(start + 2) if names[start + 2 :] else None}

    def database(self, name: str) -> Path:
        place = self.folder / f"{name}.db"
        if not place.is_dir():
            raise Refused(404, f"no database {name}")
        return place

    def table(self, database: str, table: str) -> Path:
        if (database, table) not in self.ids:
            raise Refused(404, f"no table {table}")
        return self.database(database) / table

    def create(self, database: str, body: Any) -> Any:
        name = body["identifier"]["object"]
        place = self.database(database) / name
        if (database, name) in self.ids:
            raise Refused(409)
        self.ids[database, name] = str(uuid.uuid4())
        (place / "schema").mkdir(parents=True)
        ids = [field["id"] for field in body["schema"]["fields"]]
        schema = {"version": 3, "id": 0, **body["schema"], "highestFieldId": max(ids), "timeMillis": 1}
        (place / "schema" / "schema-0").write_text(json.dumps(schema))
        return {}

    def commit(self, database: str, table: str, body: Any) -> Any:
        name, _, branch = table.partition("$branch_")
        place = self.table(database, name)
        if body["tableId"] != self.ids[database, name]:
            raise Refused(404, "another table has that name now")
        folder = (place / "branch" / f"branch-{branch}" if branch else place) / "snapshot"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"snapshot-{body['snapshot']['id']}"
        if file.exists():
            return {"success": False}
        file.write_text(json.dumps(body["snapshot"]))
        return {"success": True}

    def newest(self, folder: Path) -> Any:
        ids = [int(file.name.removeprefix("snapshot-")) for file in folder.glob("snapshot-*")]
        if not ids:
            raise Refused(404, "no snapshot")
        counts = dict.fromkeys(("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime"), 0)
        snapshot = json.loads((folder / f"snapshot-{max(ids)}").read_text())
        return {"snapshot": {"snapshot": snapshot, **counts}}

    def schema(self, place: Path) -> tuple[int, Any]:
        version = max(int(file.name.removeprefix("schema-")) for file in (place / "schema").iterdir())
        return version, json.loads((place / "schema" / f"schema-{version}").read_text())

    def alter(self, place: Path, changes: list[Any]) -> None:
        version, schema = self.schema(place)
        fields = schema["fields"]
        for change in changes:
            name = (change.get("fieldNames") or [None])[-1]
            at = next((field for field in fields if field["name"] == name), None)
            if name is not None and (at is None) != (change["action"] == "addColumn"):
                raise Refused(409 if at else 404, f"column {name}")
            match change["action"]:
                case "setOption":
                    schema["options"][change["key"]] = change["value"]
                case "addColumn":
                    schema["highestFieldId"] += 1
                    fields.append({"id": schema["highestFieldId"], "name": name, "type": change["dataType"]})
                case "renameColumn":
                    at["name"] = change["newName"]
                case "updateColumnDefaultValue":
                    at["defaultValue"] = change["newDefaultValue"]
                case other:
                    raise Refused(400, f"unknown action {other}")
        (place / "schema" / f"schema-{version + 1}").write_text(json.dumps({**schema, "id": version + 1}))


@contextmanager
def serving(warehouse: Warehouse) -> Iterator[str]:
    """The address of a server of the warehouse."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            fault = next(
                (how for (method, end), how in warehouse.faults.items()
                 if method == self.command and url.path.endswith(end)), None,
            )  # fmt: skip
            try:
                if warehouse.token and self.headers.get("Authorization") != f"Bearer {warehouse.token}":
                    raise Refused(401, "who are you")
                if fault is not None and not fault[1]:
                    raise Refused(fault[0])
                with warehouse.lock:
                    warehouse.asked.append((self.command, url.path, body))
                    answer = warehouse.answer(self.command, url.path, dict(urllib.parse.parse_qsl(url.query)), body)
                if fault is not None:
                    raise Refused(fault[0])
                status, data = 200, json.dumps(answer).encode()
            except Refused as refused:
                status = refused.status
                data = json.dumps({"message": str(refused), "code": status}).encode()
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = handle_one

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
