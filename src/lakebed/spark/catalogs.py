"""Catalogs that a Spark session knows as `spark.sql.catalog.NAME`: jobs go on naming tables as they did.

A Python source sees nothing of a session's catalogs, and their classes need not even be there. What it can see is their
settings, which the format translates. Secrets stay behind: they come from the environment, as with other catalogs.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

import lakebed.formats as formats
from lakebed.formats.opening import FORMATS
from lakebed.redaction import names_secret
from lakebed.verbs.table import Table

_PREFIX = "spark.sql.catalog."
_SETTING = "lakebed.catalog."

Catalogs = Mapping[str, Mapping[str, str]]
"""The options that open tables in each catalog, by the catalog's name."""


def session_catalogs(spark: SparkSession) -> Catalogs:
    """The catalogs of a session whose classes are those of a format that lakebed has catalogs for."""
    settings = {key.removeprefix(_PREFIX): text for key, text in _settings(spark).items() if key.startswith(_PREFIX)}
    catalogs: dict[str, Mapping[str, str]] = {}
    for name, class_name in settings.items():
        format = next((format for format in FORMATS if f".{format}." in class_name), None)
        options = None if "." in name or format is None else formats.native_source(format).catalog_options
        if options is not None:
            start = f"{name}."
            own = {key.removeprefix(start): text for key, text in settings.items() if key.startswith(start)}
            catalogs[name] = options({key: text for key, text in own.items() if not names_secret(key)})
    return catalogs


def with_catalog(catalogs: Catalogs, location: str, options: Mapping[str, str]) -> dict[str, str]:
    """Options, with those of the session's catalog where a location is a name in one and they say nothing of it."""
    if not formats.is_catalog_name(location) or any(key.lower().startswith(_SETTING) for key in options):
        return dict(options)
    return {**catalogs.get(location.partition(":")[0], {}), **options}


def in_session(spark: SparkSession, location: str, options: Mapping[str, str]) -> dict[str, str]:
    """Options as `with_catalog` gives them, by the session as it is now."""
    return with_catalog(session_catalogs(spark) if formats.is_catalog_name(location) else {}, location, options)


def open_in_session(spark: SparkSession, location: str, options: Mapping[str, str]) -> tuple[Table, dict[str, str]]:
    """An open table, and the options that it was opened with: those of `in_session`, and what the session's own
    settings mean for this table. Raises what `open_table` raises."""
    with_catalogs = in_session(spark, location, options)
    table = formats.open_table(location, with_catalogs)
    # One by one: PySpark asks the JVM once for each of all settings of a session.
    more = formats.native_source(table.format).session_options(table, lambda key: str(spark.conf.get(key, "")))
    if not more:
        return table, with_catalogs
    whole = {**more, **with_catalogs}
    return formats.open_table(location, whole), whole


def _settings(spark: SparkSession) -> dict[str, str]:
    if hasattr(type(spark.conf), "getAll"):
        return dict(spark.conf.getAll)
    return {row.key: row.value for row in spark.sql("SET").collect()}  # PySpark 3.5
