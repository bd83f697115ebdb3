"""`lakebed demo`: run the main job on the example table, and prove the result by reading both ends.

A Hudi merge-on-read table of orders, written by Hudi's own Spark bundle, streams commit by commit into a new Paimon
table. Then the demo reads the sink and compares it with a snapshot of the source: the number of rows, and a checksum
that does not depend on their order.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, MasterOption
from lakebed.cli.run import run_pipeline
from lakebed.errors import CorruptError, UsageError, counted
from lakebed.examples import example_path as example
from lakebed.verbs.table import Table

_COLUMNS = ("order_id", "customer", "amount", "status", "ts", "dt")
_BUCKETS = 4
_PIPELINE = """# Written by `lakebed demo`. To resume where it stopped: lakebed run {file}
[source]
table = {source}
[source.options]
"read.start-commit" = "{start}"
{bound}
[transform]
sql = "select {columns}, _row_kind from source"

[sink]
table = {sink}
format = "paimon"
primary_key = ["dt", "order_id"]
partition_by = ["dt"]
[sink.options]
bucket = "{buckets}"
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """The number of rows and the checksum of source and sink."""

    source_rows: int
    sink_rows: int
    source_checksum: str
    sink_checksum: str

    @property
    def equal(self) -> bool:
        """Whether the sink holds exactly the rows of the source."""
        return (self.source_rows, self.source_checksum) == (self.sink_rows, self.sink_checksum)


def demo(
    to: Annotated[
        Path | None,
        typer.Option("--output", metavar="FOLDER", help="Folder for the sink. Default: a new temporary folder."),
    ] = None,
    master: MasterOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Stream a Hudi table of orders into a new Paimon table on Spark, and prove that all rows arrived."""
    source = lakebed.open(example("orders_hudi"))
    folder = _fresh_folder(to)
    sink_folder = folder / "demo.db" / "orders"
    first = source.history()[0].time
    file = folder / "orders.toml"
    by_commit = import_module("lakebed.spark.release").HAS_STREAMS
    file.write_text(
        _PIPELINE.format(
            file=file,
            source=_quoted(source.location),
            start=first,
            bound='"read.commits.limit" = "1"\n' if by_commit else "",
            columns=", ".join(_COLUMNS),
            sink=_quoted(str(sink_folder)),
            buckets=_BUCKETS,
        )
    )
    commits = sum(
        instant.action in ("commit", "deltacommit") and instant.state == "completed" for instant in source.history()
    )
    definition = import_module("lakebed.spark.pipeline").load(file)
    batches = commits if by_commit else 1
    result = run_pipeline(definition, master, None, title="starting Spark", total=batches, brief=True)
    sink = lakebed.open(sink_folder)
    proof = _prove(source, sink)
    layout = _layout(sink_folder)
    if json:
        output.emit_json(
            {
                "source": source.location,
                "table": sink.location,
                "rows_in": result.rows_in,
                "rows_out": proof.sink_rows,
                "commits": result.commits,
                "equal": proof.equal,
                "source_rows": proof.source_rows,
                "source_checksum": proof.source_checksum,
                "checksum": proof.sink_checksum,
                "buckets": len(layout),
                "files": sum(layout.values()),
                "pipeline": str(file),
            }
        )
    else:
        _report(source, sink, result, proof, layout, first)
    if not proof.equal:
        raise CorruptError(
            "the sink does not hold the rows of the source",
            table=sink.location,
            why=f"{counted(proof.sink_rows, 'row')} with checksum {proof.sink_checksum[:12]}, "
            f"expected {proof.source_rows} with {proof.source_checksum[:12]}",
            todo="This is a bug in lakebed. Please report it, with the folder named here",
        )


def _fresh_folder(to: Path | None) -> Path:
    if to is None:
        return Path(tempfile.mkdtemp(prefix="lakebed-demo-"))
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(
            f"--output {to} is not an empty folder", todo="Name a new folder: the demo creates a table in it"
        )
    to.mkdir(parents=True, exist_ok=True)
    return to.absolute()


def _quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _prove(source: Table, sink: Table) -> Proof:
    ends = [table.read(columns=list(_COLUMNS)).read_all().cast(_columns_of(source)) for table in (source, sink)]
    return Proof(ends[0].num_rows, ends[1].num_rows, checksum(ends[0]), checksum(ends[1]))


def _columns_of(source: Table) -> pa.Schema:
    return pa.schema([pa.field(name, source.schema.field(name).type) for name in _COLUMNS])


def checksum(rows: pa.Table) -> str:
    """SHA-256 of the rows as CSV, sorted by all columns, so that order, batches and files do not matter."""
    ordered = rows.sort_by([(name, "ascending") for name in rows.column_names])
    sink = io.BytesIO()
    pyarrow.csv.write_csv(ordered, sink)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _layout(sink: Path) -> dict[str, int]:
    """The number of data files in each bucket folder, by the folder's path in the table."""
    counts: dict[str, int] = {}
    for file in sorted(sink.glob("**/bucket-*/data-*")):
        bucket = str(file.parent.relative_to(sink))
        counts[bucket] = counts.get(bucket, 0) + 1
    return counts


def _report(source: Table, sink: Table, result: Any, proof: Proof, layout: dict[str, int], first: str) -> None:
    console = output.stdout()
    console.print("\n[bold]A Hudi merge-on-read table, streamed into a Paimon table[/bold]\n")
    lines: Sequence[tuple[str, object]] = [
        ("source", f"{source.location} ({source.format})"),
        ("sink", f"{sink.location} ({sink.format})"),
        ("changes streamed", result.rows_in),
        ("commits", f"{result.commits}, {'one per commit of the source' if result.commits > 1 else 'with all rows'}"),
        ("rows", proof.sink_rows),
        ("buckets", f"{len(layout)} in {counted(len({bucket.rpartition('/')[0] for bucket in layout}), 'partition')}"),
        ("files", sum(layout.values())),
        ("source snapshot", f"{counted(proof.source_rows, 'row')}, checksum {proof.source_checksum[:16]}"),
        ("read back", f"{counted(proof.sink_rows, 'row')}, checksum {proof.sink_checksum[:16]}"),
        ("equal", "yes" if proof.equal else "NO"),
    ]
    for name, value in lines:
        console.print(f"  {name:<18}{value}", highlight=False, markup=False)
    console.print("\nTry next:", highlight=False)
    for command in (
        f"lakebed read {shlex.quote(sink.location)} --where \"dt = '2026-03-02' and amount > 400\"",
        f"lakebed history {shlex.quote(sink.location)}",
        f"lakebed read {shlex.quote(source.location)} --after {first} --columns order_id,status,amount",
    ):
        console.print(f"  {command}", highlight=False, markup=False)
