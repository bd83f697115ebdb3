"""A rewrite of only those files whose deletes cost more than they save, on real tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg.lake import Lake

PAYBACK = {"lakebed.rewrite.payback-reads": "20", "remove-dangling-deletes": "true"}


def ids_seen_by_pyiceberg(table: IcebergTable) -> list[int]:
    """The rows as pyiceberg reads them, which refuses tables with equality deletes."""
    newest = max(Path(table.location, "metadata").glob("v*.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    ids: list[int] = StaticTable.from_metadata(str(newest)).scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


@pytest.mark.parametrize("version", ["2", "3"])
def test_files_with_costly_deletes_are_rewritten_and_others_stay(tmp_path: Path, version: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("p", pa.int64())])
    options = {"format-version": version}
    table = lakebed.create(tmp_path / "t", "iceberg", schema, ["id", "p"], ["p"], options)
    assert isinstance(table, IcebergTable)
    for partition in range(3):
        table.write(pa.table({"id": [*range(1000)], "p": [partition] * 1000}, schema))
    table.write(pa.table({"id": [*range(500)], "p": [0] * 500}, schema), mode="delete")
    table.write(pa.table({"id": [7], "p": [1]}, schema), mode="delete")
    Lake.at(table.location).delete_equal([{"id": number} for number in range(400)], (2,))
    before = {file["file_path"] for file in table.metadata("data_files").read_all().to_pylist()}
    planned = table.rewrite(dry_run=True, options=PAYBACK)
    done = table.rewrite(options=PAYBACK)
    assert (planned.plan, planned.notes) == (done.plan, done.notes[: len(planned.notes)])
    assert any("each read spares" in note for note in done.notes)
    whole = {0, 1, 2} if version == "2" else {0, 2}  # a vector of one row is smaller than a position delete file
    assert {group.what for group in done.plan} == {f"p={partition}" for partition in whole}
    after = {file["file_path"] for file in table.metadata("data_files").read_all().to_pylist()}
    assert len(after) == 3 and len(before & after) == 3 - len(whole)
    wanted = sorted([*range(500, 1000), *(n for n in range(1000) if n != 7), *range(400, 1000)])
    assert sorted(table.read(["id"]).read_all()["id"].to_pylist()) == wanted
    if version == "2":
        assert ids_seen_by_pyiceberg(table) == wanted
    again = table.rewrite(options=PAYBACK)
    assert not again.groups and {skipped.what for skipped in again.skipped} == {"p=0", "p=1", "p=2"}
