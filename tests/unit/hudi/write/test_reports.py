"""Faults that users of other engines reported of writes, compactions and streams of Hudi tables: here they do not
happen."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import UnsupportedError
from lakebed.verbs.read import run
from lakebed.verbs.stream import drain

SCHEMA = {"id": "int64", "ts": "int64", "v": "string"}
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
ORDERED = {"hoodie.table.ordering.fields": "ts"}
TYPE, VERSION = "hoodie.datasource.write.table.type", "hoodie.write.table.version"
Row = tuple[int, int | None, str]


def orders(folder: Path, kind: str = "MERGE_ON_READ", version: int = 9, **more: Any) -> Table:
    return lakebed.create(folder / "t", "hudi", SCHEMA, ["id"], options={TYPE: kind, VERSION: version, **more})


def batch(*rows: Row) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        {name: pa.array(values, kind) for (name, kind), values in zip(SCHEMA.items(), columns, strict=True)}
    )


def held(table: Table) -> list[Row]:
    rows = lakebed.open(table.location).read(list(SCHEMA)).read_all().to_pylist()
    return sorted((row["id"], row["ts"], row["v"]) for row in rows)


def compacted(table: Table) -> list[Row]:
    """The rows, which are the same before and after a compaction."""
    before = held(table)
    table.rewrite()
    assert held(table) == before
    return before


@pytest.mark.parametrize("version", [6, 8])
def test_rows_written_between_the_plan_and_the_run_of_a_compaction_are_seen(tmp_path: Path, version: int) -> None:
    table = orders(tmp_path, version=version, **ORDERED)
    table.write(batch((1, 1, "base"), (2, 1, "base"), (3, 1, "base")))
    table.write(batch((2, 2, "l1")), mode="upsert")
    table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    table.write(batch((3, 3, "l2")), mode="upsert")
    expected = [(1, 1, "base"), (2, 2, "l1"), (3, 3, "l2")]
    assert held(table) == expected
    table.rewrite(options={"lakebed.rewrite.step": "run"})
    assert held(table) == expected and compacted(table) == expected


def test_a_plan_holds_every_log_of_a_slice(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(*((number, 1, "base") for number in range(6))))
    for number in range(1, 6):
        table.write(batch((number, 2, f"l{number}")), mode="upsert")
    (group,) = table.rewrite(dry_run=True).plan
    assert group.files == 6  # a base file and five logs
    assert compacted(table) == [(0, 1, "base"), *((number, 2, f"l{number}") for number in range(1, 6))]


@pytest.mark.parametrize("kind", KINDS)
def test_the_greatest_ordering_value_wins_in_every_way_of_merging(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind, **ORDERED)
    table.write(batch((1, 20, "new"), (2, 10, "kept"), (3, 10, "gone"), (4, None, "null"), (5, 5, "five")))
    table.write(batch((1, 10, "late"), (4, 5, "five"), (5, None, "null")), mode="upsert")
    kinds = pa.array(["-D", "-D"])
    table.write(batch((2, 5, ""), (3, 15, "")).append_column("_row_kind", kinds), mode="upsert")
    expected = [(1, 20, "new"), (2, 10, "kept"), (4, 5, "five"), (5, 5, "five")]
    assert compacted(table) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_ordering_column_the_last_write_wins(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind)
    table.write(batch((1, 20, "old"), (2, 10, "gone")))
    table.write(batch((1, 10, "new")), mode="upsert")
    table.write(batch((2, 5, "")), mode="delete")
    assert compacted(table) == [(1, 10, "new")]


def test_an_unknown_payload_class_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"com\.example\.Mine"):
        orders(tmp_path, **{"hoodie.datasource.write.payload.class": "com.example.Mine", VERSION: 6})
    assert not (tmp_path / "t" / ".hoodie").exists()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_key_has_one_text_whatever_the_operation(tmp_path: Path, version: int) -> None:
    schema = {"id": "string", "at": pa.timestamp("us", "UTC"), "v": "int64"}
    table = lakebed.create(tmp_path / "t", "hudi", schema, ["id", "at"], options={VERSION: version})
    moment = dt.datetime(2024, 2, 3, 4, 5, 6, 789000, tzinfo=dt.UTC)

    def rows(value: int) -> pa.Table:
        return pa.table({"id": ["a:b, c"], "at": pa.array([moment], schema["at"]), "v": [value]})

    table.write(rows(1), options={"hoodie.datasource.write.operation": "bulk_insert"})
    table.write(rows(2), mode="upsert")
    assert table.read(["v"]).read_all()["v"].to_pylist() == [2]
    keys = table.read(["_hoodie_record_key"]).read_all()["_hoodie_record_key"].to_pylist()
    assert keys == [f"id:a:b, c,at:{int(moment.timestamp() * 1_000_000)}"]


@pytest.mark.parametrize("kind", KINDS)
def test_services_add_no_rows_to_a_stream(tmp_path: Path, kind: str) -> None:
    table = orders(tmp_path, kind, **ORDERED)
    start, seen = table.stream().initial(), []

    def poll() -> Sequence[tuple[int, str]]:
        nonlocal start
        rows = []
        for end, plan in drain(lakebed.open(table.location).stream(["id", "v"]), start):
            rows += [(row["id"], row["v"]) for row in run(plan, 1).read_all().to_pylist()]
            start = end
        return sorted(rows)

    for number in range(3):
        table.write(batch((number, number, f"v{number}")), mode="upsert")
        seen.append(poll())
    table.rewrite()
    seen.append(poll())
    table.rewrite(options={"lakebed.rewrite.what": "clustering", "hoodie.clustering.plan.strategy.sort.columns": "id"})
    seen.append(poll())
    table.expire(options={"hoodie.clean.commits.retained": 1})
    seen.append(poll())
    assert seen == [[(0, "v0")], [(1, "v1")], [(2, "v2")], [], [], []]


def test_archival_waits_for_a_compaction_that_nobody_runs_and_goes_on_after_it(tmp_path: Path) -> None:
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.metadata.enable": "false"}
    table = orders(tmp_path, **{"hoodie.archive.automatic": "false", "hoodie.metadata.enable": "false"})
    table.write(batch((0, 0, "base")))
    table.write(batch((0, 1, "log")), mode="upsert")
    scheduled = table.rewrite(options={"lakebed.rewrite.step": "schedule"}).instants[0]
    for number in range(1, 6):
        table.write(batch((number, 1, "x")), mode="upsert", options={"hoodie.archive.automatic": "false"})
    held_back = table.archive(options=keep, dry_run=True)
    assert scheduled in str(held_back)
    table.rewrite(options={"lakebed.rewrite.step": "run"})
    archived = table.archive(options=keep)
    assert len(archived.archived) > len(held_back.archived)
    assert len(held(table)) == 6


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("hoodie.datasource.write.slash.separated.date.partitioning=true", "dates with slashes"),
        ("hoodie.table.base.file.format=ORC", "base files are ORC"),
    ],
)
def test_a_table_whose_settings_ask_for_other_files_is_not_written(tmp_path: Path, setting: str, why: str) -> None:
    table = orders(tmp_path)
    with (tmp_path / "t" / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write(f"{setting}\n")
    with pytest.raises(UnsupportedError, match=why):
        lakebed.open(table.location).write(batch((1, 1, "x")))
    assert table.history() == []
