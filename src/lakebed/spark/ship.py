"""Send lakebed and the wheels it needs to workers that lack them, as one archive artifact of the session.

Native wheels cannot be imported from a zip on the path, so the archive is unpacked beside each worker and
`worker.unpack` adds that folder to the path.
"""

from __future__ import annotations

import importlib.metadata as metadata
import re
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import RuntimeMissingError
from lakebed.spark.worker import SHIPPED_FOLDER

_ON_WORKERS = frozenset({"pyspark", "pyarrow", "pandas", "numpy", "typer", "rich"})
"""What workers have (Spark's own Python needs) or never use (the command line)."""


def ship(spark: SparkSession) -> Path:
    """Pack lakebed with its wheels and add it to the session; gives the archive. Call it before the first job.

    Workers must run the same operating system, processor and Python version as this process, for wheels are native.
    They need pyspark and pyarrow, as every PySpark worker does. Over Connect an artifact reaches batch work only
    (reads, writes, engine tasks): a stream's source and sink run in the server's own Python, which must have lakebed
    installed.
    """
    archive = pack_environment(Path(tempfile.mkdtemp(prefix="lakebed-ship-")))
    spark.addArtifacts(f"{archive}#{SHIPPED_FOLDER}", archive=True)
    return archive


def pack_environment(folder: Path) -> Path:
    """The archive: this lakebed, and the files of each distribution that it requires, without tests and caches."""
    archive = folder / f"{SHIPPED_FOLDER}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        package = Path(lakebed.__file__).parent
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and "_examples" not in file.parts:
                target.write(file, f"lakebed/{file.relative_to(package)}")
        for distribution in _required("lakebed"):
            for entry in distribution.files or ():
                inside = not entry.is_absolute() and ".." not in entry.parts and "__pycache__" not in entry.parts
                if inside and Path(str(entry.locate())).is_file():
                    target.write(str(entry.locate()), str(entry))
    return archive


def _required(root: str) -> list[metadata.Distribution]:
    """The distributions that `root` needs at run time, itself and what workers have left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            if name == root:
                raise RuntimeMissingError(
                    f"{root} is not installed as a package here, so what it needs is not known",
                    todo="Install it with pip, then ship it",
                ) from error
            continue  # needed on another system or Python only
        if name != root:
            found[name] = distribution
        for requirement in distribution.requires or ():
            needed = re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0].lower().replace("_", "-")
            if "extra ==" not in requirement and needed not in _ON_WORKERS and needed not in found:
                waiting.append(needed)
    return list(found.values())
