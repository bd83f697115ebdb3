"""A folder of data files in Hive's layout: its files, and the columns that its folders' names hold.

Rules: Hive's `name=value` folders, all of the same names in the same order, as the reference engine's SparkTableUtil
lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError, UsageError
from lakebed.formats.iceberg.add_files.paths import Candidate, candidates, path_values
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import is_manifest
from lakebed.kernel.options import Options


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
    leftovers = f"{url}/metadata/"  # manifests of a migration that was killed before there was a table
    data_files = [
        each for each in candidates(files, [url], options)
        if not (each.path.startswith(leftovers) and is_manifest(each.path))
    ]  # fmt: skip
    if not data_files:
        raise UsageError("there are no data files", file=url, todo="Name a folder with files")
    first_path = data_files[0].path
    first = [*path_values(first_path[len(url) :])]
    values: dict[str, list[str | None]] = {name: [] for name in first}
    for file in data_files:
        in_path = path_values(file.path[len(url) :])
        if [*in_path] != first:
            raise SchemaError(
                "the folders of two files name different partition columns", file=file.path,
                why=f"{', '.join(in_path) or 'none'} here, {', '.join(first) or 'none'} in that of {first_path}",
                todo="Move the files, or take in each part of the folder as a table of its own",
            )  # fmt: skip
        for name, value in in_path.items():
            values[name].append(value)
    return Folder(data_files, values)


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
