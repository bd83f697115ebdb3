"""`lakebed doctor [TABLE]`: what this machine has, what it lacks, and how to get it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated

import typer

import lakebed
from lakebed.cli import output
from lakebed.cli.arguments import DebugOption, JsonOption, OptionOption
from lakebed.errors import LakebedError, counted

_PYTHONS = ((3, 11), (3, 14))
"""The oldest and the newest Python that lakebed is tested with."""
_LIBRARIES = ("pyarrow", "obstore", "datafusion", "pyiceberg", "fastavro", "pyroaring", "sqlglot", "pandas")
_EXTRAS = {
    "hive": ("thrift", "Iceberg tables in Hive catalogs"),
    "glue": ("boto3", "Iceberg tables in Glue catalogs"),
    "sketches": ("datasketches", "Paimon columns that hold sketches"),
}
"""The extras of lakebed: a module that comes with each, and what it is for."""
_KEYS = (
    "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID",
)  # fmt: skip
_LEAST_SCRATCH = 2 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `state` is "ok", "missing" (lakebed does not work without it), or "optional" (only
    what `found` names does not work)."""

    what: str
    state: str
    found: str
    remedy: str = ""


def doctor(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table or folder whose storage is tested.")
    ] = None,
    option: OptionOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Show what this machine has for lakebed and what it lacks: Python, libraries, Java, Spark, storage.

    The exit code is 1 when something is missing that lakebed needs.
    """
    checks = [*_checks()]
    if table is not None:
        checks.append(_storage(table, output.parse_options(option or [])))
    missing = [check for check in checks if check.state == "missing"]
    if json:
        output.emit_json({"ok": not missing, "checks": [asdict(check) for check in checks]})
    else:
        output.show_table(["", "what", "found"], [[check.state, check.what, check.found] for check in checks])
        for check in checks:
            if check.remedy:
                output.log(f"{check.what}: {check.remedy}")
        output.log(f"{counted(len(missing), 'thing')} missing" if missing else "all that lakebed needs is here")
    return 1 if missing else 0


def _checks() -> Iterator[Check]:
    version = sys.version_info[:2]
    lowest, highest = (".".join(map(str, bound)) for bound in _PYTHONS)
    good = _PYTHONS[0] <= version <= _PYTHONS[1]
    remedy = "" if good else f"lakebed is tested with Python {lowest} to {highest}"
    yield Check("Python", "ok" if good else "missing", f"{platform.python_version()}, {sys.executable}", remedy)
    yield Check("lakebed", "ok", f"{lakebed.__version__}, {os.path.dirname(lakebed.__file__)}")
    for name in _LIBRARIES:
        yield _library(name)
    yield from _spark()
    for extra, (module, purpose) in _EXTRAS.items():
        is_installed = importlib.util.find_spec(module) is not None
        remedy = "" if is_installed else f"for {purpose}: pip install 'lakebed[{extra}]'"
        yield Check(
            f"extra {extra}",
            "ok" if is_installed else "optional",
            "installed" if is_installed else "not installed",
            remedy,
        )
    free = shutil.disk_usage(tempfile.gettempdir()).free
    roomy = free >= _LEAST_SCRATCH
    yield Check(
        "room for temporary files",
        "ok" if roomy else "optional",
        f"{free / 2**30:.1f} GiB in {tempfile.gettempdir()}",
        "" if roomy else "large writes and rewrites need more: set TMPDIR to a larger disk",
    )
    yield Check("processors", "ok", f"{os.cpu_count()}")
    keys = [key for key in _KEYS if os.environ.get(key)]
    yield Check("storage settings in the environment", "ok", ", ".join(keys) or "none")


def _library(name: str, state: str = "missing", remedy: str = "") -> Check:
    try:
        return Check(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Check(name, state, "not installed", remedy or f"pip install {name}")


def _spark() -> Iterator[Check]:
    """Spark, the Java that it would start, and the Python of its workers."""
    spark = _library("pyspark", "optional", "for lakebed.spark and pipelines: pip install 'lakebed[spark]'")
    yield spark
    if spark.state != "ok":
        return
    try:
        from lakebed.spark.java import java_home  # noqa: PLC0415 - loads Spark's Python
    except LakebedError as error:
        yield Check("lakebed.spark", "optional", error.what, error.todo)
        return
    try:
        home = java_home()
        yield Check("Java", "ok", str(home))
    except LakebedError as error:
        yield Check("Java", "optional", error.why or error.what, f"Spark needs it. {error.todo}")
    yield _worker(os.environ.get("PYSPARK_PYTHON") or sys.executable)


def _worker(python: str) -> Check:
    """Whether a Spark worker's Python has lakebed, and the version of this one."""
    what, code = "Python of Spark's workers", "import sys, lakebed, pyspark; print('%d.%d' % sys.version_info[:2])"
    todo = f"set PYSPARK_PYTHON to {sys.executable}"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(what, "optional", f"{python} does not start: {error}", todo)
    if answer.returncode:
        return Check(what, "optional", f"{python} lacks lakebed or pyspark", todo)
    own = ".".join(map(str, sys.version_info[:2]))
    if answer.stdout.strip() != own:
        return Check(what, "optional", f"{python} is Python {answer.stdout.strip()}, this one is {own}", todo)
    return Check(what, "ok", python)


def _storage(location: str, options: dict[str, object]) -> Check:
    """Whether a table can be opened, and its newest commit found."""
    what = f"storage of {location}"
    try:
        table = lakebed.open(location, options)
        newest = table.newest_commit()
    except LakebedError as error:
        return Check(what, "missing", error.what + (f": {error.why}" if error.why else ""), error.todo)
    return Check(what, "ok", f"{table.format} table, newest commit {newest.time if newest else 'none'}")
