"""Streams on a Spark before 4.2: it asks a source for its newest offset and does not say where a batch begins. Called
as that Spark calls them, without a JVM."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotInHistoryError, UnsupportedError
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.spark import source
from tests.pyspark_release import needs

needs("4.0", "sources that are written in Python", whole_module=True)
from lakebed.spark.data_sources import NewestStreamReader, data_sources  # noqa: E402

OPTIONS: dict[str, dict[str, object]] = {
    "hudi": {}, "paimon": {"bucket": "1", "changelog-producer": "lookup"}, "iceberg": {"format-version": "2"},
}  # fmt: skip
START = {"read.start-commit": "earliest"}


def table_of(format: str, place: Path) -> lakebed.Table:
    return lakebed.create(str(place), format, {"id": "int64", "text": "string"}, ["id"], options=OPTIONS[format])


def put(table: lakebed.Table, number: int, text: str) -> None:
    table.write(pa.table({"id": [number], "text": [text]}), "upsert")


class Copy:
    """A table that is kept equal to another one by its changes. It notices a change that comes twice."""

    def __init__(self, format: str) -> None:
        self._by_key = format == "hudi"  # whose changes are the new rows, without the old ones
        self._rows: Counter[tuple[int, str]] = Counter()

    def take(self, changes: list[dict[str, Any]]) -> None:
        """Apply the changes of one batch."""
        for change in changes:
            row, gone = (change["id"], change["text"]), change[ROW_KIND_COLUMN] in ("-U", "-D")
            if self._by_key:
                assert gone or row not in self._rows, f"{row} came twice"
                self._rows = Counter(kept for kept in self._rows if kept[0] != row[0])
            if not (self._by_key and gone):
                self._rows[row] += -1 if gone else 1
        self._rows = Counter({row: count for row, count in self._rows.items() if count})
        assert set(self._rows.values()) <= {1}

    @property
    def rows(self) -> list[tuple[int, str]]:
        return sorted(self._rows)


class OlderSpark:
    """A query of PySpark 4.0 or 4.1: what its checkpoint keeps, and the calls that it makes."""

    def __init__(self, place: Path, format: str, options: dict[str, str]) -> None:
        (kind,) = data_sources({"lakebed": "lakebed"}, 2, False)
        self._source = type("Older", (kind,), {"tells_start": False})
        self._options = {"path": str(place), source.STREAMING_OPTION: "true", **options}
        self._offsets: list[str] = []
        self._committed = 0
        self.copy = Copy(format)
        self.start_again()

    def start_again(self) -> None:
        """The process ends, and another one goes on from the checkpoint."""
        made = self._source(self._options)
        self._reader = made.streamReader(made.schema())
        assert isinstance(self._reader, NewestStreamReader)

    def run(self, dies: bool = False) -> bool:
        """A batch, and whether there was something to read. A process that dies has not kept that it read."""
        if not self._offsets:
            self._offsets.append(json.dumps(self._reader.initialOffset()))
        if len(self._offsets) == self._committed + 1:
            end = json.dumps(self._reader.latestOffset())
            if end == self._offsets[-1]:
                return False
            self._offsets.append(end)
        start, end = map(json.loads, self._offsets[-2:])
        parts = self._reader.partitions(start, end)
        rows = [row for part in parts for batch in self._reader.read(part) for row in batch.to_pylist()]
        if not dies:
            self.copy.take(rows)
            self._committed += 1
        return True


@pytest.mark.parametrize("format", [*OPTIONS])
@pytest.mark.parametrize("seed", range(3))
def test_each_change_comes_once_however_often_the_query_starts_again(format: str, seed: int, tmp_path: Path) -> None:
    chance, place = random.Random(seed), tmp_path / "t"
    table = table_of(format, place)
    spark = OlderSpark(place, format, START)
    for step in range(14):
        match chance.randrange(7):
            case 0 | 1 | 2:
                put(table, chance.randrange(4), f"text {step}")
            case 3 if format != "hudi":
                table.rewrite()
            case 4:
                spark.run(dies=True)
                spark.start_again()
            case 5:
                spark.start_again()
            case _:
                spark.run()
    while spark.run():
        pass
    spark.start_again()
    spark.run()
    rows = table.read(["id", "text"]).read_all().to_pylist()
    assert spark.copy.rows == sorted((row["id"], row["text"]) for row in rows)
    assert spark.copy.rows and not spark.run()


@pytest.mark.parametrize("format", ["paimon", "hudi"])
def test_a_query_that_starts_again_notices_a_rollback(format: str, tmp_path: Path) -> None:
    table = table_of(format, tmp_path / "t")
    put(table, 0, "a")
    table.tag("before")
    kept = table.newest().time
    put(table, 1, "b")
    spark = OlderSpark(tmp_path / "t", format, START)
    assert spark.run()
    table.rollback(kept)
    spark.start_again()
    with pytest.raises(NotInHistoryError):
        spark.run()


def test_a_stream_waits_for_paimon_snapshots_that_are_too_young(tmp_path: Path) -> None:
    table = table_of("paimon", tmp_path / "t")
    spark = OlderSpark(tmp_path / "t", "paimon", {**START, "streaming.read.snapshot.delay": "1 h"})
    spark.run()
    put(table, 0, "a")
    spark.start_again()
    while spark.run():
        pass
    assert spark.copy.rows == []


@pytest.mark.parametrize("key", ["maxFilesPerTrigger", "read.commits.limit"])
def test_bounds_are_refused(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table_of("paimon", tmp_path / "t")
    monkeypatch.setattr(source, "HAS_STREAMS", False)
    with pytest.raises(UnsupportedError, match=r"needs PySpark 4\.2"):
        OlderSpark(tmp_path / "t", "paimon", {key: "1"})


def test_bounds_of_pieces_are_refused_when_the_query_starts(tmp_path: Path) -> None:
    put(table_of("paimon", tmp_path / "t"), 0, "a")
    spark = OlderSpark(tmp_path / "t", "paimon", {"read.stream.maxFilesPerTrigger": "1"})
    with pytest.raises(UnsupportedError, match="need to know where a batch begins"):
        spark.run()
