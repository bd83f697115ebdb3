"""The names that users and outside tools rely on."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import lakebed
from lakebed.verbs.table import Table

SIGNATURES = {
    "history": ["archived"],
    "read": ["columns", "where", "as_of"],
    "to_arrow": ["columns", "where", "as_of"],
    "to_pandas": ["columns", "where", "as_of"],
    "to_polars": ["columns", "where", "as_of"],
    "head": ["n", "columns", "where", "as_of"],
    "count": ["where", "as_of"],
    "changes": ["columns", "where", "after", "until"],
    "write": ["data", "mode", "options"],
    "writer": ["commit_user", "callbacks"],
    "rewrite": ["where", "dry_run", "engine", "options"],
    "expire": ["dry_run", "engine", "options"],
    "archive": ["dry_run", "engine", "options"],
    "tag": ["name", "snapshot", "time_retained"],
    "delete_tag": ["name"],
    "inspect": ["options"],
    "relocate": ["dry_run"],
    "rewrite_table_path": ["target", "staging", "since", "dry_run"],
    "add_files": ["paths", "dry_run", "engine", "options"],
    "repair": ["dry_run", "engine", "options"],
    "compute_partition_stats": ["snapshot", "dry_run"],
    "compute_table_stats": ["columns", "snapshot", "dry_run", "engine"],
    "mark_partition_done": ["partitions", "dry_run", "options"],
    "alter": ["changes", "dry_run"],
}


@pytest.mark.parametrize(("verb", "arguments"), SIGNATURES.items())
def test_a_table_has_every_verb(verb: str, arguments: list[str]) -> None:
    assert list(inspect.signature(getattr(Table, verb)).parameters)[1:] == arguments


def test_the_package_has_its_names() -> None:
    names = {"open", "create", "catalog", "LocalEngine", "errors", "example", "callbacks", "hudi", "spark"}
    assert names <= set(dir(lakebed))
    assert callable(lakebed.hudi.post_commit)
    assert inspect.isclass(lakebed.callbacks.CommitCallback)
    assert inspect.isclass(lakebed.callbacks.TagCallback)
    for name in ("register", "read", "write", "write_stream", "SparkEngine", "ship"):
        assert callable(getattr(lakebed.spark, name))
    with pytest.raises(AttributeError, match="nothing_such"):
        lakebed.nothing_such  # noqa: B018


@pytest.mark.slow
def test_work_without_spark_does_not_load_it() -> None:
    heavy = "{'pyspark', 'datafusion', 'sqlglot', 'fastavro'}"
    code = f"import sys, lakebed; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_the_example_is_there() -> None:
    orders = lakebed.open(lakebed.example("orders"))
    assert orders.format == "hudi" and orders.read(["order_id"]).read_all().num_rows == 2080
    with pytest.raises(lakebed.errors.UsageError, match="Examples: orders"):
        lakebed.example("nothing")
