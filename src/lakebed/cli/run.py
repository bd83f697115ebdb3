"""`lakebed run PIPELINE.toml`: source -> SQL -> sink on Spark, streaming, exactly once."""

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

if TYPE_CHECKING:
    from lakebed.spark.pipeline import Pipeline, PipelineResult

_NOISE = (
    "WARNING: Using incubator modules",
    "Setting default log level",
    "To adjust logging level",
    "Setting Spark log",
)
"""What Spark says at every start."""


def run(
    pipeline: Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline file, TOML.", show_default=False)],
    master: MasterOption = None,
    remote: RemoteOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a pipeline: a source that streams, SQL over it, and a sink table. Run again, it goes on where it ended."""
    pipelines = import_module("lakebed.spark.pipeline")  # pyspark takes half a second: only commands that need it wait
    checked = pipelines.load(pipeline)
    pipelines.check(checked)
    result = run_pipeline(checked, master, remote, title=f"{pipeline}: starting Spark")
    notes = list(dict.fromkeys(note for batch in result.batches for note in batch.notes))
    if json:
        output.emit_json(
            {
                "pipeline": str(pipeline),
                "sink": checked.sink,
                "rows_in": result.rows_in,
                "commits": result.commits,
                "snapshots": list(result.snapshots),
                "notes": notes,
            }
        )
        return
    output.stdout().print(f"{result.rows_in} rows in {result.commits} commits -> {checked.sink}")
    for note in notes:
        output.stdout().print(f"note: {note}")


def run_pipeline(
    checked: Pipeline,
    master: str | None,
    remote: str | None,
    title: str,
    total: int | None = None,
    brief: bool = False,
) -> PipelineResult:
    """Start a session (a `brief` one for little data), run the pipeline in it with progress, stop the session.

    Raises output.Stopped when it is interrupted once Spark is there: it says what was done and how to go on.
    """
    pipelines, sessions = import_module("lakebed.spark.pipeline"), import_module("lakebed.spark.session")
    stop = threading.Event()
    with progress.steps(title, total) as step, _forwarded(stop) as said:
        spark = sessions.local_session(master=master, remote=remote, brief=brief, apart=said)
        try:

            def on_progress(report: Any) -> None:
                made = f"-> snapshot {report.instant}" if report.instant else f"({report.outcome})"
                step(f"batch {report.batch_id}: {report.rows} rows {made}")

            with _set_by_interrupts(stop):
                result: PipelineResult = pipelines.run(checked, spark, on_progress, stop)
                return result
        except pipelines.Interrupted as error:
            done = {0: "nothing was committed", 1: "1 commit stands"}
            stands = done.get(error.result.commits, f"{error.result.commits} commits stand")
            raise output.Stopped(f"interrupted: {stands}. To resume: lakebed run {checked.file}") from None
        finally:
            spark.stop()


@contextmanager
def _set_by_interrupts(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C sets the event; a second one raises KeyboardInterrupt.

    An exception in the middle of a call to the JVM would break the connection, and PySpark's own handler cancels jobs,
    which the query would take for a failure.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        logging.disable(logging.CRITICAL)  # py4j tells of work that is cancelled
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
    """A file descriptor whose lines go to standard error, until the event is set: what Spark says of a query that is
    being stopped is no news."""
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
