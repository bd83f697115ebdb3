"""PySparks that platforms bring: the oldest one that lakebed runs on, and those that do not tell a stream where a
batch begins.

Only pyspark and py4j differ from the environment of the other tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RELEASES = {
    "3.5": "LAKEBED_HUDI_JVM_PYTHON", "4.0": "LAKEBED_ICEBERG_JVM_PYTHON", "4.1": "LAKEBED_ICEBERG_JVM_41_PYTHON",
}  # fmt: skip
"""The variable that names a Python with that PySpark."""
KINDS = {"hudi": ("", "+I"), "paimon": ("-U", "+U"), "iceberg": ("-D", "+I")}
"""The kinds of a row before and after its update, as a stream of the format's changes has them."""
DELETED = {"hudi": "-D 1 None", "paimon": "-D 1 old", "iceberg": "-D 1 old"}
STEPS = ("append", "upsert", "stream", "upkeep")
WAYS = ("read natively", "through Python", "without Spark")


def on(release: str, folder: Path, mode: str = "classic") -> dict[str, Any]:
    """What the program saw on that PySpark."""
    packages = folder / "packages"
    packages.mkdir()
    python = os.environ[RELEASES[release]]
    where = "import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parents[1])"
    site = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    for found in [*site.glob("pyspark*"), *site.glob("py4j*")]:
        (packages / found.name).symlink_to(found)
    paths = [str(packages), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.interop.on_older_spark", str(folder / "tables"), mode]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    seen: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    assert seen["release"].startswith(f"{release}.")
    return seen


@pytest.mark.parametrize("release", [*RELEASES])
def test_tables_are_written_read_streamed_and_looked_after(release: str, tmp_path: Path) -> None:
    if release == "3.5" and sys.version_info >= (3, 12):
        pytest.skip("PySpark 3.5 imports distutils, which Python 3.12 and newer lack")
    seen = on(release, tmp_path)
    has_sources = release != "3.5"
    for table_format in ("hudi", "paimon", "iceberg"):
        of_format = seen[table_format]
        steps = [*STEPS, *(["source"] if has_sources and table_format != "hudi" else [])]
        wrong = [f"{step}, {way}" for step in steps for way in WAYS if of_format[f"{step}, {way}"] is not True]
        assert (table_format, wrong) == (table_format, [])
        assert of_format["where"] is True
        assert of_format["files"] == of_format["folders"] >= 3, "five tasks wrote one file per bucket"
        assert of_format["streamed"] == [10, 10], "a second run reads only what is new"
        assert of_format.get("source", True) is True
        if has_sources:
            before, nothing, appended, changed, after = of_format["changes"]
            old, new = KINDS[table_format]
            assert before == [f"+I {number} old" for number in range(4)]
            assert (nothing, appended) == ([], ["+I 4 old"])
            assert changed == sorted([*([f"{old} 0 old"] if old else []), f"{new} 0 new", DELETED[table_format]])
            assert after == ["+I 5 old", *sorted([*([f"{old} 5 old"] if old else []), f"{new} 5 new"])]
    assert seen["paimon"]["rewritten"] and seen["iceberg"]["rewritten"]
    told = "" if release == "4.1" else f"times need PySpark 4.1 or newer, and this is {release}"
    assert told in seen.get("times", "") and bool(told) == ("times" in seen)
    if has_sources:
        assert f"at most so many files needs PySpark 4.2 or newer, and this is {release}" in seen["bounded"]
        assert seen["sql"] > 3
    else:
        assert "lakebed.spark.register needs PySpark 4.0 or newer, and this is 3.5" in seen["register"]
