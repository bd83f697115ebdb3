"""Files of rows that lie in a table's folder and that its newest state does not name."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lakebed.verbs.table import Table

_METADATA = (".hoodie", "manifest", "snapshot", "schema", "metadata", "index")
_HUDI_FILE = re.compile(r"_(\d+)\.parquet$|^\.[^_]+_(\d+)\.log\.")


def leftovers(table: Table) -> set[str]:
    """The names of such files, of staged rows too. For tables with one snapshot, or which only ever got new files.

    A file of a Hudi table counts as named where a completed instant made it.
    """
    named = {os.path.basename(path) for path in table.metadata("files").read_all().column("file_path").to_pylist()}
    instants = {one.time for one in table.history() if one.state == "completed" and one.action != "rollback"}
    root = Path(table.location)
    found = {
        path.name for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] not in _METADATA
    }
    return {name for name in found - named if not name.startswith(".hoodie") and not instants & {*_instant(name)}}


def _instant(name: str) -> tuple[str, ...]:
    match = _HUDI_FILE.search(name)
    return match.groups() if match else ()
