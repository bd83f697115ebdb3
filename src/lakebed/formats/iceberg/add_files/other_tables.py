"""Folders that belong to a table of another kind: its metadata says which of their files and rows count."""

from __future__ import annotations

import re

from lakebed.errors import TableExistsError, UnsupportedError
from lakebed.formats.iceberg.layout import is_metadata

_MARKS = {
    ".hoodie": "a Hudi table",
    ".hoodie_partition_metadata": "a partition of a Hudi table",
    "_delta_log": "a Delta table",
    "_spark_metadata": "the output of a Spark stream, whose log says which files count",
}
"""Folders and files that say whose files these are."""
_ACID = re.compile(r"(?:base|delta|delete_delta)_\d{7,}(?:_\d{7,})?(?:_\d{4,})?(?:_v\d{7,})?")
"""Write ids have at least seven digits there."""
_PAIMON = re.compile(r"(?:.*/)?schema/schema-\d+")


def refuse_other_tables(folder: str, path: str) -> None:
    """Refuse a folder where one of the files below it shows that there is a table.

    Raises TableExistsError for an Iceberg table, UnsupportedError for one of another kind.
    """
    below = path[len(folder) :].strip("/")
    parts = below.split("/")
    if len(parts) > 1 and parts[-2] == "metadata" and is_metadata(below):
        raise TableExistsError(
            "there is an Iceberg table in this folder", table=folder, file=path,
            todo="Open it with lakebed.open. If the file is what an interrupted migration left, register it with "
            "lakebed.register, which completes the migration",
        )  # fmt: skip
    mark = next((part for part in parts if part in _MARKS), "")
    acid = next((part for part in parts[:-1] if _ACID.fullmatch(part)), "")
    kind = _MARKS.get(mark) or ("a transactional Hive table" if acid else "")
    if not kind and _PAIMON.fullmatch(below):
        kind, mark = "a Paimon table", below
    if kind:
        raise UnsupportedError(
            f"this folder is {kind}", table=folder, file=path,
            why=f"{mark or acid} says which files and rows count, and an Iceberg table of all files would have others",
            todo="Read it with what wrote it, and write the rows with table.write",
        )  # fmt: skip
