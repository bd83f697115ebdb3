"""Paimon's own Spark source, for `format("paimon")`: batches, streams and `df.write`.

Rules: Paimon's SparkSource, SparkConnectorOptions, PaimonMicroBatchStream and WriteIntoPaimonTable. The source takes
the keys of the table. A stream starts with the whole table and goes on from there (`latest-full`). With
`read.changelog` rows are those of the audit log, whose first column `rowkind` has their kind. Mode overwrite replaces
the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.errors import TableNotFoundError, UnsupportedError, UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.catalog import settings
from lakebed.formats.paimon.layout import TableName
from lakebed.formats.paimon.table import PaimonTable
from lakebed.verbs.native_source import NativeSource, SinkRequest, SourceRequest
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.write import Mode, Sink

_HARMLESS = {
    "write.merge-schema": "false",
    "write.merge-schema.type-widening": "",
    "write.merge-schema.explicit-cast": "",
    "legacy-timestamp-mapping.enabled": "false",
    "read.allow.fullscan": "true",
    "requiredsparkconfscheck.enabled": "",
    "source.split.target-size-with-column-pruning": "",
    "vector-search.lateral-join.parallelism": "",
    "write.data-evolution.update-conflict-retry.max-attempts": "",
    "write.data-evolution.update-conflict-retry.wait-ms": "",
    "write.use-v2-write": "",
}
"""The keys, in lower case, that only the Spark source has, each with the one value that lakebed takes; "" is any value,
where the key changes no row by itself."""

_NAMING = ("catalog", "database", "table")
"""The keys, in lower case, that name a table in a catalog."""


def _opens_table(key: str) -> bool:
    return key.lower() not in (*_HARMLESS, *_NAMING)


def _of_table(options: Mapping[str, str], location: str) -> dict[str, str]:
    """The options without those that only the Spark source has. UnsupportedError for one of these that asks for what
    lakebed lacks."""
    for key, value in options.items():
        taken = _HARMLESS.get(key.lower(), "")
        if taken and value.strip().lower() != taken:
            raise UnsupportedError(
                f"option {key!r} is {value!r}, and lakebed does not support that",
                table=location,
                todo=f"Leave it out, or set it to {taken}",
            )
    return {key: value for key, value in options.items() if _opens_table(key)}


def _reads_changelog(table: PaimonTable, request: SourceRequest) -> bool:
    return opt.OPTIONS.parse(_of_table(request.options, table.location))[opt.READ_CHANGELOG]


def _plan(table: PaimonTable, request: SourceRequest) -> ReadPlan[Any]:
    return table.plan_read(request.columns, request.where, request.pin, _reads_changelog(table, request))


def _stream(table: PaimonTable, request: SourceRequest) -> StreamReader:
    return table.stream(request.columns, request.where, "latest-full", _reads_changelog(table, request))


def _sink(request: SinkRequest[PaimonTable]) -> Sink:
    given = opt.OPTIONS.parse(_of_table(request.options, request.location))
    if request.table is None:
        raise TableNotFoundError(
            "there is no table", table=request.location, todo="Paimon's Spark source creates none: use lakebed.create"
        )
    if not request.overwrite:
        return request.table.sink(Mode.APPEND)
    whole = {} if given.given(opt.DYNAMIC_OVERWRITE) else {opt.DYNAMIC_OVERWRITE.key: "false"}
    return request.table.sink(Mode.OVERWRITE, options=whole)


def _location(options: Mapping[str, str]) -> str | None:
    """The name of the table where the key `catalog` names a catalog; database and table may follow from `path`."""
    given = {key.lower(): text for key, text in options.items()}
    if not given.get("catalog"):
        return None
    of_path = TableName.of_folder(given.get("path", ""))
    name = [given.get("database") or of_path.database, given.get("table") or of_path.table]
    if not all(name):
        raise UsageError(
            "the key catalog names no table", todo='Add .option("database", ...) and .option("table", ...), or a path'
        )
    return f"{given['catalog']}:{'.'.join(name)}"


def _catalog_options(given: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a session's SparkCatalog. Those that lakebed has no use for, as those of its files, stay out."""
    known = {f"{settings.PREFIX}{key}": text for key, text in given.items() if settings.is_known(key)}
    return {f"{settings.PREFIX}{settings.METASTORE.key}": settings.METASTORE.default, **known}


SOURCE: NativeSource[PaimonTable] = NativeSource(
    opens_table=_opens_table,
    plan=_plan,
    stream=_stream,
    sink=_sink,
    location=_location,
    catalog_options=_catalog_options,
    has_catalog=settings.is_configured,
)
