"""Simulated Paimon tables of a REST catalog: a server says where the table is, and puts its snapshots.

Each question to the server and each commit is one call of a process, like its calls of the store: others may go first,
and it may fail before or after its effect, get no answer, take minutes, or be the last. The server does what that of
Paimon's own release does: it puts a snapshot if there is none of its number.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import lakebed
from lakebed.errors import RetryableError
from lakebed.formats.paimon.catalog.server import Refusal, Server
from lakebed.formats.paimon.catalog.settings import WAREHOUSE
from lakebed.formats.paimon.layout import numbered, schema_path, snapshot_path
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.testing.simulation.paimon import EXPIRES_PARTITIONS, RESCALES, PaimonSubject
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.store import SimulatedStore
from lakebed.testing.simulation.subject import Options
from lakebed.verbs.catalog import CATALOG_OPTIONS
from lakebed.verbs.table import Table

_NAME = "simulated:db.t"
_NOT_FOUND, _CONFLICT, _TOO_MANY_REQUESTS, _UNAVAILABLE = 404, 409, 429, 503


class PaimonCatalogSubject(PaimonSubject):
    """A Paimon table of a REST catalog, which takes no rollbacks from lakebed."""

    format = "paimon-catalog"
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("append", 3), ("upsert", 4), ("delete", 2), ("overwrite", 1), ("two_phase", 4), ("prepare_and_abort", 1),
            ("read", 1), ("rewrite", 1), ("expire", 1),
        ),
        "service": (("rewrite", 4), ("expire", 3), ("orphans", 1), ("tag", 2), ("untag", 1)),
        "reader": (("read", 4), ("read_old", 2), ("read_tag", 1), ("stream", 2)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {
            "writer": (
                ("upsert", 4), ("append", 1), ("delete", 2), ("two_phase", 3), ("overwrite", 1), ("rewrite", 2),
                ("expire", 2), ("stream", 1),
            ),
            "service": (("rewrite", 3), ("expire", 3), ("overwrite", 1), ("tag", 1)),
            "reader": (("stream", 2), ("read", 2)),
        },
        {
            "writer": (
                ("prepare", 5), ("commit_prepared", 4), ("abort_prepared", 2), ("upsert", 2), ("rewrite", 1),
                ("expire", 1),
            ),
            "service": (("commit_prepared", 3), ("abort_prepared", 2), ("rewrite", 1), ("expire", 1)),
            "reader": (("stream", 2), ("commit_prepared", 1)),
        },
    )  # fmt: skip
    later_themes: ClassVar[Sequence[Verbs]] = ()

    def opened(self, store: Store, options: Options) -> Table:
        """Open the table by its name."""
        settings = {"metastore": "rest", "uri": "http://simulated", "warehouse": store.location}
        given = {f"{CATALOG_OPTIONS}{key}": value for key, value in settings.items()}
        return lakebed.open(_NAME, {**options, **given})


class PaimonAlteredSubject(PaimonCatalogSubject):
    """One whose columns and number of buckets change, by the server too, and whose partitions expire."""

    format = "paimon-altered"
    verbs: ClassVar[Verbs] = {
        "writer": (
            ("alter", 4), ("upsert", 4), ("append", 2), ("delete", 1), ("overwrite", 1), ("two_phase", 2),
            ("rewrite", 1), ("expire", 1), ("stream", 1), ("rescale", 1),
        ),
        "service": (("alter", 3), ("rescale", 2), ("rewrite", 3), ("expire", 2), ("tag", 1), ("orphans", 1)),
        "reader": (("read", 2), ("read_old", 2), ("alter", 1), ("stream", 2)),
    }  # fmt: skip
    themes: ClassVar[Sequence[Verbs]] = (
        {**RESCALES, "service": (("rescale", 3), ("rewrite", 3), ("expire", 1), ("tag", 1), ("orphans", 1))},
        EXPIRES_PARTITIONS,
    )


def answered(server: Server, request: urllib.request.Request) -> Mapping[str, Any]:
    """What the simulated server says to a request, in place of `Server._answer`. Refusal where it does nothing, or does
    not say what it did; RetryableError without an answer."""
    parts = [urllib.parse.unquote(part) for part in urllib.parse.urlsplit(request.full_url).path.split("/")[2:]]
    if parts == ["config"]:
        return {"defaults": {}, "overrides": {}}
    store = open_store(server.given[WAREHOUSE])
    if request.get_method() == "GET":
        store.read("schema/schema-0")  # one call, which may get no answer
        return {"id": "t", "path": store.location, "schema": {"options": {}}}
    assert isinstance(request.data, bytes)
    body = json.loads(request.data)
    if parts[4:] == ["commit"]:
        path = snapshot_path("main", body["snapshot"]["id"])
        return {"success": _put(store, path, body["snapshot"]) is PutOutcome.CREATED}
    while True:
        newest = json.loads(store.read(schema_path("main", numbered(store.list("schema").names, "schema")[-1])))
        altered = _altered(newest, body["changes"])
        if _put(store, schema_path("main", altered["id"]), altered) is PutOutcome.CREATED:
            return {}


def _altered(schema: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The next version of a schema. Refusal for a column that is not there, or is there already."""
    fields, options = [dict(one) for one in schema["fields"]], dict(schema["options"])
    highest = schema["highestFieldId"]
    for change in changes:
        if change["action"] == "setOption":
            options[change["key"]] = change["value"]
            continue
        (name,) = change["fieldNames"]
        field = next((one for one in fields if one["name"] == name), {})
        if bool(field) == (change["action"] == "addColumn"):
            raise Refusal(_CONFLICT if field else _NOT_FOUND, f"column {name}")
        match change["action"]:
            case "addColumn":
                highest += 1
                fields.append({"id": highest, "name": name, "type": change["dataType"]})
            case "dropColumn":
                fields.remove(field)
            case "renameColumn":
                if any(one["name"] == change["newName"] for one in fields):
                    raise Refusal(_CONFLICT, f"column {change['newName']}")
                field["name"] = change["newName"]
            case "updateColumnType":
                field["type"] = change["newDataType"]
            case other:
                raise AssertionError(other)
    next_id = schema["id"] + 1
    return {**schema, "id": next_id, "fields": fields, "options": options, "highestFieldId": highest}


def _put(store: Store, path: str, document: Mapping[str, Any]) -> PutOutcome:
    """Put a snapshot or a schema, by one call."""
    data = json.dumps(document).encode()
    done: list[PutOutcome] = []

    def put(real: Store) -> PutOutcome:
        done.append(real.put_if_absent(path, data))
        return done[-1]

    try:
        outcome = store.apart("put", path, put) if isinstance(store, SimulatedStore) else put(store)
    except RetryableError as error:
        status = _UNAVAILABLE if done else _TOO_MANY_REQUESTS
        raise Refusal(status, "the simulation wants it so") from error
    if outcome is PutOutcome.UNKNOWN:
        raise RetryableError("the connection was cut")
    return outcome
