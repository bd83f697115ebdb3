"""SQL over tables, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import TableNotFoundError, UsageError
from lakebed.verbs.rows import Rows

ORDERS = pa.table({"id": [1, 2, 3, 4], "Item": ["a", "b", "a", "c"], "amount": [10, 20, 30, 40]})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two tables."""
    monkeypatch.chdir(tmp_path)
    lakebed.create("orders", "paimon", ORDERS.schema, ["id"], options={"bucket": 1}).write(ORDERS)
    lakebed.create("items", "iceberg", {"name": "string", "price": "int64"}).write(
        pa.table({"name": ["a", "b"], "price": [5, 7]})
    )
    return tmp_path


@pytest.fixture
def reads(here: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The columns and conditions of reads."""
    seen: list[tuple[Any, ...]] = []
    read, head = Rows.to_arrow, Rows.head

    def noted(self: Rows, columns: Any = None, where: Any = None, as_of: Any = None) -> pa.Table:
        seen.append((columns, where))
        return read(self, columns, where, as_of)

    def noted_head(self: Rows, n: int = 5, columns: Any = None) -> pa.Table:
        seen.append(("head", n))
        return head(self, n, columns)

    monkeypatch.setattr(Rows, "to_arrow", noted)
    monkeypatch.setattr(Rows, "head", noted_head)
    return seen


@pytest.mark.parametrize(
    ("query", "rows", "read"),
    [
        (
            "select id from 'orders' where amount > 15 order by id",
            [(2,), (3,), (4,)],
            [(["id", "amount"], "`amount` > 15")],
        ),
        (
            "select id from 'orders' where (amount > 15 or id = 1) and item = 'a' and amount * 2 > 15 order by 1",
            [(1,), (3,)],
            [(["id", "Item", "amount"], "`Item` = 'a'")],
        ),
        ("select count(*) from 'orders'", [(4,)], [(["amount"], None)]),
        ('select ITEM, sum(amount) from "orders" group by item order by 2 desc limit 1', [("a", 40)], None),
        (
            "select o.id, i.price from 'orders' o join 'items' i on o.Item = i.name where i.price > 5",
            [(2, 7)],
            [(["id", "Item"], None), (["name", "price"], None)],
        ),
        ("with a as (select id from 'orders') select count(*) from a join a b using (id)", [(4,)], [(["id"], None)]),
        ("select orders.id from 'orders' where orders.id = 4", [(4,)], [(["id"], "`id` = 4")]),
        (
            "select count(*) from 'orders' where amount > (select avg(amount) from 'orders')",
            [(2,)],
            [(["amount"], None)],
        ),
        ("select * from 'orders' where id = 9", [], None),
        ("select content, record_count from 'items#files'", [(0, 2)], []),
        ("select 1 + 1", [(2,)], []),
        ("select id from (select id * 10 as id from 'orders') x where id > 15 order by 1", [(20,), (30,), (40,)], None),
        ("with a as (select id * 10 as id from 'orders') select id from a where id = 40", [(40,)], None),
        ("select * from (select id from 'orders' where id = 3) limit 2", [(3,)], None),
        ("select o.id, amount from 'orders' o natural join (select 2 as id, 20 as amount) x", [(2, 20)], None),
        ("select o.id from 'orders' o left join (select 7 as id) x on o.id = x.id where x.id > 5", [], None),
        ("select Item from 'orders' where Item = 'it''s'", [], [(["Item"], "`Item` = 'it\\'s'")]),
    ],
)
def test_a_query_reads_what_it_names(
    reads: list[tuple[Any, ...]], query: str, rows: list[tuple[Any, ...]], read: list[tuple[Any, ...]] | None
) -> None:
    result = lakebed.sql(query)
    assert [tuple(row.values()) for row in result.to_pylist()] == rows
    assert read is None or reads == read


def test_the_field_of_a_struct_is_no_column(here: Path) -> None:
    rows = pa.table({"id": [1, 2], "place": [{"id": 9}, {"id": 1}]})
    lakebed.create("places", "paimon", rows.schema).write(rows)
    assert lakebed.sql("select id from 'places' where place.id > 5").to_pylist() == [{"id": 1}]
    assert lakebed.sql("select p.id from 'places' p where p.id > 1").to_pylist() == [{"id": 2}]


def test_any_rows_come_from_the_first_files(reads: list[tuple[Any, ...]]) -> None:
    assert lakebed.sql("select * from 'orders' limit 2").num_rows == 2
    assert reads == [("head", 2)]
    assert lakebed.sql("select * from 'orders' order by id desc limit 1").to_pylist()[0]["id"] == 4


def test_a_star_leaves_out_the_formats_own_columns() -> None:
    orders = lakebed.example("orders")
    named = lakebed.sql(f"select * from '{orders}' where _hoodie_commit_time > '2026' limit 1")
    assert named.column_names[:2] == ["_hoodie_commit_time", "order_id"]
    assert "_hoodie_record_key" not in lakebed.sql(f"select * from '{orders}' limit 1").column_names


def test_options_open_the_tables(here: Path) -> None:
    table = lakebed.open("items")
    table.branch("test")
    lakebed.open("items", {"branch": "test"}).write(pa.table({"name": ["c"], "price": [9]}))
    assert lakebed.sql("select count(*) as n from 'items'", {"branch": "test"}).to_pylist() == [{"n": 3}]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select x from orders", "there is no table orders. Write its path in quotes"),
        ("select x from shop.orders", r"there is no table shop\.orders"),
        ("delete from 'orders'", "the text is not one query: lakebed sql only reads"),
        ("select 1; select 2", "the text is not one query"),
        ("", "the text is not one query"),
        ("select from where", "cannot read the query"),
        ("select a from 'orders' as o(a)", "gives columns other names"),
        ("select nothing from 'orders'", "the query failed: .*nothing"),
        ("select 1/0", "the query failed: Divide by zero"),
    ],
)
def test_mistakes_are_told(here: Path, query: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        lakebed.sql(query)
    assert "DataFusion" not in str(caught.value) and "sqlglot" not in str(caught.value)


def test_a_table_that_is_not_there_is_named(here: Path) -> None:
    with pytest.raises(TableNotFoundError, match="nothing"):
        lakebed.sql("select count(*) from 'nothing'")
    with pytest.raises(UsageError, match="no metadata table 'nothing'"):
        lakebed.sql("select count(*) from 'items#nothing'")
