"""A call of an SQL table function, and what such a function is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

import lakebed.formats as formats
from lakebed.kernel.files import Store
from lakebed.verbs.table import Table

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call by name, with defaults filled in."""

    function: str
    table: str
    options: Mapping[str, str]
    values: Mapping[str, Any]
    columns: bytes = b""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def dry_run(self) -> bool:
        """Whether nothing is changed."""
        return bool(self.values.get("dry_run"))

    def open(self, verb_takes_options: bool = False) -> Table:
        """The table. Options that the verb takes do not open it, but for those of its storage and catalog."""
        if not verb_takes_options:
            return formats.open_table(self.table, self.options)
        return formats.open_table(self.table, formats.opening_options(self.options, _ONLY_OPEN))

    @property
    def verb_options(self) -> dict[str, object]:
        """The options that go to the verb."""
        return {key: value for key, value in self.options.items() if key not in _ONLY_OPEN}


_ONLY_OPEN = ("branch",)
"""Options that say what is opened, and nothing to a verb."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A function: its parameters in order, those that must be given, its columns, and its rows."""

    parameters: tuple[str, ...]
    columns: spark.StructType | Callable[[Given], pa.Schema]
    rows: Callable[[Given], Iterable[Row]]
    required: tuple[str, ...] = ("table",)
    changes: bool = False
    place: Callable[[Given], tuple[Store, str]] = lambda given: _own_folder(given)


def _own_folder(given: Given) -> tuple[Store, str]:
    """Where calls on an open table leave their files: a store, and a folder in it."""
    table = given.open(verb_takes_options=True)
    return table.store, table.own_folder
