"""A Spark session with one release of Hudi's own bundle, as the programs beside it need it."""

from pyspark.sql import SparkSession

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1200m -Xmn800m -XX:MetaspaceSize=256m"
"""The JVM's simple compiler and collector: it starts sooner and takes less of the processors for small tables. The heap
has its size from the start: else a quarter of the time goes into collections of a small one that grows."""


def session(jar, folder, settings=(), quick=True):
    """A session of two threads that keeps its files in `folder`; `settings` are more of Spark's own.

    Answers go to standard output, so Spark logs nothing below errors. What is measured is not `quick`: it has the
    compiler and the collector that users have.
    """
    builder = SparkSession.builder.master("local[2]")
    known = {
        "spark.driver.memory": "2g",
        "spark.jars": jar,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Djava.io.tmpdir={folder} {QUICK if quick else ''}",
    }
    for key, value in {**known, **dict(settings)}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
