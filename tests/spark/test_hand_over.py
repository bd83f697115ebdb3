"""Rows reach Python in batches that end by their number alone, and no setting of the session stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import SchemaError
from lakebed.spark import hand_over
from lakebed.spark.hand_over import ROWS, batches_by_rows, joined
from lakebed.spark.release import VERSION, parsed

BYTES_SETTING, ROWS_SETTING = hand_over._BYTES_SETTING, hand_over._ROWS_SETTING
SPARKS_OWN = 10_000
WITHIN = ROWS if parsed(VERSION) >= (4, 1) else SPARKS_OWN


def lengths(df: DataFrame) -> DataFrame:
    """The lengths of the batches that Python gets, as rows."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": [batch.num_rows]})

    return df.mapInArrow(count, "id long")


def seen(spark: SparkSession) -> int:
    return max(row[0] for row in lengths(spark.range(0, 25_000, 1, 1)).collect())


def settings(spark: SparkSession) -> list[str | None]:
    return [spark.conf.get(BYTES_SETTING, None), spark.conf.get(ROWS_SETTING, None)]


def test_a_write_gets_small_batches_and_leaves_no_setting(spark: SparkSession, tmp_path: Path) -> None:
    assert (seen(spark), settings(spark)) == (SPARKS_OWN, [None, None])
    table = lakebed.create(tmp_path / "t", "iceberg", pa.schema([("id", pa.int64())]))
    lakebed.spark.write(lengths(spark.range(0, 25_000, 1, 1)), table.location)
    batches = table.read().read_all()["id"].to_pylist()
    assert (sum(batches), max(batches)) == (25_000, WITHIN)
    narrow = lakebed.create(tmp_path / "n", "iceberg", pa.schema([pa.field("id", pa.int64(), False)]))
    with pytest.raises(SchemaError, match="null"):
        lakebed.spark.write(spark.sql("select if(id < 5, null, id) as id from range(0, 9)"), narrow.location)
    assert settings(spark) == [None, None]


@pytest.mark.parametrize(("key", "value", "most"), [(ROWS_SETTING, "700", 700), (BYTES_SETTING, "64m", SPARKS_OWN)])
def test_a_session_keeps_settings_of_its_own(spark: SparkSession, key: str, value: str, most: int) -> None:
    spark.conf.set(key, value)
    try:
        before = settings(spark)
        with batches_by_rows(spark):
            assert settings(spark) == before
            assert seen(spark) == most
        assert settings(spark) == before
    finally:
        spark.conf.unset(key)


class Settings(dict[str, str]):
    """Those of a platform that takes only some."""

    def __init__(self, taken: int) -> None:
        super().__init__()
        self.taken = taken

    def set(self, key: str, value: str) -> None:
        if not self.taken:
            raise RuntimeError("CONFIG_NOT_AVAILABLE")
        self.taken -= 1
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_platform_that_refuses_settings_writes_all_the_same(taken: int) -> None:
    conf = Settings(taken)
    session: Any = SimpleNamespace(version="4.1.0", conf=conf)
    with batches_by_rows(session):
        assert len(conf) == taken
    assert conf == {}


def test_a_setting_that_somebody_made_meanwhile_stays() -> None:
    conf = Settings(9)
    session: Any = SimpleNamespace(version="4.1.0", conf=conf)
    with batches_by_rows(session):
        conf[ROWS_SETTING] = "55"
    assert conf == {ROWS_SETTING: "55"}


def test_releases_without_the_check_keep_their_batches() -> None:
    conf = Settings(0)
    session: Any = SimpleNamespace(version="4.0.5", conf=conf)
    with batches_by_rows(session):
        assert conf == {}


def test_batches_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "JOINED_BYTES", 800)
    rows = pa.table({"id": range(1000)})
    pieces = [rows.slice(0, 0), rows.slice(0, 30), rows.slice(30, 0), rows.slice(30, 500), rows.slice(530)]
    made = [*joined(batch for piece in pieces for batch in piece.to_batches(max_chunksize=40) or [EMPTY])]
    assert pa.Table.from_batches(made).equals(rows)
    assert [batch.num_rows for batch in made] == [110, 120, 120, 120, 100, 120, 120, 120, 70]
    assert [*joined(iter([EMPTY]))] == []


EMPTY = pa.RecordBatch.from_pydict({"id": pa.array([], pa.int64())})
