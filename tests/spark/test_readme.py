"""The README's lines, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.cli.examples import example

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_python_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(example("orders_hudi").parent)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(README), "exec"), {})
    sink = lakebed.open(tmp_path / "out" / "shop.db" / "orders").read().read_all()
    source = lakebed.open(example("orders_hudi")).read(columns=sink.column_names).read_all()
    order = [("order_id", "ascending")]
    assert sink.sort_by(order).equals(source.sort_by(order).cast(sink.schema))
