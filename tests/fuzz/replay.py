"""Whether an input hangs, by the processor time that it takes: the fuzzer's own limit is the clock on the wall."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_DECODE = """
import resource, sys
from contextlib import suppress
from pathlib import Path
from tests.fuzz.targets import TARGETS

target, data, seconds = TARGETS[sys.argv[1]], Path(sys.argv[2]).read_bytes(), int(sys.argv[3])
used = resource.getrusage(resource.RUSAGE_SELF)
most = int(used.ru_utime + used.ru_stime) + seconds
resource.setrlimit(resource.RLIMIT_CPU, (most, most))
with suppress(Exception):
    target.decode(data)
"""


def hangs(target: str, path: Path, seconds: int = 60) -> bool:
    """Whether the target needs more processor seconds for the input in a file."""
    done = subprocess.run(
        [sys.executable, "-c", _DECODE, target, str(path), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode > 0:
        raise SystemExit(f"{target} cannot be run:\n{done.stderr[-3000:]}")
    return done.returncode < 0
