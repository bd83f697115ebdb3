"""lakebed on Spark, classic and Connect: the only place that imports pyspark.

lakebed.spark.register(spark)      then spark.read / readStream / df.write .format("lakebed"), and SQL
lakebed.spark.read                 a snapshot as a DataFrame, the fast way
lakebed.spark.write, write_stream  the sink with routing: bounded files in each bucket, exactly once
lakebed.spark.SparkEngine          runs the tasks of rewrite, expire and archive
lakebed.spark.ship                 sends lakebed to workers that lack it
"""

from lakebed.spark.engine import SparkEngine
from lakebed.spark.read import read
from lakebed.spark.registration import register
from lakebed.spark.session import local_session
from lakebed.spark.ship import ship
from lakebed.spark.sink import write
from lakebed.spark.stream_sink import BatchReport, write_stream

__all__ = ["BatchReport", "SparkEngine", "local_session", "read", "register", "ship", "write", "write_stream"]
