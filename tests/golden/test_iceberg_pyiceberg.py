"""pyiceberg reads the same rows from the golden tables as lakebed, where it can read them at all."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.golden import names, opening, unpack

CANNOT = {
    "eq_deletes": "equality deletes", "eq_deletes_part": "equality deletes", "variant_v3": "the type variant",
    "mixed_formats": "Avro", "uuid_time_fixed": "Avro",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in names("iceberg") if name not in CANNOT])
def test_the_same_rows(name: str) -> None:
    folder = unpack("iceberg", name)
    table = lakebed.open(folder, opening(folder))
    assert isinstance(table, IcebergTable)
    place = table.operations.load().location
    theirs = StaticTable.from_metadata(Path(place).as_uri() if place.startswith("/") else place)
    assert _bag(theirs.scan().to_arrow()) == _bag(table.read().read_all())


def _bag(rows: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows.to_pylist())
