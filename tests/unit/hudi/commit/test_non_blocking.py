"""Non-blocking writers: each appends log files of its own to the buckets, and none is a conflict with another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, UnsupportedError
from lakebed.formats.hudi.commit.transaction import Transaction
from tests.unit.hudi.commit.test_concurrency import OCC, beside, held

SCHEMA = {"id": "int64", "dt": "string", "v": "string", "ts": "int64"}
NBCC = {**OCC, "hoodie.write.concurrency.mode": "non_blocking_concurrency_control"}
FIXED = "00000000-0000-0000-0000-000000000000-0"


def buckets(folder: Path, version: int = 9, ordering: str = "", **more: Any) -> Table:
    options = {
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
        **({"hoodie.table.ordering.fields": ordering} if ordering else {}),
        **more,
    }
    return lakebed.create(folder / "t", "hudi", SCHEMA, ["id"], ["dt"], options)


def rows(*ids: int, v: str = "x", ts: int = 0) -> pa.Table:
    size = len(ids)
    return pa.table({"id": pa.array(ids, pa.int64()), "dt": ["a"] * size, "v": [v] * size, "ts": [ts] * size})


@pytest.mark.parametrize(("version", "ordering"), [(8, ""), (9, "ts")])
def test_two_writers_begin_one_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, ordering: str
) -> None:
    """The first one completes last: so it wins, unless an ordering value says otherwise."""
    table = buckets(tmp_path, version, ordering)
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1, 2, v="theirs", ts=2), "upsert", NBCC))
    table.write(rows(2, 3, v="ours", ts=1), "upsert", NBCC)
    second = "theirs" if ordering else "ours"
    assert held(table) == [(1, "theirs"), (2, second), (3, "ours")]
    names = [path.name for path in Path(table.location).glob("a/.*.log.*")]
    assert len(names) == 2 and all(name.startswith(f".{FIXED}_") for name in names)
    assert not list(Path(table.location).glob("a/*.parquet"))
    assert table.rewrite().files_after == 1
    assert held(table) == [(1, "theirs"), (2, second), (3, "ours")]
    table.write(rows(4), "upsert", NBCC)
    table.expire(options={"hoodie.clean.commits.retained": 1})
    assert held(table)[-1] == (4, "x")


def test_logs_that_complete_after_a_compaction_was_planned_are_of_the_next_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = buckets(tmp_path)
    table.write(rows(1, 2), "upsert", NBCC)
    beside(monkeypatch, Transaction, "commit", lambda: lakebed.open(table.location).rewrite(options=OCC))
    table.write(rows(2, 3, v="ours"), "upsert", NBCC)
    assert held(table) == [(1, "x"), (2, "ours"), (3, "ours")]
    table.rewrite()
    assert held(table) == [(1, "x"), (2, "ours"), (3, "ours")]


def test_a_delete_of_a_key_that_another_writer_adds_counts_by_completion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = buckets(tmp_path)
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1, 2), "upsert", NBCC))
    table.write(rows(1), "delete", NBCC)
    assert held(table) == [(2, "x")]


def test_base_files_are_a_conflict_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = buckets(tmp_path)
    bulk = {**NBCC, "hoodie.datasource.write.operation": "bulk_insert"}
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1), "upsert", NBCC))
    with pytest.raises(CommitConflictError, match="changed the same file groups"):
        table.write(rows(2), options=bulk)
    assert held(table) == [(1, "x")]


def test_a_writer_in_another_mode_does_not_make_a_second_group_of_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = buckets(tmp_path)
    beside(monkeypatch, Transaction, "commit", lambda: table.write(rows(1), "upsert", OCC))
    with pytest.raises(CommitConflictError, match="began the same bucket"):
        table.write(rows(2), "upsert", NBCC)
    assert held(table) == [(1, "x")]


@pytest.mark.parametrize(
    ("more", "mode", "named"),
    [
        ({"hoodie.write.table.version": 6}, "upsert", "version 8"),
        ({"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}, "upsert", "merge-on-read"),
        ({"hoodie.index.type": "SIMPLE"}, "upsert", "bucket index"),
        ({}, "overwrite", "an overwrite"),
    ],
)
def test_what_cannot_be_non_blocking_is_refused(tmp_path: Path, more: dict[str, Any], mode: str, named: str) -> None:
    table = buckets(tmp_path, **more)
    with pytest.raises(UnsupportedError, match=named):
        table.write(rows(1), mode, NBCC)
    assert table.history() == []
