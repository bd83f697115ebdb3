"""Writes to a table that keeps a history of its columns (schema on read): each commit carries it on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, UnsupportedError
from lakebed.formats.hudi.codec.internal_schema_change import advanced_schemas
from lakebed.formats.hudi.config import load_config
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.timeline.column_history import keep_history
from lakebed.formats.hudi.timeline.writing import list_timeline
from lakebed.kernel.files import open_store
from tests.golden import unpack

EVOLVE = {"lakebed.write.schema": "evolve"}


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    """A table whose column `a` was renamed to `aa`."""
    return Path(unpack("hudi", "evo_rename_h015", into=tmp_path))


def row(**more: Any) -> pa.Table:
    return pa.table({"id": ["1"], "aa": ["new"], "dt": ["x"], "ts": pa.array([9], pa.int64()), **more})


def newest(folder: Path) -> dict[str, Any]:
    """The newest schema of the history, which the newest commit names too."""
    table = lakebed.open(folder)
    assert isinstance(table, HudiTable)
    state = table.state()
    schemas = json.loads(state.column_history)["schemas"]
    commit = state.files.commits(state.timeline.commits)[state.timeline.commits[-1].time]
    assert json.loads(commit.extra["latest_schema"]) == schemas[0]
    found: dict[str, Any] = schemas[0]
    return found


def read(folder: Path) -> list[tuple[Any, ...]]:
    rows = lakebed.open(folder).read(["id", "aa", "b"]).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_each_commit_carries_the_history_on(renamed: Path) -> None:
    lakebed.open(renamed).write(row(), mode="upsert")
    kept = newest(renamed)
    assert (kept["max_column_id"], kept["version_id"]) == (9, 20261128105548210)
    more = {"b": pa.array([1 << 40], pa.int64()), "s": pa.array([{"u": 1, "v": ["x"]}])}
    lakebed.open(renamed).write(row(**more), mode="upsert", options=EVOLVE)
    ids = {field["name"]: (field["id"], field["type"]) for field in newest(renamed)["fields"]}
    assert ids["aa"] == (6, "string") and ids["b"] == (7, "long") and ids["s"][0] == 10
    assert [field["id"] for field in ids["s"][1]["fields"]] == [11, 12]
    assert ids["s"][1]["fields"][1]["type"]["element_id"] == 13
    assert read(renamed) == [("1", "new", 1 << 40), ("2", "w2", 2), ("3", "a3", 3)]


def test_a_failed_write_leaves_no_history_that_counts(renamed: Path) -> None:
    folder = renamed / ".hoodie/.schema"
    left = folder / "20991231000000000.schemacommit"
    left.write_text('{"schemas":[]}')
    assert read(renamed)[2] == ("3", "a3", 3)
    lakebed.open(renamed).write(row(), mode="upsert")
    assert not left.exists() and len(list(folder.glob("*.schemacommit"))) == 3


def test_columns_are_not_dropped_and_two_writers_do_not_undo_each_other(renamed: Path) -> None:
    options = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}
    with pytest.raises(UnsupportedError, match="does not drop b from a table that keeps a history"):
        lakebed.open(renamed).write(row(), mode="upsert", options=options)
    late = lakebed.open(renamed).writer("late")
    late.write(row())
    messages = late.prepare_commit()
    wider = row(n=pa.array([1], pa.int64()))
    lakebed.open(renamed).write(wider, mode="upsert", options=EVOLVE)
    with pytest.raises(CommitConflictError, match="changed the table's columns"):
        late.commit(1, messages)


def test_nested_fields_are_added_under_new_ids() -> None:
    old = {
        "max_column_id": 9, "version_id": 0, "type": "record", "fields": [
            {"id": 5, "name": "s", "optional": True, "type": {"type": "record", "fields": [
                {"id": 6, "name": "u", "optional": True, "type": "int"}]}},
            {"id": 7, "name": "m", "optional": True, "type": {
                "type": "map", "key_id": 8, "key": "string", "value_id": 9, "value": "float", "value_optional": True}},
        ],
    }  # fmt: skip
    struct = pa.struct([("u", pa.int64()), ("w", pa.decimal128(10, 2))])
    columns = pa.schema([("s", struct), ("m", pa.map_(pa.string(), pa.float64()))])
    after = json.loads(advanced_schemas(json.dumps({"schemas": [old]}), "20260101000000000", columns).latest)
    assert after["max_column_id"] == 10 and after["version_id"] == 20260101000000000
    fields = after["fields"][0]["type"]["fields"]
    assert [(field["id"], field["type"]) for field in fields] == [(6, "long"), (10, "decimal(10, 2)")]
    assert after["fields"][1]["type"]["value"] == "double"


@pytest.mark.parametrize("version", [6, 8, 9])
def test_history_files_are_named_as_the_timelines_own(tmp_path: Path, version: int) -> None:
    options = {"hoodie.table.name": "t", "hoodie.table.version": str(version)}
    lakebed.create(tmp_path, "hudi", pa.schema([("id", pa.int64())]), primary_key=["id"], options=options)
    store = open_store(str(tmp_path))
    config, instant = load_config(store), "20260101000000000"
    keep_history(store, config, list_timeline(store, config), instant, "{}")
    names = [file.name for file in (tmp_path / ".hoodie/.schema").iterdir()]
    done = next(name for name in names if name.endswith(".schemacommit"))
    assert (done == f"{instant}.schemacommit") == (version == 6)
    assert done.startswith(instant if version == 6 else f"{instant}_2")
    assert {*names} == {done, f"{instant}.schemacommit.requested", f"{instant}.schemacommit.inflight"}
