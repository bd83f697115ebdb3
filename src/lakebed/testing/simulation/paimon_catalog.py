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
from lakebed.formats.paimon.layout import snapshot_path
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.testing.simulation.paimon import PaimonSubject
from lakebed.testing.simulation.schedule import Verbs
from lakebed.testing.simulation.store import SimulatedStore
from lakebed.testing.simulation.subject import Options
from lakebed.verbs.catalog import CATALOG_OPTIONS
from lakebed.verbs.table import Table

_NAME = "simulated:db.t"
_TOO_MANY_REQUESTS, _UNAVAILABLE = 429, 503


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
    assert parts[4:] == ["commit"] and isinstance(request.data, bytes)
    return {"success": _committed(store, json.loads(request.data)["snapshot"]) is PutOutcome.CREATED}


def _committed(store: Store, snapshot: Mapping[str, Any]) -> PutOutcome:
    """Put a snapshot, by one call."""
    path, data = snapshot_path("main", snapshot["id"]), json.dumps(snapshot).encode()
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
