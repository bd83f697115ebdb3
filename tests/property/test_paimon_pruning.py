"""No condition loses a row by what is known of files: random conditions, over statistics, buckets and file indexes of
every type, keep the rows that they keep of the whole table."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import PredicateError

Draw = Callable[[random.Random], Any]
EPOCH = datetime(1970, 1, 1)
NUMBERS = [-(2**31), -7, -1, 0, 1, 2, 5, 100, 2**31 - 1]
FLOATS = [0.0, -0.0, 0.1, 0.7, -1.5, 1e30, float("nan"), float("inf"), 3.0]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "b",
    "é",
    "éé",
    "zzzzzzzzzzzzzzzzzzzz",
    "zzzzzzzzzzzzzzzzzzzy",
    "a%",
    "\U0010ffff" * 17,
]
TIMES = [EPOCH + timedelta(milliseconds=n) for n in (-5000, -1, 0, 1, 86_400_000, 1_700_000_000_123)]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i16": (pa.int16(), [-300, 0, 7, 300]),
    "i32": (pa.int32(), NUMBERS),
    "i64": (pa.int64(), [*NUMBERS, -(2**63) + 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), FLOATS),
    "d9": (pa.decimal128(9, 2), [Decimal(text) for text in ("-1.00", "0.00", "0.10", "0.70", "9999999.99")]),
    "d30": (pa.decimal128(30, 3), [Decimal(text) for text in ("-1.000", "0.100", "123456789012345678901.500")]),
    "s": (pa.string(), TEXTS),
    "b": (pa.binary(), [b"", b"\0", b"a", b"\xff" * 20]),
    "dt": (pa.date32(), [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]),
    "t3": (pa.timestamp("ms"), TIMES),
    "t6": (pa.timestamp("us"), [*TIMES, EPOCH + timedelta(microseconds=1)]),
    "t9": (pa.timestamp("ns"), TIMES),
    "tz": (pa.timestamp("us", "UTC"), [time.replace(tzinfo=UTC) for time in TIMES]),
    "o": (pa.bool_(), [True, False]),
}
INDEXES = {
    "bloom-filter": [name for name in COLUMNS if name not in ("d9", "d30", "o")],
    "bitmap": [name for name in COLUMNS if name not in ("d9", "d30", "b")],
    "bsi": ["i8", "i16", "i32", "i64", "d9", "dt", "t3", "t6", "t9", "tz"],
    "range-bitmap": [name for name in COLUMNS if name not in ("d30", "b", "t9")],
}
RELATIONS = (pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal)
ROUNDS = 30


def rows(random_: random.Random, count: int, schema: pa.Schema) -> pa.Table:
    """Rows of a file: each column has few values of its list, or none."""
    columns = {}
    for name, (kind, values) in COLUMNS.items():
        chosen = [*random_.sample(values, min(len(values), random_.randint(1, 3))), *[None] * random_.randint(0, 1)]
        chosen = [None] if random_.random() < 0.1 else chosen
        columns[name] = pa.array(random_.choices(chosen, k=count), kind)
    columns["k"] = pa.array(random_.choices(range(40), k=count), pa.int32())
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def condition(random_: random.Random, depth: int = 0) -> pc.Expression:
    """A random condition."""
    if depth < 3 and random_.random() < 0.5:
        one, other = condition(random_, depth + 1), condition(random_, depth + 1)
        return random_.choice([one & other, one | other, ~one])
    name = random_.choice([*COLUMNS, "k"])
    kind, values = COLUMNS.get(name, (pa.int32(), [*range(0, 45, 7)]))
    column, literal = pc.field(name), pa.scalar(random_.choice(values), kind)
    draw = random_.random()
    if draw < 0.1:
        return column.is_null() if draw < 0.05 else column.is_valid()
    if draw < 0.25:
        chosen = pa.array(random_.choices([*values, None], k=random_.randint(1, 4)), kind)
        return column.isin(chosen)
    if name == "s" and draw < 0.5:
        pattern = literal.as_py()[: random_.randint(0, 3)]
        return random_.choice([pc.starts_with(column, pattern), pc.match_like(column, pattern + "%")])
    if draw < 0.4 and (other := other_literal(random_, kind)) is not None:
        literal = other
    return random_.choice(RELATIONS)(column, literal)


def other_literal(random_: random.Random, kind: pa.DataType) -> pa.Scalar | None:
    """A literal of another type than the column, or one that its type does not hold."""
    if pa.types.is_integer(kind):
        return random_.choice(
            [pa.scalar(2.5), pa.scalar(2.0), pa.scalar(2.0**53), pa.scalar(Decimal("1.5")), pa.scalar(300)]
        )
    if pa.types.is_floating(kind):
        return random_.choice([pa.scalar(0.7), pa.scalar(0.1), pa.scalar(1), pa.scalar(0.7, pa.float32())])
    if pa.types.is_decimal(kind):
        return random_.choice([pa.scalar(0.1), pa.scalar(Decimal("0.105")), pa.scalar(1)])
    if pa.types.is_timestamp(kind):
        zone = kind.tz
        return random_.choice([pa.scalar(1, pa.timestamp("ns", zone)), pa.scalar(0, pa.timestamp("s", zone))])
    return None


def made(folder: Path, key: bool, random_: random.Random, **options: str) -> Table:
    """A table of several files, with every index."""
    schema = pa.schema([pa.field("k", pa.int32(), not key), *((name, kind) for name, (kind, _) in COLUMNS.items())])
    indexes = {f"file-index.{kind}.columns": ",".join(names) for kind, names in INDEXES.items()}
    sizes = {f"file-index.bloom-filter.{name}.items": "20" for name in INDEXES["bloom-filter"]}
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    table = lakebed.create(folder, "paimon", schema, ["k"] if key else [], options={**indexes, **sizes, **named})
    for _ in range(6):
        table.write(rows(random_, random_.randint(1, 12), schema))
    return table


def plain(table: pa.Table) -> Counter[Any]:
    return Counter(map(repr, table.to_pylist()))


@pytest.mark.parametrize("name", ["append", "embedded", "key", "compacted", "partial"])
def test_no_condition_loses_a_row(name: str, tmp_path: Path) -> None:
    random_ = random.Random(name)
    key = name in ("key", "compacted", "partial")
    options = {"bucket": "2"} if key else {}
    options |= {"embedded": {"file__index_in__manifest__threshold": "1 mb"}}.get(name, {})
    options |= {"partial": {"merge__engine": "partial-update"}}.get(name, {})
    table = made(tmp_path / "t", key, random_, **options)
    if name == "compacted":
        table.rewrite()
    whole = table.read().read_all()
    skipped, files = 0, sum(len(split.files) for split in table.plan_read().splits)
    for _ in range(ROUNDS):
        where = condition(random_)
        try:
            wanted = plain(whole.filter(where))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        try:
            found = table.read(where=where).read_all()
        except PredicateError:
            continue
        assert plain(found) == wanted, where
        skipped += sum(len(split.files) for split in table.plan_read(where=where).splits) < files
    assert skipped
