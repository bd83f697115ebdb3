"""The options of Hudi's own Spark source: its keys, its defaults, rows without kinds."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.errors import OptionError
from lakebed.formats.hudi.options import READ, SPARK
from lakebed.formats.hudi.read.spark_options import plan_spark_read, spark_stream
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.files import open_store
from lakebed.verbs.read import ReadPlan, run
from lakebed.verbs.stream import drain
from tests.tables.hudi.writing import HudiFolder, t


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    writer = HudiFolder(tmp_path)
    writer.done(1, [writer.base("g", 1, [{"id": k, "ts": 1, "x": k} for k in "abc"])])
    writer.done(
        2,
        [writer.log("g", 1, writer.data(2, [{"id": "a", "ts": 2, "x": "a2"}]) + writer.deletes(2, {"b": None}))],
        deletes=1,
    )
    return HudiTable(open_store(tmp_path), {})


def _rows(plan: ReadPlan) -> dict[str, str]:  # type: ignore[type-arg]  # any split
    actual: pa.Table = run(plan, 1).read_all()
    assert "_row_kind" not in actual.column_names
    return dict(zip(actual["id"].to_pylist(), actual["x"].to_pylist(), strict=True))


def test_batch(table: HudiTable) -> None:
    state = table.state()
    assert _rows(plan_spark_read(state, {"hoodie.metadata.enable": "true"})) == {"a": "a2", "c": "c"}
    assert _rows(plan_spark_read(state, {"as.of.instant": t(1)})) == {"a": "a", "b": "b", "c": "c"}
    optimized = {"hoodie.datasource.query.type": "read_optimized"}
    assert _rows(plan_spark_read(state, optimized)) == {"a": "a", "b": "b", "c": "c"}


def test_incremental_begins_after_its_begin_and_gives_no_deletes(table: HudiTable) -> None:
    options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": t(1)}
    plan = plan_spark_read(table.state(), options)
    assert _rows(plan) == {"a": "a2"}
    assert plan.schema.equals(table.schema)
    with pytest.raises(OptionError, match="begin"):
        plan_spark_read(table.state(), {"hoodie.datasource.query.type": "incremental"})


@pytest.mark.parametrize(
    ("start", "wanted"), [("earliest", [{"a": "a2", "c": "c"}]), ("latest", []), (t(1), [{"a": "a2"}])]
)
def test_streams_start_where_the_offset_says(table: HudiTable, start: str, wanted: list[dict[str, str]]) -> None:
    stream = spark_stream(table.state, {"hoodie.datasource.streaming.startOffset": start})
    assert [_rows(plan) for _, plan in drain(stream)] == wanted
    assert stream.schema.equals(table.schema)


def test_unknown_keys_name_the_nearest(table: HudiTable) -> None:
    with pytest.raises(OptionError, match=r"hoodie\.datasource\.query\.type"):
        plan_spark_read(table.state(), {"hoodie.datasource.query.typ": "snapshot"})


def test_the_document_names_every_option() -> None:
    text = (Path(__file__).parents[4] / "docs" / "hudi-read.md").read_text().lower()
    options = [
        option
        for group in (READ, SPARK)
        for option in group.options
        if not option.doc.startswith(("Accepted without effect: it", "Refused unless it asks for nothing"))
    ]
    assert [option.key for option in options if option.key.lower() not in text] == []
