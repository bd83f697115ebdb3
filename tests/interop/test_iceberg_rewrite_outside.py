"""Iceberg's own engine on golden tables that lakebed rewrote, in one session: the same rows, and row ids, after each
way to rewrite; it goes on writing and rewriting, and then lakebed does again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.iceberg_ask import spark_sql
from tests.interop.iceberg_rewritten import LIKE_BEFORE, LIKE_GROWN, REWRITTEN, STEPS, Rewritten, opened, rewritten

pytestmark = pytest.mark.timeout(1800)
READ = [name for name in REWRITTEN if name != "uuid_time_fixed"]
"""Spark refuses columns of times."""
LINEAGE = ("_row_id", "_last_updated_sequence_number")
GOES_ON = (
    "years_and_void_v1", "many_small", "pos_deletes", "eq_deletes_part", "spec_evolution", "hadoop_v2", "dv_v3",
    "v2_upgraded_v3",
)  # fmt: skip


@dataclass
class Story:
    """The tables; the rows of each state by Spark; keys before Spark went on, and what it said at the end."""

    folder: Path
    tables: dict[str, Rewritten]
    rows: dict[tuple[str, str], list[str]]
    keys: dict[str, list[int]]
    ends: dict[str, list[list[Any]]]


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
    tables = rewritten(folder)
    keys = {name: column(opened(folder, name), tables[name]) for name in GOES_ON}
    parts = (part for name in READ for part in texts(name, tables[name]))
    answers = spark_sql(
        folder, {"read": list(in_few_statements(parts)), **{name: further(name, tables[name]) for name in GOES_ON}}
    )
    rows: dict[tuple[str, str], list[str]] = {}
    for name, step, text in (row for found in answers["read"] for row in found):
        rows.setdefault((name, step), []).append(text)
    return Story(folder, tables, rows, keys, {name: answers[name][-1] for name in GOES_ON})


def column(table: IcebergTable, story: Rewritten) -> list[int]:
    found: list[int] = table.read(story.columns[:1]).read_all()[0].to_pylist()
    return found


@pytest.mark.parametrize("name", READ)
def test_spark_reads_the_same_rows_after_each_rewrite(story: Story, name: str) -> None:
    for steps in (LIKE_BEFORE, LIKE_GROWN):
        for some in ("", " some"):
            bags = {step: Counter(story.rows.get((name, step + some), ())) for step in steps}
            first = bags[steps[0]]
            wrong = {step: (bag - first, first - bag) for step, bag in bags.items() if bag != first}
            assert not wrong, wrong


def test_the_fast_way_was_among_them(story: Story) -> None:
    assert {name for name in READ if "first" in story.tables[name].joined} >= {"many_small", "wap_rollback"}
    assert len([name for name in READ if "joined" in story.tables[name].joined]) > 12


@pytest.mark.parametrize("name", GOES_ON)
def test_spark_goes_on_and_lakebed_after_it(story: Story, name: str) -> None:
    keys = story.keys[name]
    expected = sorted(key for key in [*keys, *(key for key in keys if key < 3)] if key not in (6, 8))
    found = sorted(story.ends[name])
    assert [row[0] for row in found] == expected and len(expected) > 0
    table, what = opened(story.folder, name), story.tables[name]
    columns = [what.columns[0], *(LINEAGE if what.version >= 3 else ())]

    def ours() -> list[list[Any]]:
        return sorted(list(row.values()) for row in table.read(columns).read_all().to_pylist())

    assert ours() == found
    result = table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
    assert ours() == found and result.files_before > 0
    metadata = table.metadata
    assert not any(task.deletes for task in scan_tasks(table.access.files, metadata, metadata.head()))
