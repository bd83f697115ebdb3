"""A REST server as a catalog. It knows where tables are, hands out keys of their files, and commits their snapshots.

Rules: Paimon's RESTCatalog and RESTApi, release 1.3.1. A snapshot is committed by `tables/TABLE/commit`, with what its
files change in each partition; the server writes it into the table's folder, from which it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakebed.errors import NotWrittenError, RetryableError, StorageError, UnsupportedError
from lakebed.formats.paimon.catalog.registry import Entry, no_database, no_table, not_empty, refuse_place, table_exists
from lakebed.formats.paimon.catalog.reported import statistics_of
from lakebed.formats.paimon.catalog.server import Refusal, Server
from lakebed.formats.paimon.catalog.settings import DATA_TOKEN, Settings
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema, schema_to_json
from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_to_json
from lakebed.formats.paimon.layout import MAIN_BRANCH, TableName
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.files.credentials import KEYS_END, credentials_from

_SETTINGS = {
    "s3.access-key": "aws_access_key_id", "s3.access.key": "aws_access_key_id",
    "fs.s3a.access.key": "aws_access_key_id", "s3.secret-key": "aws_secret_access_key",
    "s3.secret.key": "aws_secret_access_key", "fs.s3a.secret.key": "aws_secret_access_key",
    "s3.session.token": "aws_session_token", "s3.session-token": "aws_session_token",
    "fs.s3a.session.token": "aws_session_token", "s3.endpoint": "aws_endpoint", "fs.s3a.endpoint": "aws_endpoint",
    "s3.region": "aws_region", "s3.endpoint.region": "aws_region", "fs.s3a.endpoint.region": "aws_region",
}  # fmt: skip
"""The storage client's setting for each S3 key in a token of the server."""
_SCHEMA = ("fields", "partitionKeys", "primaryKeys", "options", "comment")


class RestRegistry:
    """The tables that a REST server names."""

    def __init__(self, settings: Settings) -> None:
        self.server = Server(settings)

    def databases(self) -> list[str]:
        """All databases, page by page."""
        return [str(name) for name in self._listed("databases", "databases")]

    def tables(self, database: str) -> list[str]:
        """A database's tables, page by page."""
        return [str(name) for name in self._listed("tables", "databases", database, "tables")]

    def create_database(self, name: str) -> None:
        """Ask for the database; one that is there is left as it is."""
        try:
            self.server.ask("POST", "databases", body={"name": name, "options": {}})
        except Refusal as refusal:
            if refusal.status != 409:
                raise self.server.refused(refusal) from refusal

    def drop_database(self, name: str) -> None:
        """Ask for the end of a database without tables."""
        tables = self.tables(name)
        if tables:
            raise not_empty(name, tables)
        self._asked("DELETE", ("databases", name), missing=no_database(self.server.given.name, name))

    def find(self, name: TableName) -> Entry:
        """The table's place, and keys for it where `data-token.enabled` asks for them."""
        answer = self._asked("GET", _table(name), missing=no_table(self.server.given.name, name))
        path, number = answer.get("path"), answer.get("id")
        if not isinstance(path, str) or not path:
            raise StorageError(f"the catalog {self.server.given.name!r} does not say where {name.text} is")
        kind = str(((answer.get("schema") or {}).get("options") or {}).get("type", "table")).lower()
        if kind not in ("table", "materialized-table"):
            raise UnsupportedError(f"{name.text} is a {kind}, not a table of Paimon's own format")
        keys = TableKeys(self.server, name)
        credentials = credentials_from(keys())
        if KEYS_END in credentials.secret:
            credentials = replace(credentials, renewal=keys)
        publisher = RestPublisher(self.server, name, None if number is None else str(number))
        return Entry(path, credentials, publisher, RestAlter(self.server, name))

    def create(self, name: TableName, schema: TableSchema, place: str | None = None) -> Entry:
        """Ask for the table, and for its database where there is none."""
        refuse_place(self.server.given.name, place)
        whole = json.loads(schema_to_json(schema))
        body = {
            "identifier": {"database": name.database, "object": name.table},
            "schema": {key: whole[key] for key in _SCHEMA if key in whole},
        }
        for last in (False, True):
            try:
                self.server.ask("POST", "databases", name.database, "tables", body=body)
                break
            except Refusal as refusal:
                if refusal.status == 409:
                    raise table_exists(self.server.given.name, name) from refusal
                if refusal.status != 404 or last:
                    raise self.server.refused(refusal) from refusal
            self.create_database(name.database)
        return self.find(name)

    def drop(self, name: TableName) -> None:
        """Ask for the end of the table. The server removes its files."""
        self._asked("DELETE", _table(name), missing=no_table(self.server.given.name, name))

    def _listed(self, key: str, *parts: str) -> list[Any]:
        missing = no_database(self.server.given.name, parts[1]) if len(parts) > 1 else None
        listed: list[Any] = self.server.answered(lambda: list(self.server.pages(key, *parts)), missing)
        return listed

    def _asked(self, method: str, parts: Sequence[str], missing: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self.server.answered(lambda: self.server.ask(method, *parts), missing)
        return answer


@dataclass(frozen=True)
class TableKeys:
    """The storage options of a table's files, with the keys that the server hands out now."""

    server: Server
    name: TableName

    def __call__(self) -> Mapping[str, str]:
        """Ask for them. UnsupportedError for keys of a store that lakebed does not know."""
        settings = self.server.settings
        if not settings.asks(DATA_TOKEN):
            return settings.storage
        answer = self.server.answered(
            lambda: self.server.ask("GET", *_table(self.name), "token"), no_table(settings.name, self.name)
        )
        given = {str(key): str(text) for key, text in (answer.get("token") or {}).items()}
        keys = {_SETTINGS[key]: text for key, text in given.items() if key in _SETTINGS}
        if given and not keys:
            raise UnsupportedError(
                f"the catalog {settings.name!r} hands out keys of a store that lakebed does not know",
                why=f"they are called {', '.join(sorted(given))}",
                todo="Set data-token.enabled to false, and give lakebed.storage options",
            )
        if keys and answer.get("expiresAtMillis"):
            keys[KEYS_END] = str(answer["expiresAtMillis"])
        return {**settings.storage, **{f"lakebed.storage.setting.{key}": text for key, text in keys.items()}}


@dataclass(frozen=True)
class RestPublisher:
    """Commits snapshots by the server. `table_id` is what the server calls the table, so that one which was dropped and
    made again under its name does not get them."""

    server: Server
    name: TableName
    table_id: str | None

    def __call__(
        self, branch: str, snapshot: Snapshot, entries: Sequence[ManifestEntry], schema: TableSchema
    ) -> PutOutcome:
        """Ask for the commit. NotWrittenError when the server refuses, UNKNOWN when it does not answer."""
        body = {
            "tableId": self.table_id,
            "snapshot": json.loads(snapshot_to_json(snapshot)),
            "statistics": statistics_of(schema, entries),
        }
        try:
            answer = _sent(self.server, (*_table(self.name, branch), "commit"), body)
        except Refusal as refusal:
            if refusal.status == 409:
                return PutOutcome.EXISTS
            raise _not_written(self.server, refusal, self.name) from refusal
        if answer is None:
            return PutOutcome.UNKNOWN
        return PutOutcome.CREATED if answer.get("success") is True else PutOutcome.EXISTS


@dataclass(frozen=True)
class RestAlter:
    """Commits changes of the schema by the server."""

    server: Server
    name: TableName

    def __call__(self, branch: str, changes: Sequence[Mapping[str, Any]]) -> PutOutcome:
        """Ask for the changes, in the form of Paimon's SchemaChange. NotWrittenError when the server refuses, UNKNOWN
        when it does not answer."""
        try:
            answer = _sent(self.server, _table(self.name, branch), {"changes": list(changes)})
        except Refusal as refusal:
            if refusal.status == 404:
                raise no_table(self.server.given.name, self.name) from refusal
            raise _not_written(self.server, refusal, self.name) from refusal
        return PutOutcome.UNKNOWN if answer is None else PutOutcome.CREATED


def _sent(server: Server, parts: Sequence[str], body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The answer to a change; None where it may have been made or not. Refusal where it was certainly not."""
    try:
        return server.ask("POST", *parts, body=body)
    except RetryableError:
        return None
    except Refusal as refusal:
        if refusal.status >= 500 or refusal.status in (408, 499):
            return None
        raise


def _not_written(server: Server, refusal: Refusal, name: TableName) -> NotWrittenError:
    error = server.refused(refusal)
    return NotWrittenError(error.what, table=name.text, why=error.why, todo=error.todo)


def _table(name: TableName, branch: str = MAIN_BRANCH) -> tuple[str, ...]:
    """The path of a table, or of a branch of it."""
    table = name.table if branch in ("", MAIN_BRANCH) else f"{name.table}$branch_{branch}"
    return "databases", name.database, "tables", table
