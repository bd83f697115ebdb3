"""The metadata tables of an Iceberg table, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakebed.formats.iceberg.catalog.operations import Loaded
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.system_tables import log_tables
from lakebed.formats.iceberg.system_tables.file_tables import DATA, DELETES, State, entry_table, file_table
from lakebed.formats.iceberg.system_tables.manifest_tables import all_manifests, manifests
from lakebed.formats.iceberg.system_tables.partition_table import partitions
from lakebed.formats.iceberg.system_tables.position_delete_table import position_deletes
from lakebed.verbs.system_tables import SystemTable


def system_tables(loaded: Loaded, files: Files, branch: str) -> Mapping[str, Callable[[], SystemTable]]:
    """Each metadata table, not yet made. Those of a snapshot are about the head of the branch."""
    metadata = loaded.metadata
    state = State(metadata, files, metadata.head(branch))
    return {
        "snapshots": lambda: log_tables.snapshots(metadata),
        "history": lambda: log_tables.history(metadata),
        "refs": lambda: log_tables.refs(metadata),
        "metadata_log_entries": lambda: log_tables.metadata_log_entries(loaded),
        "manifests": lambda: manifests(state),
        "partitions": lambda: partitions(state),
        "files": lambda: file_table(state),
        "data_files": lambda: file_table(state, content=DATA),
        "delete_files": lambda: file_table(state, content=DELETES),
        "entries": lambda: entry_table(state),
        "position_deletes": lambda: position_deletes(state),
        "all_manifests": lambda: all_manifests(state),
        "all_files": lambda: file_table(state, every=True),
        "all_data_files": lambda: file_table(state, every=True, content=DATA),
        "all_delete_files": lambda: file_table(state, every=True, content=DELETES),
        "all_entries": lambda: entry_table(state, every=True),
    }
