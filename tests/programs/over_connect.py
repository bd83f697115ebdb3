"""A separate process with a Spark Connect server: register, read, stream and write. It prints its results as JSON.

    python -m tests.programs.over_connect HUDI FOLDER

All sessions of a process are classic, or all are Connect. Hence the separate process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lakebed
import lakebed.spark
from lakebed.spark.sink import write
from lakebed.spark.slow_start import despite_slow_start
from tests.spark.tables import ORDERS_SQL, as_bag, changes_of, orders


def main(hudi: str, folder: str) -> dict[str, object]:
    spark = lakebed.spark.local_session(remote="local[2]")
    lakebed.spark.register(spark)
    seen: dict[str, object] = {"session": type(spark).__module__}
    seen["format"] = as_bag(spark.read.format("lakebed").load(hudi).toArrow())
    fast = lakebed.spark.read(spark, hudi, columns=["id", "l"], where="l > 3")
    seen["fast"], seen["count"] = as_bag(fast.toArrow()), fast.count()

    native = lakebed.spark.read(spark, hudi, columns=["id", "l"])
    seen["native"] = [as_bag(native.toArrow()), len(native.inputFiles())]

    table = orders(Path(folder, "batch"))
    frame = spark.sql(f"{ORDERS_SQL} from range(40)")
    seen["written"] = write(frame, table.location, options={"sink.parallelism": 3}).snapshot_id
    seen["batch"] = as_bag(table.read()) == as_bag(frame.toArrow())
    seen["files"] = len(list(Path(table.location).glob("dt=*/bucket-*/data-*")))

    sink = orders(Path(folder, "stream"))
    changes = changes_of(spark, hudi)

    def stream() -> None:
        now = {"availableNow": True}
        lakebed.spark.write_stream(changes, sink.location, f"{folder}/checkpoint", trigger=now).awaitTermination()

    despite_slow_start(stream)
    seen["snapshots"] = [snapshot.time for snapshot in sink.history()]
    seen["streamed"] = as_bag(sink.read())

    place = f"{folder}/hudi"
    keys = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "dt"}
    frame.write.format("hudi").options(**keys).mode("append").save(place)
    write(frame.limit(0).union(frame.where("id < 4")), place, "upsert")
    seen["hudi"] = as_bag(lakebed.open(place).read(frame.columns)) == as_bag(frame.toArrow())

    merged = lakebed.create(f"{folder}/merged", "iceberg", {"id": "int32"})
    write(spark.sql("select 5L as id, 'x' as note"), merged.location, options={"merge-schema": True})
    more = spark.sql("select 6L as id, 'y' as note, 1 as n")
    more.write.format("lakebed").option("mergeSchema", "true").mode("append").save(merged.location)
    seen["merged"] = sorted(map(list, zip(*merged.read().read_all().to_pydict().values(), strict=True)))

    named = f"lakebed_tag('{place}', 'now')"
    seen["sql"] = [row[0] for row in spark.sql(f"SELECT name FROM {named}").collect()]
    seen["sql"] += [row[0] for row in spark.sql(f"SELECT count(*) FROM lakebed_history('{place}')").collect()]
    try:
        spark.sql(f"SELECT * FROM lakebed_expire('{place}', dryrun => true)").collect()
    except lakebed.errors.UsageError as error:
        seen["refused"] = str(error)

    engine = lakebed.spark.SparkEngine(spark)
    seen["engine"] = [engine.parallelism, *engine.map(abs, [-1, 2])]
    spark.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
