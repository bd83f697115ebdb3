"""`lakebed run PIPELINE.toml`: source -> SQL -> sink on Spark, streaming, exactly once."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli import output, progress
from lakebed.cli.arguments import DebugOption, JsonOption, MasterOption, RemoteOption

if TYPE_CHECKING:
    from lakebed.spark.pipeline import Pipeline, PipelineResult


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
    """Start a session (a `brief` one for little data), run the pipeline in it with progress, stop the session."""
    pipelines, sessions = import_module("lakebed.spark.pipeline"), import_module("lakebed.spark.session")
    with progress.steps(title, total) as step:
        spark = sessions.local_session(master=master, remote=remote, brief=brief)
        try:

            def on_progress(report: Any) -> None:
                made = f"-> snapshot {report.instant}" if report.instant else f"({report.outcome})"
                step(f"batch {report.batch_id}: {report.rows} rows {made}")

            result: PipelineResult = pipelines.run(checked, spark, on_progress)
            return result
        finally:
            spark.stop()
