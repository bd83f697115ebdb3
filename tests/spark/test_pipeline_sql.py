"""`lakebed run --check`: a pipeline's SQL, keys and columns are checked without Spark, and nothing is made."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.cli import main
from lakebed.errors import PipelineFileError
from lakebed.spark import pipeline
from lakebed.spark.pipeline_sql import check_query

COLUMNS = ["id", "dt", "amount", "place"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.struct([("city", pa.string())])]
    schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    lakebed.create(tmp_path / "in", "paimon", schema)
    return tmp_path


def given(folder: Path, sql: str | None, sink: str = "") -> tuple[str, ...]:
    transform = "" if sql is None else f"[transform]\nsql = '''{sql}'''"
    text = f"[source]\ntable = '{folder}/in'\n{transform}\n[sink]\ntable = '{folder}/out'\nformat = 'paimon'\n{sink}"
    (folder / "p.toml").write_text(text)
    return check_query(pipeline.load(folder / "p.toml"))


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (None, (*COLUMNS, "_row_kind")),
        ("select * from source", (*COLUMNS, "_row_kind")),
        ("SELECT ID, upper(dt) AS Day, _row_kind FROM source WHERE amount > 1", ("id", "day", "_row_kind")),
        ("select s.id, s.place.city from source s", ("id", "city")),
        ("with a as (select id, amount * 2 as twice from source) select twice, a.id from a", ("twice", "id")),
        ("select id, case when dt = 'a' then 1 else 0 end as is_a, count(*) over (partition by dt) n from source",
         ("id", "is_a", "n")),
        ("select id, date_format(dt, 'yyyy') from source", ()),
        ("select s.id, x.b from source s join other x on s.id = x.id", ()),
    ],
)  # fmt: skip
def test_which_columns_the_sql_gives(source: Path, sql: str | None, columns: tuple[str, ...]) -> None:
    assert given(source, sql) == columns


@pytest.mark.parametrize(
    ("sql", "sink", "said"),
    [
        ("select idd from source", "", r"transform.sql names the unknown column 'idd' .*Did you mean 'id'\?"),
        ("select id from (select dt from source)", "", "names the unknown column 'id'"),
        ("select id from", "", "transform.sql is not SQL .*in line 1"),
        ("delete from source", "", "transform.sql is not a query"),
        ("select id from sorce", "", "transform.sql does not read source"),
        ("select id from source", "primary_key = ['dt']", "sink.primary_key names the unknown column 'dt'"),
        ("select id, dt d from source", "partition_by = ['bucket(4, dt)']", "sink.partition_by names .* 'dt'"),
    ],
)
def test_what_cannot_be_right_is_refused(source: Path, sql: str, sink: str, said: str) -> None:
    with pytest.raises(PipelineFileError, match=said) as refused:
        given(source, sql, sink)
    assert refused.value.file and "sqlglot" not in str(refused.value).lower()


def test_columns_that_the_sink_lacks(source: Path) -> None:
    lakebed.create(source / "out", "paimon", {"id": "int64", "day": "string"})
    assert given(source, "select id, dt as day, _row_kind from source") == ("id", "day", "_row_kind")
    with pytest.raises(PipelineFileError, match=r"the sink has no column 'dt'.*Columns: id, day"):
        given(source, "select id, dt from source")


def test_the_command_says_so_and_makes_nothing(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given(source, "select id, dt from source", "primary_key = ['id']")
    before = sorted(source.rglob("*"))
    for more, out in (([], "all well. Columns of the sink's rows: id, dt"), (["--json"], '"columns"')):
        with pytest.raises(SystemExit) as left:
            main(["run", "--check", str(source / "p.toml"), *more])
        printed = capsys.readouterr().out
        assert not left.value.code and out in printed
    assert json.loads(printed)["columns"] == ["id", "dt"]
    assert sorted(source.rglob("*")) == before
