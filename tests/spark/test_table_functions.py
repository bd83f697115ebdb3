"""SQL table functions on a real session: columns, named arguments, errors, and one run for one query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
from lakebed.errors import LakebedError, OptionError, UsageError
from lakebed.spark.types import conform, spark_schema, wire_schema
from tests.golden import unpack
from tests.pyspark_release import needs

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"]})


@pytest.fixture
def table(tmp_path: Path) -> lakebed.Table:
    """An Iceberg table of three small files."""
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    for _ in range(3):
        table.write(ROWS)
    return table


def rows(spark: SparkSession, sql: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in spark.sql(sql).collect()]


def test_a_rewrite_plans_and_does(spark: SparkSession, table: lakebed.Table) -> None:
    options = "map('min-input-files', '2', 'target-file-size-bytes', '134217728')"
    (plan,) = rows(spark, f"SELECT * FROM lakebed_rewrite('{table.location}', {options}, dry_run => true)")
    assert plan["dry_run"] and plan["files_before"] == 3 and plan["plan"][0]["files"] == 3
    assert len(table.history()) == 3
    call = f"SELECT files_before, instants FROM lakebed_rewrite('{table.location}', {options})"
    frame = spark.sql(call)
    assert len(table.history()) == 3  # nothing is done before the query runs
    spark.sql(f"EXPLAIN {call}").collect()
    assert len(table.history()) == 3
    (done,) = frame.collect()
    assert done["files_before"] == 3 and done["instants"] == [table.history()[-1].time]
    assert frame.collect() == [done] and frame.count() == 1  # the same query again
    assert len(table.history()) == 4 and table.read().read_all().num_rows == 6


def test_one_query_does_its_work_once(spark: SparkSession, table: lakebed.Table) -> None:
    both = f"WITH done AS (SELECT * FROM lakebed_tag('{table.location}', 'now')) "
    assert rows(spark, both + "SELECT name FROM done UNION ALL SELECT name FROM done") == [{"name": "now"}] * 2
    assert [ref.name for ref in table.refs() if ref.kind == "tag"] == ["now"]
    assert spark.sql(f"SELECT * FROM lakebed_tag('{table.location}', 'counted')").count() == 2
    assert rows(spark, f"SELECT 1 AS one FROM lakebed_tag('{table.location}', 'limited') LIMIT 1") == [{"one": 1}]
    assert {ref.name for ref in table.refs() if ref.kind == "tag"} == {"now", "counted", "limited"}
    (back,) = rows(spark, f"SELECT * FROM lakebed_rollback('{table.location}', 'tag:now', dry_run => true)")
    assert back["removed"] == [] and back["dry_run"]


@pytest.mark.parametrize("name", ["files", "entries", "snapshots"])
def test_metadata_is_that_of_python(spark: SparkSession, name: str) -> None:
    table = lakebed.open(str(unpack("iceberg", "types_nested" if name == "files" else "spec_evolution")))
    frame = spark.sql(f"SELECT * FROM lakebed_metadata('{table.location}', '{name}')")
    made = table.system_table(name)
    assert frame.schema == spark_schema(made.schema)
    wire = wire_schema(made.schema)
    ours = pa.Table.from_batches([conform(batch, wire) for batch in made.batches()], wire)
    seen = frame.toArrow().cast(wire).to_pylist(maps_as_pydicts="strict")
    assert seen == ours.to_pylist(maps_as_pydicts="strict")


def test_each_format_answers(spark: SparkSession, hudi: Path) -> None:
    paimon = unpack("paimon", "pk_fixed")
    for location in (hudi, paimon):
        table = lakebed.open(location)
        history = rows(spark, f"SELECT time, summary FROM lakebed_history('{location}')")
        assert [row["time"] for row in history] == [instant.time for instant in table.history()]
        assert rows(spark, f"SELECT * FROM lakebed_inspect('{location}') WHERE kind = 'figure'")
        (plan,) = rows(spark, f"SELECT dry_run FROM lakebed_expire('{location}', map(), true)")
        assert plan["dry_run"]
    (plan,) = rows(spark, f"SELECT dry_run, kept FROM lakebed_archive('{hudi}', dry_run => true)")
    assert plan["dry_run"]


def texts(frame: DataFrame) -> list[str]:
    """Rows as sorted texts, in which NaN equals NaN and the order of a map's entries does not matter."""
    plain = (
        {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in row.asDict().items()}
        for row in frame.collect()
    )
    return sorted(map(str, plain))


def test_hudi_table_changes_gives_what_the_source_reads(spark: SparkSession, hudi: Path) -> None:
    """Equal rows and columns to an incremental read by Hudi's source, by position and by name."""
    needs("4.0", "table functions that are written in Python")
    begin, end = (lakebed.open(hudi).history()[number].time for number in (2, 5))
    ranges = {
        "'latest_state', 'earliest'": {"begin": "000"},
        f"'latest_state', {begin}, '{end}'": {"begin": begin, "end": end},
        f"query_type => 'LATEST_STATE', begin => '{begin}'": {"begin": begin},
    }
    for arguments, bounds in ranges.items():
        ours = spark.sql(f"SELECT * FROM hudi_table_changes('{hudi}', {arguments})")
        options = {f"hoodie.datasource.read.{key}.instanttime": value for key, value in bounds.items()}
        options["hoodie.datasource.query.type"] = "incremental"
        source = spark.read.format("hudi").options(**options).load(str(hudi))
        assert ours.schema == source.schema
        found, wanted = texts(ours), texts(source)
        assert found and found == wanted


def test_hudi_table_changes_gives_rows_before_and_after(spark: SparkSession) -> None:
    location = unpack("hudi", "cdc_cow_v8")
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": "earliest",
    }
    source = spark.read.format("hudi").options(**options).load(str(location)).collect()
    ours = spark.sql(f"SELECT * FROM hudi_table_changes('{location}', 'cdc', 'earliest')").collect()
    assert ours and sorted(ours, key=str) == sorted(source, key=str)


def test_hudi_table_changes_says_what_it_takes(spark: SparkSession, hudi: Path, table: lakebed.Table) -> None:
    needs("4.0", "table functions that are written in Python")
    for arguments, error in {
        f"'{hudi}', 'newest', 'earliest'": r"no query type 'newest'\. Give 'latest_state'",
        f"'{hudi}', 'cdc'": r"is not given begin\. Call hudi_table_changes\(table, query_type, begin, end, options\)",
        f"'{hudi}', 'cdc', 'soon'": "soon",
        f"'{table.location}', 'latest_state', 'earliest'": "this is an iceberg table, read as hudi",
    }.items():
        with pytest.raises(LakebedError, match=error) as wrong:
            spark.sql(f"SELECT * FROM hudi_table_changes({arguments})")
        assert "Traceback" not in str(wrong.value) and "at org.apache" not in str(wrong.value)


def test_errors_are_ours_and_short(spark: SparkSession, table: lakebed.Table, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean dry_run") as wrong:
        spark.sql(f"SELECT * FROM lakebed_rewrite('{table.location}', dryrun => true)")
    assert "Traceback" not in str(wrong.value) and "at org.apache" not in str(wrong.value)
    with pytest.raises(OptionError, match="target-file-size-byte") as unknown:
        spark.sql(f"SELECT * FROM lakebed_rewrite('{table.location}', map('target-file-size-byte', '1'))").collect()
    assert "Traceback" not in str(unknown.value) and "at org.apache" not in str(unknown.value)
    with pytest.raises(LakebedError, match=r"does not exist.*Check the spelling of the location$"):
        spark.sql(f"SELECT * FROM lakebed_files('{tmp_path}/none')")
    with pytest.raises(UsageError, match="not a constant"):
        spark.sql("SELECT * FROM range(2), LATERAL lakebed_files(concat('t', id))").collect()


def test_tables_of_what_is_there(spark: SparkSession, tmp_path: Path) -> None:
    folder, trial = tmp_path / "in", tmp_path / "trial"
    spark.range(3).selectExpr("id", "id % 2 AS day").write.partitionBy("day").parquet(str(folder))
    call = f"lakebed_snapshot('{folder}', '{trial}', map('day', 'string')"
    (plan,) = rows(spark, f"SELECT * FROM {call}, dry_run => true)")
    assert plan["dry_run"] and plan["columns"] == ["id long", "day string"] and not trial.exists()
    frame = spark.sql(f"SELECT * FROM {call})")
    assert frame.collect() == frame.collect()  # done once
    assert lakebed.open(trial, {"lakebed.storage.places": str(folder)}).read().read_all().num_rows == 3
    (done,) = rows(spark, f"SELECT * FROM lakebed_migrate('{folder}')")
    assert done["rows"] == 3 and len(done["instants"]) == 1
    (tmp_path / "in" / "new").mkdir()
    spark.range(5, 6).coalesce(1).write.mode("overwrite").parquet(str(folder / "new" / "day=1"))
    (added,) = rows(spark, f"SELECT rows FROM lakebed_add_files('{folder}', '{folder}/new/day=1')")
    assert added["rows"] == 1
    (copied,) = rows(spark, f"SELECT * FROM lakebed_rewrite_table_path('{folder}', '{tmp_path}/c', '{tmp_path}/s')")
    assert len(copied["copies"]) >= 5 and (tmp_path / "s" / "file-list.csv").exists()
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/w"}
    catalog = ", ".join(f"'lakebed.catalog.{key}', '{value}'" for key, value in options.items())
    newest = max((folder / "metadata").glob("v*.metadata.json"))
    (known,) = rows(spark, f"SELECT * FROM lakebed_register('shop:db.t', '{newest}', map({catalog}))")
    assert (known["rows"], known["table"]) == (4, "shop:db.t")
    (counted,) = rows(spark, f"SELECT * FROM lakebed_compute_table_stats('{folder}', 'id, day')")
    assert counted["columns"] == [{"column": "id", "distinct": 4}, {"column": "day", "distinct": 2}]
    (summed,) = rows(spark, f"SELECT partitions FROM lakebed_compute_partition_stats('{folder}')")
    assert summed["partitions"] == 2
