"""The current metadata file of a table that is opened by its path."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError

HINT = "metadata/version-hint.text"


@pytest.fixture
def table(tmp_path: Path) -> lakebed.Table:
    """A table at version 4: created, and three appends of one row."""
    table = lakebed.create(tmp_path / "t", "iceberg", {"id": "int64"})
    for number in range(3):
        table.write(pa.table({"id": [number]}))
    return table


def test_a_missing_current_file_is_no_older_table(table: lakebed.Table) -> None:
    """As with the reference engine. Without the hint the table is that of the newest file."""
    content = table.store.read("metadata/v4.metadata.json")
    table.store.delete("metadata/v4.metadata.json")
    with pytest.raises(CorruptError, match=r"current metadata file is gone.*names version 4.*is version 3"):
        lakebed.open(table.location).count()
    with pytest.raises(CorruptError, match="current metadata file is gone"):
        lakebed.open(table.location).write(pa.table({"id": [9]}))
    table.store.write("metadata/v4.metadata.json", content)
    assert lakebed.open(table.location).count() == 3
    table.store.delete("metadata/v4.metadata.json")
    table.store.delete(HINT)
    assert lakebed.open(table.location).count() == 2


@pytest.mark.parametrize("hint", [b"1", b"4", b"", b"x", None])
def test_a_hint_that_is_old_or_none_leads_to_the_newest(table: lakebed.Table, hint: bytes | None) -> None:
    table.store.delete(HINT)
    if hint is not None:
        table.store.write(HINT, hint)
    assert lakebed.open(table.location).count() == 3
