"""A first write of Hudi's own Spark sink that fails leaves no table behind; one that stands leaves it whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, SchemaError
from lakebed.formats import drop_created, native_source
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.engine import LocalEngine
from lakebed.verbs.native_source import SinkRequest

SCHEMA = pa.schema([("id", pa.int64()), ("dt", pa.string())])
HUDI = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
}


def write(place: Path, keys: list[int | None], fails_at: str = "") -> None:
    made = native_source("hudi").sink
    assert made is not None
    sink = made(SinkRequest(None, str(place), SCHEMA, HUDI, False))
    plan = sink.plan()
    writer = plan.task_writer()
    try:
        writer.write(pa.table({"id": keys, "dt": ["a"] * len(keys)}, SCHEMA))
        messages = writer.finish()
    except LakebedError:
        sink.abort(())
        raise
    if fails_at == "commit":
        (place / "a").write_text("no folder")  # so that no data file can be made
    sink.commit(1, sink.finalize(plan, messages, LocalEngine(1)).messages)


def files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file() and path.name != "a"]


def test_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises((SchemaError, LakebedError)):
        write(tmp_path / "t", [None])
    assert files(tmp_path) == []
    with pytest.raises((OSError, LakebedError)):
        write(tmp_path / "t", [1], fails_at="commit")
    assert files(tmp_path) == []
    (tmp_path / "t" / "a").unlink()
    write(tmp_path / "t", [1, 2])
    assert lakebed.open(tmp_path / "t").read(["id"]).read_all().num_rows == 2


def test_a_rollback_is_no_commit(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, ["id"], ["dt"])
    assert isinstance(table, HudiTable)
    (tmp_path / "t" / "a").write_text("no folder")
    with pytest.raises((OSError, LakebedError)):
        table.write(pa.table({"id": [1], "dt": ["a"]}, SCHEMA))
    assert [i.action for i in table.history()] == ["rollback"] and table.newest_commit() is None
    drop_created(table, ())
    assert files(tmp_path) == []
    table = lakebed.create(tmp_path / "u", "hudi", SCHEMA, ["id"], ["dt"])
    done = table.write(pa.table({"id": [1], "dt": ["a"]}, SCHEMA))
    newest = table.newest_commit()
    assert newest is not None and newest.time == done.instant
    drop_created(table, ())
    assert files(tmp_path / "u") != []


def test_a_table_of_encoded_texts_holds_the_texts(tmp_path: Path) -> None:
    """A column of pandas' categories is a dictionary of texts in Arrow."""
    rows = pa.table({"id": pa.array(["b", "a", "b"]).dictionary_encode(), "n": [1, 2, 3]})
    table = lakebed.create(tmp_path / "t", "hudi", rows.schema, primary_key=["n"])
    table.write(rows)
    assert table.schema.field("id").type == pa.string()
    assert sorted(table.read(columns=["id"]).read_all()["id"].to_pylist()) == ["a", "b", "b"]
    with pytest.raises(SchemaError, match="column 'at' is time64"):
        lakebed.create(tmp_path / "u", "hudi", pa.schema([("at", pa.time64("us"))]))
