"""A mistake in a pipeline file is reported with the file, the key and what was expected, before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.errors import PipelineFileError
from lakebed.spark import pipeline

WHOLE = """
[source]
table = "in/orders"
[source.options]
"read.start-commit" = "earliest"
read.commits.limit = 1

[transform]
sql = "select * from source"

[sink]
table = "out/orders"
format = "paimon"
primary_key = ["dt", "order_id"]
partition_by = ["dt"]
[sink.options]
bucket = 4
"""


def loaded(folder: Path, text: str) -> pipeline.Pipeline:
    file = folder / "p.toml"
    file.write_text(text)
    return pipeline.load(file)


def test_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = loaded(tmp_path, WHOLE)
    assert found.source == str(tmp_path / "in/orders")  # from the working directory
    assert found.source_options == {"read.start-commit": "earliest", "read.commits.limit": "1"}
    assert (found.sink, found.sink_format) == (str(tmp_path / "out/orders"), "paimon")
    assert (found.primary_key, found.partition_by) == (("dt", "order_id"), ("dt",))
    assert found.sink_options == {"bucket": "4"}
    assert found.checkpoint == str(tmp_path / "out/orders.checkpoint")
    assert found.trigger == "available-now"


def test_upkeep_is_kept_in_the_order_in_which_it_runs(tmp_path: Path) -> None:
    found = loaded(tmp_path, WHOLE + "[upkeep]\nexpire = 20\nrewrite = 5\n")
    assert list(found.upkeep.items()) == [("rewrite", 5), ("expire", 20)]


def test_a_file_of_the_least(tmp_path: Path) -> None:
    found = loaded(tmp_path, '[source]\ntable="s3a://b/in"\n[sink]\ntable="file:/tmp/out"\nformat="PAIMON"\n')
    assert found.sql is None
    assert (found.source, found.sink, found.sink_format) == ("s3://b/in", "/tmp/out", "paimon")


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (('table = "in/orders"', 'tabel = "in/orders"'), "source.tabel", "Did you mean 'table'"),
        (("[transform]", "[transfrom]"), "transfrom", "Did you mean 'transform'"),
        (("partition_by", "partitioned_by"), "sink.partitioned_by", "Did you mean 'partition_by'"),
        (('table = "in/orders"\n', ""), "source.table", "is missing"),
        (("[sink]", "[sink]\nzzz = 1"), "sink.zzz", "Expected: table, format"),
        (('format = "paimon"', "format = 3"), "sink.format", "sink.format is 3"),
        (('format = "paimon"', 'format = "delta"'), "sink.format", "expected one of hudi, paimon"),
        (('format = "paimon"\n', ""), "sink.format", "is missing"),
        (('["dt", "order_id"]', '"dt"'), "sink.primary_key", "expected a list of texts"),
        (('["dt", "order_id"]', "[1]"), "sink.primary_key", "expected a list of texts"),
        (("bucket = 4", "bucket = [4]"), "sink.options.bucket", "expected a text, a number, true or false"),
        (('"select * from source"', '" "'), "transform.sql", "expected a text that is not empty"),
        (('table = "in/orders"', 'table = "hdfs://a/b"'), "source.table", "HDFS"),
        (("[transform]", "[upkeep]\nrewrite = 0\n[transform]"), "upkeep.rewrite", "at least 1"),
        (("[transform]", "[upkeep]\nexpire = true\n[transform]"), "upkeep.expire", "expected a number of commits"),
        (("[transform]", "[upkeep]\nrewrites = 5\n[transform]"), "upkeep.rewrites", "Did you mean 'rewrite'"),
        (("[transform]", '[run]\ntrigger = "hourly"\n[transform]'), "run.trigger", '"continuous"'),
        (("[transform]", "[run]\ncheckpoint = true\n[transform]"), "run.checkpoint", "run.checkpoint is True"),
    ],
)
def test_a_mistake(tmp_path: Path, change: tuple[str, str], key: str, words: str) -> None:
    assert change[0] in WHOLE
    with pytest.raises(PipelineFileError) as caught:
        loaded(tmp_path, WHOLE.replace(*change, 1))
    assert caught.value.key == key
    assert caught.value.exit_code == 2
    assert words in str(caught.value)
    assert str(tmp_path / "p.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["= 1", "source = 3\n[sink]\n", "\xff"])
def test_no_pipeline_at_all(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(PipelineFileError, match=r"p\.toml"):
        pipeline.load(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="no such pipeline file"):
        pipeline.load(tmp_path / "none.toml")
