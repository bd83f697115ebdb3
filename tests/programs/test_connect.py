"""Over Spark Connect everything works as in a classic session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lakebed
from tests.golden import unpack
from tests.spark.tables import as_bag

ROOT = Path(__file__).parents[2]


def test_a_connect_session_sees_and_writes_the_same(tmp_path: Path) -> None:
    hudi = unpack("hudi", "mor_v8")
    command = [sys.executable, "-m", "tests.programs.over_connect", str(hudi), str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    seen = json.loads(ran.stdout.strip().splitlines()[-1])
    table = lakebed.open(hudi)
    assert "connect" in seen["session"]
    assert seen["format"] == as_bag(table.read())
    assert seen["fast"] == as_bag(table.read(columns=["id", "l"], where="l > 3"))
    assert seen["count"] == len(seen["fast"]) > 0
    assert seen["native"] == [as_bag(table.read(columns=["id", "l"])), 2]
    assert (seen["written"], seen["batch"], seen["files"]) == (1, True, 8)
    assert seen["snapshots"] == ["1", "2", "3"]
    assert seen["streamed"] and seen["hudi"]
    assert seen["engine"] == [2, 1, 2]
    assert seen["merged"] == [[5, "x", None], [6, "y", 1]]
    assert seen["sql"] == ["now", len(lakebed.open(tmp_path / "hudi").history())]
    assert "Did you mean dry_run" in seen["refused"] and "Traceback" not in seen["refused"]
