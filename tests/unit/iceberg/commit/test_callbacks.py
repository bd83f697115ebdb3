"""Callbacks of an Iceberg table are called for each snapshot of a write or rewrite. Only options name them."""

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import OptionError
from lakebed.kernel.commit.callbacks import Committed

ROWS = pa.table({"id": [1, 2]})
ALL = {"rewrite-all": True}


class Seen:
    """Keeps its calls. With a parameter it fails."""

    calls: ClassVar[list[Committed]] = []

    def __init__(self, why: str = "") -> None:
        self.why = why

    def call(self, commit: Committed) -> None:
        if self.why:
            raise RuntimeError(self.why)
        self.calls.append(commit)


NAME = f"{__name__}:Seen"
NAMED = {"commit.callbacks": NAME}


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    Seen.calls.clear()


def kinds() -> list[str]:
    found = [call.kind for call in Seen.calls]
    Seen.calls.clear()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("where", ["create", "open", "call"])
def test_each_snapshot_is_told(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "t"
    opening = {} if where == "call" else NAMED
    table: Any = lakebed.create(folder, "iceberg", ROWS.schema, options=opening if where == "create" else {})
    assert "commit.callbacks" not in table.table_metadata.properties  # what a table says is not run
    if where == "open":
        table = lakebed.open(folder, opening)
    more: Any = NAMED if where == "call" else {}
    written = table.write(ROWS, options=more)
    assert [call.snapshot_id for call in Seen.calls] == [written.snapshot_id] and kinds() == ["append"]
    table.rewrite(dry_run=True, options={**ALL, **more})
    assert kinds() == []
    done = table.rewrite(options={**ALL, **more})
    assert [str(call.snapshot_id) for call in Seen.calls] == list(done.instants) and kinds() == ["replace"]
    for _ in range(2):
        table.write(ROWS, options=more)
    table.rewrite(options={"lakebed.rewrite.what": "manifests", **more})
    assert kinds() == ["append", "append", "replace"]


def test_a_failing_one_is_a_note(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    table.write(ROWS)
    failing = {**NAMED, f"commit.callback.{NAME}.param": "out of order"}
    result = table.rewrite(options={**ALL, **failing})
    assert result.instants and "out of order" in result.notes[-1]


def test_what_cannot_be_made_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    table.write(ROWS)
    head = table.newest()
    with pytest.raises(OptionError, match="importable"):
        table.rewrite(options={**ALL, "commit.callbacks": "nothing.here:X"})
    with pytest.raises(OptionError, match=r"commit\.callbacks"):
        table.expire(options=NAMED)  # no snapshot comes of it
    assert table.newest() == head
