"""`lakebed run PIPELINE.toml`: stream a source through SQL into a sink on Spark, exactly once."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli import output, progress
from lakebed.cli.arguments import DebugOption, JsonOption, MasterOption, RemoteOption
from lakebed.errors import counted

if TYPE_CHECKING:
    from lakebed.spark.pipeline import Pipeline, PipelineResult

_NOISE = (
    "WARNING: Using incubator modules",
    "Setting default log level",
    "To adjust logging level",
    "Setting Spark log",
)
"""Lines that Spark prints at every start."""


def run(
    pipeline: Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline file (TOML).", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check", help="Check the pipeline without Spark, and change nothing.")
    ] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a pipeline: stream a source table through SQL into a sink table. Run it again to resume where it stopped."""
    pipelines = import_module("lakebed.spark.pipeline")  # pyspark takes half a second: only commands that need it wait
    definition = pipelines.load(pipeline)
    pipelines.check(definition)
    if check:
        _checked(definition, import_module("lakebed.spark.pipeline_sql").check_query(definition), json)
        return
    result = run_pipeline(definition, master, remote, title=f"{pipeline}: starting Spark")
    notes = list(dict.fromkeys(note for batch in result.batches for note in batch.notes))
    if json:
        output.emit_json(
            {
                "pipeline": str(pipeline),
                "sink": definition.sink,
                "rows_in": result.rows_in,
                "commits": result.commits,
                "snapshots": list(result.snapshots),
                "notes": notes,
            }
        )
        return
    rows, commits = counted(result.rows_in, "row"), counted(result.commits, "commit")
    output.stdout().print(f"{rows} in {commits} -> {definition.sink}")
    for note in notes:
        output.stdout().print(f"note: {note}")


def _checked(definition: Pipeline, columns: tuple[str, ...], as_json: bool) -> None:
    """Say what a check has found: nothing that speaks against a run."""
    if as_json:
        output.emit_json({"pipeline": definition.file, "sink": definition.sink, "columns": list(columns) or None})
    elif columns:
        output.stdout().print(f"{definition.file}: all well. Columns of the sink's rows: {', '.join(columns)}")
    else:
        output.stdout().print(f"{definition.file}: all well, but only Spark can tell which columns the SQL gives")


def run_pipeline(
    definition: Pipeline,
    master: str | None,
    remote: str | None,
    title: str,
    total: int | None = None,
    brief: bool = False,
) -> PipelineResult:
    """Start a Spark session, run the pipeline in it while showing progress, and stop the session.

    `brief` tunes the session for little data. Raises output.Stopped when it is interrupted after Spark has started; the
    error says what was done and how to resume.
    """
    pipelines, sessions = import_module("lakebed.spark.pipeline"), import_module("lakebed.spark.session")
    stop = threading.Event()
    with progress.steps(title, total) as step, _forwarded(stop) as spark_log:
        spark = sessions.local_session(master=master, remote=remote, brief=brief, apart=spark_log)
        try:

            def on_progress(report: Any) -> None:
                outcome = f"-> snapshot {report.instant}" if report.instant else f"({report.outcome})"
                step(f"batch {report.batch_id}: {counted(report.rows, 'row')} {outcome}")

            with _set_by_interrupts(stop):
                result: PipelineResult = pipelines.run(definition, spark, on_progress, stop)
                return result
        except pipelines.Interrupted as error:
            singular = {0: "nothing was committed", 1: "1 commit stands"}
            outcome = singular.get(error.result.commits, f"{counted(error.result.commits, 'commit')} stand")
            raise output.Stopped(f"interrupted: {outcome}. To resume: lakebed run {definition.file}") from None
        finally:
            spark.stop()


@contextmanager
def _set_by_interrupts(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C set the event; a second Ctrl-C raises KeyboardInterrupt.

    An exception in the middle of a call to the JVM would break the connection. PySpark's own handler cancels jobs,
    which the query would take for a failure.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        logging.disable(logging.CRITICAL)  # py4j logs an error for each cancelled call
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _forwarded(stop: threading.Event) -> Iterator[int]:
    """A file descriptor whose lines are forwarded to standard error until the event is set.

    After that they are dropped: what Spark logs about a query that is being stopped is of no interest.
    """
    reading, writing = os.pipe()

    def forward() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not stop.is_set() and not line.startswith(_NOISE):
                    output.log(line.rstrip("\n"))

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield writing
    finally:
        os.close(writing)
