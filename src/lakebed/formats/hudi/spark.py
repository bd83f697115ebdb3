"""Hudi's own Spark source, for `spark.read.format("hudi")`: its options differ from those of `lakebed.open`."""

from __future__ import annotations

from typing import Any

from lakebed.formats.hudi.options import AS_OF, BYTES_LIMIT, COMMITS_LIMIT, QUERY_TYPE, READ, SPARK, SPLITS_LIMIT
from lakebed.formats.hudi.read.spark_options import plan_spark_read, spark_stream
from lakebed.formats.hudi.table import HudiTable
from lakebed.verbs.native_source import NativeSource, SourceRequest
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import StreamReader

_LIMITS = frozenset(option.key for option in (COMMITS_LIMIT, SPLITS_LIMIT, BYTES_LIMIT))
"""Keys of `lakebed.open` that bound one batch of a stream. Hudi's source has none of them; a batch ignores them."""


def _opens_table(key: str) -> bool:
    return key.lower().startswith(READ.prefixes)


def _plan(table: HudiTable, request: SourceRequest) -> ReadPlan[Any]:
    given = {key: value for key, value in request.options.items() if key.lower() not in _LIMITS}
    options = SPARK.parse(given)
    if request.pin is not None and not options.given(AS_OF) and options[QUERY_TYPE] == "snapshot":
        given[AS_OF.key] = request.pin.time
    return plan_spark_read(table.state(), given, request.columns, request.where)


def _stream(table: HudiTable, request: SourceRequest) -> StreamReader:
    return spark_stream(table.state, request.options, request.columns, request.where)


SOURCE = NativeSource(_opens_table, _plan, _stream)
