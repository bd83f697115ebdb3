"""Each value of a column is found by a condition that names it, whatever statistics a format keeps of its files."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed

NINES = Decimal("99999999999999999999.999999999999999999")
UTC = datetime.UTC
VALUES: Mapping[pa.DataType, tuple[Any, ...]] = {
    pa.int32(): (-(2**31), -1, 0, 2**31 - 1),
    pa.int64(): (-(2**63), 2**53, 2**53 + 1, 2**63 - 1),
    pa.string(): ("", "a" * 16 + "b", "a" * 16 + "c", "é", "\U0001f600", "it's 100%_"),
    pa.bool_(): (False, True),
    pa.float32(): (float("-inf"), -1.5, 0.0, 16777216.0, float("inf")),
    pa.float64(): (float("-inf"), -1e-10, 0.0, 1e300, float("inf")),
    pa.date32(): tuple(datetime.date(*day) for day in ((1, 1, 1), (1969, 12, 31), (2024, 2, 29), (9999, 12, 31))),
    pa.timestamp("us"): tuple(
        datetime.datetime(*moment)
        for moment in ((1970, 1, 1, 0, 0, 0, 1), (2026, 3, 2, 12, 0, 0, 999_999), (2262, 4, 12, 0, 0, 0, 1))
    ),
    pa.timestamp("us", "UTC"): (
        datetime.datetime(1970, 1, 1, 0, 0, 0, 1, UTC),
        datetime.datetime(2026, 3, 2, 12, 0, 0, 999_999, UTC),
    ),
    pa.binary(): (b"", b"\x00", b"\x7f" * 17, b"\x80", b"\xff" * 20),
    pa.decimal128(3, 1): (Decimal("-99.9"), Decimal("0.0"), Decimal("99.9")),
    pa.decimal128(18, 4): (Decimal("-99999999999999.9999"), Decimal("0.0001"), Decimal("99999999999999.9999")),
    pa.decimal128(38, 18): (NINES.copy_negate(), Decimal("-1E-18"), Decimal("1E-18"), NINES),
}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), *((f"c{n}", kind) for n, kind in enumerate(VALUES))])
EVERY = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.column.stats.max.columns.to.index": 100,
}
TABLES: Mapping[str, tuple[str, Mapping[str, object], Mapping[str, object]]] = {
    "hudi": ("hudi", {}, EVERY),
    "hudi merge-on-read": ("hudi", {"hoodie.table.type": "MERGE_ON_READ"}, EVERY),
    **{f"paimon {kind}": ("paimon", {"file.format": kind}, {}) for kind in ("parquet", "orc", "avro")},
    **{f"iceberg {kind}": ("iceberg", {"write.format.default": kind}, {}) for kind in ("parquet", "orc", "avro")},
}


def literal(value: Any) -> str:
    """A value as `where` takes it."""
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime.datetime):
        return f"timestamp '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"date '{value}'"
    if isinstance(value, float):
        return f"'{value}'"
    return str(value).lower()


@pytest.mark.parametrize("name", TABLES)
def test_each_value_is_found(name: str, tmp_path: Path) -> None:
    """ORC files of lakebed hold no times after 2262."""
    format, options, writing = TABLES[name]
    late = pa.scalar(2**63 // 1000, pa.timestamp("us")).as_py()
    values_of = {
        kind: tuple(value for value in values if kind != pa.timestamp("us") or "orc" not in name or value < late)
        for kind, values in VALUES.items()
    }
    table = lakebed.create(tmp_path / "t", format, SCHEMA, ["id"], options=options)
    rows = [
        {"id": number, **{f"c{n}": values[number % len(values)] for n, values in enumerate(values_of.values())}}
        for number in range(max(map(len, values_of.values())))
    ]
    for part in (rows[:1], rows[1:3], rows[3:]):
        table.write(pa.Table.from_pylist(part, SCHEMA), "upsert", writing)
    for n, values in enumerate(values_of.values()):
        for value in values:
            wanted = [row["id"] for row in rows if row[f"c{n}"] == value]
            found = table.read(["id"], where=f"c{n} = {literal(value)}").read_all()["id"].to_pylist()
            assert sorted(found) == wanted, (f"c{n}", value)
        ordered = sorted((row[f"c{n}"], row["id"]) for row in rows)
        for condition, wanted in (
            (f"c{n} < {literal(values[-1])}", [id for value, id in ordered if value < values[-1]]),
            (f"c{n} >= {literal(values[-1])}", [id for value, id in ordered if value >= values[-1]]),
        ):
            found = table.read(["id"], where=condition).read_all()["id"].to_pylist()
            assert sorted(found) == sorted(wanted), condition
