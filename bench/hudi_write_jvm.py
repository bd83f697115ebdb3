"""What Hudi's own engine takes to write and maintain the tables of `bench/hudi_write.py`, which runs this.

    python hudi_write_jvm.py BUNDLE_JAR SCRATCH INPUTS < STEPS

STEPS is one JSON object a line: kind ("cow" or "mor"), step, path. One session plays them in turn, warmed up by the
same steps on a thousandth of the rows. An answer is one JSON object behind the mark `ANSWER `: seconds on the clock, of
the JVM's processor time, and the most memory that the JVM has had up to then.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))
from hudi_jvm import session

JAR, SCRATCH, INPUTS = sys.argv[1:4]
spark = session(
    JAR,
    SCRATCH,
    {
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": f"{SCRATCH}/warehouse",
    },
    quick=False,
)
OPTIONS = {
    "hoodie.table.name": "bench",
    "hoodie.metadata.enable": "false",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.index.type": "SIMPLE",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
}
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
PID = spark.sparkContext._gateway.proc.pid


def cpu():
    fields = Path(f"/proc/{PID}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak():
    (line,) = [line for line in Path(f"/proc/{PID}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return round(int(line.split()[1]) / 1024)


def play(kind, step, path, part=1.0):
    table = path.rpartition("/")[2]
    if step == "bulk_insert" or step.startswith("upsert"):
        first = step == "bulk_insert"
        frame = spark.read.parquet(f"{INPUTS}/{'all' if first else step}.parquet")
        if part < 1:
            frame = frame.where(f"pmod(l1, 1000) < {int(part * 1000)}")
        options = {**OPTIONS, "hoodie.datasource.write.table.type": KINDS[kind]}
        options["hoodie.datasource.write.operation"] = "bulk_insert" if first else "upsert"
        frame.write.format("hudi").options(**options).mode("overwrite" if first else "append").save(path)
        return
    if step == "read":
        frame = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(path)
        frame.write.format("noop").mode("overwrite").save()
        return
    spark.sql(f"create table if not exists {table} using hudi location '{path}'")
    spark.sql(f"refresh table {table}")
    plain = "hoodie.metadata.enable=false"
    if step == "compact":
        options = f"{plain},hoodie.compact.inline.max.delta.commits=1"
        for what in ("schedule", "run"):
            spark.sql(f"call run_compaction(op => '{what}', path => '{path}', options => '{options}')").collect()
    elif step == "cluster":
        spark.sql(f"call run_clustering(table => '{table}', order => 'i1', options => '{plain}')").collect()
    else:
        spark.sql("set hoodie.metadata.enable=false")
        spark.sql(f"call run_clean(table => '{table}', retain_commits => 1)").collect()


orders = [json.loads(line) for line in sys.stdin if line.strip()]
for order in orders:
    play(order["kind"], order["step"], f"{SCRATCH}/warm_{order['kind']}", 0.001)
for kind in KINDS:
    shutil.rmtree(f"{SCRATCH}/warm_{kind}", ignore_errors=True)
for order in orders:
    began, worked = time.perf_counter(), cpu()
    play(order["kind"], order["step"], order["path"])
    answer = {
        "table": order["kind"],
        "step": order["step"],
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(cpu() - worked, 2),
        "peak_mb": peak(),
    }
    print("ANSWER " + json.dumps(answer), flush=True)
spark.stop()
