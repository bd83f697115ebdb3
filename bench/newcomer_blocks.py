"""Runs blocks of Python as a newcomer would type them: one after the other, with the names of those before.

bench/newcomer.py starts it with the Python of the newcomer's environment. It reads one block per line from one file
descriptor, as JSON, and answers on another with the seconds, what the block printed last, and its error. Needs nothing
but Python, since that environment has nothing but lakebed.
"""

import contextlib
import io
import json
import os
import sys
import time
import warnings
from typing import Any


def main(asked: int, told: int) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    with os.fdopen(asked) as blocks, os.fdopen(told, "w") as answers:
        for line in blocks:
            print(json.dumps(answer(json.loads(line), names)), file=answers, flush=True)


def answer(text: str, names: dict[str, Any]) -> dict[str, Any]:
    printed, error, noted = io.StringIO(), "", []
    began = time.perf_counter()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("default")
            exec(compile(text, "block", "exec"), names)
    except BaseException as raised:
        error = f"{type(raised).__name__}: {str(raised).strip().partition(chr(10))[0]}"
    lines = [line for line in printed.getvalue().splitlines() if line.strip()]
    return {
        "seconds": time.perf_counter() - began,
        "printed": lines[-1] if lines else "",
        "lines": len(lines),
        "warnings": [str(warning.message) for warning in noted],
        "error": error,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
