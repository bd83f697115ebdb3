"""A pipeline from a Hudi table through an Iceberg table into a Paimon one: rows, deletes and upkeep."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import lakebed
from lakebed.examples import example_path as example
from lakebed.spark import pipeline

COLUMNS = ["dt", "order_id", "customer", "amount"]
KEYS = [("dt", "ascending"), ("order_id", "ascending")]


def file_of(folder: Path, name: str, text: str) -> pipeline.Pipeline:
    file = folder / name
    file.write_text(text)
    return pipeline.load(file)


def rows_of(location: str | Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = lakebed.open(location).read(COLUMNS).read_all().sort_by(KEYS).to_pylist()
    return rows


def test_hudi_into_iceberg_into_paimon(spark: SparkSession, tmp_path: Path) -> None:
    orders = example("orders_hudi")
    start = lakebed.open(orders).history()[0].time
    made = pipeline.run(
        file_of(
            tmp_path,
            "first.toml",
            f"""
            [source]
            table = "{orders}"
            [source.options]
            "read.start-commit" = "{start}"
            "read.commits.limit" = "5"
            [transform]
            sql = "select {", ".join(COLUMNS)}, _row_kind from source"
            [sink]
            table = "{tmp_path}/ice"
            format = "iceberg"
            primary_key = ["dt", "order_id"]
            partition_by = ["dt"]
            [upkeep]
            rewrite = 2
            """,
        ),
        spark,
    )
    assert made.commits == 2
    assert [note.partition(":")[0] for batch in made.batches for note in batch.notes] == ["rewrite"]
    assert rows_of(tmp_path / "ice") == rows_of(orders)

    onward = file_of(
        tmp_path,
        "second.toml",
        f"""
        [source]
        table = "{tmp_path}/ice"
        [source.options]
        "read.start-commit" = "earliest"
        [sink]
        table = "{tmp_path}/pai"
        format = "paimon"
        primary_key = ["dt", "order_id"]
        partition_by = ["dt"]
        [sink.options]
        bucket = 1
        """,
    )
    assert pipeline.run(onward, spark).commits >= 1
    assert rows_of(tmp_path / "pai") == rows_of(orders)
    table = lakebed.open(tmp_path / "ice")
    gone = table.read(COLUMNS, where="dt = '2026-03-02'").read_all()
    table.write(gone.select(["dt", "order_id"]), mode="delete")
    assert pipeline.run(onward, spark).commits == 1
    assert rows_of(tmp_path / "pai") == [row for row in rows_of(orders) if row["dt"] != "2026-03-02"]
