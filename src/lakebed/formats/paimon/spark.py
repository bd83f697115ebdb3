"""Paimon's own Spark source, for `spark.read.format("paimon")` and `spark.readStream.format("paimon")`.

Rules: Paimon's SparkSource, SparkConnectorOptions and PaimonMicroBatchStream. The source takes the keys of the table. A
stream starts with the whole table and goes on from there (`latest-full`). With `read.changelog` rows are those of the
audit log, whose first column `rowkind` has their kind.
"""

from __future__ import annotations

from typing import Any

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.table import PaimonTable
from lakebed.verbs.native_source import NativeSource, SourceRequest
from lakebed.verbs.read import ReadPlan
from lakebed.verbs.stream import StreamReader


def _reads_changelog(request: SourceRequest) -> bool:
    return opt.OPTIONS.parse(request.options)[opt.READ_CHANGELOG]


def _plan(table: PaimonTable, request: SourceRequest) -> ReadPlan[Any]:
    return table.plan_read(request.columns, request.where, request.pin, _reads_changelog(request))


def _stream(table: PaimonTable, request: SourceRequest) -> StreamReader:
    return table.stream(request.columns, request.where, "latest-full", _reads_changelog(request))


SOURCE: NativeSource[PaimonTable] = NativeSource(plan=_plan, stream=_stream)
