"""What a write looks at before it requests its instant, so that a refused one leaves no trace.

The files that it lists and the lookup that it makes serve the write itself, unless the timeline has moved on meanwhile.
Only what rows tell is refused later: their keys are looked up once the instant is there, and a refusal then rolls it
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.index.lookups import Lookup, lookup_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.pending_services import PendingServices, pending_services
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.settings import WriteSettings
from lakebed.formats.hudi.write.table_files import TableFiles


@dataclass(frozen=True, slots=True)
class Preflight:
    """A table as a write found it: its files, the pending services, and the lookup of keys."""

    files: TableFiles
    pending: PendingServices
    lookup: Lookup

    @classmethod
    def of(
        cls,
        state: TableState,
        settings: WriteSettings,
        operation: Operation,
        partitions: Sequence[str],
        schema: pa.Schema,
    ) -> Preflight:
        """Look at a table before rows of some partitions are written to it. `schema` are the columns of its files.

        UsageError for a table with another index, CommitConflictError for partitions that a table service keeps from
        being replaced.
        """
        files = TableFiles(state)
        pending = pending_services(state.store, state.timeline)
        lookup = lookup_of(settings.index, files, partitions, operation, settings.duplicates, schema)
        if operation.replaces:
            going = replaced_partitions(operation, settings.partitions, files, partitions)
            refuse_pending(going, pending, state.store.location)
        return cls(files, pending, lookup)

    def holds(self, state: TableState, instant: str) -> bool:
        """Whether the table is unchanged, apart from the request of this instant."""
        mine = self.files.state
        others = tuple(entry for entry in state.timeline.entries if entry.time != instant)
        return state.config == mine.config and others == tuple(mine.timeline.entries)


def replaced_partitions(
    operation: Operation, patterns: Sequence[str], files: TableFiles, partitions: Sequence[str]
) -> list[str]:
    """The partitions that a write replaces. `patterns` name those of delete_partition, where it does not take the
    `partitions` of its rows."""
    if operation is Operation.INSERT_OVERWRITE_TABLE:
        return files.partitions()
    if operation is Operation.DELETE_PARTITION and patterns:
        return [path for path in files.partitions() if any(fnmatchcase(path, pattern) for pattern in patterns)]
    return list(dict.fromkeys(partitions))


def refuse_pending(partitions: Iterable[str], pending: PendingServices, table: str) -> None:
    """Raise CommitConflictError for partitions with a pending table service: its file groups would go and come back."""
    going = {*partitions}
    taken = {**pending.compacting, **pending.log_compacting, **pending.clustering}
    for (partition, _), instant in taken.items():
        if partition in going:
            raise CommitConflictError(
                f"partition {partition!r} cannot be replaced",
                table=table,
                instant=instant,
                why="a table service that was requested for its file groups has not run",
                todo="Run that service, or take it back, and write again",
            )
