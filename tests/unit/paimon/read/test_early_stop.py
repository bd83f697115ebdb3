"""A reader that stops early leaves the other files closed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.paimon.read import task


def test_few_files_are_open_ahead_of_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b", "write-only": "true"}
    schema = pa.schema([("id", pa.int64())])
    table = lakebed.create(tmp_path / "t", "paimon", schema, options=options)
    for number in range(24):
        table.write(pa.table({"id": [number]}, schema=schema))
    opened, read = list[str](), task.read_batches

    def counted(store: Any, path: str, *args: Any, **named: Any) -> Any:
        opened.append(path)
        return read(store, path, *args, **named)

    monkeypatch.setattr(task, "read_batches", counted)
    reader = lakebed.open(tmp_path / "t", {"read.tasks": "2"}).read()
    assert reader.read_next_batch().num_rows == 1
    reader.close()
    assert 1 <= len(opened) <= 12
    assert len(table.plan_read(where="id = 7").splits) == 1
