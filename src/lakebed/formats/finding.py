"""Many tables by one name: those of a catalog, of a database, of a warehouse folder, or that fit a pattern.

Rules of the choice among them: Paimon's CompactDatabaseProcedure. Its expressions must fit the whole name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from lakebed.errors import TableNotFoundError, UsageError
from lakebed.formats.opening import format_of, is_catalog_name, open_catalog
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.files.location import REMOTE_SCHEMES
from lakebed.kernel.options import option_texts

_CATALOG = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_-]+):([^/\\:]+)")
_WILD = re.compile(r"[*?\[]")
_DEPTH = 3
"""How many folders below a warehouse tables are looked for: `DATABASE.db/TABLE`, and one more."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which of many tables are meant, by regular expressions: for databases, and for names `database.table`. None takes
    all, and excludes none."""

    including_databases: str | None = None
    including_tables: str | None = None
    excluding_tables: str | None = None

    def __post_init__(self) -> None:
        for text in (self.including_databases or "", self.including_tables or "", self.excluding_tables or ""):
            try:
                re.compile(text)
            except re.error as error:
                raise UsageError(f"{text!r} is not a regular expression", why=str(error)) from error

    def takes_database(self, name: str) -> bool:
        """Whether tables of a database may be meant."""
        return self.including_databases is None or re.fullmatch(self.including_databases, name) is not None

    def takes(self, name: str) -> bool:
        """Whether a table is meant."""
        if self.excluding_tables is not None and re.fullmatch(self.excluding_tables, name):
            return False
        return self.including_tables is None or re.fullmatch(self.including_tables, name) is not None


def find_tables(
    location: str | os.PathLike[str],
    options: Mapping[str, object] | None = {},
    including_databases: str | None = None,
    including_tables: str | None = None,
    excluding_tables: str | None = None,
) -> list[str]:
    """The locations of many tables, sorted, each for `lakebed.open`.

        lakebed.tables("shop:sales")                      # a database of a catalog
        lakebed.tables("shop:*.orders_*")                 # by a pattern of names
        lakebed.tables("s3://bucket/warehouse")           # all below a folder
        lakebed.tables("/lake/*.db/orders")               # by a pattern of paths

    `*` and `?` stand for parts of a name. A location that names one table gives that one. `options` are those of the
    catalog and of the store. The last three are regular expressions, for names of databases and for `database.table`.

    Raises TableNotFoundError when there is no table, no such database or no such folder.
    """
    text, texts = os.fspath(location), option_texts(options)
    choice = _Choice(including_databases, including_tables, excluding_tables)
    named = _catalog_pattern(text)
    locations = _in_catalog(*named, texts, choice) if named else _below(text, texts, choice)
    if not locations:
        raise TableNotFoundError(
            f"no table of {text!r} is meant" if choice != _Choice() else f"there is no table in {text!r}",
            todo="Check the spelling. Give a catalog's name with a colon, a folder, or a pattern with *",
        )
    return sorted(locations)


def names_many(location: str) -> bool:
    """Whether a location says by itself that it means many tables: a database of a catalog, or a pattern."""
    named = _catalog_pattern(location)
    return _is_path_pattern(location) if named is None else _is_pattern(named[1])


def _is_pattern(name: str) -> bool:
    return "." not in name or _WILD.search(name) is not None


def _is_path_pattern(text: str) -> bool:
    """Whether a path or URL has a pattern. A folder whose own name has such characters is none."""
    return _WILD.search(text) is not None and not os.path.exists(text)


def _catalog_pattern(text: str) -> tuple[str, str] | None:
    """The catalog and the rest, None for a path."""
    match = _CATALOG.fullmatch(text)
    if match is None or match[1].lower() in (*REMOTE_SCHEMES, "file", "hdfs") or os.path.exists(text):
        return None
    return match[1], match[2]


def _in_catalog(catalog: str, name: str, options: Mapping[str, str], choice: _Choice) -> list[str]:
    if not _is_pattern(name):
        return [f"{catalog}:{name}"] if choice.takes(name) else []
    pattern = name if "." in name else f"{name}.*"
    opened = open_catalog(catalog, options)
    outer = pattern.rpartition(".")[0]
    exact = _WILD.search(outer) is None
    names: list[str] = []
    for database in [outer] if exact else opened.databases():
        if choice.takes_database(database) and (exact or fnmatchcase(database, outer)):
            names += [f"{database}.{table}" for table in opened.tables(database)]
    return [f"{catalog}:{name}" for name in names if fnmatchcase(name, pattern) and choice.takes(name)]


def _below(text: str, options: Mapping[str, str], choice: _Choice) -> list[str]:
    """The tables below a folder, or those that fit a pattern of paths."""
    fixed, pattern = text.rstrip("/"), ""
    if _is_path_pattern(text):
        parts = text.rstrip("/").split("/")
        first = next(place for place, part in enumerate(parts) if _WILD.search(part))
        fixed, pattern = "/".join(parts[:first]) or ("/" if text.startswith("/") else "."), "/".join(parts[first:])
    store = open_store(fixed, options)
    names = {path: short_name(store.url(path) if path else store.location) for path in _tables(store, pattern, options)}
    return [
        store.url(path) if path else store.location
        for path, name in names.items()
        if choice.takes_database(name.partition(".")[0]) and choice.takes(name)
    ]


def _tables(store: Store, pattern: str, options: Mapping[str, str]) -> list[str]:
    """The paths of the tables below a folder, level by level; "" is the folder itself. Nothing is looked for inside a
    table."""
    levels = pattern.split("/") if pattern else ["*"] * _DEPTH
    tables: list[str] = []
    folders = [""]
    for depth in range(len(levels) + 1):
        look = partial(_look, store, options, not pattern or depth == len(levels), depth < len(levels))
        inner: list[str] = []
        for path, (is_table, names) in zip(folders, store.together(look, folders), strict=True):
            if is_table:
                tables.append(path)
            inner += [
                f"{path}/{name}".lstrip("/")
                for name in names
                if not name.startswith((".", "_")) and fnmatchcase(name, levels[depth])
            ]
        folders = inner
    return tables


def _look(
    store: Store, options: Mapping[str, str], may_be: bool, may_have: bool, path: str
) -> tuple[bool, Sequence[str]]:
    """Whether a folder, which may be one, is a table; else the folders in it, which may have some."""
    here = open_store(store.url(path), options) if path else store
    if may_be and format_of(here) is not None:
        return True, ()
    return False, here.list().folders if may_have else ()


def short_name(location: str) -> str:
    """`database.table` for a table, by its folder or its name in a catalog."""
    if is_catalog_name(location):
        return location.partition(":")[2]
    *_, database, table = ["", *location.rstrip("/").split("/")]
    return f"{database.removesuffix('.db')}.{table}"
