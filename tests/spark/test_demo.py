"""`lakebed demo` and `lakebed run` as users start them: as separate programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import lakebed
from lakebed.spark.release import HAS_STREAMS


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
    commits = 10 if HAS_STREAMS else 1  # without bounded batches, one takes all that is there
    assert document["commits"] == commits
    if HAS_STREAMS:
        assert "batch 9: 50 rows -> snapshot 13" in shown.stderr, (
            "some batches make a second snapshot, their compaction"
        )

    sink = lakebed.open(document["table"])
    assert [instant.action for instant in sink.history()].count("append") == commits
    again = lake("run", document["pipeline"], "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["commits"] == 0
    assert lakebed.open(document["table"]).read().read_all().num_rows == 2080
