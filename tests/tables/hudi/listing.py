"""What the metadata table of a Hudi table lists, beside what lies in the table's folders."""

from __future__ import annotations

from lakebed import Table
from lakebed.formats.hudi.codec.metadata import SERVICE_OPERATIONS
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


def serving(table: Table) -> frozenset[str]:
    """The completed instants of the active timeline that table services made: they change no row."""
    assert isinstance(table, HudiTable)
    state = table.state()
    commits = state.files.commits(state.timeline.commits)
    return frozenset(time for time, commit in commits.items() if commit.operation in SERVICE_OPERATIONS)
