"""A standalone cluster of two workers on this machine. Each has its own host name, since Spark starts no second copy of
a task on the host that runs the first."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from lakebed.spark.java import java_home

HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
_DEPLOY = "org.apache.spark.deploy"
_PATIENCE = 120


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Run a cluster during the block and yield its URL. Its logs and work folders are in `folder`."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        master = ("Master", "--host", HOSTS[0], "--port", "0", "--webui-port", "0")
        started.append(_start(folder / "master.log", *master))
        url = _said(folder / "master.log", started[0], r"Starting Spark master at (spark://\S+)")
        for host in HOSTS:
            options = ("--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0")
            work = ("--work-dir", str(folder / host))
            started.append(_start(folder / f"{host}.log", "Worker", *options, *work, url))
        for host, worker in zip(HOSTS, started[1:], strict=True):
            _said(folder / f"{host}.log", worker, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _start(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    settings = {
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": str(java_home()),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with log.open("wb") as out:
        command = [str(HOME / "bin" / "spark-class"), f"{_DEPLOY}.{name.lower()}.{name}", *arguments]
        return subprocess.Popen(
            command, env={**kept, **settings}, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def _said(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    """Wait until a process has written a certain line to its log, and return it."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        text = log.read_text(errors="replace")
        match = re.search(pattern, text)
        if match:
            return match[match.lastindex or 0]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"{log.name} never says {pattern!r}: {log.read_text(errors='replace')[-2000:]}")
