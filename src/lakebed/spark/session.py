"""Start a Spark session: an embedded local one that starts quickly, or a connection to a cluster.

The settings of an embedded session were measured on local[2]: it starts sooner without a UI, with few shuffle
partitions and with loopback addresses. A brief session also uses the JVM's simple compiler and collector. That saves
two of twelve seconds at the start, and every row then costs three times as much of the JVM's processor time. Its heap
has its size from the start, which saves a tenth of the demo.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakebed.errors import UsageError
from lakebed.spark.java import ensure_java

_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_SECRETS = "(?i)secret|password|passwd|token|credential|signature|sas|(access|account|private)[._]?key"
"""Names whose values Spark hides in plans and event logs. Its default misses `aws_access_key_id`, and the account keys
of Azure and Google."""
_EMBEDDED = {
    "spark.redaction.regex": _SECRETS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.stopTimeout": "30s",
}
_ROOM = ("-Xms448m", "-Xmn288m", "-XX:MetaspaceSize=256m")
"""A brief session's room from the start, of the 450 MB that Spark needs at least. A heap that begins small and grows is
collected hundreds of times."""


def local_session(
    master: str | None = None,
    remote: str | None = None,
    app: str = "lakebed",
    brief: bool = False,
    apart: int | None = None,
) -> SparkSession:
    """Start a session on `master` (default `local[*]`), or on a Spark Connect server: `remote="sc://host:port"`.

        spark = lakebed.spark.local_session("local[2]")
        lakebed.spark.register(spark)

    `brief` is for an embedded session that moves few rows: it starts sooner and runs slower. `apart` starts the JVM of
    a new session in a process group of its own, so that Ctrl-C reaches neither it nor its Python workers. It is the
    file descriptor that takes their standard error. The JVM still ends with this process.

    Raises RuntimeMissingError when Java is needed and missing, UsageError when both `master` and `remote` are given.
    """
    if master and remote:
        raise UsageError(f"both master {master!r} and remote {remote!r} are given", todo="Give one of them")
    # By default workers run `python3` from PATH, but they need the Python that has lakebed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = dict(_EVERYWHERE)
    master = master or "local[*]"
    if not remote and master.startswith("local"):
        settings |= _embedded(master, brief)
    builder = SparkSession.builder.appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if remote:
        return builder.remote(remote).getOrCreate()
    ensure_java()
    if apart is not None and SparkSession.getActiveSession() is None:
        conf = SparkConf().setMaster(master).setAppName(app).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"start_new_session": True, "stderr": apart})  # type: ignore[no-untyped-call]  # pyspark's
        SparkContext(conf=conf, gateway=gateway)
    session = builder.master(master).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _embedded(master: str, brief: bool) -> dict[str, str]:
    """The settings of an embedded session."""
    threads = master.removeprefix("local").strip("[]").split(",")[0]
    cores = int(threads) if threads.isdigit() else (os.cpu_count() or 1 if threads == "*" else 1)
    java = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"]
    if brief:
        java += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *_ROOM]
    return {
        **_EMBEDDED,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.extraJavaOptions": " ".join(java),
    }
