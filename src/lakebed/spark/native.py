"""What the short names `hudi`, `paimon` and `iceberg` mean: the keys, defaults and rows of that format's own Spark
source.

A format whose own Spark source has other keys than its tables says here how it plans from them; the others are planned
by the table. Rows come without kinds and without deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lakebed.formats as formats
from lakebed.formats.hudi.options import AS_OF, QUERY_TYPE, SPARK
from lakebed.formats.hudi.read.spark_options import plan_spark_read, spark_stream
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.predicates.where import Where
from lakebed.model.instant import Instant
from lakebed.spark.stream import TABLE_LIMITS
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.table import Table

_STORAGE = "lakebed.storage."


def open_native(name: str, location: str, options: Mapping[str, str]) -> Table:
    """The table; the keys of Hudi's Spark source are none of a Hudi table's own."""
    if name != "hudi":
        return formats.open_table(location, options)
    return formats.open_table(location, {k: v for k, v in options.items() if k.lower().startswith(_STORAGE)})


def plan_native(
    table: Table, options: Mapping[str, str], columns: Sequence[str] | None, where: Where, pin: Instant | None
) -> ReadPlan[Any]:
    """The plan of a batch, as of `pin` where the options do not say another instant."""
    if not isinstance(table, HudiTable):
        return table.plan_read(columns, where, pin)
    given = {key: value for key, value in options.items() if key.lower() not in TABLE_LIMITS}
    parsed = SPARK.parse(given)
    if pin is not None and not parsed.given(AS_OF) and parsed[QUERY_TYPE] == "snapshot":
        given[AS_OF.key] = pin.time
    return plan_spark_read(table.state(), given, columns, where)


def stream_native(
    table: Table, options: Mapping[str, str], columns: Sequence[str] | None, where: Where
) -> StreamReader:
    """The stream that the format's own source would give."""
    if isinstance(table, IcebergTable):
        return table.stream(columns, where, appends_only=True)
    if not isinstance(table, HudiTable):
        return table.stream(columns, where)
    given = {key: value for key, value in options.items() if key.lower() not in TABLE_LIMITS}
    return spark_stream(table.state, given, columns, where)
