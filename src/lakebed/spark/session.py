"""The Spark session that lakebed starts by itself: an embedded local one that starts quickly, or somebody's cluster.

Settings were measured on local[2]: no UI, few shuffle partitions and loopback addresses start sooner. A brief session
has the simple compiler and collector besides, which saves two of twelve seconds at the start and costs three times the
JVM's processor time per row ever after.
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
    "spark.sql.python.filterPushdown.enabled": "true",
}
_EMBEDDED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.stopTimeout": "30s",
}


def local_session(
    master: str | None = None,
    remote: str | None = None,
    app: str = "lakebed",
    brief: bool = False,
    apart: int | None = None,
) -> SparkSession:
    """A session: `remote` (a Spark Connect URL, `sc://host:port`) or `master` (default `local[*]`), never both.

    `brief` is for an embedded session that has few rows to move: it starts sooner and runs slower. `apart` starts the
    JVM of a new session away from this process's terminal, so that Ctrl-C reaches neither it nor its Python workers;
    the file descriptor given takes what they say on standard error. The JVM still ends with this process.

    Tables are registered by the caller (`lakebed.spark.register`). Raises RuntimeMissingError when a Java is needed and
    there is none, UsageError when both places are given.
    """
    if master and remote:
        raise UsageError(f"both master {master!r} and remote {remote!r} are given", todo="Give one of them")
    # Workers run `python3` from PATH unless told: theirs must be the Python that has lakebed.
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
    """Settings of a session inside this process."""
    threads = master.removeprefix("local").strip("[]").split(",")[0]
    cores = int(threads) if threads.isdigit() else (os.cpu_count() or 1 if threads == "*" else 1)
    java = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"]
    if brief:
        java += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return {
        **_EMBEDDED,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.extraJavaOptions": " ".join(java),
    }
