"""Read and write as a format's own Spark source does: what `spark.read.format("hudi")` means for a Hudi table.

Jobs that were written for the format's own engine name the format and set the keys of its Spark source. Each format
describes that source in its module `spark.py`, as a `NativeSource` called `SOURCE`. `lakebed.spark` runs the
description and knows no format by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from lakebed.kernel.predicates.where import Where
from lakebed.model.instant import Instant
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.table import Table
from lakebed.verbs.write import Sink

T = TypeVar("T", bound=Table)
Setting = Callable[[str], str]
"""Gives a setting of a session by its key, an empty text where the session does not have it."""


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What a DataFrame asks of a source.

    `options` are all keys that the DataFrame was given but for those of lakebed's source itself (`path`, `columns`,
    `where`) and, for a stream, those that bound a batch, which Spark applies. A batch is read as of `pin` where the
    options name no other snapshot, so that every action of one DataFrame sees the same rows.
    """

    options: Mapping[str, str]
    columns: Sequence[str] | None = None
    where: Where = None
    pin: Instant | None = None


@dataclass(frozen=True, slots=True)
class SinkRequest(Generic[T]):
    """What `df.write` asks of a format's own source: rows of `schema` for a table, None where there is none yet.

    `options` are all keys that the writer was given but for those of lakebed's source itself.
    """

    table: T | None
    location: str
    schema: pa.Schema
    options: Mapping[str, str]
    overwrite: bool


def _every_key(key: str) -> bool:
    return True


def _no_location(options: Mapping[str, str]) -> str | None:
    return None


def _no_catalog(name: str, options: Mapping[str, str]) -> bool:
    return False


def _no_options(table: Table, setting: Setting) -> Mapping[str, str]:
    return {}


def _plan_of_table(table: Table, request: SourceRequest) -> ReadPlan[Any]:
    return table.plan_read(request.columns, request.where, request.pin)


def _stream_of_table(table: Table, request: SourceRequest) -> StreamReader:
    return table.stream(request.columns, request.where)


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A table function of a format's own engine that reads a table as the format's source does.

    `parameters` are its arguments in order, of which the first names the table, and `required` those that must be
    given. `options` are the keys of the source that say the same as the other arguments.
    """

    parameters: tuple[str, ...]
    required: tuple[str, ...]
    options: Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class NativeSource(Generic[T]):
    """How a format's own Spark source reads the format's tables.

    A format whose source takes the keys of its tables, and reads as they do, needs no more than `NativeSource()`.
    Whatever `plan` and `stream` give, Spark gets rows as that source has them: `lakebed.spark` drops the column of row
    kinds and the rows that are deletes or old versions.
    """

    opens_table: Callable[[str], bool] = _every_key
    """Whether a key is one that the table is opened with. All other keys reach only `plan` and `stream`."""
    plan: Callable[[T, SourceRequest], ReadPlan[Any]] = _plan_of_table
    """The plan of a batch. Raises OptionError for keys that the source does not have."""
    stream: Callable[[T, SourceRequest], StreamReader] = _stream_of_table
    """A stream, started where the source's own keys and defaults say."""
    sink: Callable[[SinkRequest[T]], Sink] | None = None
    """The sink of one batch, where it differs from that of an opened table: it may create the table. Raises what
    creating a table and its sink raise."""
    location: Callable[[Mapping[str, str]], str | None] = _no_location
    """The location of a table that the source's own keys name, None where they do not."""
    catalog_options: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None
    """The options that open tables in a catalog of the format, from its settings in a Spark session; None: lakebed has
    no such catalogs."""
    session_options: Callable[[T, Setting], Mapping[str, str]] = _no_options
    """The options that a session's own settings mean for a table: what the source takes from there."""
    has_catalog: Callable[[str, Mapping[str, str]], bool] = _no_catalog
    """Whether options, or the environment, have the settings of the catalog of this name."""
    functions: Mapping[str, SourceFunction] = field(default_factory=dict)
    """The table functions of the format's own engine that are served, by their names in SQL."""
