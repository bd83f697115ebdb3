"""An alteration, start to end: the newest metadata, the updates, one commit.

Rules: the reference engine's SchemaUpdate, BaseUpdatePartitionSpec, BaseReplaceSortOrder and PropertiesUpdate. A commit
of rows and an alteration do not conflict. Two alterations of columns, partition fields or the sort order do: the second
one fails, since what it was decided on has changed. Properties are set on top of whatever others have set.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError
from lakebed.formats.iceberg.alter.plan import Altered, altered, same_schema, spec_key
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.codec.updates import MetadataChange, applied
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.model.alter import AlterResult, Change
from lakebed.verbs.alter import checked_changes

_OF_PROPERTIES = ("set-properties", "remove-properties", "upgrade-format-version")
"""Updates that hold whatever others have changed meanwhile."""


def alter_table(operations: TableOperations, changes: object, dry_run: bool = False) -> AlterResult:
    """Change a table's definition in one commit.

    Raises what `altered` raises, UsageError for what is no change, CommitConflictError when another alteration was
    faster, and CommitUnknownError.
    """
    wanted = checked_changes(changes)
    base = operations.load()
    operations.refuse_changes(base)
    planned = altered(base.metadata, wanted, operations.name)
    if not planned.updates:
        return _result(planned, planned.schema.schema_id, ("nothing changes", *planned.notes), dry_run)
    if dry_run:
        return _result(planned, planned.schema.schema_id, planned.notes, dry_run)
    alteration, loaded = alter_from(operations, base, wanted)
    return _result(alteration, loaded.metadata.current_schema_id, alteration.notes)


def alter_from(operations: TableOperations, base: Loaded, wanted: Sequence[Change]) -> tuple[Altered, Loaded]:
    """Commit changes that were decided on the metadata `base`, which was just loaded. Returns what was committed, and
    the metadata after it. Raises what `alter_table` raises."""
    planned = altered(base.metadata, wanted, operations.name)
    latest = [planned]

    def decide(metadata: TableMetadata) -> MetadataChange:
        if metadata is not base.metadata:
            latest.append(_decided_again(base.metadata, metadata, planned, wanted, operations.name))
        return latest[-1].requirements, latest[-1].updates

    try:
        loaded = change_metadata(operations, decide, base=base)
        return latest[-1], loaded
    except CommitUnknownError:
        with suppress(LakebedError, FileNotFoundError):
            now = operations.load()
            if now.location != base.location and _is_done(base.metadata, now.metadata, planned):
                return planned, now
        raise


def _decided_again(
    before: TableMetadata, now: TableMetadata, first: Altered, wanted: Sequence[Change], table: str
) -> Altered:
    """The alteration of newer metadata. CommitConflictError when others have altered the table meanwhile, too."""
    if all(update["action"] in _OF_PROPERTIES for update in first.updates) or _numbers(before) == _numbers(now):
        return altered(now, wanted, table)
    if _is_done(before, now, first):
        return Altered((), (), now.schema, first.lines, first.notes)
    raise CommitConflictError(
        "another writer altered the table at the same time",
        table=table,
        why="its columns, partition fields or sort order are no longer those on which these changes were decided",
        todo="Look at the table's schema, and alter it again if you still want the change",
    )


def _numbers(metadata: TableMetadata) -> tuple[int, ...]:
    return (
        metadata.current_schema_id, metadata.last_column_id, metadata.default_spec_id, metadata.last_partition_id,
        metadata.default_sort_order_id,
    )  # fmt: skip


def _is_done(before: TableMetadata, now: TableMetadata, planned: Altered) -> bool:
    """Whether the table is as the alteration makes it. An unanswered request may have taken effect, and a catalog's
    client that repeats one gets a conflict with itself."""
    wanted = TableMetadata(applied(before, planned.updates, 0, ""))
    orders = [each.sort_orders[each.default_sort_order_id].fields for each in (wanted, now)]
    return (
        same_schema(wanted.schema, now.schema)
        and spec_key(wanted.spec) == spec_key(now.spec)
        and orders[0] == orders[1]
        and wanted.format_version <= now.format_version
        and all(
            wanted.properties.get(key) == now.properties.get(key)
            for key in {**before.properties, **wanted.properties}
            if wanted.properties.get(key) != before.properties.get(key)
        )
    )


def _result(planned: Altered, schema_id: int, notes: tuple[str, ...], dry_run: bool = False) -> AlterResult:
    return AlterResult(planned.lines, arrow_schema(planned.schema), str(schema_id), dry_run, notes)
