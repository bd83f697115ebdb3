"""Add lakebed's data sources and SQL table functions to a Spark session."""

from __future__ import annotations

from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

from lakebed.formats.opening import CLASS_NAMES, FORMATS, SOURCE_FUNCTIONS
from lakebed.spark.catalogs import session_catalogs
from lakebed.spark.engine import default_parallelism, run_workers_here
from lakebed.spark.failures import translate_errors
from lakebed.spark.procedures import PROCEDURES
from lakebed.spark.release import HAS_SOURCES, needs
from lakebed.spark.source import LAKEBED, STREAMING_OPTION

if HAS_SOURCES:
    from lakebed.spark.data_sources import data_sources
    from lakebed.spark.table_functions import table_function

NAMES = {name: name for name in (LAKEBED, *FORMATS)} | dict(CLASS_NAMES)
"""The names that the sources answer to, each with its short name: lakebed's own, and those of the formats' own Spark
sources."""
_STREAMED = {name.lower() for name in NAMES}


def register(spark: SparkSession) -> None:
    """Add the sources `lakebed`, `hudi`, `paimon` and `iceberg` to a session, classic or Connect.

        lakebed.spark.register(spark)
        spark.read.format("lakebed").load("s3://bucket/orders")

    `spark.read`, `spark.readStream`, `df.write` and SQL then know these names. A name that another source of the
    session already has (from a bundle's jar) stays with that source; `lakebed` is always ours.

    SQL gets table functions too (docs/sql.md): `SELECT * FROM lakebed_rewrite('s3://bucket/orders')`.

    Call it again after you change catalogs (`spark.sql.catalog.NAME`), whose tables the sources know by name.

    Raises UnsupportedError before PySpark 4.0, which knows no sources that are written in Python.
    """
    translate_errors()
    if not HAS_SOURCES:
        raise needs(
            "4.0",
            "lakebed.spark.register",
            "Call lakebed.spark.read(spark, location).createOrReplaceTempView(name) to read, lakebed.spark.write and "
            "write_stream to write, and a table's own verbs with engine=lakebed.spark.SparkEngine(spark)",
        )
    run_workers_here(spark)
    # No source takes filters. Spark 4.2 and 4.3 keep the reader that took those of one query for all later queries of
    # the same DataFrame or view (`PythonScanBuilder.pushFilters`), which would miss the rows that it left out.
    for source in data_sources(NAMES, default_parallelism(spark), False, session_catalogs(spark)):
        try:
            spark.dataSource.register(source)
        except PySparkException:
            if source.name() == LAKEBED:
                raise
    _register_functions(spark)
    _mark_streams(type(spark.readStream))


def _register_functions(spark: SparkSession) -> None:
    """Add the SQL table functions. Their rows go to Spark in its plain form, whatever the session's default."""
    catalogs = session_catalogs(spark)
    others = [name for name in SOURCE_FUNCTIONS if not _has_function(spark, name)]
    for name in (*PROCEDURES, *others):
        spark.udtf.register(name, cast(Any, udtf(table_function(name, catalogs), useArrow=False)))


def _has_function(spark: SparkSession, name: str) -> bool:
    """Whether the session knows a function of this name: one that a bundle brought stays."""
    return bool(spark.catalog.functionExists(name))


def _mark_streams(reader: Any) -> None:
    """Make `readStream` tell our sources that they stream.

    Spark asks a Python source for its schema with the same call for a batch and for a stream, but a stream's rows have
    `_row_kind` too. So we wrap the public method `format` of the session's DataStreamReader class, which `load` also
    calls: it sets an option for our names and changes nothing for any other name.
    """
    if getattr(reader, "_marked_by_lakebed", False):
        return
    plain = reader.format

    def named(self: Any, source: str) -> Any:
        chosen = plain(self, source)
        return chosen.option(STREAMING_OPTION, "true") if str(source).lower() in _STREAMED else chosen

    named.__doc__ = plain.__doc__
    reader.format, reader._marked_by_lakebed = named, True
