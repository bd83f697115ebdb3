"""Writes consistent_hash_done_h015: consistent hashing, a resize requested, rows written twice, the resize done.

    python gen_consistent_hash.py BUNDLE_JAR FOLDER     (a PySpark 3.5, with tests/interop on PYTHONPATH)
"""

import json
import sys
from pathlib import Path

from hudi_jvm import session

JAR, FOLDER = sys.argv[1:3]
NAME = "consistent_hash_done_h015"
PATH = f"{FOLDER}/{NAME}"
STRATEGY = "org.apache.hudi.client.clustering"
OPTIONS = {
    "hoodie.table.name": NAME,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.max.num.buckets": "4",
    "hoodie.bucket.index.split.threshold": "0.00001",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.storage.layout.type": "BUCKET",
    "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    "hoodie.parquet.max.file.size": "1000000",
    "hoodie.clustering.plan.strategy.class": f"{STRATEGY}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": (
        f"{STRATEGY}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": f"{STRATEGY}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
}

spark = session(JAR, FOLDER)


def write(rows, operation="upsert"):
    frame = spark.createDataFrame(rows, "id string, ts long, v string")
    options = {**OPTIONS, "hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**options).mode("append").save(PATH)


write([(f"k{i}", 1, f"v{i}" * 10) for i in range(60)])
write([(f"k{i}", 2, f"u{i}") for i in range(0, 60, 7)])
for key, value in OPTIONS.items():
    if value:
        spark.sql(f"set {key}={value}")
spark.sql(f"call run_clustering(path => '{PATH}', op => 'schedule')").collect()
write([(f"k{i}", 3, f"w{i}") for i in range(0, 65, 5)])
write([("k10", 4, ""), ("k12", 4, "")], "delete")
spark.sql(f"call run_clustering(path => '{PATH}', op => 'execute')").collect()
write([(f"k{i}", 5, f"x{i}") for i in range(0, 66, 11)])

answers = Path(f"{PATH}.expected")
answers.mkdir()
rows = spark.read.format("hudi").load(PATH).selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) as row")
found = sorted((json.loads(row.row) for row in rows.collect()), key=lambda row: row["_hoodie_record_key"])
(answers / "snapshot.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
spark.stop()
