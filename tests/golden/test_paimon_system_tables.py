"""The system tables of Paimon's golden tables have the columns, types and rows that Paimon 1.3.1 gives them
(`generate/SystemTables.java`)."""

import datetime
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UsageError
from tests.golden import unpack

ANSWERS = Path(__file__).with_name("paimon") / "system_tables.txt"
TYPES = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string(), "TIMESTAMP(3)": pa.timestamp("ms"),
         "ARRAY<STRING>": pa.list_(pa.field("element", pa.string()))}  # fmt: skip
LAID_ANEW = {"create_time": "branches"}
"""Columns that come from the time of a folder, and the tables that have them."""


@dataclass
class Answer:
    columns: list[tuple[str, str]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def answers() -> Iterator[tuple[str, str, Answer]]:
    answer = Answer()
    for line in ANSWERS.read_text(encoding="utf-8").splitlines():
        kind, *words = line.split("\t")
        if kind == "table":
            answer = Answer()
            yield words[0], words[1], answer
        elif kind == "column":
            answer.columns.append((words[0], words[1]))
        else:
            answer.rows.append(words)


ALL = [(table, name, answer) for table, name, answer in list(answers())]


def text(value: Any) -> str:
    """A value as Java prints it."""
    match value:
        case None:
            return "\\N"
        case datetime.datetime():
            if value.microsecond:
                return value.isoformat(timespec="milliseconds")
            return value.strftime("%Y-%m-%dT%H:%M:%S" if value.second else "%Y-%m-%dT%H:%M")
        case list():
            return f"[{','.join(map(text, value))}]"
    return str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def alike(value: str, column: str) -> str:
    """A text without what has no meaning: the order of JSON keys, and digits beyond the type's milliseconds."""
    if column == "options":
        return json.dumps(json.loads(value), sort_keys=True)
    return re.sub(r"(T[\d:]+\.\d{3})\d+$", r"\1", value) if column == "create_time" else value


@pytest.mark.parametrize("name", sorted({name for _, name, _ in ALL}))
def test_each_is_that_of_paimon(name: str) -> None:
    for table, system_table, answer in ALL:
        if system_table != name:
            continue
        folder = unpack("paimon", table)
        made = lakebed.open(folder).system_table(name)
        kinds = [(column, kind.removesuffix(" NOT NULL"), kind.endswith("NOT NULL")) for column, kind in answer.columns]
        assert [(f.name, f.type, not f.nullable) for f in made.schema] == [(c, TYPES[k], n) for c, k, n in kinds]
        names = [f.name for f in made.schema if LAID_ANEW.get(f.name) != name]
        rows = [row for batch in made.batches() for row in batch.to_pylist()]
        ours = sorted([alike(text(row[c]).replace(str(folder), "{TABLE}"), c) for c in names] for row in rows)
        theirs = [dict(zip(made.schema.names, row, strict=True)) for row in answer.rows]
        assert ours == sorted([alike(row[c], c) for c in names] for row in theirs), table


def test_names() -> None:
    table = lakebed.open(unpack("paimon", "tags_branches"))
    assert {name for _, name, _ in ALL} == set(table.metadata_names)
    with pytest.raises(UsageError, match=r"Did you mean 'snapshots'"):
        table.metadata("$snapshot")
    branch = lakebed.open(unpack("paimon", "tags_branches"), {"branch": "b1"})
    assert branch.metadata("snapshots").read_all() != table.metadata("snapshots").read_all()
