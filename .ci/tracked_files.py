"""Checks what git tracks: no path of one machine, no host of a package registry, golden tables below their limit.

The same repository must install anywhere, through whatever mirror a machine is set up with.
"""

import re
import subprocess
import sys
from pathlib import Path

FORBIDDEN = {
    "a path of one machine": re.compile(rb"(?<![\w.~-])/(?:home|Users|root|work)/\w"),
    "the host of a package registry": re.compile(
        rb"(?:pypi|files\.pythonhosted)\.org|pythonhosted|repo1?\.maven\.|/simple/|index-url|artifactory|find-links"
    ),
}
GOLDEN_LIMIT = 20 * 1024 * 1024  # bytes
FILE_LIMIT = 3 * 1024 * 1024  # bytes


def complaints(files: list[Path]) -> list[str]:
    """One line for each thing wrong with the tracked files."""
    found = []
    for file in files:
        content = file.read_bytes()
        if len(content) > FILE_LIMIT:
            found.append(f"{file}: {len(content)} bytes, more than {FILE_LIMIT}")
        if file == Path(__file__).relative_to(Path.cwd()) or b"\0" in content[:8192] or file.suffix == ".xz":
            continue
        for number, line in enumerate(content.splitlines(), 1):
            for what, pattern in FORBIDDEN.items():
                match = pattern.search(line)
                if match:
                    found.append(f"{file}:{number}: {what}: {match.group().decode()}")
    golden = sum(file.stat().st_size for file in files if file.is_relative_to("tests/golden"))
    if golden > GOLDEN_LIMIT:
        found.append(f"tests/golden: {golden} bytes, more than {GOLDEN_LIMIT}")
    return found


def tracked() -> list[Path]:
    """The files of this repository that git knows and that are there."""
    listing = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [path for path in map(Path, listing.split("\0")) if path.is_file()]


if __name__ == "__main__":
    lines = complaints(tracked())
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
