"""What a catalog asks of its clients, and what lakebed refuses of it by name: views, and requests that it signs itself.

Rules: the REST specification's LoadTableResult, whose `scan-planning-mode` is `server` where only the catalog may plan
a scan (`planning.py`), and whose `s3.remote-signing-enabled` asks that the catalog sign each request; the view
endpoints of the same document; `iceberg_type` of the reference engine's JdbcCatalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lakebed.errors import UnsupportedError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_PLANNING = "scan-planning-mode"
_SIGNING = "s3.remote-signing-enabled"


def refuse_demands(table: str, config: Mapping[str, Any], has_keys: bool) -> None:
    """UnsupportedError where a catalog asks of its clients what lakebed does not do.

    `config` has the catalog's properties and what it answered about the table. `has_keys` is whether the caller or the
    catalog gave keys for the storage, which then need no signature of the catalog.
    """
    if str(config.get(_SIGNING, "")).lower() == "true" and not has_keys:
        raise UnsupportedError(
            "the catalog signs each request to the storage itself",
            table=table,
            why=f"its setting {_SIGNING} is true, and it handed out no keys",
            todo="Ask it for keys: lakebed.catalog.header.X-Iceberg-Access-Delegation=vended-credentials. Or give keys "
            "of your own, in options lakebed.storage.setting.*",
        )


def plans_scans(config: Mapping[str, Any]) -> bool:
    """Whether the catalog plans the scans of a table, whose manifests no client may read then."""
    return str(config.get(_PLANNING, "")).lower() == "server"


def planned_elsewhere(table: str, why: str = "") -> UnsupportedError:
    """The error for what needs the manifests of a table whose scans the catalog plans."""
    return UnsupportedError(
        "the catalog plans the scans of this table itself",
        table=table,
        why=why or f"its setting {_PLANNING} is server: clients must not read the table's manifests",
        todo="lakebed reads its snapshots, and nothing else. Ask the catalog's owner for the mode client, or use an "
        "engine that has server-side planning for this",
    )


def refuse_view(catalog: Catalog, identifier: tuple[str, ...], table: str) -> None:
    """UnsupportedError when the catalog has a view of that name. Call it when there is no such table."""
    is_view = False
    with suppress(Exception):  # a catalog without views: there is no such table, which the caller says
        is_view = (
            _is_view_of_sql(catalog, identifier) if hasattr(catalog, "engine") else catalog.view_exists(identifier)
        )
    if is_view:
        raise not_a_table(table, "it is a view")


def not_a_table(table: str, why: str) -> UnsupportedError:
    """The error for a view, or for a table of another format."""
    return UnsupportedError(
        "the catalog has no Iceberg table of that name",
        table=table,
        why=why,
        todo="Open the tables that a view reads, or query the view with the engine that made it",
    )


def _is_view_of_sql(catalog: Any, identifier: tuple[str, ...]) -> bool:
    """Whether a SQL catalog lists a view, as the reference engine's JdbcCatalog writes it."""
    views = "SELECT catalog_name, table_namespace, table_name FROM iceberg_tables WHERE iceberg_type = 'VIEW'"
    with catalog.engine.connect() as connection:
        wanted = (catalog.name, ".".join(identifier[:-1]), identifier[-1])
        return wanted in {tuple(row) for row in connection.exec_driver_sql(views)}
