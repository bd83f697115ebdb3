"""Register the sources with a session."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakebed.spark.engine import default_parallelism
from lakebed.spark.faces import NAMES, faces
from lakebed.spark.failures import speak_plainly
from lakebed.spark.source import STREAMING_OPTION

_PUSH = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Let `spark.read`, `spark.readStream`, `df.write` and SQL know the formats lakebed, hudi, paimon and iceberg.
    Classic and Connect.

    Call it again after changing `spark.sql.python.filterPushdown.enabled`: a source takes filters only in a session
    that has it enabled. A short name that another source of the session has (a bundle's jar) is left to it; `lakebed`
    is always ours.
    """
    speak_plainly()
    push = str(spark.conf.get(_PUSH, "false")).lower() == "true"
    for face in faces(default_parallelism(spark), push):
        try:
            spark.dataSource.register(face)
        except PySparkException:
            if face.name() == NAMES[0]:
                raise
    _mark_streams(type(spark.readStream))


def _mark_streams(reader: Any) -> None:
    """Let `readStream` tell our sources that they stream.

    Spark asks a Python source for its schema in the same words for a batch and for a stream, and a stream's rows have
    `_row_kind` besides. So the public method `format` of the session's DataStreamReader class, which `load` calls too,
    sets an option when it meets one of our names; for all else it is as it was.
    """
    if getattr(reader, "_marked_by_lakebed", False):
        return
    plain = reader.format

    def named(self: Any, source: str) -> Any:
        chosen = plain(self, source)
        return chosen.option(STREAMING_OPTION, "true") if str(source).lower() in NAMES else chosen

    named.__doc__ = plain.__doc__
    reader.format, reader._marked_by_lakebed = named, True
