"""Hudi's own engine, one Spark session of one release, which does to tables what it is told, order by order.

    python hudi_lives_peer.py BUNDLE_JAR FOLDER < ORDERS

ORDERS is one JSON object a line, whose `do` is
- `write`: the rows of a Parquet file (`rows`) into `path` with `options` and `mode`;
- `stream`: the Parquet files of `source`, whose columns are `schema`, as a structured stream, batch by batch of one
  file, into `path` with `options`; the query's state is in `checkpoint`;
- `read`: the rows of `path` with `options`, those that meet `where` if that is given, each as the texts of `columns`;
- `call`: an SQL procedure, in which `$T` stands for the table at `path` and `$P` for the path, under `settings`;
- `archived`: the instants of the archived timeline;
- `listed`: the files that the metadata table of `path` lists, each as partition, name and size;
- `indexed`: what it knows of `files` (partition, name, keys): the range and the nulls of `column`, and how many of
  the keys its filter may have; and of `keys` where each is: partition and file id. Of parts that it lacks, nothing.
  Release 1.1 alone answers this;
- `story`, `history` and `archived_table`: a whole `story` in `folder`, a `history` in it, or a `table`; what they are
  and what is answered, `hudi_stories.py`, `hudi_histories.py` and `hudi_archived.py` say.

The answer to each is one JSON object behind the mark `ANSWER `: `rows`, or `error`.
"""

import json
import os
import sys
import time

os.environ.update(TZ="UTC", PYSPARK_PYTHON=sys.executable)
time.tzset()

import hudi_archived  # noqa: E402
import hudi_histories  # noqa: E402
import hudi_stories  # noqa: E402
from hudi_jvm import session  # noqa: E402

JAR, FOLDER = sys.argv[1:3]
NEWER = "0.15" not in JAR.rpartition("/")[2]
spark = session(
    JAR,
    FOLDER,
    {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": f"{FOLDER}/warehouse",
    },
)
tables = {}


def write(order):
    frame = spark.read.parquet(order["rows"]).coalesce(1)
    if order.get("drop"):
        frame = frame.drop(*order["drop"])
    frame.write.format("hudi").options(**order["options"]).mode(order["mode"]).save(order["path"])
    return []


def stream(order):
    frame = spark.readStream.schema(order["schema"]).option("maxFilesPerTrigger", 1).parquet(order["source"])
    writer = frame.writeStream.format("hudi").options(**order["options"]).outputMode("append")
    writer = writer.option("checkpointLocation", order["checkpoint"]).trigger(availableNow=True)
    writer.start(order["path"]).awaitTermination()
    return []


def read(order):
    frame = spark.read.format("hudi").options(**order["options"]).load(order["path"])
    if order.get("where"):
        frame = frame.where(order["where"])
    rows = frame.select(*(f"`{name}`" for name in order["columns"])).collect()
    return [[None if value is None else str(value) for value in row] for row in rows]


def call(order):
    path = order["path"]
    text = order["sql"]
    if "$T" in text:
        if path not in tables:
            tables[path] = f"t{len(tables)}"
            spark.sql(f"create table {tables[path]} using hudi location '{path}'")
        spark.sql(f"refresh table {tables[path]}")
        text = text.replace("$T", tables[path])
    for key, value in order["settings"].items():
        spark.conf.set(key, value)  # SQL cannot spell a value with a semicolon
    try:
        return [[str(value) for value in row] for row in spark.sql(text.replace("$P", path)).collect()]
    finally:
        for key in order["settings"]:
            spark.conf.unset(key)


def archived(order):
    jvm = spark._jvm
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    timeline = builder.setConf(conf).setBasePath(order["path"]).build().getArchivedTimeline()
    return [[i.requestedTime() if NEWER else i.getTimestamp(), i.getAction()] for i in timeline.getInstants()]


def metadata_of(path):
    hudi = spark._jvm.org.apache.hudi
    conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    storage = hudi.storage.HoodieStorageUtils.getStorage(path, conf)
    context = hudi.client.common.HoodieSparkEngineContext(spark._jsc)
    config = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
    return hudi.metadata.HoodieBackedTableMetadata(context, storage, config, path)


def listed(order):
    path, metadata, found = order["path"], metadata_of(order["path"]), []
    for partition in metadata.getAllPartitionPaths():
        folder = spark._jvm.org.apache.hudi.storage.StoragePath(f"{path}/{partition}" if partition else path)
        for info in metadata.getAllFilesInPartition(folder):
            found.append([partition, info.getPath().getName(), info.getLength()])
    metadata.close()
    return found


def indexed(order):
    jvm, metadata = spark._jvm, metadata_of(order["path"])
    common, parts, found = jvm.org.apache.hudi.common, order["parts"], []

    def listing(values):
        made = jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    pairs = [common.util.collection.Pair.of(partition, name) for partition, name, _ in order["files"]]
    statistics = metadata.getColumnStats(listing(pairs), order["column"]) if "column_stats" in parts else {}
    filters = metadata.getBloomFilters(listing(pairs)) if "bloom_filters" in parts else {}
    for pair, (partition, name, keys) in zip(pairs, order["files"], strict=True):
        known, bloom = statistics.get(pair), filters.get(pair)
        ends = [each and each.getValue() for each in (known.getMinValue(), known.getMaxValue())] if known else []
        hits = sum(bloom.mightContain(key) for key in keys) if bloom else None
        found.append([partition, name, [*ends, known.getNullCount()] if known else None, hits])
    places = []
    if "record_index" in parts:
        keys = common.data.HoodieListData.eager(listing(order["keys"]))
        for pair in metadata.readRecordIndexLocationsWithKeys(keys).collectAsList():
            places.append([pair.getKey(), pair.getValue().getPartitionPath(), pair.getValue().getFileId()])
    metadata.close()
    return [found, places]


ORDERS = {
    "write": write,
    "stream": stream,
    "read": read,
    "call": call,
    "archived": archived,
    "listed": listed,
    "indexed": indexed,
    "story": lambda order: hudi_stories.play(spark, order["folder"], order["story"]),
    "history": lambda order: hudi_histories.play(spark, order["folder"], order["history"]),
    "archived_table": lambda order: hudi_archived.visit(spark, NEWER, order["table"]),
}

for line in sys.stdin:
    order = json.loads(line)
    try:
        answer = {"rows": ORDERS[order["do"]](order)}
    except Exception as error:
        lines = str(error).splitlines()
        causes = ["\n".join(lines[n : n + 4]) for n, line in enumerate(lines) if line.startswith("Caused by")]
        answer = {"error": "\n".join([f"{type(error).__name__}: {str(error)[:300]}", *dict.fromkeys(causes[-9:])])}
    print("ANSWER " + json.dumps(answer), flush=True)
spark.stop()
