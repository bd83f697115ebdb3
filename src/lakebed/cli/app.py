"""The `lakebed` program: its commands, and how all of them handle output, errors and exit codes.

The exit code is 0 only when the command did what was asked, 2 for wrong use, 1 for a failure, which is reported in one
line (`--debug` shows the traceback), and 130 after an interrupt. With `--json`, standard output holds one JSON document
and nothing else; after a failure it is {"error": {...}}.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import TextIO

import typer

import lakebed
from lakebed import observe
from lakebed.cli import output
from lakebed.cli.add_files import add_files
from lakebed.cli.alter import alter
from lakebed.cli.archive import archive
from lakebed.cli.branch import branch
from lakebed.cli.cherry_pick import cherry_pick, publish
from lakebed.cli.demo import demo
from lakebed.cli.described import describe, files, partitions, schema
from lakebed.cli.doctor import doctor
from lakebed.cli.expire import expire
from lakebed.cli.history import history
from lakebed.cli.inspect import inspect
from lakebed.cli.mark_partition_done import mark_partition_done
from lakebed.cli.metadata import metadata
from lakebed.cli.new_table import migrate, register, snapshot
from lakebed.cli.read import read
from lakebed.cli.refs import refs
from lakebed.cli.repair import repair
from lakebed.cli.rewrite import rewrite
from lakebed.cli.rewrite_table_path import rewrite_table_path
from lakebed.cli.rollback import rollback
from lakebed.cli.run import run
from lakebed.cli.sql import sql
from lakebed.cli.statistics import compute_partition_stats, compute_table_stats
from lakebed.cli.tag import tag
from lakebed.cli.upkeep import upkeep
from lakebed.errors import LakebedError, ReadWarning, error_text

INTERRUPTED = 130
"""The exit code that shells use for a program ended by Ctrl-C."""

app = typer.Typer(
    name="lakebed",
    help="Hudi, Paimon and Iceberg tables for PySpark, with pip alone.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo,
    run,
    read,
    sql,
    describe,
    schema,
    files,
    partitions,
    metadata,
    history,
    inspect,
    rewrite,
    expire,
    archive,
    upkeep,
    rollback,
    repair,
    alter,
    register,
    snapshot,
    migrate,
    add_files,
    rewrite_table_path,
    compute_table_stats,
    compute_partition_stats,
    refs,
    tag,
    branch,
    cherry_pick,
    publish,
    mark_partition_done,
    doctor,
):
    app.command()(command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"lakebed {lakebed.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Hudi, Paimon and Iceberg tables for PySpark, with pip alone."""


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit the process with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json, debug = "--json" in given, "--debug" in given
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ReadWarning)
            warnings.showwarning = _log_warning
            observe.from_environment()
            code = app(given, standalone_mode=False) or 0
        if code == INTERRUPTED:  # the parser's answer to a KeyboardInterrupt
            code = output.fail("interrupted", code, as_json)
    except (typer.Abort, KeyboardInterrupt):
        code = output.fail("interrupted", INTERRUPTED, as_json)
    except output.Stopped as stopped:
        code = output.fail(str(stopped), INTERRUPTED, as_json)
    except BrokenPipeError:
        sys.stderr.close()
        code = 1
    except Exception as error:
        if debug and not hasattr(error, "format_message"):
            raise
        code = _report(error, as_json)
    sys.exit(code)


def _spoken(message: str) -> str:
    """The parser's message as one sentence, without the words of the library that checks values. A name that is near no
    command comes with all of them."""
    message = re.sub(r": (?:Value|Assertion) error, ", ": ", message.strip())
    message = re.sub(r": Input should be a valid (\w+)[^.]*", r": it is not a valid \1", message)
    if message.startswith("No such command") and "Did you mean" not in message:
        named = sorted(typer.main.get_group(app).commands)
        message = f"{message.rstrip('.')}. Commands: {', '.join(named)}"
    return message.rstrip(".")


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning in one line."""
    output.log(f"warning: {message}")


def _report(error: Exception, as_json: bool) -> int:
    """Report an error in one line and return the exit code."""
    if isinstance(error, LakebedError):
        return output.fail(str(error), error.exit_code, as_json, error)
    wrong_use = getattr(error, "format_message", None)  # the parser's own errors: typer hides their class
    if wrong_use is not None:
        context = getattr(error, "ctx", None)
        message = _spoken(wrong_use())
        if context is not None:
            end = "" if message.endswith("?") else "."
            message = f"{message}{end} See {context.command_path} --help"
        return output.fail(message, 2, as_json)
    return output.fail(f"{error_text(error)}. Run again with --debug for the traceback", 1, as_json)
