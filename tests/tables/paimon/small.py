"""Small Paimon tables to write to."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table

SCHEMA = pa.schema(
    [pa.field("dt", pa.string()), pa.field("id", pa.int64()), pa.field("v", pa.string()), pa.field("n", pa.int32())]
)

Make = Callable[..., Table]


def rows(*values: Sequence[Any], kinds: Sequence[str] = ()) -> pa.Table:
    """Rows (dt, id, v, n), with `_row_kind` where kinds are given."""
    columns = list(zip(*values, strict=True)) if values else [[], [], [], []]
    table = pa.Table.from_arrays(
        [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return table.append_column("_row_kind", pa.array(list(kinds))) if kinds else table


def contents(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    """All rows, sorted."""
    return sorted((tuple(row.values()) for row in table.read(**how).read_all().to_pylist()), key=repr)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a table of SCHEMA partitioned by dt, in a folder of its own."""
    made = 0

    def build(
        primary_key: Sequence[str] = ("dt", "id"), partition_by: Sequence[str] = ("dt",), **options: str
    ) -> Table:
        nonlocal made
        made += 1
        spelled = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
        return lakebed.create(
            tmp_path / f"t{made}", "paimon", SCHEMA, primary_key, partition_by, {"bucket": "2", **spelled}
        )

    return build
