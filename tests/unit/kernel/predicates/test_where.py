"""`where`: what it keeps, and what it says when it cannot be used (tests/property holds its logic against SQLite)."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.errors import PredicateError
from lakebed.kernel.predicates.where import Where, columns_of, find_column, keep, parse_where

UTC = datetime.UTC
NOON = datetime.datetime(2024, 1, 1, 12, 0, 0, 500)

TABLE = pa.table(
    {
        "n": pa.array([0, 1, 2, 3]),
        "tiny": pa.array([1, None, 100, -5], pa.int8()),
        "big": pa.array([2**62, 2**62 + 1, None, -1], pa.int64()),
        "unsigned": pa.array([2**64 - 1, 0, None, 1], pa.uint64()),
        "text": pa.array(["a_b", "axb", None, "it's"]),
        "word": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "blob": pa.array([b"a", b"b", None, b""]),
        "price": pa.array([Decimal("1.25"), Decimal("-3.00"), None, Decimal("99999999.99")], pa.decimal128(10, 2)),
        "huge": pa.array([Decimal(1), Decimal(10) ** 37, None, Decimal(-1)], pa.decimal128(38, 0)),
        "real": pa.array([0.1, float("nan"), None, -1.5], pa.float64()),
        "single": pa.array([0.1, 2.0, None, -1.5], pa.float32()),
        "zero": pa.array([0.0, -0.0, None, 1.0]),
        "clock": pa.array([datetime.time(0), datetime.time(12, 0, 0, 1000), None, datetime.time(23)], pa.time32("ms")),
        "key": pa.array([b"\0\xff", b"ab", None, b"b\0"], pa.binary(2)),
        "flag": pa.array([True, False, None, True]),
        "day": pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None, datetime.date(1969, 12, 31)]),
        "local": pa.array([NOON, NOON + datetime.timedelta(days=1), None, NOON], pa.timestamp("us")),
        "moment": pa.array([NOON, NOON + datetime.timedelta(days=1), None, NOON], pa.timestamp("us", "UTC")),
        "millis": pa.array(
            [NOON.replace(microsecond=0), None, None, NOON.replace(microsecond=1000)], pa.timestamp("ms")
        ),
        "s": pa.StructArray.from_arrays(
            [pa.array([1, 7, None, 2], pa.int32())], ["x"], mask=pa.array([False, True, False, False])
        ),
        "a.b": pa.array([1, 2, 3, 4]),
        "Twin": pa.array([1, 1, 1, 1]),
        "tWIN": pa.array([2, 2, 2, 2]),
    }
)
SCHEMA = TABLE.schema


def kept(where: object) -> list[int]:
    predicate = parse_where(where, SCHEMA)  # type: ignore[arg-type]
    assert predicate is not None
    return TABLE.filter(predicate.to_arrow())["n"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "rows"),
    [
        # constants that the column's type does not hold
        ("tiny < 300", [0, 2, 3]),
        ("tiny > -300", [0, 2, 3]),
        ("tiny = 300", []),
        ("tiny in (1, 300)", [0]),
        ("tiny not in (300)", [0, 2, 3]),
        ("tiny > 1.5", [2]),
        ("tiny in (1.0, 1.5)", [0]),
        ("300 > tiny", [0, 2, 3]),
        ("tiny between -5.5 and 1.5", [0, 3]),
        ("big = 4611686018427387904", [0]),
        ("big > 4611686018427387904.5", [1]),
        ("big = 4611686018427387905.0", [1]),
        ("big < 99999999999999999999", [0, 1, 3]),
        ("unsigned = 18446744073709551615", [0]),
        ("unsigned > 9223372036854775807", [0]),
        ("unsigned > -1", [0, 1, 3]),
        ("tiny = 1e0", [0]),
        ("tiny = '1'", [0]),
        # decimals compare by value
        ("price = 1.250", [0]),
        ("price > 1.249", [0, 3]),
        ("price in (1.255, -3)", [1]),
        ("price < 0", [1]),
        ("price = 100000000", []),
        ("price < 1e12", [0, 1, 3]),
        ("huge > 0.000001", [0, 1]),
        ("huge = 1.5", []),
        ("huge = 10000000000000000000000000000000000000", [1]),
        ("huge > 9999999999999999999999999999999999999.5", [1]),
        ("huge = 1.00", [0]),
        ("huge < 1e38", [0, 1, 3]),
        ("price = '1.25'", [0]),
        # floats
        ("real = 0.1", [0]),
        ("single = 0.1", [0]),
        ("real < 0", [3]),
        ("real = 1", []),
        ("real is null", [2]),
        # texts
        ("text = 'it''s'", [3]),
        (r"text = 'it\'s'", [3]),
        ("isnan(real)", [1]),
        ("not isnan(real)", [0, 2, 3]),
        # double quotes name a column, as backticks do
        ('"n" > 1', [2, 3]),
        ('"N" > 1 and "a.b" < 4', [2]),
        ('"s"."x" = 2', [3]),
        ("\"text\" = 'it''s'", [3]),
        ("text = 'it\"s'", []),
        # whole numbers against decimals, in an expression of pyarrow
        (pc.field("price") > 1, [0, 3]),
        (pc.field("price") > pa.scalar(1, pa.int8()), [0, 3]),
        (pc.scalar(99_999_999) < pc.field("price"), [3]),
        (pc.field("price") > 10**18, []),
        (pc.field("price") == -3, [1]),
        (pc.field("price") + 1 > 2, [0, 3]),
        (~(pc.field("price") * 2 > 2), [1]),
        (pc.field("price").isin([-3, 1, 10**18]), [1]),
        (pc.field("huge") >= 1, [0, 1]),
        ((pc.field("price") > 1) & (pc.field("n") > 1), [3]),
        ("text in ('''', 'it''s', '')", [3]),
        ("text like 'a_b'", [0, 1]),
        (r"text like 'a\_b'", [0]),
        ("text not like 'a%'", [3]),
        ("text not ilike 'A%'", [3]),
        ("not text like 'a%'", [3]),
        ("not text not like 'a%'", [0, 1]),
        ("text ilike 'A%'", [0, 1]),
        ("startswith(text, 'a')", [0, 1]),
        ("upper(text) = 'AXB'", [1]),
        ("lower(text) in ('axb')", [1]),
        ("text >= 'b'", [3]),
        # other spellings
        ("starts_with(text, 'a') and lcase(text) = ucase('axb')", []),
        ("lcase(text) = 'axb' -- a comment", [1]),
        ("n == 1L or /* another */ n = '2'::int", [1, 2]),
        ("!flag or flag is unknown", [1, 2]),
        ("real = 0.1D and n != 1", [0]),
        ("day = date('2024-01-01') or day = to_date('2024-01-02')", [0, 1]),
        ("moment > timestamp('2024-01-01 13:00:00')", [1]),
        ("local > timestamp_ntz '2024-01-01 13:00:00'", [1]),
        # a text in double quotes is a column, or an error
        ('"n" = "n"', [0, 1, 2, 3]),
        ("word = 'x'", [0, 3]),
        ("word in ('x', 'z')", [0, 3]),
        ("blob = 'b'", [1]),
        ("blob in ('a', 'b')", [0, 1]),
        ("blob in (X'61', x'')", [0, 3]),
        ("key = X'00FF'", [0]),
        ("key = X'ff'", []),
        ("key > X'6162'", [3]),
        ("X'6162' <= key", [1, 3]),
        ("key in (X'6162', 'ab', X'0ff')", [0, 1]),
        # zeros are equal whatever their sign
        ("zero = 0", [0, 1]),
        ("zero in (0, 5)", [0, 1]),
        ("zero not in (0)", [3]),
        # NaN equals nothing, in a list too
        ("real = 'NaN'", []),
        ("real in ('NaN', 0.1)", [0]),
        ("real not in ('NaN')", [0, 1, 3]),
        ("real <> 'NaN'", [0, 1, 3]),
        ('isnan("real") or is_nan(real)', [1]),
        # times of day
        ("clock = '00:00:00'", [0]),
        ("clock > '12:00'", [1, 3]),
        ("clock < time '12:00:00.001'", [0]),
        ("clock > '12:00:00.0009999'", [1, 3]),
        ("clock in ('23:00', '12:00:00.0010001')", [3]),
        # booleans
        ("flag", [0, 3]),
        ("not flag", [1]),
        ("flag = false", [1]),
        ("flag is true", [0, 3]),
        ("flag is not true", [1, 2]),
        ("flag is false", [1]),
        ("flag is not false", [0, 2, 3]),
        ("(tiny > 0) is not true", [1, 3]),
        ("true", [0, 1, 2, 3]),
        ("null", []),
        ("1 = 1", [0, 1, 2, 3]),
        ("1 > 2", []),
        # dates and times
        ("day = '2024-01-01'", [0]),
        ("day > date '2024-01-01'", [1]),
        ("day < '1970-01-01'", [3]),
        ("day in ('2024-01-01', date '2024-01-02')", [0, 1]),
        ("day between '2024-01-01' and '2024-01-02'", [0, 1]),
        ("day > timestamp '2024-01-01 12:00:00'", [1]),
        ("day = cast('2024-01-02' as date)", [1]),
        ("local = '2024-01-01 12:00:00.0005'", [0, 3]),
        ("local > date '2024-01-01'", [0, 1, 3]),
        ("local > timestamp '2024-01-01 13:00:00'", [1]),
        ("local < '2024-01-01 12:00:00.000500001'", [0, 3]),
        ("local in ('2024-01-01 12:00:00.0005', '2024-01-01 12:00:00.000500001')", [0, 3]),
        ("moment = '2024-01-01 12:00:00.0005'", [0, 3]),
        ("moment > timestamp '2024-01-01 13:00:00'", [1]),
        ("moment > '2024-01-01T14:00:00.0004+02:00'", [0, 1, 3]),
        ("moment > '2024-01-01T12:00:00.0005Z'", [1]),
        ("moment < '2024-01-02'", [0, 3]),
        ("moment < date '2024-01-02'", [0, 3]),
        ("millis = '2024-01-01 12:00:00.0005'", []),
        ("millis > '2024-01-01 12:00:00.0005'", [3]),
        ("millis in ('2024-01-01 12:00:00')", [0]),
        # arithmetic
        ("tiny + 200 > 199", [0, 2]),
        ("tiny * 2 = 2", [0]),
        ("-tiny = 5", [3]),
        ("tiny / 2 = 0.5", [0]),
        ("tiny / 0 = 1", []),
        ("n - tiny = 8", [3]),
        ("n + 0.5 > 2", [2, 3]),
        ("1 + 1 = n", [2]),
        # nulls
        ("tiny is null", [1]),
        ("tiny is not null", [0, 2, 3]),
        ("tiny <=> null", [1]),
        ("tiny <=> 1", [0]),
        ("not (tiny <=> 1)", [1, 2, 3]),
        ("tiny is distinct from 1", [1, 2, 3]),
        ("tiny is not distinct from 1", [0]),
        ("tiny = null", []),
        ("not (tiny = null)", []),
        ("tiny in (1, null)", [0]),
        ("tiny not in (1, null)", []),
        ("null = null", []),
        # names
        ("TINY = 1", [0]),
        ("`tiny` = 1", [0]),
        ("`a.b` = 2", [1]),
        ("Twin = 1", [0, 1, 2, 3]),
        ("tWIN = 1", []),
        ("s.x = 1", [0]),
        ("s.x = 7", []),
        ("s is null", [1]),
        ("s.x is null", [1, 2]),
        # pyarrow expressions
        (pc.field("tiny") > 0, [0, 2]),
        (None, [0, 1, 2, 3]),
    ],
)
def test_kept_rows(where: object, rows: list[int]) -> None:
    if where is None:
        assert parse_where(None, SCHEMA) is None
    else:
        assert kept(where) == rows


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("", "where is empty"),
        ("tiny = ", "cannot parse"),
        ("tiny = 1; drop table x", "cannot parse"),
        ("text = 'open", "cannot parse"),
        ("nope = 1", "unknown column 'nope'.*Columns: n, tiny"),
        ("twin = 1", "ambiguous column 'twin'.*Twin, tWIN"),
        ("s.y = 1", "names no field"),
        ("tiny.x = 1", "names no field"),
        ("text = 5", "put it in quotes"),
        ("text > 5", "put it in quotes"),
        ("day = 20240101", "put it in quotes"),
        ("day = '2024-13-01'", "is not of type date32"),
        ("day = '2024-01-01 12:00:00'", "is not of type date32"),
        ("local > '2024-01-01T00:00:00Z'", "names a time zone, the column has none"),
        ("tiny = 'x'", "is not of type int8"),
        ("tiny = text", "does not fit"),
        ("local = moment", "does not fit"),
        ("tiny", "must evaluate to bool"),
        ("tiny and flag", "does not fit"),
        ("text + 1 = 2", "is not a number"),
        ("text rlike 'x'", "text rlike 'x' is not supported"),
        ("length(text) = 1", "not supported"),
        ("tiny in (select 1)", "a list of values|not supported"),
        ("tiny in (n)", "is not a constant"),
        ("cast(tiny as string) = '1'", "not supported"),
        ("tiny = cast('1' as binary)", "not supported"),
        ("text like tiny", "a pattern must be a text"),
        ("isnan(n)", "isnan takes a float or double"),
        ('text = "it"', "unknown column 'it': Write texts in single quotes"),
        ('text like "it%"', "Write texts in single quotes"),
        ('text in ("a", "b")', "Write texts in single quotes"),
        ('text = "it', "cannot parse"),
        ("text like 'a' escape 'x'", "not supported"),
        ("text like any ('a', 'b')", "pattern must be a text"),
        ("n between symmetric 2 and 1", "not supported|cannot parse"),
        ("text = 'a' 'b'", "not supported"),
        ("s = 1", "is not of type struct|put it in quotes"),
        ("huge > 1e-70", "more digits"),
        ("tiny = 1e900000001", "more digits"),
        ("tiny <=> 900000001e9990160", "more digits"),
        ("huge < -1e900000001", "more digits"),
        ("clock = '25:00'", "is not of type time32"),
        ("text = X'61'", "is binary, the column is string"),
        (pc.field("nope") == 1, "does not fit"),
        (pc.field("tiny"), "must evaluate to bool"),
        (["tiny", "=", 1], "where is a list"),
        (pc.field("local") == pc.field("moment"), "does not fit"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error(where: object, says: str) -> None:
    with pytest.raises(PredicateError, match=says) as raised:
        parse_where(where, SCHEMA)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_long_chain_of_conditions() -> None:
    assert kept(" or ".join(f"n = {n}" for n in range(2, 600))) == [2, 3]
    assert kept(f"n in ({', '.join(map(str, range(2, 6000)))})") == [2, 3]


def test_columns_of() -> None:
    def columns(where: Where) -> tuple[str, ...]:
        return columns_of(parse_where(where, SCHEMA))

    assert columns("text = 'a' and (S.X = 1 or n in (1))") == ("text", "s", "n")
    assert columns((pc.field("flag") & (pc.field("n") > 1)) | pc.field("flag")) == ("flag", "n")
    assert columns("true") == columns(None) == ()


def test_find_column() -> None:
    names = ["id", "Id2", "x", "X"]
    assert [find_column(name, names) for name in ("ID", "id2", "x", "X", "y")] == ["id", "Id2", "x", "X", None]
    assert find_column("twin", ["Twin", "tWIN"]) is None


@pytest.mark.parametrize("where", ["n + 1 > 0", pc.field("n") == pc.field("text").cast(pa.int64())])
def test_a_row_for_which_it_cannot_be_computed(where: Where) -> None:
    rows = pa.record_batch({"n": pa.array([2**63 - 1]), "text": ["one"]})
    predicate = parse_where(where, rows.schema)
    assert predicate is not None
    with pytest.raises(PredicateError, match="fails for a row"):
        keep(rows, predicate)
