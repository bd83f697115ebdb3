"""The names in a catalog: what lakebed lists, makes and drops is what pyiceberg's own client sees. Real REST and Hive
servers are in `tests/interop/test_iceberg_lives_outside.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebed
from lakebed.errors import OptionError, UsageError
from tests.tables.iceberg.named import check_names
from tests.unit.iceberg.catalog.conftest import Glue, options_of


def test_a_glue_catalog(glue: Glue) -> None:
    check_names(options_of(glue))


def test_a_sql_catalog(tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/sql"}
    options = {f"lakebed.catalog.{key}": value for key, value in settings.items()}
    check_names(options)
    opened = lakebed.catalog("cat", options)
    opened.create("lake.sales.orders", {"id": "int64"})
    assert opened.databases() == ["lake", "lake.sales"]
    assert opened.tables("lake.sales") == ["orders"]


def test_names_and_options_that_make_no_sense(tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/sql"}
    opened = lakebed.catalog("cat", {f"lakebed.catalog.{key}": value for key, value in settings.items()})
    for name in ("", "a..b", ".a"):
        with pytest.raises(UsageError, match="cannot name a database"):
            opened.tables(name)
    for name in ("orders", "a/b.orders", "sales."):
        with pytest.raises(UsageError, match="not the name of a table"):
            opened.open(name)
        with pytest.raises(UsageError, match="not the name of a table"):
            opened.drop(name)
    with pytest.raises(UsageError, match="only works when the catalog is opened"):
        opened.open("sales.orders", {"lakebed.catalog.uri": "x"})
    with pytest.raises(OptionError, match="Did you mean"):
        opened.open("sales.orders", {"snapshot-idd": "1"})
    beside = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/d.db"}
    relative = lakebed.catalog("cat", {**beside, "lakebed.catalog.warehouse": "out/warehouse"})
    with pytest.raises(UsageError, match=r"is relative.*Give an absolute one.*lakebed\.catalog\.warehouse"):
        relative.create("sales.orders", {"id": "int64"})
    with pytest.raises(UsageError, match="no catalog 'other' is configured"):
        lakebed.catalog("other")
