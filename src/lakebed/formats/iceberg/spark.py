"""Iceberg's own Spark source, for `spark.read.format("iceberg")`: the table's keys, and streams of appends only."""

from __future__ import annotations

from lakebed.formats.iceberg.table import IcebergTable
from lakebed.verbs.native_source import NativeSource, SourceRequest
from lakebed.verbs.stream import StreamReader


def _stream(table: IcebergTable, request: SourceRequest) -> StreamReader:
    return table.stream(request.columns, request.where, appends_only=True)


SOURCE = NativeSource(stream=_stream)
