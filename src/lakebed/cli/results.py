"""What the commands that maintain a table share: opening it with its storage and catalog options, and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import lakebed
from lakebed.cli import output
from lakebed.formats import opening_options
from lakebed.model.upkeep import (
    AddFilesResult,
    ArchiveResult,
    ExpireResult,
    PartitionStatsResult,
    RepairResult,
    RewriteResult,
    RollbackResult,
    TablePathResult,
    TableStatsResult,
)


def opened(
    location: str, given: Sequence[str] | None, also: Sequence[str] = ()
) -> tuple[lakebed.Table, dict[str, object]]:
    """Open a table. Returns it with the options for the verb.

    Storage and catalog options open the table and also go to the verb. The keys in `also` only open the table.
    """
    options = output.parse_options(given or [])
    table = lakebed.open(location, opening_options(options, also))
    return table, {key: value for key, value in options.items() if key not in also}


Result = (
    RewriteResult
    | ExpireResult
    | ArchiveResult
    | RollbackResult
    | RepairResult
    | AddFilesResult
    | TablePathResult
    | TableStatsResult
    | PartitionStatsResult
)


def document(table: lakebed.Table, result: Result) -> dict[str, Any]:
    """A result as a JSON document."""
    return {"table": table.location, "format": table.format, **asdict(result)}


def emit(table: lakebed.Table, result: Result) -> None:
    """Print the JSON document of a result."""
    output.emit_json(document(table, result))
