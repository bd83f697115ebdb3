"""Writes bootstrap_full_h015: a FULL_RECORD bootstrap of eight rows of plain Parquet, then an upsert.

    python gen_bootstrap.py BUNDLE_JAR FOLDER     (a PySpark 3.5, with tests/interop on PYTHONPATH)
"""

import json
import sys
from pathlib import Path

from hudi_jvm import session

JAR, FOLDER = sys.argv[1:3]
NAME = "bootstrap_full_h015"
PATH, SOURCE = f"{FOLDER}/{NAME}", f"{FOLDER}/source"
OPTIONS = {
    "hoodie.table.name": NAME,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.bootstrap.base.path": SOURCE,
    "hoodie.bootstrap.mode.selector": (
        "org.apache.hudi.client.bootstrap.selector.FullRecordBootstrapModeSelector"
    ),
    "hoodie.bootstrap.full.input.provider": "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider",
    "hoodie.bootstrap.parallelism": "1",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}

spark = session(JAR, FOLDER)


def write(frame, operation, mode):
    options = {**OPTIONS, "hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**options).mode(mode).save(PATH)


rows = spark.range(8).selectExpr(
    "concat('k', id) as id", "1L as ts", "concat('v', id) as v", "if(id % 2 = 0, 'a', 'b') as part"
)
rows.repartition(1).write.partitionBy("part").mode("overwrite").parquet(SOURCE)
write(spark.createDataFrame([], "id string"), "bootstrap", "overwrite")
changed = [("k1", 2, "u1", "b"), ("k2", 2, "u2", "a"), ("k9", 2, "n9", "b")]
write(spark.createDataFrame(changed, "id string, ts long, v string, part string"), "upsert", "append")

answers = Path(f"{PATH}.expected")
answers.mkdir()
read = spark.read.format("hudi").load(PATH).selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) as row")
found = sorted((json.loads(row.row) for row in read.collect()), key=lambda row: row["_hoodie_record_key"])
(answers / "snapshot.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
spark.stop()
