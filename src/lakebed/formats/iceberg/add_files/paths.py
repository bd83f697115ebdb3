"""The files to add, and the partition values in their paths.

Rules: Hive's layout, `name=value` folders with percent escapes and `__HIVE_DEFAULT_PARTITION__` for null, as the
reference engine's SparkTableUtil reads it. Files whose names begin with `_` or `.` are not data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError, UsageError
from lakebed.formats.iceberg.add_files.options import FORMAT
from lakebed.formats.iceberg.add_files.other_tables import refuse_other_tables
from lakebed.formats.iceberg.files import Files, spelled
from lakebed.kernel.files import parse_location
from lakebed.kernel.files.places import PLACES
from lakebed.kernel.options import Options

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ENDINGS = {".parquet": "PARQUET", ".orc": "ORC", ".avro": "AVRO"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to add. `size` is its bytes, -1 where they are not known yet."""

    path: str
    size: int
    format: str


def candidates(files: Files, paths: Sequence[str], options: Options) -> list[Candidate]:
    """The files at these locations, each of a file or a folder, in order of their paths.

    UsageError for a location without data files, for a file that is named twice, and for one whose format nobody says;
    TableExistsError and UnsupportedError for a folder of another table.
    """
    if not paths:
        raise UsageError("no files are named", todo="Give a location, or a list of locations")
    sizes: dict[str, int] = {}
    for location in paths:
        url = spelled(parse_location(location).text)
        if not files.reaches(url):
            raise UnsupportedError(
                "files to add lie outside the table's folder",
                file=location,
                why="lakebed reads and removes only files in a table's own folder and in folders that you name",
                todo=f"Put them into the table's folder, or name theirs in the option {PLACES!r} at each opening",
            )
        try:
            here = [(url, files.size(url))] if not _is_folder(files, url) else [*_data_in(files, url)]
        except FileNotFoundError:
            here = [*_data_in(files, url)]
        if not here:
            raise UsageError("there are no data files", file=location, todo="Name a file, or a folder with files")
        for path, size in here:
            if path in sizes:
                raise UsageError("a file is named twice", file=path, todo="Name each file or its folder once")
            sizes[path] = size
    return [Candidate(path, size, _format(path, options[FORMAT])) for path, size in sorted(sizes.items())]


def path_values(path: str) -> Mapping[str, str | None]:
    """The values of `name=value` folders by name, as text; None for null. The innermost folder of a name counts."""
    values: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, equals, text = part.partition("=")
        if equals and name:
            value = unquote(text)
            values[unquote(name)] = None if value == _NULL else value
    return values


def typed(text: str | None, kind: pa.DataType, name: str, path: str) -> object:
    """A value of a path in the type of a partition field, as Arrow gives it to Python. SchemaError where it has no such
    value."""
    if text is None:
        return None
    try:
        return pa.scalar(text, pa.string()).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"the path says {name}={text}, which is no {kind}", file=path, todo="Rename the folder, or write the rows"
        ) from error


def _is_folder(files: Files, url: str) -> bool:
    local = files.local_path(url)
    return local is not None and os.path.isdir(local)


def _data_in(files: Files, folder: str) -> Iterator[tuple[str, int]]:
    """The data files below a folder. An error where it belongs to a table of another kind."""
    for path, size in files.walk(folder):
        refuse_other_tables(folder, path)
        parts = path[len(folder) :].strip("/").split("/")
        hidden = any(part.startswith((".", "_")) and "=" not in part for part in parts)
        if not hidden and size:
            yield path, size


def _format(path: str, given: str) -> str:
    for ending, format in _ENDINGS.items():
        if path.lower().endswith(ending):
            return format
    if not given:
        raise UsageError(
            "the name does not say which format the file has", file=path, todo=f"Set the option {FORMAT.key}"
        )
    return given.upper()
