"""Send lakebed and the wheels it needs to workers that lack them, as one archive artifact of the session.

Native wheels cannot be imported from a zip on the path, so the archive is unpacked beside each worker and
`worker.unpack` adds that folder to the path.
"""

from __future__ import annotations

import importlib.metadata as metadata
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import RuntimeMissingError, UsageError
from lakebed.spark.worker import SHIPPED_FOLDER

_ON_WORKERS = frozenset({"pyspark", "pyarrow", "pandas", "numpy", "typer", "rich"})
"""What workers have (Spark's own Python needs) or never use (the command line)."""
_EXTRAS = ("glue", "hive", "sketches")
"""Extras of lakebed that a worker can use."""
_REQUIREMENT = re.compile(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def ship(spark: SparkSession, extras: Iterable[str] = ()) -> Path:
    """Pack lakebed with its wheels and add it to the session; gives the archive. Call it before the first job.

    Workers must run the same operating system, processor and Python version as this process, for wheels are native.
    They need pyspark, pyarrow and pandas, as every PySpark worker does. `extras` are those of lakebed's extras that
    workers need too: "glue", "hive", "sketches". Over Connect an artifact does not reach `write_stream`, whose batches
    run in the server's own Python: install lakebed there.
    """
    archive = pack_environment(Path(tempfile.mkdtemp(prefix="lakebed-ship-")), extras)
    spark.addArtifacts(f"{archive}#{SHIPPED_FOLDER}", archive=True)
    return archive


def pack_environment(folder: Path, extras: Iterable[str] = ()) -> Path:
    """The archive: this lakebed and each distribution that it requires, with their metadata, without caches."""
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
    """The files of a distribution that lie in its site-packages folder. Its metadata go along: some libraries ask for
    their own version while they are imported."""
    for entry in distribution.files or ():
        inside = not entry.is_absolute() and ".." not in entry.parts and "__pycache__" not in entry.parts
        if metadata_only:
            inside = inside and entry.parts[0].endswith(".dist-info") and entry.name != "direct_url.json"
        if inside and Path(str(entry.locate())).is_file():
            yield entry


def _required(root: str, extras: frozenset[str] = frozenset()) -> dict[str, metadata.Distribution]:
    """`root` and the distributions that it needs at run time, by name, without those that workers have."""
    found: dict[str, metadata.Distribution] = {}
    asked: dict[str, frozenset[str]] = {}
    waiting = [(root, extras)]
    while waiting:
        name, wanted = waiting.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            if name == root:
                raise RuntimeMissingError(
                    f"{root} is not installed as a package here, so what it needs is not known",
                    todo="Install it with pip, then ship it",
                ) from error
            continue  # needed on another system or Python only
        found[name], asked[name] = distribution, asked.get(name, frozenset()) | wanted
        for requirement in distribution.requires or ():
            needed, its_extras, only_with = _parsed(requirement)
            due = not only_with or only_with & asked[name]
            if due and needed not in _ON_WORKERS and not (needed in found and its_extras <= asked[needed]):
                waiting.append((needed, its_extras))
    return found


def _parsed(requirement: str) -> tuple[str, frozenset[str], frozenset[str]]:
    """A requirement's name and extras, and the extras of which it is a part. Markers of systems and Python versions are
    passed over: what they rule out is not installed."""
    wanted, _, marker = requirement.partition(";")
    match = _REQUIREMENT.match(wanted)
    name, extras = (match[1], match[2] or "") if match else (wanted, "")
    return (
        re.sub(r"[-_.]+", "-", name).lower(),
        frozenset(extra.strip() for extra in extras.split(",") if extra.strip()),
        frozenset(_EXTRA.findall(marker)),
    )
