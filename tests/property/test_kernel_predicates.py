"""SQL's three-valued logic: random predicates keep the rows that SQLite keeps."""

import datetime
import sqlite3
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakebed.kernel.predicates.where import columns_of, parse_where

WORDS = ["", "a'b", "a", "ab", "b", "a%", "a_b", "é", "B"]
DAYS = [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]
MOMENTS = [datetime.datetime(2024, 2, 29, 23, 59, 59, us) for us in (0, 1, 999_999)]
PRICES = [Decimal("-1.50"), Decimal("0.00"), Decimal("0.25"), Decimal("2.00")]
TYPES = {
    "i": (pa.int32(), [-2, -1, 0, 1, 2, 3]),
    "j": (pa.int64(), [-2, -1, 0, 1, 2, 2**40]),
    "f": (pa.float64(), [-1.5, 0.0, 0.25, 2.0]),
    "p": (pa.decimal128(10, 2), PRICES),
    "t": (pa.string(), WORDS),
    "d": (pa.date32(), DAYS),
    "m": (pa.timestamp("us"), MOMENTS),
    "b": (pa.bool_(), [True, False]),
}
SCHEMA = pa.schema([("row", pa.int64()), *((name, kind) for name, (kind, _) in TYPES.items())])
NUMBERS = "ijfp"


def literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime.datetime():
            return f"'{value.isoformat(' ', 'microseconds')}'"
        case datetime.date():
            return f"'{value.isoformat()}'"
    return str(value)


def stored(value: object) -> object:
    """A value as SQLite compares it."""
    match value:
        case datetime.datetime():
            return value.isoformat(" ", "microseconds")
        case datetime.date():
            return value.isoformat()
        case Decimal():
            return float(value)  # all of them are exact in binary
    return value


def constants(column: str) -> st.SearchStrategy[str]:
    values = [*TYPES[column][1]]
    if column in NUMBERS:
        values += [0.5, 300, 10**11, Decimal("0.125"), -3]
    return st.sampled_from(values).map(literal)


COMPARE = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
NOT = st.sampled_from(["", "NOT "])


def joined(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map(" ".join)


def comparisons(column: str) -> st.SearchStrategy[str]:
    """Everything that can be said of one column; each form as often as the others."""
    constant = constants(column)
    or_null = st.one_of(constant, st.just("NULL"))
    forms = [
        joined(column, COMPARE, or_null),
        joined(or_null, COMPARE, column),
        joined(column, "IS", NOT, "NULL"),
        joined(column, NOT, "IN (", st.lists(or_null, min_size=1, max_size=4).map(", ".join), ")"),
    ]
    if column == "b":
        forms.append(st.sampled_from(["b", "b IS TRUE", "b IS NOT FALSE", "b = TRUE"]))
    else:
        forms.append(joined(column, NOT, "BETWEEN", or_null, "AND", constant))
    if column == "t":
        forms.append(joined("t", NOT, "LIKE", st.text("ab%_é", max_size=4).map(literal)))
    if column in NUMBERS:
        forms.append(joined(column, COMPARE, st.sampled_from(NUMBERS)))
    if column in "ij":
        sign = st.sampled_from(["+", "-", "*"])
        forms.append(joined(column, sign, st.integers(-2, 2).map(str), COMPARE, constant))
    return st.one_of(forms)


PREDICATES = st.recursive(
    st.sampled_from(sorted(TYPES)).flatmap(comparisons),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda text: f"NOT ({text})"),
        inner.map(lambda text: f"({text}) IS NOT TRUE"),
    ),
    max_leaves=6,
)
ROWS = st.lists(
    st.tuples(*(st.one_of(st.none(), st.sampled_from(values)) for _, values in TYPES.values())), min_size=1, max_size=12
)


@pytest.fixture(scope="module")
def sqlite() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = TRUE")
    return connection


@given(ROWS, PREDICATES)
@example([(None,) * 8], "i NOT IN (1, NULL)")
@example([(1, None, None, None, None, None, None, None)], "NOT (i IN (2, NULL))")
@settings(max_examples=120, deadline=None)
def test_the_rows_that_sqlite_keeps(sqlite: sqlite3.Connection, rows: list[tuple[object, ...]], where: str) -> None:
    columns = [list(range(len(rows))), *map(list, zip(*rows, strict=True))]
    table = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    sqlite.execute("DROP TABLE IF EXISTS t")
    sqlite.execute(f"CREATE TABLE t ({', '.join(SCHEMA.names)})")
    sqlite.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", [
        (n, *map(stored, row)) for n, row in enumerate(rows)
    ])  # fmt: skip
    wanted = [n for (n,) in sqlite.execute(f'SELECT "row" FROM t WHERE {where} ORDER BY "row"')]
    predicate = parse_where(where, SCHEMA)
    assert predicate is not None
    assert table.filter(predicate.to_arrow())["row"].to_pylist() == wanted
    needed = table.select(["row", *columns_of(predicate)])
    assert needed.filter(predicate.to_arrow())["row"].to_pylist() == wanted
