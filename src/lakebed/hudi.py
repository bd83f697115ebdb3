"""What only Hudi tables have: `post_commit` for jobs that write them, `timelines` for those who look after them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakebed.errors import UsageError
from lakebed.formats import open_table
from lakebed.formats.hudi.archive.options import ARCHIVE
from lakebed.formats.hudi.archive.post_commit import post_commit as _post_commit
from lakebed.formats.hudi.archive.report import TimelineReport
from lakebed.formats.hudi.archive.report import timelines as _timelines
from lakebed.formats.hudi.config import load_config
from lakebed.formats.hudi.upkeep import UPKEEP, cleaned
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import option_texts
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
    """Finish a commit as a Hudi writer does: remove the instant's marker folder, clean the table and archive its
    timeline if that is due, and stop the instant's heartbeat in any case.

    `table` is an open table or its location, `instant` the requested time of the commit, `options` those of
    `table.archive` and `table.expire`, and of what follows a write (`hoodie.clean.automatic`). Raises UsageError while
    the instant is pending. The commit stands whatever fails here: a failure is a note of the result, and the next call
    does the step.

        lakebed.hudi.post_commit("/lake/orders", "20260302120000000")
    """
    opened = _hudi(table)
    time = instant.time if isinstance(instant, Instant) else str(instant)
    given = option_texts(options)
    config = load_config(opened.store)
    upkeep = {key: text for key, text in given.items() if UPKEEP.knows(key)}
    archival = {key: text for key, text in given.items() if ARCHIVE.knows(key) or key not in upkeep}

    def clean() -> tuple[str, ...]:
        return cleaned(opened, config, upkeep)

    return _post_commit(opened.store, time, archival, engine or LocalEngine(), opened.options, clean)


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
