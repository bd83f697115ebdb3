"""The work of a commit does not grow with the table's history."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakebed.formats.iceberg.catalog import hadoop
from lakebed.formats.iceberg.codec import json_array
from lakebed.formats.iceberg.codec.metadata import metadata_from_json, metadata_to_json
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files.local import LocalStore
from tests.tables.iceberg.create import make_table

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


def with_history(folder: Path, snapshots: int) -> IcebergTable:
    """A table whose metadata names so many snapshots; all but two are made up, and share a manifest list."""
    table = make_table(folder, SCHEMA)
    for _ in range(2):
        table.write(row(table, 1))
    document: dict[str, Any] = json.loads(metadata_to_json(table.table_metadata.document))
    for _ in range(snapshots - 2):
        head = document["snapshots"][-1]
        number = uuid.uuid4().int & (2**63 - 1)
        place = {"snapshot-id": number, "parent-snapshot-id": head["snapshot-id"]}
        document["snapshots"].append({**head, **place, "sequence-number": head["sequence-number"] + 1})
        document["snapshot-log"].append({"timestamp-ms": head["timestamp-ms"], "snapshot-id": number})
    document["last-sequence-number"] = document["snapshots"][-1]["sequence-number"]
    document["current-snapshot-id"] = document["refs"]["main"]["snapshot-id"] = document["snapshots"][-1]["snapshot-id"]
    folder.joinpath("metadata", "v4.metadata.json").write_bytes(metadata_to_json(document))
    folder.joinpath("metadata", "version-hint.text").write_text("4")
    return IcebergTable(table.store)


def row(table: IcebergTable, id: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": id}], table.schema)


@pytest.mark.parametrize("snapshots", [3, 300])
def test_an_append_decodes_only_the_snapshots_that_it_uses(
    tmp_path: Path, snapshots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_history(tmp_path, snapshots)
    data = row(table, 2)
    decoded: list[object] = []
    parse, load, read = json_array._parsed, hadoop.metadata_from_json, LocalStore.read
    loads: list[str] = []
    files: list[str] = []

    def parsed(item: Any) -> Any:
        decoded.append(item)
        return parse(item)

    def loaded(*given: Any) -> Any:
        loads.append(given[-1])
        return load(*given)

    def reading(self: LocalStore, path: str, *given: Any) -> bytes:
        files.append(path)
        return read(self, path, *given)

    monkeypatch.setattr(json_array, "_parsed", parsed)
    monkeypatch.setattr(hadoop, "metadata_from_json", loaded)
    monkeypatch.setattr(LocalStore, "read", reading)
    monkeypatch.setattr(LocalStore, "list", lambda *_: pytest.fail("a folder was listed"))
    table.write(data)
    assert len(decoded) <= 1
    assert not loads, "nothing has changed since the table was opened"
    assert sum(path.endswith(".metadata.json") for path in files) == 3  # the known one, and two that are not there
    monkeypatch.undo()
    assert len(table.history()) == snapshots + 1
    assert table.read().read_all().num_rows == 3


def test_snapshots_pass_from_file_to_file_as_they_are(tmp_path: Path) -> None:
    """Whatever other engines wrote into a snapshot, in whatever spelling, stays."""
    table = with_history(tmp_path, 3)
    path = tmp_path / "metadata" / "v4.metadata.json"
    odd = '{"note" : "\\u00fc/\\/", "x-1": 1.50, "list":[ 1,2 ]},'
    text = path.read_text().replace('"summary":{', f'"x-other": {odd} "summary":{{', 1)
    path.write_text(text)
    table = IcebergTable(table.store)
    table.write(row(table, 2))
    assert odd in (tmp_path / "metadata" / "v5.metadata.json").read_text()
    assert metadata_from_json(path.read_bytes()).document["snapshots"][0]["x-other"]["note"] == "ü//"
