"""A folder of data files in Hive's layout: its files, and the columns that its folders' names hold.

Rules: Hive's `name=value` folders, all of the same names in the same order, as the reference engine's SparkTableUtil
lists them. A folder that belongs to a table of another kind is refused: its files are not its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError, TableExistsError, UnsupportedError, UsageError
from lakebed.formats.iceberg.add_files.paths import Candidate, candidates, path_values
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import is_manifest, is_metadata
from lakebed.kernel.options import Options

_MARKS = {
    ".hoodie": "a Hudi table", "_delta_log": "a Delta table",
    "_spark_metadata": "the output of a Spark stream, whose log says which files count",
}  # fmt: skip
"""Folders that say whose files these are."""
_ACID = re.compile(r"(?:base|delta|delete_delta)_\d+(?:_\d+)*(?:_v\d+)?")
_PAIMON = re.compile(r"(?:.*/)?schema/schema-\d+")


@dataclass(frozen=True, slots=True)
class Folder:
    """The data files of a folder, and the values of its partition columns by name, one per file; None for null."""

    files: Sequence[Candidate]
    partitions: Mapping[str, Sequence[str | None]]


def folder_of(files: Files, url: str, options: Options) -> Folder:
    """The files of a folder.

    Raises UsageError for a folder without data files, UnsupportedError for the folder of another kind of table,
    SchemaError where folders differ in the names of their partition columns.
    """
    _refuse_tables(files, url)
    leftovers = f"{url}/metadata/"  # manifests of a migration that was killed before there was a table
    found = [
        each for each in candidates(files, [url], options)
        if not (each.path.startswith(leftovers) and is_manifest(each.path))
    ]  # fmt: skip
    if not found:
        raise UsageError("there are no data files", file=url, todo="Name a folder with files")
    first = [*path_values(found[0].path[len(url) :])]
    values: dict[str, list[str | None]] = {name: [] for name in first}
    for file in found:
        in_path = path_values(file.path[len(url) :])
        if [*in_path] != first:
            raise SchemaError(
                "the folders of two files name different partition columns", file=file.path,
                why=f"{', '.join(in_path) or 'none'} here, {', '.join(first) or 'none'} in that of {found[0].path}",
                todo="Move the files, or take in each part of the folder as a table of its own",
            )  # fmt: skip
        for name, value in in_path.items():
            values[name].append(value)
    return Folder(found, values)


def inferred(values: Sequence[str | None]) -> pa.DataType:
    """The type of a partition column: whole numbers, dates, else text.

    A number or date counts as one only if it is written as the type prints it, so no value loses its leading zeros.
    """
    texts = pa.array([value for value in values if value is not None], pa.string()).unique()
    for kind in (pa.int32(), pa.int64(), pa.date32()):
        try:
            if len(texts) and pc.all(pc.equal(texts.cast(kind).cast(pa.string()), texts)).as_py():
                return kind
        except pa.ArrowInvalid:
            continue
    return pa.string()


def _refuse_tables(files: Files, url: str) -> None:
    """Refuse a folder in which another format says what its files mean."""
    for path, _ in files.walk(url):
        below = path[len(url) :].strip("/")
        parts = below.split("/")
        if len(parts) > 1 and parts[-2] == "metadata" and is_metadata(below):
            raise TableExistsError(
                "there is an Iceberg table in this folder", table=url, file=path,
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
                f"this folder is {kind}", table=url, file=f"{url}/{below}",
                why=f"{mark or acid} says which files and rows count, and an Iceberg table of all files would have "
                "others",
                todo="Read it with what wrote it, and write the rows with table.write",
            )  # fmt: skip
