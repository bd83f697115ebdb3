"""What a write did to a table's files, as the timeline and the metadata table record it.

Rules: Hudi's `HoodieWriteStat`, `HoodieDeltaWriteStat`, `HoodieColumnRangeMetadata`, and what
`HoodieTableMetadataUtil` takes from commits, cleans, rollbacks and restores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

NEW_GROUP = "null"
"""The previous instant of the first file of a file group, as Hudi writes it."""


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The statistics of one column in one file. `least` and `greatest` are Python values of the column's Arrow type,
    None where all rows are null. `size` and `uncompressed` are bytes."""

    column: str
    least: Any
    greatest: Any
    nulls: int
    values: int
    size: int = 0
    uncompressed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class WrittenFile:
    """One base file or log file that a task wrote.

    `path` is relative to the table, `size` are its bytes. `previous` is the base instant of the file slice that it
    follows, `NEW_GROUP` for a new file group. `writes` counts the rows in the file, `inserts`, `updates` and `deletes`
    what they did. `base` and `logs` name the base file of a log file's slice and the slice's log files, this one
    included. `changes` are change log files (path to size).

    `ranges`, `bloom` (the serialised filter of a base file), `added` and `removed` (record keys as string arrays, only
    where the table has a record index) are for the metadata table.
    """

    partition: str
    file_id: str
    path: str
    size: int
    previous: str = NEW_GROUP
    writes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    base: str = ""
    log_version: int = 0
    log_offset: int = 0
    logs: tuple[str, ...] = ()
    changes: Mapping[str, int] = field(default_factory=dict)
    previous_base: str = ""
    least_event_time: int | None = None
    greatest_event_time: int | None = None
    log_stats: Mapping[str, int] = field(default_factory=dict)
    """Counts of a compaction: totalLogRecords, totalLogFilesCompacted, totalLogSizeCompacted and the like."""
    ranges: tuple[ColumnRange, ...] = ()
    bloom: bytes = b""
    added: pa.Array | None = None
    removed: pa.Array | None = None

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return self.path.rpartition("/")[2]

    @property
    def is_log(self) -> bool:
        """Whether the file is a log file."""
        return self.name.startswith(".")


@dataclass(frozen=True, slots=True, eq=False)
class MetadataChange:
    """What one instant changes in the files of a table: all that the metadata table needs to know of it.

    `action` is the action of the completed instant. `written` are the files of a commit. `added` (partition to file
    name to size) are files of which nothing else is known, such as the command blocks of a rollback; `deleted` are
    files that a clean, a rollback or a restore removes. `replaced` are file ids that a commit takes out of use, by
    partition: their keys leave the record index. `dropped_partitions` are partitions that a clean removes as a whole.
    `replaced_keys` reads the keys of the replaced file groups; None where nobody can.
    `undone` are the instants that a rollback or a restore takes back, newest first.
    `service` is COMPACT, LOG_COMPACT or CLUSTER where the commit only moves rows.
    `schema` is the Avro schema of the table with this change, without meta columns, as JSON text.
    """

    action: str
    written: tuple[WrittenFile, ...] = ()
    added: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    deleted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dropped_partitions: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    schema: str = ""
    service: str = ""
    replaced_keys: Callable[[], pa.Array] | None = None
