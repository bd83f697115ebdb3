"""Options of a write: what it replaces, its keys, and the size and format of its files.

Rule: the reference engine's SparkWriteOptions and TableProperties. An option of the call takes precedence over the
table's property. A description says so where only lakebed has the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from lakebed.errors import OptionError, UsageError
from lakebed.formats.iceberg import options as opening
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.commit.callbacks import named_callbacks
from lakebed.formats.iceberg.options import CALLBACK_PARAMETERS, CALLBACKS, known_property
from lakebed.formats.iceberg.options import OPTIONS as OPENING_OPTIONS
from lakebed.formats.iceberg.write.file_sizes import DEFAULT_TARGET, FileSizes
from lakebed.kernel.commit.callbacks import NamedCallbacks
from lakebed.kernel.options import Option, OptionSet, at_least, boolean, memory_size, one_of
from lakebed.kernel.sizing.staging import BUFFER_BYTES
from lakebed.verbs.write import Mode


class Distribution(StrEnum):
    """Which rows share a file. In every mode a partition's bytes decide its files, not the number of tasks."""

    NONE = "none"
    """The rows of a partition are in the order of the tasks."""
    HASH = "hash"
    """The same as NONE, since the rows of each partition are brought together in any case."""
    RANGE = "range"
    """The files of a partition have ranges of the sort order that do not overlap."""


_NO_NAMES: tuple[str, ...] = ()


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


TARGET = Option(
    "target-file-size-bytes",
    at_least(1),
    None,
    "Target size of data files, bytes on disk. Default: the table's property.",
    aliases=("write.target-file-size-bytes",),
)
DISTRIBUTION = Option(
    "distribution-mode",
    one_of("none", "hash", "range"),
    None,
    "Which rows share a file. Default: the table's property, then range if it has a sort order.",
    aliases=("write.distribution-mode",),
)
FORMAT = Option(
    "write-format",
    one_of("parquet", "orc", "avro"),
    None,
    "Format of data files. Default: the table's property.",
    aliases=("write.format.default",),
)
OVERWRITE_MODE = Option(
    "overwrite-mode",
    one_of("dynamic", "static"),
    "dynamic",
    "What mode overwrite replaces: the partitions of the rows, or what overwrite-filter selects (all without it).",
)
OVERWRITE_FILTER = Option(
    "overwrite-filter", str, "", "A predicate: mode overwrite replaces the rows that match. Only lakebed has it."
)
UPSERT_KEYS = Option(
    "upsert.keys",
    _names,
    _NO_NAMES,
    "Columns that identify a row. Default: the table's identifier fields. Only lakebed has it.",
)
GRANULARITY = Option(
    "delete-granularity",
    one_of("file", "partition"),
    None,
    "Whether a position delete file is for a data file or for a partition. Default: the table's property.",
    aliases=("write.delete.granularity",),
)
MERGE_SCHEMA = Option(
    "merge-schema",
    boolean,
    False,
    "Whether the table gets columns that rows bring along, and wider types. It is altered before rows are written.",
    aliases=("mergeSchema",),
)
BUFFER = Option(
    "lakebed.write.buffer-bytes", memory_size, BUFFER_BYTES, "How many bytes of rows a writing task holds in memory."
)
WAP_ID = Option(
    "wap.id",
    str,
    "",
    "Stages the write under this name: it is not visible before table.publish(name). The table must have "
    "write.wap.enabled. Iceberg's Spark has it as the session's spark.wap.id.",
)

SNAPSHOT_PROPERTY = "snapshot-property."
"""Options with this prefix go into the snapshot's summary."""
_ALL = (
    TARGET, DISTRIBUTION, FORMAT, OVERWRITE_MODE, OVERWRITE_FILTER, UPSERT_KEYS, GRANULARITY, MERGE_SCHEMA, BUFFER,
    WAP_ID, CALLBACKS,
)  # fmt: skip
OPTIONS = OptionSet(
    _ALL,
    "an iceberg table",
    (SNAPSHOT_PROPERTY, CALLBACK_PARAMETERS),
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What one write goes by. Sizes are bytes on disk; `buffer` is bytes of rows that a task holds in memory.

    `filter` and `static` say what mode overwrite replaces, `keys` are those of the option `upsert.keys`. `summary` goes
    into the snapshot's summary; `commit_properties` are table properties that the call gives for its commit. With
    `merges_schema` the table is altered for columns that it lacks. With `wap_id` the write is staged under that name,
    and with `creates_branch` it creates its branch where there is none.
    """

    mode: Mode
    branch: str

    sizes: FileSizes
    distribution: Distribution
    format: str
    static: bool
    filter: str
    keys: tuple[str, ...]
    granularity: str
    merges_schema: bool
    buffer: int
    callbacks: NamedCallbacks
    summary: Mapping[str, str]
    commit_properties: Mapping[str, str]
    wap_id: str = ""
    creates_branch: bool = False

    @classmethod
    def of(cls, metadata: TableMetadata, given: Mapping[str, str], mode: Mode, branch: str) -> WriteOptions:
        """The options of a call, over those of opening the table, over the table's properties. OptionError for one that
        is unknown or of the wrong type, UsageError for a staged write where none may be."""
        options = (OPENING_OPTIONS + OPTIONS).parse(given)
        OPENING_OPTIONS.note_idle(given, "Iceberg")
        properties = metadata.properties
        target = options[TARGET] or _number(properties, "write.target-file-size-bytes", DEFAULT_TARGET)
        order = metadata.sort_orders[metadata.default_sort_order_id]
        default = "range" if order.fields else "hash" if metadata.spec.fields else "none"
        predicate = options[OVERWRITE_FILTER]
        wap_id, wap_branch = options[WAP_ID], options[opening.WAP_BRANCH]
        if wap_id:
            opening.refuse_without_audit(properties, given, WAP_ID.key, metadata.location)
        if wap_id and wap_branch:
            raise OptionError(
                f"{WAP_ID.key} and {opening.WAP_BRANCH.key} are given", key=WAP_ID.key, table=metadata.location,
                todo="Stage the write by a name or on a branch, not both",
            )  # fmt: skip
        return cls(
            mode,
            branch,
            FileSizes.around(target),
            Distribution(options[DISTRIBUTION] or properties.get("write.distribution-mode", default).lower()),
            (options[FORMAT] or properties.get("write.format.default", "parquet")).upper(),
            options[OVERWRITE_MODE] == "static" or bool(predicate),
            predicate,
            options[UPSERT_KEYS],
            options[GRANULARITY] or properties.get("write.delete.granularity", "file"),
            options[MERGE_SCHEMA] and mode is not Mode.DELETE,
            options[BUFFER],
            named_callbacks(options.raw),
            {k.removeprefix(SNAPSHOT_PROPERTY): v for k, v in options.raw.items() if k.startswith(SNAPSHOT_PROPERTY)},
            {key: value for key, value in given.items() if known_property(key)},
            wap_id,
            bool(wap_branch),
        )


def refuse_numbered(wap_id: str, table: str) -> NoReturn:
    """UsageError for a stream, or another writer of numbered commits, that is to be staged under a `wap.id`."""
    raise UsageError(
        f"a writer of numbered commits cannot stage them as {wap_id!r}",
        table=table,
        why="a wap.id names one snapshot, and a stream makes many",
        todo="Write to a branch with the option branch or wap.branch, and fast-forward main to it",
    )


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    if not text.strip().isdigit() or int(text) < 1:
        raise OptionError.ill_typed(key, text, "a number of bytes, as the table property")
    return int(text)
