"""Marks that partitions are done: a file `_SUCCESS` in the folder of each, for jobs that wait for it.

Rules: Paimon's SuccessFileMarkDoneAction and SuccessFile. The file says when a partition was first marked, and when
last. Readers and writers of tables ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lakebed.errors import OptionError, UnsupportedError, UsageError
from lakebed.formats.paimon.codec.binary_row import plain
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.success_json import success_json
from lakebed.formats.paimon.codec.types import arrow_type
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.partition_options import MARK_DONE_ACTION
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel import clock
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options

SUCCESS_FILE = "_SUCCESS"
_OF_PAIMON = ("done-partition", "mark-event", "http-report", "custom")


def mark_done(
    store: Store, schema: TableSchema, options: Options, partitions: Sequence[Mapping[str, Any]], dry_run: bool
) -> tuple[str, ...]:
    """Mark partitions, each given by plain values by column. Returns the paths of the files that say so.

    UsageError for what does not name a partition, UnsupportedError for another action than `success-file`.
    """
    table = store.location
    refuse_unserved(schema, options, Use.UPKEEP, table)
    _refuse_other_actions(options, table)
    folders = PartitionFolders.of(store, schema, options)
    paths = tuple(
        dict.fromkeys(
            f"{folders.of_values(_values(partition, schema, table))}{SUCCESS_FILE}" for partition in partitions
        )
    )
    if not paths:
        raise UsageError("no partition is named", table=table, todo="Give the values of each partition by column")
    if not dry_run:
        contents, now = store.together(lambda path: _content(store, path), paths), clock.now_ms()
        store.write_many({path: success_json(before, now) for path, before in zip(paths, contents, strict=True)})
    return paths


def _content(store: Store, path: str) -> bytes | None:
    with suppress(FileNotFoundError):
        return store.read(path)
    return None


def _values(partition: Mapping[str, Any], schema: TableSchema, table: str) -> list[Any]:
    """The values of a partition in the order of its columns."""
    keys = schema.partition_keys
    if not isinstance(partition, Mapping) or set(partition) != set(keys):
        raise UsageError(
            f"{partition!r} does not name a partition",
            table=table,
            todo=f"Give a value for each of {', '.join(keys)}" if keys else "The table has no partitions to mark",
        )
    values: list[Any] = []
    for field in schema.project(keys):
        value, kind = partition[field.name], arrow_type(field.type)
        try:
            values.append(None if value is None else plain(pa.scalar(value).cast(kind)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"{value!r} is not a {kind}", table=table, why=f"so {field.name} is typed") from error
    return values


def _refuse_other_actions(options: Options, table: str) -> None:
    text = options[MARK_DONE_ACTION]
    actions = [action.strip().lower() for action in text.split(",") if action.strip()]
    for action in actions:
        if action in _OF_PAIMON:
            raise UnsupportedError(
                f"option {MARK_DONE_ACTION.key!r} has {action!r}",
                table=table,
                why="lakebed marks partitions by files only",
                todo=f"Give {MARK_DONE_ACTION.key}=success-file for this call, and do the other action by Paimon's own "
                "engine",
            )
    if not actions or set(actions) != {"success-file"}:
        raise OptionError.ill_typed(MARK_DONE_ACTION.key, text, f"success-file, {', '.join(_OF_PAIMON)}")
