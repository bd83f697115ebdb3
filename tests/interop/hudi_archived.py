"""Hudi's own engine on tables whose timeline lakebed archived: reads them, writes on, archives again by itself.

    python hudi_archive_peer.py BUNDLE_JAR FOLDER < SPECS

SPECS is one JSON object a line: path, golden (the same table as Hudi archived it), name, version, merge_on_read, begin
(where a range starts). An answer is one JSON object a table, behind the mark `ANSWER `.
"""

import json
import sys

from hudi_jvm import session

JAR, FOLDER = sys.argv[1:3]
SCHEMA = "id string, ts long, part string, s string, i int"
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.index.type": "SIMPLE",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.async": "false",
    "hoodie.clean.commits.retained": "2",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.archive.automatic": "true",
    "hoodie.archive.async": "false",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.commits.archival.batch": "2",
    "hoodie.compact.inline.max.delta.commits": "4",
}
WRITES = 8

spark = session(
    JAR,
    FOLDER,
    {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": f"{FOLDER}/warehouse",
    },
)


def rows(path, **options):
    found = spark.read.format("hudi").options(**options).load(path)
    return sorted(list(row) for row in found.select("_hoodie_record_key", "_hoodie_commit_time", "ts", "s").collect())


def archived(path):
    """[instant, action, state, whether its metadata can be read] as Hudi's own archived timeline gives them."""
    jvm = spark._jvm
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(path).build()
    timeline = client.getArchivedTimeline()
    timeline.loadCompletedInstantDetailsInMemory()
    found = []
    for instant in timeline.getInstants():
        time = instant.requestedTime() if hasattr(instant, "requestedTime") and NEW else instant.getTimestamp()
        state = instant.getState().name()
        whole = state == "COMPLETED" and timeline.getInstantDetails(instant).isPresent()
        found.append([time, instant.getAction(), state, bool(whole)])
    return sorted(found)


NEW = "0.15" not in JAR.rpartition("/")[2]


def visit(spec):
    path = spec["path"]
    options = {**OPTIONS, "hoodie.table.name": spec["name"]}
    if NEW:
        options["hoodie.write.table.version"] = str(spec["version"])
    if spec["merge_on_read"]:
        options |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "true"}
    incremental = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": spec["begin"],
    }
    print(f"reading {path}", file=sys.stderr, flush=True)
    answer = {
        "snapshot": rows(path),
        "range": rows(path, **incremental),
        "golden_range": rows(spec["golden"], **incremental),
        "archived": archived(path),
    }
    for number in range(WRITES):
        print(f"write {number}", file=sys.stderr, flush=True)
        data = [(f"k{key:04d}", 1000 + number, "a", f"jvm-{number}", number) for key in range(number, number + 5)]
        spark.createDataFrame(data, SCHEMA).write.format("hudi").options(**options).mode("append").save(path)
    return answer | {"snapshot_after": rows(path), "archived_after": archived(path)}


for line in sys.stdin:
    if line.strip():
        one = json.loads(line)
        print("ANSWER " + json.dumps({"name": one["name"], **visit(one)}), flush=True)
spark.stop()
