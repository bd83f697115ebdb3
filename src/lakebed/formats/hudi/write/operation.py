"""The operations of a write: what it does with the rows of the table, and the action that the timeline gives it.

Rules: Hudi's `WriteOperationType` and `CommitUtils.getCommitActionType`. From table version 9 on a bulk insert of a
merge-on-read table is a `commit`, since it writes base files only.
"""

from __future__ import annotations

from enum import StrEnum

from lakebed.errors import UsageError
from lakebed.formats.hudi.config import TableConfig
from lakebed.verbs.write import Mode


class Operation(StrEnum):
    """An operation, as the option `hoodie.datasource.write.operation` names it."""

    INSERT = "insert"
    UPSERT = "upsert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"

    @property
    def recorded(self) -> str:
        """Its name in commit metadata."""
        return self.value.upper()

    @property
    def tags(self) -> bool:
        """Whether the operation looks up which file group holds each key."""
        return self in (Operation.UPSERT, Operation.DELETE)

    @property
    def replaces(self) -> bool:
        """Whether the operation takes file groups out of use."""
        return self in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE, Operation.DELETE_PARTITION)

    @property
    def adds(self) -> bool:
        """Whether the operation adds its rows, with their columns, to the table."""
        return self not in (Operation.DELETE, Operation.DELETE_PARTITION)

    def action(self, config: TableConfig, bucketed: bool = False) -> str:
        """The action of its instant. Where keys have buckets, a bulk insert writes log files too."""
        if self.replaces:
            return "replacecommit"
        base_files_only = not config.merge_on_read or (
            self is Operation.BULK_INSERT and config.version >= 9 and not bucketed
        )
        return "commit" if base_files_only else "deltacommit"


_DEFAULTS = {
    Mode.APPEND: Operation.INSERT,
    Mode.OVERWRITE: Operation.INSERT_OVERWRITE,
    Mode.UPSERT: Operation.UPSERT,
    Mode.DELETE: Operation.DELETE,
}
_ALLOWED = {
    Mode.APPEND: frozenset(Operation),
    Mode.OVERWRITE: frozenset({Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE}),
    Mode.UPSERT: frozenset({Operation.UPSERT}),
    Mode.DELETE: frozenset({Operation.DELETE, Operation.DELETE_PARTITION}),
}


def operation_of(mode: Mode, named: str, table: str) -> Operation:
    """The operation of a write in a mode. `named` is the one that the caller's options name, "" for none.

    Mode append takes any operation, as `df.write.mode("append")` does with Hudi's own sink. UsageError for an operation
    that contradicts the mode.
    """
    if not named:
        return _DEFAULTS[mode]
    operation = Operation(named)
    if operation not in _ALLOWED[mode]:
        raise UsageError(
            f"mode {mode} cannot run the operation {operation}",
            table=table,
            todo=f"Leave hoodie.datasource.write.operation out, or give mode {mode} one of: "
            f"{', '.join(sorted(_ALLOWED[mode]))}",
        )
    return operation
