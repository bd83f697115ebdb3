"""Iceberg tables in Spark: every way to read gives what `table.read` gives. Streams follow lakebed's rules or Iceberg's
own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.spark.slow_start import despite_slow_start
from lakebed.spark.source import STREAMING_OPTION, load
from lakebed.verbs.stream import Limits
from tests.conformance.test_iceberg import main_only
from tests.golden import unpack
from tests.spark.tables import as_bag


@pytest.mark.parametrize("name", ["dv_v3", "eq_deletes", "types_nested"])
def test_a_snapshot(spark: SparkSession, name: str) -> None:
    folder = str(unpack("iceberg", name))
    wanted = as_bag(lakebed.open(folder).read())
    assert wanted
    for source in ("lakebed", "iceberg"):
        assert as_bag(spark.read.format(source).load(folder).toArrow()) == wanted
    assert as_bag(lakebed.spark.read(spark, folder).toArrow()) == wanted


@pytest.mark.parametrize("source", ["lakebed", "iceberg"])
def test_projection_filter_and_time_travel(spark: SparkSession, source: str) -> None:
    folder = str(unpack("iceberg", "pos_deletes"))
    first = lakebed.open(folder).history()[0]
    reader = spark.read.format(source).option("snapshot-id", first.time)
    found = reader.load(folder).where("id < 20").select("v", "id")
    assert as_bag(found.toArrow()) == as_bag(lakebed.open(folder).read(["v", "id"], "id < 20", as_of=first))


def test_the_head_of_main_is_read_with_the_schema_of_now(spark: SparkSession) -> None:
    """The table's newest snapshot is on another branch. Actions that plan again read the same rows."""
    for name in ("branches_tags", "wap_rollback", "column_defaults_v3"):
        folder = str(unpack("iceberg", name))
        frame = spark.read.format("iceberg").load(folder)
        wanted = lakebed.open(folder).read(where="id > 0")
        assert as_bag(frame.where("id > 0").toArrow()) == as_bag(wanted)


def test_uuids_are_texts(spark: SparkSession) -> None:
    folder = str(unpack("iceberg", "uuid_time_fixed"))
    found = spark.read.format("iceberg").load(folder).select("id", "u").toArrow().to_pylist()
    wanted = lakebed.open(folder).read(["id", "u"]).read_all().to_pylist()
    assert sorted((row["id"], row["u"]) for row in found) == sorted((row["id"], str(row["u"])) for row in wanted)


def test_a_stream_of_changes(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(unpack("iceberg", "dv_v3"))
    first = main_only(lakebed.open(folder))[0]
    options = {"read.start-commit": first.time, "read.commits.limit": "1"}
    kinds, state = set(), {}
    for row in _streamed(spark, "lakebed", folder, options, tmp_path):
        kind = row.pop(ROW_KIND_COLUMN)
        kinds.add(kind)
        if kind in ("+I", "+U"):
            state[row["id"]] = row
        elif kind == "-D":
            state.pop(row["id"])
    assert kinds == {"+I", "-U", "+U", "-D"}
    wanted = lakebed.open(folder).read().read_all().to_pylist()
    assert state == {row["id"]: row for row in wanted}


def test_a_stream_by_icebergs_own_rules(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of all appends, from the oldest snapshot on. Only options make it skip deletes and overwrites."""
    folder = str(unpack("iceberg", "pos_deletes"))
    skip = {"streaming-skip-delete-snapshots": "true", "streaming-skip-overwrite-snapshots": "true"}
    rows = _streamed(spark, "iceberg", folder, skip, tmp_path)
    table = lakebed.open(folder)
    appended = [
        row
        for instant in main_only(table)
        if instant.action == "append"
        for row in table.changes(["id"], after=_parent(instant), until=instant).read_all().to_pylist()
    ]
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in appended)
    with pytest.raises(Exception, match="streaming-skip-delete-snapshots"):
        _streamed(spark, "iceberg", folder, {}, tmp_path / "refused")


@pytest.mark.parametrize("source", ["lakebed", "iceberg"])
def test_a_bound_of_a_batch_does_not_hide_what_is_there(source: str) -> None:
    """Spark applies the bound. A run that takes what is there now must learn of all of it."""
    folder = str(unpack("iceberg", "pos_deletes"))
    first, *_, newest = main_only(lakebed.open(folder))
    options = {"path": folder, "read.start-commit": first.time, "read.commits.limit": "1", STREAMING_OPTION: "true"}
    loaded = load(options, source, 2)
    reader = loaded.stream(loaded.spark_schema()).reader
    assert newest.time in reader.latest(reader.initial(), Limits())


def _parent(instant: Any) -> int | None:
    found = instant.summary.get("parent-id")
    return None if found is None else int(found)


def _streamed(
    spark: SparkSession, source: str, folder: str, options: dict[str, str], place: Path
) -> list[dict[str, Any]]:
    """All rows of a stream, batch by batch."""
    batches: list[tuple[int, list[dict[str, Any]]]] = []

    def keep(frame: Any, number: int) -> None:
        batches.append((number, frame.toArrow().to_pylist()))

    stream = spark.readStream.format(source).options(**options).load(folder)
    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(place / "at"))
    despite_slow_start(lambda: query.trigger(availableNow=True).start().awaitTermination(300))
    ranked = {"-U": 0, "-D": 1, "+I": 2, "+U": 3}
    return [
        row
        for _, rows in sorted(batches, key=lambda batch: batch[0])
        for row in sorted(rows, key=lambda row: ranked.get(row.get(ROW_KIND_COLUMN, "+I"), 2))
    ]
