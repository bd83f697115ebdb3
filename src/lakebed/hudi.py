"""What only Hudi tables have: `post_commit` for jobs that write them, `timelines` for those who look after them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakebed.errors import UsageError
from lakebed.formats import open_table
from lakebed.formats.hudi.archive.post_commit import post_commit as _post_commit
from lakebed.formats.hudi.archive.report import TimelineReport
from lakebed.formats.hudi.archive.report import timelines as _timelines
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.model.instant import Instant
from lakebed.model.upkeep import ArchiveResult
from lakebed.verbs.table import Table

__all__ = ["TimelineReport", "post_commit", "timelines"]


def post_commit(
    table: Table | str | os.PathLike[str],
    instant: Instant | str,
    options: Mapping[str, object] = {},
    engine: Engine | None = None,
) -> ArchiveResult:
    """Finish a commit as a Hudi writer does: remove the instant's marker folder, archive the timeline if that is due,
    and stop the instant's heartbeat in any case.

    `table` is an open table or its location, `instant` the requested time of the commit, `options` those of
    `table.archive`. Raises UsageError while the instant is pending. The commit stands whatever fails here: a failure is
    a note of the result, and the next call does the step.

        lakebed.hudi.post_commit("/lake/orders", "20260302120000000")
    """
    opened = _hudi(table)
    time = instant.time if isinstance(instant, Instant) else str(instant)
    return _post_commit(opened.store, time, options, engine or LocalEngine(), opened.options)


def timelines(table: Table | str | os.PathLike[str], options: Mapping[str, object] = {}) -> tuple[TimelineReport, ...]:
    """The state of the table's timeline, and of its metadata table's timeline if there is one.

    Each report has the size, the oldest instant, what holds archival up, the savepoints, and archive files in other
    folders. `options` are those of `table.archive`. Changes nothing.
    """
    opened = _hudi(table)
    return _timelines(opened.store, options, opened.options)


def _hudi(table: Table | str | os.PathLike[str]) -> Table:
    opened = table if isinstance(table, Table) else open_table(os.fspath(table))
    if opened.format != "hudi":
        raise UsageError(f"{opened.location} is a {opened.format} table", todo="Only Hudi tables have a timeline")
    return opened
