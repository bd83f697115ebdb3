"""`lakebed demo` and `lakebed run` as users start them: as separate programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lakebed


def lake(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program without a terminal."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, "-m", "lakebed.cli", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_the_demo_moves_every_order_and_can_go_on(tmp_path: Path) -> None:
    shown = lake("demo", "--json", "--output", "shop", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["equal"] is True
    assert document["rows_out"] == document["source_rows"] == 2080
    assert document["checksum"] == document["source_checksum"]
    assert document["rows_in"] > document["rows_out"]
    assert document["commits"] == 10
    assert "batch 9: 50 rows -> snapshot 13" in shown.stderr, "some batches make a second snapshot, their compaction"

    sink = lakebed.open(document["table"])
    assert [instant.action for instant in sink.history()].count("append") == 10
    again = lake("run", document["pipeline"], "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["commits"] == 0
    assert lakebed.open(document["table"]).read().read_all().num_rows == 2080


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
