"""Metrics and structured logs: be told of each call that may change a table, once it has ended.

    from lakebed import observe

    observe.add(observe.json_lines("/var/log/lakebed.jsonl"))      # a line of JSON for each call
    observe.add(observe.open_telemetry())                          # metrics and spans; needs lakebed[otel]
    stop = observe.add(lambda call: print(call.verb, call.outcome, call.seconds))
    stop()

An observer is a function of one `Call`. Told are calls that write, commit, rewrite, expire, archive, alter, tag,
branch, roll back, repair or move tables: the methods of `lakebed.Table`, commits of its `writer`,
`lakebed.spark.write` and the batches of `lakebed.spark.write_stream`. Not told: reads, and
`df.write.format("lakebed")`, whose commit Spark makes in another process. The program `lakebed` adds what the
environment variable LAKEBED_OBSERVE names: `stderr`, the path of a file, or `opentelemetry`; several are separated by
commas.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from lakebed.errors import RuntimeMissingError
from lakebed.kernel.lines import add_line, check_lines
from lakebed.kernel.observers import Call, Observer, observers
from lakebed.version import VERSION

__all__ = ["Call", "Observer", "add", "from_environment", "json_lines", "open_telemetry"]

VARIABLE = "LAKEBED_OBSERVE"
"""The environment variable of the program `lakebed`."""


def add(observer: Observer) -> Callable[[], None]:
    """Tell an observer of every call from now on, in this process. Returns a function that ends it.

    What an observer raises is logged, and the call goes on. Calls of several threads may be told at once.
    """
    observers.append(observer)

    def stop() -> None:
        if observer in observers:
            observers.remove(observer)

    return stop


def json_lines(file: str | os.PathLike[str] = "") -> Observer:
    """An observer that adds a line of JSON to a file for each call; "" is the standard error.

    Keys are the fields of `Call`, and `time`, its beginning in ISO 8601. Each line is added in one piece, so several
    processes may share a file, and a change of the working folder changes nothing. UsageError where the file cannot be
    written.
    """
    path = os.path.abspath(file) if os.fspath(file) else ""
    if path:
        check_lines(path, "log")

    def told(call: Call) -> None:
        line = json.dumps({"time": _iso(call.began), **asdict(call)})
        if path:
            add_line(path, line)
        else:
            sys.stderr.write(f"{line}\n")

    return told


def open_telemetry(meters: Any = None, tracers: Any = None) -> Observer:
    """An observer that records OpenTelemetry metrics, and a span for each call.

    `meters` and `tracers` are providers, by default the global ones that your program has set up. The metrics are the
    counters `lakebed.calls`, `lakebed.rows` and `lakebed.files`, and the histogram `lakebed.call.duration` in seconds.
    Their attributes are `lakebed.verb`, `lakebed.format`, `lakebed.table`, `lakebed.outcome` and, after a failure,
    `error.type`. RuntimeMissingError without the package opentelemetry-api (the extra `otel`).
    """
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415 - an extra
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise RuntimeMissingError(
            "OpenTelemetry is not installed here", todo="Run pip install 'lakebed[otel]'"
        ) from error
    meter = metrics.get_meter("lakebed", VERSION, meter_provider=meters)
    tracer = trace.get_tracer("lakebed", VERSION, tracer_provider=tracers)
    calls = meter.create_counter("lakebed.calls", "{call}", "Calls that have ended")
    counters = {
        name: meter.create_counter(f"lakebed.{name}", unit, what)
        for name, unit, what in (("rows", "{row}", "Rows that were given"), ("files", "{file}", "Files that were made"))
    }
    duration = meter.create_histogram("lakebed.call.duration", "s", "How long calls took")

    def told(call: Call) -> None:
        attributes = {
            "lakebed.verb": call.verb,
            "lakebed.format": call.format,
            "lakebed.table": call.table,
            "lakebed.outcome": call.outcome,
        }
        if call.error:
            attributes["error.type"] = call.error
        calls.add(1, attributes)
        duration.record(call.seconds, attributes)
        for name, counter in counters.items():
            if call.counts.get(name):
                counter.add(call.counts[name], attributes)
        counts = {f"lakebed.{name}": count for name, count in call.counts.items()}
        began = int(call.began * 1e9)
        span = tracer.start_span(f"lakebed {call.verb}", attributes={**attributes, **counts}, start_time=began)
        if call.error:
            span.set_status(Status(StatusCode.ERROR, call.message))
        span.end(began + int(call.seconds * 1e9))

    return told


def from_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Add the observers that LAKEBED_OBSERVE names. Raises what making them raises."""
    for name in filter(None, (part.strip() for part in environment.get(VARIABLE, "").split(","))):
        if name == "opentelemetry":
            add(open_telemetry())
        else:
            add(json_lines("" if name == "stderr" else name))


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
