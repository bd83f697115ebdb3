"""The system tables of a Hudi table, by name.

Hudi has no such tables. Names and columns follow its procedures: `show_timeline`, `show_commits`, `show_fsview_latest`,
`show_savepoints`, `show_table_properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.layout import WRITES, parse_base_name, parse_log_name
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.plan import plan_snapshot
from lakebed.formats.hudi.read.request import ReadRequest
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.savepoint_names import savepoint_refs
from lakebed.model.instant import Instant
from lakebed.verbs.system_tables import SystemTable, of_rows

_TIMELINE = pa.schema([
    pa.field("instant_time", pa.string(), False), pa.field("completion_time", pa.string()),
    pa.field("action", pa.string(), False), pa.field("state", pa.string(), False),
    pa.field("archived", pa.bool_(), False),
])  # fmt: skip
_COMMITS = pa.schema([
    pa.field("instant_time", pa.string(), False), pa.field("completion_time", pa.string()),
    pa.field("action", pa.string(), False), pa.field("operation", pa.string()),
    pa.field("total_bytes_written", pa.int64(), False), pa.field("total_files_added", pa.int64(), False),
    pa.field("total_files_updated", pa.int64(), False), pa.field("total_partitions_written", pa.int64(), False),
    pa.field("total_records_written", pa.int64(), False), pa.field("total_records_inserted", pa.int64(), False),
    pa.field("total_records_deleted", pa.int64(), False), pa.field("total_file_groups_replaced", pa.int64(), False),
])  # fmt: skip
_FILES = pa.schema([
    pa.field("partition", pa.string(), False), pa.field("file_id", pa.string(), False),
    pa.field("file_path", pa.string(), False), pa.field("file_kind", pa.string(), False),
    pa.field("instant_time", pa.string()), pa.field("file_size_in_bytes", pa.int64()),
])  # fmt: skip
_GROUPS = pa.schema([
    pa.field("partition", pa.string(), False), pa.field("file_id", pa.string(), False),
    pa.field("base_instant", pa.string()), pa.field("base_file", pa.string()),
    pa.field("base_file_size_in_bytes", pa.int64()), pa.field("log_files", pa.int64(), False),
    pa.field("log_files_size_in_bytes", pa.int64(), False),
])  # fmt: skip
_PARTITIONS = pa.schema([
    pa.field("partition", pa.string(), False), pa.field("file_groups", pa.int64(), False),
    pa.field("file_count", pa.int64(), False), pa.field("file_size_in_bytes", pa.int64(), False),
])  # fmt: skip
_SAVEPOINTS = pa.schema([pa.field("name", pa.string(), False), pa.field("instant_time", pa.string(), False)])
_PROPERTIES = pa.schema([pa.field("key", pa.string(), False), pa.field("value", pa.string(), False)])

Instants = Callable[[bool], list[Instant]]
"""The instants of the active timeline, or of the archived one too."""


def system_tables(
    state: Callable[[], TableState], instants: Instants, options: Mapping[str, str]
) -> Mapping[str, Callable[[], SystemTable]]:
    """Each system table, not yet made. `options` are those that the table was opened with."""

    def slices() -> list[SlicePaths]:
        request = ReadRequest(READ.parse({key: text for key, text in options.items() if READ.knows(key)}))
        return [part for split in plan_snapshot(state(), request, None).splits for part in split.slices]

    return {
        "timeline": lambda: of_rows(_TIMELINE, lambda: map(_timeline_row, instants(True))),
        "commits": lambda: of_rows(_COMMITS, lambda: _commits(state(), instants(False))),
        "files": lambda: of_rows(_FILES, lambda: _files(slices())),
        "file_groups": lambda: of_rows(_GROUPS, lambda: map(_group, slices())),
        "partitions": lambda: of_rows(_PARTITIONS, lambda: _partitions(slices())),
        "savepoints": lambda: of_rows(_SAVEPOINTS, lambda: _savepoints(state())),
        "properties": lambda: of_rows(_PROPERTIES, lambda: sorted(state().config.properties.items())),
    }


def _timeline_row(instant: Instant) -> tuple[Any, ...]:
    return instant.time, instant.completed or None, instant.action, instant.state, instant.archived


def _commits(state: TableState, instants: list[Instant]) -> Iterator[tuple[Any, ...]]:
    """The completed writes of the active timeline, oldest first."""
    known = state.commits(state.view())
    for instant in instants:
        commit = known.get(instant.time)
        if commit is not None and instant.action in WRITES and instant.state == "completed":
            operation = commit.operation or None
            yield instant.time, instant.completed or None, instant.action, operation, *_sums(commit)


def _sums(commit: CommitMetadata) -> tuple[int, ...]:
    added = sum(stat.previous in ("", "null") for stat in commit.stats)
    return (
        sum(stat.size for stat in commit.stats), added, len(commit.stats) - added,
        len({stat.partition for stat in commit.stats}), sum(stat.writes for stat in commit.stats),
        sum(stat.inserts for stat in commit.stats), sum(stat.deletes for stat in commit.stats),
        sum(map(len, commit.replaced.values())),
    )  # fmt: skip


def _files(slices: list[SlicePaths]) -> Iterator[tuple[Any, ...]]:
    for part in slices:
        for info in part.files:
            is_log = info.path in part.logs
            parsed = parse_log_name(info.name, info.size) if is_log else parse_base_name(info.name, info.size)
            instant = parsed[1].instant if parsed is not None else None
            yield part.partition, part.file_id, info.path, "log" if is_log else "base", instant, info.size


def _group(part: SlicePaths) -> tuple[Any, ...]:
    parsed = parse_base_name(part.base.rpartition("/")[2], part.base_size or 0) if part.base else None
    instant = parsed[1].instant if parsed is not None else None
    return (
        part.partition, part.file_id, instant, part.base or None, part.base_size, len(part.logs),
        sum(part.sizes[: len(part.logs)]),
    )  # fmt: skip


def _partitions(slices: list[SlicePaths]) -> Iterator[tuple[Any, ...]]:
    by_name: dict[str, list[SlicePaths]] = {}
    for part in slices:
        by_name.setdefault(part.partition, []).append(part)
    for name, parts in sorted(by_name.items()):
        yield name, len(parts), sum(len(part.files) for part in parts), sum(sum(part.sizes) for part in parts)


def _savepoints(state: TableState) -> Iterator[tuple[Any, ...]]:
    for ref in savepoint_refs(state.store, state.timeline):
        yield ref.name, ref.instant
