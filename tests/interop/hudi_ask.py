"""Runs the programs beside it, each in the environment of its own engine, and gives what they answer."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.conftest import named
from tests.interop.hudi_actors import release_of

HERE = Path(__file__).parent


def ask(python: str, script: str, arguments: list[str], lines: list[str]) -> list[Any]:
    """The answers of a program, which marks them with `ANSWER `, to lines on its standard input; `python` is the
    variable that names its interpreter."""
    interpreter = named(python)
    done = subprocess.run(
        [interpreter, str(HERE / script), *arguments],
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=False,
        env={**os.environ, "TZ": "UTC", "PYSPARK_PYTHON": interpreter},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line.removeprefix("ANSWER ")) for line in done.stdout.splitlines() if line.startswith("ANSWER ")]


def told(release: str, folder: Path, stories: list[dict[str, Any]]) -> dict[str, Any]:
    """What one release of Hudi says of stories of writes (`hudi_stories.py`), by name."""
    engine = release_of(release)
    return {story["name"]: engine.order(do="story", folder=str(folder), story=story) for story in stories}
