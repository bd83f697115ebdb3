"""Partition TTL deletes partitions that are too old, and names why the others stay."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import OptionError
from lakebed.kernel import clock

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
SHAPES = [(kind, version) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ") for version in (6, 8, 9)]
START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
TTL = {"lakebed.expire.what": "partitions", "hoodie.partition.ttl.strategy.days.retain": 10}


Go = Callable[[float], None]


@pytest.fixture
def at() -> Iterator[Go]:
    """Sets the clock to a day after the start."""
    days = [0.0]
    with clock.set_clock(lambda: (START + datetime.timedelta(days=days[0])).timestamp()):
        yield lambda day: days.__setitem__(0, day)


def rows(part: str, *ids: int, v: int = 0) -> pa.Table:
    return pa.table({"id": [*ids], "part": [part] * len(ids), "v": [v] * len(ids)}, SCHEMA)


def held(table: Table) -> list[tuple[str, int]]:
    read = table.read(["part", "id"]).read_all()
    return sorted(zip(read["part"].to_pylist(), read["id"].to_pylist(), strict=True))


def make(folder: Path, kind: str, version: int) -> Table:
    options = {"hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": version}
    return lakebed.create(folder, "hudi", SCHEMA, ["id"], ["part"], options)


@pytest.mark.parametrize(("kind", "version"), SHAPES)
def test_partitions_go_by_their_last_write(tmp_path: Path, kind: str, version: int, at: Go) -> None:
    table = make(tmp_path / "table", kind, version)
    at(0)
    table.write(rows("a", 1, 2))
    table.write(rows("b", 3))
    at(9)
    table.write(rows("b", 3, v=1), mode="upsert")  # in a log file, where the table merges on read
    table.write(rows("c[1]*", 4))
    at(12)
    plan = table.expire(dry_run=True, options=TTL)
    assert plan.expired == ("a",) and {kept.what for kept in plan.kept} == {"b", "c[1]*"}
    assert len(held(table)) == 4
    done = table.expire(options=TTL)
    assert done.expired == ("a",) and done.notes
    assert held(table) == [("b", 3), ("c[1]*", 4)]
    assert table.history()[-1].action == "replacecommit"
    assert table.expire(options=TTL).expired == ()
    at(30)
    assert table.expire(options=TTL | {"hoodie.partition.ttl.strategy.max.delete.partitions": 1}).expired == ("b",)
    assert table.expire(options=TTL).expired == ("c[1]*",)
    assert held(table) == []


def test_creation_time_counts_where_it_is_asked_for(tmp_path: Path, at: Go) -> None:
    table = make(tmp_path / "table", "COPY_ON_WRITE", 8)
    at(0)
    table.write(rows("a", 1))
    at(11)
    table.write(rows("a", 1, v=1), mode="upsert")
    table.write(rows("b", 2))
    assert table.expire(options=TTL).expired == ()
    by_creation = TTL | {"hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}
    only_b = by_creation | {"hoodie.partition.ttl.strategy.partition.selected": "b"}
    assert table.expire(options=only_b).expired == ()
    assert table.expire(options=by_creation).expired == ("a",)
    assert held(table) == [("b", 2)]


def test_without_days_nothing_goes(tmp_path: Path) -> None:
    table = make(tmp_path / "table", "COPY_ON_WRITE", 8)
    table.write(rows("a", 1))
    with pytest.raises(OptionError, match=r"days\.retain"):
        table.expire(options={"lakebed.expire.what": "partitions"})
    assert held(table) == [("a", 1)]


def test_a_partition_that_a_pending_compaction_takes_stays(tmp_path: Path, at: Go) -> None:
    table = make(tmp_path / "table", "MERGE_ON_READ", 8)
    at(0)
    table.write(rows("a", 1))
    table.write(rows("a", 1, v=1), mode="upsert")
    table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    at(20)
    result = table.expire(options=TTL)
    assert result.expired == () and "pending compaction" in result.kept[0].reason
