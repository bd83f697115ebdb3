"""Column ids of a table with schema on read, kept and advanced by a write.

Each commit of such a table says which ids its columns have, and leaves the history of all of them: a reader of Hudi's
that finds no ids in the newest commit would take a renamed column for another one.

Rules: Hudi's `BaseHoodieWriteClient.saveInternalSchema`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.codec.internal_schema_change import advanced_schemas
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.column_history import keep_history, newest_history


@dataclass(frozen=True, slots=True)
class ColumnIds:
    """The column ids of one commit: `latest` for its extra metadata, and `history` for a file of its own. `before` is
    the history that it continues, "" if there was no file."""

    context: WriteContext
    instant: str
    latest: str
    history: str
    before: str

    @classmethod
    def of(cls, context: WriteContext, state: TableState, instant: str, columns: pa.Schema) -> ColumnIds | None:
        """The ids for rows with these columns; None if the table keeps no ids."""
        before = history = state.column_history
        if not history:
            view = state.view()
            commits = state.commits(view)
            newest = next(
                filter(None, (commits[e.time].extra.get("latest_schema") for e in reversed(view.entries))), ""
            )
            if not newest:
                return None
            history = f'{{"schemas":[{newest}]}}'
        after = advanced_schemas(history, instant, columns)
        return cls(context, instant, after.latest, after.history, before)

    @property
    def extra(self) -> dict[str, str]:
        """The extra metadata of the commit."""
        return {"latest_schema": self.latest}

    def keep(self) -> None:
        """Write the history, just before the commit completes. CommitConflictError where another writer has changed it
        since."""
        store, timeline = self.context.store, self.context.timeline()
        if newest_history(store, timeline) != self.before:
            raise CommitConflictError(
                "another writer changed the table's columns",
                table=store.location,
                instant=self.instant,
                why="it has another history of column ids than when this write began",
                todo="Open the table again, and write again",
            )
        keep_history(store, self.context.config, timeline, self.instant, self.history)
