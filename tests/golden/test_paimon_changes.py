"""The changes between two snapshots of a golden Paimon table, and its stream, are those of Paimon's Java engine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits
from tests.golden import expected, names, unpack
from tests.golden.compare import diff, load


@pytest.mark.slow
@pytest.mark.parametrize("name", names("paimon"))
def test_changes(name: str) -> None:
    folder = unpack("paimon", name)
    for path in sorted(expected(folder).glob("delta_*.jsonl")):
        _, after, until = path.name.split(".")[0].split("_")
        mode = "diff" if path.name.endswith(".diff.jsonl") else "auto"
        table = lakebed.open(folder, {"incremental-between-scan-mode": mode})
        changes = table.changes(after=int(after), until=int(until)).read_all()
        difference = diff("paimon", _renamed(changes, "rowkind"), load(path))
        assert difference is None, f"{path.name}: {difference}"
        options = {"incremental-between": f"{after},{until}", "incremental-between-scan-mode": mode}
        current = [{k: v for k, v in row.items() if k != "rowkind"} for row in load(path) if row["rowkind"] in "+I+U"]
        assert diff("paimon", lakebed.open(folder, options).read(), current) is None, path.name


@pytest.mark.slow
@pytest.mark.parametrize("name", names("paimon"))
def test_stream(name: str) -> None:
    """One batch for each plan of the engine, which ends where the engine's plan ends, and has its rows in its order for
    each key."""
    folder = unpack("paimon", name)
    answers = sorted(_answers(expected(folder)))
    start = {"scan.mode": "from-snapshot", "scan.snapshot-id": str(answers[0][0])}
    stream = lakebed.open(folder, start).stream()
    position = stream.initial()
    for first, last, path in answers:
        assert json.loads(position)["next"] == first
        end = stream.latest(position, Limits(commits=1))
        batch = run(stream.plan(position, end), 2).read_all()
        difference = diff("paimon", _renamed(batch, "_rk"), load(path))
        assert difference is None, f"{path.name}: {difference}"
        assert json.loads(end)["next"] == last + 1
        position = end
    assert stream.latest(position, Limits()) == position


def _answers(folder: Path) -> Iterator[tuple[int, int, Path]]:
    for path in folder.glob("stream_*.jsonl"):
        _, first, last = path.stem.split("_")
        yield int(first), int(last), path


def _renamed(changes: pa.Table, kind: str) -> pa.Table:
    return changes.rename_columns([kind if name == "_row_kind" else name for name in changes.column_names])
