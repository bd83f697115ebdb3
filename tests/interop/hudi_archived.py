"""The order `archived_table` of `hudi_lives_peer.py`: a release of Hudi on a table whose timeline lakebed archived. It
reads it, writes on, and archives again by itself.

A table has a path, golden (the same table as Hudi archived it), name, version, merge_on_read, begin (where a range
starts).
"""

import sys

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


def rows(spark, path, **options):
    found = spark.read.format("hudi").options(**options).load(path)
    return sorted(list(row) for row in found.select("_hoodie_record_key", "_hoodie_commit_time", "ts", "s").collect())


def archived(spark, path, newer):
    """[instant, action, state, whether its metadata can be read] as Hudi's own archived timeline gives them."""
    jvm = spark._jvm
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(path).build()
    timeline = client.getArchivedTimeline()
    timeline.loadCompletedInstantDetailsInMemory()
    found = []
    for instant in timeline.getInstants():
        time = instant.requestedTime() if newer else instant.getTimestamp()
        state = instant.getState().name()
        whole = state == "COMPLETED" and timeline.getInstantDetails(instant).isPresent()
        found.append([time, instant.getAction(), state, bool(whole)])
    return sorted(found)


def visit(spark, newer, spec):
    """What a release reads of the table, its timeline before and after it wrote on, and what it read then. `newer` is
    one after 0.15."""
    path = spec["path"]
    options = {**OPTIONS, "hoodie.table.name": spec["name"]}
    if newer:
        options["hoodie.write.table.version"] = str(spec["version"])
    if spec["merge_on_read"]:
        options |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "true"}
    incremental = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": spec["begin"],
    }
    print(f"reading {path}", file=sys.stderr, flush=True)
    answer = {
        "snapshot": rows(spark, path),
        "range": rows(spark, path, **incremental),
        "golden_range": rows(spark, spec["golden"], **incremental),
        "archived": archived(spark, path, newer),
    }
    for number in range(WRITES):
        print(f"write {number}", file=sys.stderr, flush=True)
        data = [(f"k{key:04d}", 1000 + number, "a", f"jvm-{number}", number) for key in range(number, number + 5)]
        spark.createDataFrame(data, SCHEMA).write.format("hudi").options(**options).mode("append").save(path)
    return answer | {"snapshot_after": rows(spark, path), "archived_after": archived(spark, path, newer)}
