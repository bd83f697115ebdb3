"""What Hudi's own engine takes to archive, told apart from Spark: session start, opening the table, the archival alone.

    python hudi_archive_jvm.py BUNDLE_JAR SCRATCH < TABLES

TABLES is one JSON object a line: path, version (6 or 8), tasks (in how many of them Spark deletes state files; Hudi's
own default is 100), least, most. Tables are archived in their order in one session, so that the first one meets a cold
JVM. An answer is one JSON object behind the mark `ANSWER `: first the session's, then one a table, with seconds on the
clock and of the JVM's processor time. No data frame is made and no query is run.

`bench/hudi_archive.py` runs this with the interpreter that LAKEBED_HUDI_JVM_PYTHON names.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))
from hudi_jvm import session

began = time.perf_counter()
JAR, SCRATCH = sys.argv[1:3]
spark = session(JAR, SCRATCH, quick=False)
jvm = spark._jvm
context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(spark._jsc)


def answer(**values):
    print("ANSWER " + json.dumps(values), flush=True)


def cpu():
    """Seconds that the JVM has worked, 0 where there is no /proc."""
    try:
        fields = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def archive(path, version, tasks, least, most):
    """Hudi's archiver by itself, as its writer calls it after a commit."""
    options = jvm.java.util.HashMap()
    for key, value in {
        "hoodie.table.name": "lake",
        "hoodie.write.table.version": version,
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.archive.delete.parallelism": tasks,
        "hoodie.keep.min.commits": least,
        "hoodie.keep.max.commits": most,
    }.items():
        options.put(key, str(value))
    at = time.perf_counter()
    config = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder().withPath(path).withProps(options).build()
    table = jvm.org.apache.hudi.table.HoodieSparkTable.create(config, context)
    layout = table.getMetaClient().getTimelineLayoutVersion()
    archiver = jvm.org.apache.hudi.client.timeline.TimelineArchivers.getInstance(layout, config, table)
    opened, cpu_before = time.perf_counter(), cpu()
    archiver.archiveIfRequired(context, False)
    answer(
        version=version,
        tasks=tasks,
        open_seconds=round(opened - at, 2),
        archive_seconds=round(time.perf_counter() - opened, 2),
        archive_cpu_seconds=round(cpu() - cpu_before, 2),
    )


answer(session_seconds=round(time.perf_counter() - began, 2), session_cpu_seconds=round(cpu(), 2))
for line in sys.stdin:
    if line.strip():
        archive(**json.loads(line))
spark.stop()
