"""Observers are told of each call that may change a table, once, with its outcome; no call fails by one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import lakebed
from lakebed import observe
from lakebed.errors import LakebedError, RuntimeMissingError, SchemaError
from lakebed.observe import Call

ROWS = pa.table({"id": [1, 2], "text": ["a", "b"]})


@pytest.fixture
def calls() -> Iterator[list[Call]]:
    told: list[Call] = []
    stop = observe.add(told.append)
    yield told
    stop()


@pytest.mark.parametrize("format", ["hudi", "paimon", "iceberg"])
def test_each_call_is_told_once_with_its_outcome(tmp_path: Path, calls: list[Call], format: str) -> None:
    table = lakebed.create(tmp_path / "t", format, ROWS.schema, primary_key=["id"])
    table.write(ROWS)
    table.write(ROWS, "upsert")
    table.rewrite(dry_run=True)
    table.expire()
    with pytest.raises(SchemaError):
        table.write(pa.table({"other": [1]}))
    writer = table.writer("loader")
    writer.write(ROWS)
    writer.commit(7, writer.prepare_commit())
    assert [(call.verb, call.outcome) for call in calls] == [
        ("write", "committed"), ("write", "committed"), ("rewrite", "dry run"), ("expire", "done"), ("write", "failed"),
        ("commit", "committed"),
    ]  # fmt: skip
    assert {(call.format, call.table) for call in calls} == {(format, table.location)}
    assert calls[0].counts["rows"] == 2
    assert calls[0].counts["files"] >= 1
    assert calls[4].error == "SchemaError"
    assert "other" in calls[4].message
    assert all(call.seconds >= 0 and call.began > 1_700_000_000 for call in calls)
    table.read().read_all()
    table.inspect()
    assert len(calls) == 6, "reads are not told"


def test_a_call_does_not_fail_by_its_observer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(call: Call) -> None:
        raise OSError("no room")

    stop = observe.add(broken)
    try:
        assert lakebed.create(tmp_path / "t", "iceberg", ROWS.schema).write(ROWS).rows == 2
    finally:
        stop()
    assert "an observer failed: no room" in caplog.text
    caplog.clear()
    lakebed.open(tmp_path / "t").write(ROWS)
    assert not caplog.text, "one that was stopped is not told"


def test_a_log_stays_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    stop = observe.add(observe.json_lines("log.jsonl"))
    table.write(ROWS)
    monkeypatch.chdir(tmp_path / "elsewhere")
    table.write(ROWS)
    stop()
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_secrets_are_hidden(tmp_path: Path, calls: list[Call]) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
    table.write(ROWS)
    with pytest.raises(LakebedError):
        table.rollback("s3://user:hunter2hunter2@bucket/x?sig=abcdefgh")
    assert "hunter2" not in calls[-1].message + calls[-1].table
    assert "abcdefgh" not in calls[-1].message


def test_the_program_writes_lines_of_json(tmp_path: Path) -> None:
    lakebed.create(tmp_path / "t", "paimon", ROWS.schema, primary_key=["id"], options={"bucket": "1"}).write(ROWS)
    words = [sys.executable, "-m", "lakebed", "rewrite", str(tmp_path / "t")]
    log = tmp_path / "log.jsonl"
    done = subprocess.run(
        words, env={**os.environ, "LAKEBED_OBSERVE": f"stderr,{log}"}, capture_output=True, text=True, check=True
    )
    line = json.loads(log.read_text())
    assert line == json.loads(done.stderr.splitlines()[0])
    assert (line["verb"], line["format"], line["outcome"]) == ("rewrite", "paimon", "done")
    assert line["counts"]["files_before"] == 1
    assert line["time"].endswith("+00:00")
    lost = {**os.environ, "LAKEBED_OBSERVE": str(tmp_path / "no" / "log")}
    refused = subprocess.run(words, env=lost, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "Name a file in a folder that exists" in refused.stderr


def test_open_telemetry_gets_metrics_and_spans(tmp_path: Path) -> None:
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    stop = observe.add(observe.open_telemetry(MeterProvider([reader]), tracers))
    try:
        table = lakebed.create(tmp_path / "t", "iceberg", ROWS.schema)
        table.write(ROWS)
        table.write(ROWS)
        with pytest.raises(SchemaError):
            table.write(pa.table({"other": [1]}))
    finally:
        stop()
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    by_outcome = {point.attributes["lakebed.outcome"]: point for point in metrics["lakebed.calls"].data.data_points}
    assert {outcome: point.value for outcome, point in by_outcome.items()} == {"committed": 2, "failed": 1}
    assert by_outcome["failed"].attributes["error.type"] == "SchemaError"
    assert [point.value for point in metrics["lakebed.rows"].data.data_points] == [4]
    assert sum(point.count for point in metrics["lakebed.call.duration"].data.data_points) == 3
    assert [span.name for span in spans.get_finished_spans()] == ["lakebed write"] * 3
    assert [span.status.is_ok for span in spans.get_finished_spans()] == [True, True, False]


def test_without_open_telemetry_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(RuntimeMissingError, match=r"lakebed\[otel\]"):
        observe.open_telemetry()
