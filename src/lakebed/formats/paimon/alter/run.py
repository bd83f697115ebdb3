"""An alteration, start to end: the newest schema, its next version, its file put if absent.

Rule: Paimon's SchemaManager.commitChanges. Whoever creates `schema-N` has made version N; a writer that comes second
applies its changes to that version, and may find that they do not hold any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakebed.errors import CommitUnknownError, NotWrittenError, StorageError, TableNotFoundError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.alter.plan import altered
from lakebed.formats.paimon.alter.requests import requests_of
from lakebed.formats.paimon.codec.schema_json import TableSchema, schema_to_json
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.loop import retry_policy
from lakebed.formats.paimon.layout import schema_path
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel import clock
from lakebed.kernel.commit.claim import ask_again, claim
from lakebed.kernel.commit.retry import Lost, Won, with_retries
from lakebed.kernel.files import PutOutcome
from lakebed.model.alter import AlterResult
from lakebed.verbs.alter import checked_changes

_OVERTAKEN = "version {} of the schema was made by another writer"
Send = Callable[[str, Sequence[Mapping[str, Any]]], PutOutcome]
"""Commits changes of a branch by a catalog: CREATED, or UNKNOWN where it does not say how it ended."""


def alter_table(history: History, changes: object, dry_run: bool = False, send: Send | None = None) -> AlterResult:
    """Make the next version of a branch's schema, in one step. `send` has a catalog do it.

    Raises what `altered` raises, UsageError for what is no change, and CommitUnknownError when the store does not say
    whether the version was made.
    """
    wanted = checked_changes(changes)
    store = history.store

    def attempt(_: int) -> Won[AlterResult] | Lost:
        schema = history.latest_schema()
        planned = altered(schema, wanted, history.latest() is not None, store.location)
        new = planned.schema
        shown = arrow_schema(new.fields)
        if new == schema:
            return Won(AlterResult(planned.lines, shown, str(schema.id), dry_run, ("nothing changes",)))
        result = AlterResult(planned.lines, shown, str(schema.id + 1), dry_run, planned.notes)
        if dry_run:
            return Won(result)
        if send is not None:
            try:
                sent = send(history.branch, requests_of(schema, wanted, history.latest() is not None))
            except (NotWrittenError, TableNotFoundError):
                if history.latest_schema().id == schema.id:
                    raise
                return Lost(_OVERTAKEN.format(schema.id + 1))  # a column may have come or gone, and the server says so
            newest = None
            with suppress(StorageError):  # an error would say that nothing was changed
                newest = ask_again(history.latest_schema)
            if sent is PutOutcome.UNKNOWN and (newest is None or not _is_same(newest, new)):
                raise _unknown(schema.id + 1, store.location)
            return Won(result if newest is None else replace(result, version=str(newest.id)))
        version = replace(new, id=schema.id + 1, time_millis=clock.now_ms())
        with history.lock():
            outcome = claim(store, schema_path(history.branch, version.id), schema_to_json(version))
        if outcome is PutOutcome.EXISTS:
            return Lost(_OVERTAKEN.format(version.id))
        if outcome is PutOutcome.UNKNOWN:
            raise _unknown(version.id, store.location)
        return Won(result)

    return with_retries(attempt, retry_policy(opt.table_options(history.latest_schema().options)), store.location)


def _is_same(there: TableSchema, wanted: TableSchema) -> bool:
    """Whether a version of the schema is what changes make of the one before, whoever made it."""
    return replace(there, id=wanted.id, time_millis=wanted.time_millis) == wanted


def _unknown(version: int, table: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"it is not known whether version {version} of the schema was made",
        table=table,
        instant=str(version),
        why="the store or the catalog did not answer",
        todo="Open the table again, and look at its schema before you repeat the change",
    )
