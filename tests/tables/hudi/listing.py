"""What the metadata table of a Hudi table lists, beside what lies in the table's folders."""

from __future__ import annotations

from lakebed import Table
from lakebed.formats.hudi.metadata_table.bootstrap import walked_files
from lakebed.formats.hudi.metadata_table.read import listed_files
from lakebed.formats.hudi.table import HudiTable

Listed = dict[str, dict[str, int]]


def listed(table: Table) -> Listed | None:
    """The files of each partition by the metadata table, None where it is not relied on."""
    assert isinstance(table, HudiTable)
    metadata = table.state(whole=True).metadata_table
    files = listed_files(metadata) if metadata is not None else None
    return None if files is None else {part: {f.name: f.size for f in each} for part, each in files.items() if each}


def walked(table: Table) -> Listed:
    """The files that are there."""
    files = walked_files(table.store)
    return {part: {name: size for name, (size, _) in each.items()} for part, each in files.items() if each}
