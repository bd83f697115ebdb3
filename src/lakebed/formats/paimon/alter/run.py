"""An alteration, start to end: the newest schema, its next version, its file put if absent.

Rule: Paimon's SchemaManager.commitChanges. Whoever creates `schema-N` has made version N; a writer that comes second
applies its changes to that version, and may find that they do not hold any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakebed.errors import CommitUnknownError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.alter.plan import altered
from lakebed.formats.paimon.alter.requests import requests_of
from lakebed.formats.paimon.codec.schema_json import schema_to_json
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.loop import retry_policy
from lakebed.formats.paimon.layout import schema_path
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel import clock
from lakebed.kernel.commit.claim import claim
from lakebed.kernel.commit.retry import Lost, Won, with_retries
from lakebed.kernel.files import PutOutcome
from lakebed.model.alter import AlterResult
from lakebed.verbs.alter import checked_changes

Send = Callable[[str, Sequence[Mapping[str, Any]]], None]
"""Commits changes of a branch by a catalog."""


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
            send(history.branch, requests_of(schema, wanted, history.latest() is not None))
            return Won(replace(result, version=str(history.latest_schema().id)))
        version = replace(new, id=schema.id + 1, time_millis=clock.now_ms())
        with history.lock():
            outcome = claim(store, schema_path(history.branch, version.id), schema_to_json(version))
        if outcome is PutOutcome.EXISTS:
            return Lost(f"version {version.id} of the schema was made by another writer")
        if outcome is PutOutcome.UNKNOWN:
            raise CommitUnknownError(
                f"the store does not say whether version {version.id} of the schema was made",
                table=store.location,
                instant=str(version.id),
                todo="Open the table again, and look at its schema before you repeat the change",
            )
        return Won(result)

    return with_retries(attempt, retry_policy(opt.table_options(history.latest_schema().options)), store.location)
