"""A structured stream that one release of Hudi's own sink writes into a table, batch by batch of one file.

    python hudi_stream_peer.py BUNDLE_JAR FOLDER < ORDERS

ORDERS is one JSON object a line: the Parquet files of `source`, whose columns are `schema`, go into the table at `path`
with `options`, and the query's state into `checkpoint`. The answer, behind the mark `ANSWER `, is the number of rows of
the table then.
"""

import json
import os
import sys
import time

os.environ.update(TZ="UTC", PYSPARK_PYTHON=sys.executable)
time.tzset()

from hudi_jvm import session  # noqa: E402

JAR, FOLDER = sys.argv[1:3]
spark = session(JAR, FOLDER)

for line in sys.stdin:
    order = json.loads(line)
    frame = spark.readStream.schema(order["schema"]).option("maxFilesPerTrigger", 1).parquet(order["source"])
    writer = frame.writeStream.format("hudi").options(**order["options"]).outputMode("append")
    writer.option("checkpointLocation", order["checkpoint"]).trigger(availableNow=True).start(
        order["path"]
    ).awaitTermination()
    print("ANSWER " + json.dumps(spark.read.format("hudi").load(order["path"]).count()), flush=True)
spark.stop()
