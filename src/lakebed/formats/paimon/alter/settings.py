"""Options of a table that may change, and options that name columns.

Rules: Paimon's SchemaManager (checkAlterTableOption, checkResetTableOption, applyRenameColumnsToOptions) and
SchemaValidation, of release 1.3.1 and of the newest one. Where they differ, what either refuses is refused, except that
`ignore-delete` and `ignore-update-before` may become true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakebed.errors import OptionError, UnsupportedError, counted
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.file_indexes import indexed_columns
from lakebed.formats.paimon.options import split_names
from lakebed.formats.paimon.unserved import Use, refuse_options

_NEVER = ("primary-key", "partition", "type")
_WITHOUT_ROWS = (
    "bucket-key", "bucket-function.type", "data-file.path-directory", "merge-engine", "sequence.snapshot-ordering",
    "aggregation.remove-record-on-delete", "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group", "rowkind.field", "dynamic-bucket.initial-buckets",
    "force-lookup", "row-tracking.enabled", "data-evolution.enabled", "index-file-in-data-file-dir", "blob-field",
    "blob-descriptor-field", "blob-view-field", "pk-clustering-override",
)  # fmt: skip
"""Options that change only while the table has no snapshot."""
_ONLY_ON = ("ignore-delete", "ignore-update-before")
_NAMES_IN_VALUE = ("bucket-key", "sequence.field")
_NAMES_IN_BOTH = ("sequence-group", "nested-key")
_NAMES_KEPT = (
    "rowkind.field", "record-level.time-field", "partial-update.remove-record-on-sequence-group", "clustering.columns",
    "upsert-key",
)  # fmt: skip
"""Options whose value has names of columns that Paimon leaves as they are when a column is renamed."""


def spelled_key(key: object, table: str) -> str:
    """The key of an option that a table keeps. OptionError for an unknown one, and for one that only a caller may
    give."""
    if not isinstance(key, str):
        raise OptionError(f"an option's key is a {type(key).__name__}", key="", table=table, todo="Give it as a text")
    spelled = opt.OPTIONS.spelled(key)
    if spelled.startswith(opt.CALL_ONLY):
        raise OptionError(
            f"option {spelled!r} is not kept in a table", key=spelled, table=table, todo="Give it to lakebed.open"
        )
    parts = key.split(".")
    return f"fields.{'.'.join((*parts[1:-1], parts[-1].lower()))}" if parts[0].lower() == "fields" else spelled


def check_set(options: Mapping[str, str], key: str, value: str, has_rows: bool, table: str) -> None:
    """Raise OptionError for an option that is unknown, ill-typed or must stay as it is, UnsupportedError for one that
    lakebed does not serve."""
    parsed = opt.OPTIONS.parse({key: value})
    _check_immutable(key, has_rows, table)
    for use in Use:
        refuse_options(parsed, use, table)
    before = opt.table_options(options)
    if not has_rows:
        return
    if key == opt.BUCKET.key:
        old, new = before[opt.BUCKET], parsed[opt.BUCKET]
        if old < 0 or new == -1:
            kinds = {-1: "dynamic or no buckets", -2: "postponed buckets"}
            raise _stays(key, f"the table has {kinds.get(old, counted(old, 'bucket'))} and rows", table)
    modifiable = options.get("deletion-vectors.modifiable", "false").strip().lower() == "true"
    vectors = opt.DELETION_VECTORS
    if key == vectors.key and before[vectors] != parsed[vectors] and not modifiable:
        why, todo = "without a full compaction, rows could be read twice", "Set deletion-vectors.modifiable to true"
        raise _stays(key, why, table, f"{todo} first, if you are sure")
    if key in _ONLY_ON and options.get(key, "false").lower() == "true" and value.strip().lower() != "true":
        raise _stays(key, "deletes that were ignored cannot come back", table)


def check_removed(key: str, has_rows: bool, table: str) -> None:
    """Raise OptionError for an option that must stay as it is."""
    _check_immutable(key, has_rows, table)
    if has_rows and key == opt.BUCKET.key:
        raise _stays(key, "the table has rows", table)


def renamed_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Options after a column got another name. UnsupportedError for an option that would still have the old name."""

    def names(text: str) -> str:
        return ",".join(new if name == old else name for name in split_names(text))

    for key in _NAMES_KEPT:
        if old in split_names(options.get(key, "")):
            raise UnsupportedError(
                f"column {old!r} cannot be renamed", why=f"the option {key!r} names it, and Paimon would lose it there"
            )
    if old in indexed_columns(options):
        raise UnsupportedError(
            f"column {old!r} cannot be renamed",
            why="an option file-index.….columns names it, and Paimon would lose it there",
        )
    renamed: dict[str, str] = {}
    for key, value in options.items():
        parts = key.split(".")
        if key in _NAMES_IN_VALUE:
            value = names(value)
        elif parts[0] == "fields" and len(parts) > 2:
            if parts[-1] in _NAMES_IN_BOTH:
                value = names(value)
            key = f"fields.{names('.'.join(parts[1:-1]))}.{parts[-1]}"
        renamed[key] = value
    return renamed


def check_whole(schema: TableSchema, table: str) -> None:
    """Raise OptionError for options that conflict with each other or with the columns, beyond what a new table is
    checked for."""
    options = opt.table_options(schema.options)
    for least, most in ((opt.SNAPSHOTS_MIN, opt.SNAPSHOTS_MAX), (opt.CHANGELOG_MIN, opt.CHANGELOG_MAX)):
        low, high = options[least], options[most]
        if low is not None and high is not None and low > high:
            raise opt.refuse(least, low, f"it is more than {most.key}, which is {high}")
    if schema.options.get("partition.expiration-time", "") and not schema.partition_keys:
        raise OptionError(
            "option 'partition.expiration-time' needs a partitioned table", key="partition.expiration-time", table=table
        )
    timed = schema.options.get("record-level.time-field", "")
    if timed:
        roots = {field.name: field.type.root for field in schema.fields}
        if roots.get(timed) not in ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ"):
            raise OptionError(
                f"option 'record-level.time-field' is {timed!r}",
                key="record-level.time-field",
                table=table,
                why="it must name a column of type INT, BIGINT or TIMESTAMP",
            )


def options_naming(options: Mapping[str, str], column: str) -> Iterable[str]:
    """The options that name a column."""
    for key, value in options.items():
        parts = key.split(".")
        in_key = parts[0] == "fields" and len(parts) > 2 and column in split_names(parts[1])
        in_value = key in (*_NAMES_IN_VALUE, *_NAMES_KEPT) or (parts[0] == "fields" and parts[-1] in _NAMES_IN_BOTH)
        if in_key or (in_value and column in split_names(value)):
            yield key


def _check_immutable(key: str, has_rows: bool, table: str) -> None:
    if key in _NEVER:
        raise _stays(key, "a table keeps it for ever", table)
    if has_rows and key in _WITHOUT_ROWS:
        raise _stays(key, "the table has rows, which were written by it", table)


def _stays(key: str, why: str, table: str, todo: str = "Create another table, and copy the rows") -> OptionError:
    return OptionError(f"option {key!r} cannot change", key=key, table=table, why=why, todo=todo)
