"""Send lakebed and the wheels that it needs to workers that lack them, as one archive artifact of the session.

Native wheels cannot be imported from a zip file. So Spark unpacks the archive beside each worker, and `worker.unpack`
adds that folder to the path.
"""

from __future__ import annotations

import atexit
import importlib.metadata as metadata
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import RuntimeMissingError, UsageError
from lakebed.spark.release import VERSION, parsed
from lakebed.spark.worker import SHIPPED_FOLDER

_ON_WORKERS = frozenset({"pyspark", "pyarrow", "pandas", "numpy", "typer", "rich"})
"""Packages that every worker has, since Spark's own Python needs them, or that only the command line uses."""
_EXTRAS = ("glue", "hive", "sketches")
"""The extras of lakebed that workers can use."""
_ARTIFACTS = (4, 0)
"""The release since which a classic session takes artifacts. (One over Connect always did.)"""
_REQUIREMENT = re.compile(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def ship(spark: SparkSession, extras: Iterable[str] = ()) -> Path:
    """Pack lakebed with its wheels, add the archive to the session, and return its path. Call it before the first job.

        lakebed.spark.ship(spark)

    Workers must have the same operating system, processor and Python version as this process, because wheels are
    native. They need pyspark, pyarrow and pandas, as every PySpark worker does. `extras` names the extras of lakebed
    that workers also need: "glue", "hive", "sketches".

    Over Connect, artifacts do not reach `write_stream`, whose batches run in the server's own Python: install lakebed
    there. Raises UsageError for an unknown extra, RuntimeMissingError when lakebed itself was not installed with pip.

    The archive, of some 80 MB, stays until this process ends: an executor that starts later fetches it then.
    """
    folder = Path(tempfile.mkdtemp(prefix="lakebed-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        archive = pack_environment(folder, extras)
        if parsed(VERSION) < _ARTIFACTS and isinstance(spark, SparkSession):
            spark.sparkContext.addArchive(f"{archive}#{SHIPPED_FOLDER}")
        else:
            spark.addArtifacts(f"{archive}#{SHIPPED_FOLDER}", archive=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return archive


def pack_environment(folder: Path, extras: Iterable[str] = ()) -> Path:
    """Write the archive: this lakebed and the distributions that it requires, with their metadata."""
    wanted = frozenset(extras)
    for extra in wanted.difference(_EXTRAS):
        raise UsageError(f"lakebed has no extra {extra!r} for workers", todo=f"Extras: {', '.join(_EXTRAS)}")
    distributions = _required("lakebed", wanted)
    archive = folder / f"{SHIPPED_FOLDER}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        package = Path(lakebed.__file__).parent
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and "_examples" not in file.parts:
                target.write(file, f"lakebed/{file.relative_to(package)}")
        for name, distribution in distributions.items():
            for entry in _packed(distribution, metadata_only=name == "lakebed"):
                target.write(str(entry.locate()), str(entry))
    return archive


def _packed(distribution: metadata.Distribution, metadata_only: bool) -> Iterator[metadata.PackagePath]:
    """The files of a distribution that lie in its site-packages folder. Its metadata come along, since some libraries
    look up their own version when they are imported."""
    for entry in distribution.files or ():
        inside = not entry.is_absolute() and ".." not in entry.parts and "__pycache__" not in entry.parts
        if metadata_only:
            inside = inside and entry.parts[0].endswith(".dist-info") and entry.name != "direct_url.json"
        if inside and Path(str(entry.locate())).is_file():
            yield entry


def _required(root: str, extras: frozenset[str] = frozenset()) -> dict[str, metadata.Distribution]:
    """`root` and the distributions that it needs at run time, by name, without those that workers have."""
    distributions: dict[str, metadata.Distribution] = {}
    asked: dict[str, frozenset[str]] = {}
    waiting = [(root, extras)]
    while waiting:
        name, wanted = waiting.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            if name == root:
                raise RuntimeMissingError(
                    f"{root} is not installed as a package here, so the packages that it needs are unknown",
                    todo="Install it with pip, then ship it",
                ) from error
            continue  # needed on another system or Python only
        distributions[name], asked[name] = distribution, asked.get(name, frozenset()) | wanted
        for requirement in distribution.requires or ():
            needed, its_extras, only_with = _parsed(requirement)
            due = not only_with or only_with & asked[name]
            if due and needed not in _ON_WORKERS and not (needed in distributions and its_extras <= asked[needed]):
                waiting.append((needed, its_extras))
    return distributions


def _parsed(requirement: str) -> tuple[str, frozenset[str], frozenset[str]]:
    """A requirement's name, its extras, and the extras that it belongs to.

    Markers for systems and Python versions are ignored: what they rule out is not installed anyway.
    """
    wanted, _, marker = requirement.partition(";")
    match = _REQUIREMENT.match(wanted)
    name, extras = (match[1], match[2] or "") if match else (wanted, "")
    return (
        re.sub(r"[-_.]+", "-", name).lower(),
        frozenset(extra.strip() for extra in extras.split(",") if extra.strip()),
        frozenset(_EXTRA.findall(marker)),
    )
