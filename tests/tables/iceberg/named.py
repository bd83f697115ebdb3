"""Tables that are made, listed and dropped by their names in a catalog, beside pyiceberg's own client."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import lakebed
from lakebed.errors import TableExistsError, TableNotFoundError, UsageError

COLUMNS = {"id": "int64", "v": "string"}


def check_names(options: Mapping[str, str], database: str = "names") -> None:
    """What lakebed lists, makes and drops in a catalog is what pyiceberg's client sees, and the other way round."""
    settings = {key.removeprefix("lakebed.catalog."): value for key, value in options.items() if "retries" not in key}
    outside = load_catalog("cat", **settings)
    opened = lakebed.catalog("cat", options)
    assert opened.format == "iceberg"
    before = {*opened.databases()}
    opened.create_database(database)
    opened.create_database(database)
    outside.create_namespace("empty")
    assert {*opened.databases()} - before == {"empty", database}
    table = opened.create(f"{database}.orders", COLUMNS, partition_by=["bucket(4, id)"])
    table.write(pa.table({"id": [1], "v": ["x"]}))
    outside.create_table(f"{database}.prices", pa.schema({"id": pa.int64()}))
    assert opened.tables(database) == ["orders", "prices"]
    assert opened.tables("empty") == []
    assert outside.load_table(f"{database}.orders").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x"}]
    assert opened.open(f"{database}.orders").count() == 1
    assert lakebed.tables(f"cat:{database}", options) == [f"cat:{database}.orders", f"cat:{database}.prices"]
    with pytest.raises(TableExistsError):
        opened.create(f"{database}.orders", COLUMNS)
    with pytest.raises(UsageError, match=f"'{database}' of the catalog 'cat' has tables"):
        opened.drop_database(database)
    files = {*table.store.list("metadata").names}
    opened.drop(f"{database}.orders")
    opened.drop(f"{database}.prices")
    assert outside.list_tables(database) == []
    assert files and {*table.store.list("metadata").names} == files, "they stay"
    opened.drop_database(database)
    outside.drop_namespace("empty")
    assert {*opened.databases()} == before
    for absent in (lambda: opened.tables(database), lambda: opened.drop_database(database)):
        with pytest.raises(TableNotFoundError, match=f"no database '{database}'"):
            absent()
    for unknown in (lambda: opened.drop("empty.t"), lambda: opened.open("empty.t")):
        with pytest.raises(TableNotFoundError, match=r"no table 'empty\.t'"):
            unknown()
