"""The system tables of a Paimon table, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.system_tables import log_tables
from lakebed.formats.paimon.system_tables.file_tables import FileTables
from lakebed.kernel.options import Options
from lakebed.verbs.system_tables import SystemTable


def system_tables(
    history: History, parsed: Callable[[TableSchema], Options]
) -> Mapping[str, Callable[[], SystemTable]]:
    """Each system table of the branch, not yet made. `parsed` gives the table's options by its schema."""

    def of_files() -> FileTables:
        schema = history.latest_schema()
        return FileTables(history, schema, parsed(schema))

    return {
        "files": lambda: of_files().files(),
        "manifests": lambda: of_files().manifests(),
        "partitions": lambda: of_files().partitions(),
        "buckets": lambda: of_files().buckets(),
        "snapshots": lambda: log_tables.snapshots(history),
        "schemas": lambda: log_tables.schemas(history),
        "options": lambda: log_tables.options(history),
        "tags": lambda: log_tables.tags(history),
        "branches": lambda: log_tables.branches(history),
        "consumers": lambda: log_tables.consumers(history),
        "aggregation_fields": lambda: log_tables.aggregation_fields(history),
    }
