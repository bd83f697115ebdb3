"""A real cluster of two workers whose Python lacks lakebed: the error says so, lakebed is shipped, and the rows are
right although Spark runs a task twice, an executor dies, the Python workers of a task do, and executors come and go
with the work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import unpack
from tests.programs.bare_python import bare_python
from tests.programs.cluster import standalone
from tests.programs.on_cluster import ROWS
from tests.programs.on_shrinking_cluster import FORMATS
from tests.programs.on_shrinking_cluster import ROWS as SHRINKING_ROWS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """The results of the drivers on that cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    python = bare_python(folder / "bare")
    table = unpack("hudi", "mor_v8")
    with standalone(folder) as master:
        seen = driven("on_cluster", master, str(python), str(table), str(folder))
        seen["shrinking"] = driven("on_shrinking_cluster", master, str(python), str(folder))
    return seen


def driven(program: str, *arguments: str) -> dict[str, dict[str, object]]:
    """What one driver program saw."""
    command = [sys.executable, "-m", f"tests.programs.{program}", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    print(ran.stderr)  # how long each part took
    assert ran.returncode == 0, ran.stderr[-4000:]
    found: dict[str, dict[str, object]] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("face", ["read", "load", "sql", "save", "write", "engine", "stream"])
def test_a_missing_lakebed_is_the_error_that_the_user_sees(seen: dict[str, dict[str, object]], face: str) -> None:
    said = str(seen["bare"][face])
    assert said.startswith("lakebed cannot run on this worker: "), said
    assert "has no module 'lakebed'" in said
    assert said.endswith("or ship it from the driver before the first job: lakebed.spark.ship(spark)")


def test_bare_workers_read_with_a_shipped_lakebed(seen: dict[str, dict[str, object]]) -> None:
    assert seen["read"] is True


def test_a_twin_that_loses_leaves_nothing(seen: dict[str, dict[str, object]]) -> None:
    assert seen["write"] == {"rows": ROWS, "distinct": ROWS, "twins": True, "left": []}


def test_an_executor_and_workers_that_die_lose_and_double_nothing(seen: dict[str, dict[str, object]]) -> None:
    each = {"rows": 8000, "distinct": 8000, "died": [True, True], "left": []}
    assert seen["write_by_format"] == dict.fromkeys(("iceberg", "paimon", "hudi"), each)


def test_what_dead_tasks_left_goes_with_the_removal_of_orphan_files(seen: dict[str, dict[str, object]]) -> None:
    assert seen["orphans"] == {"rows": 8000, "left": []}


def test_a_stream_is_planned_read_and_written(seen: dict[str, dict[str, object]]) -> None:
    assert seen["stream"] == {"equal": True, "left": []}


def test_a_rewrite_runs_on_the_workers(seen: dict[str, dict[str, object]]) -> None:
    result = seen["rewrite"]
    assert (result["failed"], result["rows"]) == (0, ROWS + 2)
    assert result["before"] > result["after"] > 0  # type: ignore[operator]


def test_a_function_whose_task_runs_again_works_once(seen: dict[str, dict[str, object]]) -> None:
    found = seen["called"]
    assert found.pop("attempts") == ["0", "1"] * 2
    assert found == {"tagged": "now", "tags": ["now"], "files": True, "instants": True, "snapshots": 1}


def test_executors_come_and_go_with_the_work(seen: dict[str, dict[str, object]]) -> None:
    found = seen["shrinking"]
    assert found.pop("came") >= 2 * len(FORMATS)  # type: ignore[operator]
    for table_format in FORMATS:
        assert found[table_format] == {"rows": 2 * SHRINKING_ROWS, "distinct": 2 * SHRINKING_ROWS, "left": []}


def test_the_event_log_has_no_secret(seen: dict[str, dict[str, object]]) -> None:
    assert seen["secrets"] is True
    told = seen["events"]
    assert told.pop("executions") > 20  # type: ignore[operator]
    assert told == {"redacted": True, "secrets": []}
