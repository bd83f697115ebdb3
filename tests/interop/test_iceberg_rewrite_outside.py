"""Iceberg's own engine, for Spark 4.0 and for Spark 4.1, on golden tables that lakebed rewrote, in one session each:
the same rows, and row ids, after each way to rewrite; it goes on writing and rewriting, then lakebed does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lakebed.formats.iceberg.read.plan import scan_tasks
from tests.interop.iceberg_ask import ENGINES, spark_sql
from tests.interop.iceberg_rewritten import LIKE_BEFORE, LIKE_GROWN, REWRITTEN, STEPS, Rewritten, opened, rewritten

pytestmark = pytest.mark.timeout(1800)
READ = [name for name in REWRITTEN if name != "uuid_time_fixed"]
"""Spark refuses columns of times."""
EMPTY = ("empty_and_metadata_delete", "never_written")
LINEAGE = ("_row_id", "_last_updated_sequence_number")
GOES_ON = (
    "years_and_void_v1", "many_small", "pos_deletes", "eq_deletes_part", "spec_evolution", "hadoop_v2", "dv_v3",
    "v2_upgraded_v3",
)  # fmt: skip


@dataclass
class End:
    """Keys before Spark went on with a table; the rows that it, lakebed, and lakebed after a rewrite then found."""

    before: list[int]
    spark: list[list[Any]]
    ours: list[list[Any]]
    rewritten: list[list[Any]]
    files_before: int
    deletes_left: bool


@dataclass
class Story:
    """The tables; by the version of Spark the rows of each state, and how tables ended that it went on with."""

    tables: dict[str, Rewritten]
    rows: dict[str, dict[tuple[str, str], list[str]]]
    ends: dict[str, dict[str, End]]


def texts(name: str, story: Rewritten) -> Iterator[str]:
    """Selects the rows of each state as JSON texts, and a few of them by a predicate on the first column."""
    lineage = ", _row_id, _last_updated_sequence_number" if story.version >= 3 else ""
    for step in STEPS:
        row = f"to_json(struct(*{lineage}), map('ignoreNullFields', 'false')) FROM ice.db.{name}_{step}"
        yield f"SELECT '{name}', '{step}', {row}"
        if story.columns[0] == "id":
            yield f"SELECT '{name}', '{step} some', {row} WHERE id BETWEEN 3 AND 7"


def in_few_statements(parts: Iterator[str], each: int = 60) -> Iterator[str]:
    """A statement costs Spark more than a branch of one."""
    while some := list(islice(parts, each)):
        yield " UNION ALL ".join(some)


def further(name: str, story: Rewritten) -> list[str]:
    """Spark appends, rewrites what lakebed had rewritten, and deletes by both ways to do it."""
    catalog, key = "had" if name == "hadoop_v2" else "ice", story.columns[0]
    table = f"{catalog}.db.{name}"
    modes = ", ".join(f"'write.{kind}.mode'='merge-on-read'" for kind in ("delete", "merge"))
    return [
        *([f"ALTER TABLE {table} SET TBLPROPERTIES ({modes})"] if story.version >= 2 else []),
        f"INSERT INTO {table} SELECT * FROM {table} WHERE {key} < 3",
        f"CALL {catalog}.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))",
        f"DELETE FROM {table} WHERE {key} = 6",
        f"MERGE INTO {table} t USING (SELECT DISTINCT {key} FROM {table} WHERE {key} = 8) s ON t.{key} = s.{key} "
        "WHEN MATCHED THEN DELETE",
        f"SELECT {key}{''.join(f', {one}' for one in LINEAGE if story.version >= 3)} FROM {table}",
    ]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("rewritten")
    told = Story(rewritten(folder), {}, {})
    for engine in ENGINES:
        before = {name: found(folder, name, told.tables[name], keys_only=True) for name in GOES_ON}
        parts = (part for name in READ for part in texts(name, told.tables[name]))
        goes_on = {name: further(name, told.tables[name]) for name in GOES_ON}
        answers = spark_sql(folder, {"read": list(in_few_statements(parts)), **goes_on}, engine)
        rows: dict[tuple[str, str], list[str]] = {}
        for name, step, text in (row for statement in answers["read"] for row in statement):
            rows.setdefault((name, step), []).append(text)
        told.rows[engine] = rows
        told.ends[engine] = {
            name: ended(folder, name, told.tables[name], [row[0] for row in before[name]], answers[name][-1])
            for name in GOES_ON
        }
    return told


def found(folder: Path, name: str, story: Rewritten, keys_only: bool = False) -> list[list[Any]]:
    """The keys, and with them the lineage where there is any, sorted."""
    lineage = LINEAGE if story.version >= 3 and not keys_only else ()
    rows = opened(folder, name).read([story.columns[0], *lineage]).read_all().to_pylist()
    return sorted(list(row.values()) for row in rows)


def ended(folder: Path, name: str, story: Rewritten, before: list[int], spark: list[list[Any]]) -> End:
    """Reads what Spark left of a table, rewrites that, and reads it again."""
    ours, table = found(folder, name, story), opened(folder, name)
    result = table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
    metadata = table.table_metadata
    left = any(task.deletes for task in scan_tasks(table.operations.files, metadata, metadata.head()))
    return End(before, sorted(spark), ours, found(folder, name, story), result.files_before, left)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", READ)
def test_spark_reads_the_same_rows_after_each_rewrite(story: Story, engine: str, name: str) -> None:
    for steps in (LIKE_BEFORE, LIKE_GROWN):
        for some in ("", " some"):
            bags = {step: Counter(story.rows[engine].get((name, step + some), ())) for step in steps}
            first = bags[steps[0]]
            wrong = {step: (bag - first, first - bag) for step, bag in bags.items() if bag != first}
            assert not wrong, wrong
    assert any(story.rows[engine].get((name, step)) for step in STEPS) or name in EMPTY


def test_the_fast_way_was_among_them(story: Story) -> None:
    assert {name for name in READ if "first" in story.tables[name].joined} >= {"many_small", "wap_rollback"}
    assert len([name for name in READ if "joined" in story.tables[name].joined]) > 12


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GOES_ON)
def test_spark_goes_on_and_lakebed_after_it(story: Story, engine: str, name: str) -> None:
    end = story.ends[engine][name]
    expected = sorted(key for key in [*end.before, *(key for key in end.before if key < 3)] if key not in (6, 8))
    assert [row[0] for row in end.spark] == expected and len(expected) > 0
    assert end.ours == end.rewritten == end.spark
    assert end.files_before > 0 and not end.deletes_left
