"""Ctrl-C ends the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lakebed


def test_ctrl_c_stops_the_demo_in_one_line(tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to the whole process group. The JVM and its Python workers must not receive it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    command = [sys.executable, "-m", "lakebed.cli", "demo", "--output", "shop"]
    said = tmp_path / "said"
    with said.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    until = time.monotonic() + 300
    while "batch 1:" not in said.read_text() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (130, b""), said.read_text()
    last = said.read_text().splitlines()[-1]
    commits = len(lakebed.open(tmp_path / "shop" / "demo.db" / "orders").history())
    assert last == f"error: interrupted: {commits} commits stand. To resume: lakebed run {tmp_path}/shop/orders.toml"
    assert all(line.startswith(("starting Spark", "batch ", "error: ")) for line in said.read_text().splitlines())
