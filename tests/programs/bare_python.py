"""A Python with the packages that every PySpark worker has: no lakebed, and no wheel that only lakebed needs."""

from __future__ import annotations

import importlib.util
import venv
from pathlib import Path

HAS = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "dateutil", "pytz", "tzdata", "six")


def bare_python(folder: Path) -> Path:
    """Make one in a folder, with links to the packages of this interpreter. Returns its executable."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in HAS:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue  # a release of pandas that needs it no more
        origin = Path(spec.origin)
        origin = origin.parent if origin.name == "__init__.py" else origin
        for found in (origin, origin.with_name(f"{name}.libs")):
            if found.exists():
                (packages / found.name).symlink_to(found)
    return folder / "bin" / "python"
