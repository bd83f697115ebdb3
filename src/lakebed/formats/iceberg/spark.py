"""Iceberg's own Spark source, for `spark.read.format("iceberg")`: the table's keys, and streams of appends only.

Rule for `session_options`: the reference engine's SparkWriteConf and SparkReadConf. A table without write.wap.enabled
does not know these settings.
"""

from __future__ import annotations

from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.formats.iceberg.write.options import WAP_ID
from lakebed.verbs.native_source import NativeSource, Setting, SourceRequest
from lakebed.verbs.stream import StreamReader


def _stream(table: IcebergTable, request: SourceRequest) -> StreamReader:
    return table.stream(request.columns, request.where, appends_only=True)


def _audited(table: IcebergTable, setting: Setting) -> dict[str, str]:
    """A session's `spark.wap.id` and `spark.wap.branch`, for a table that has write.wap.enabled."""
    settings = {option.key: setting(f"spark.{option.key}") for option in (WAP_ID, opt.WAP_BRANCH)}
    given = {key: text for key, text in settings.items() if text}
    if not given or not opt.properties(table.table_metadata.properties, table.options)[opt.WAP_ENABLED]:
        return {}
    return given


SOURCE = NativeSource(stream=_stream, session_options=_audited)
