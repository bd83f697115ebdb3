"""lakebed on Spark, classic and Connect. This is the only package that imports pyspark.

register       adds format("lakebed") to spark.read, spark.readStream, df.write and SQL
read           reads a snapshot as a DataFrame; the fastest way, since it knows the columns that are needed
write          writes a DataFrame as one commit, with a bounded number of files per bucket
write_stream   writes a streaming DataFrame, exactly once, one commit per micro-batch
SparkEngine    runs the tasks of rewrite, expire and archive on the cluster
ship           sends lakebed to workers that lack it
local_session  starts an embedded session with settings that suit lakebed
"""

import lakebed.spark.release  # noqa: F401 - first: it says what to do where PySpark is missing
from lakebed.spark.engine import SparkEngine
from lakebed.spark.read import read
from lakebed.spark.registration import register
from lakebed.spark.session import local_session
from lakebed.spark.ship import ship
from lakebed.spark.sink import write
from lakebed.spark.stream_sink import BatchReport, write_stream

__all__ = ["BatchReport", "SparkEngine", "local_session", "read", "register", "ship", "write", "write_stream"]
