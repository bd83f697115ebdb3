"""What an installed lakebed says of itself: PySpark comes with the extra `spark` alone; a platform's own stays."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def requirements(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The requirements in the metadata of a wheel that is built here, by their extra ("": always)."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(wheel.read(name))
    by_extra: dict[str, list[str]] = {}
    for line in metadata.get_all("Requires-Dist", []):
        extra = re.search(r"extra == '(\w+)'", line)
        by_extra.setdefault(extra[1] if extra else "", []).append(line.partition(";")[0].strip())
    return by_extra


def test_pyspark_comes_with_its_extra_alone(requirements: dict[str, list[str]]) -> None:
    with_spark = {extra for extra, lines in requirements.items() if any("pyspark" in line for line in lines)}
    assert with_spark == {"spark"}
    assert [line.replace("connect,sql", "sql,connect") for line in requirements["spark"]] == [
        "pyspark[sql,connect]>=3.5"
    ]


def test_the_metadata_have_what_the_project_says(requirements: dict[str, list[str]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(lines: list[str]) -> list[str]:
        return sorted(re.split(r"[\[<>=!~ ]", line)[0] for line in lines)

    assert names(requirements[""]) == names(project["dependencies"])
    assert {*requirements} == {"", *project["optional-dependencies"]}
