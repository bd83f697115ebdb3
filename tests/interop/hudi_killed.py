"""Releases of Hudi that are killed in the middle of what they do to a table.

A process is stopped at the first change of each kind, and the table's folder is copied: that is what `kill -9` leaves
at that moment, since a killed process writes nothing more. Then it goes on to the next change. So one process dies
many times. Where several changes came before it could be stopped, the times of the files tell their order: each
earlier moment is a copy without the files that came after it.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop.hudi_actors import Release

STATE = re.compile(r"\.hoodie/(?:timeline/)?\d{17}(?:_\d+)?\.(?P<suffix>[a-z.]+)$")


def moment(path: str) -> str:
    """What kind of change a new file is: the suffix of a state file, `files` for a data file, "" for what nobody
    waits for."""
    metadata = "metadata " if path.startswith(".hoodie/metadata/") else ""
    state = STATE.match(path.removeprefix(".hoodie/metadata/"))
    if state:
        return metadata + state["suffix"]
    name = path.rpartition("/")[2]
    if name.endswith(".crc") or name.startswith(".hoodie_partition_metadata"):
        return ""
    if not path.startswith(".hoodie/"):
        return "files"
    if metadata and not path.startswith(".hoodie/metadata/.hoodie/"):
        return "metadata files"
    return "markers" if path.startswith(".hoodie/.temp/") else ""


def _files(table: Path) -> set[str]:
    found: set[str] = set()
    for folder, _, names in os.walk(table):
        inner = os.path.relpath(folder, table)
        found.update(name if inner == "." else f"{inner}/{name}" for name in names)
    return found


@contextmanager
def deaths(release: Release, table: Path, into: Path) -> Iterator[dict[str, Path]]:
    """Copies of the table at the moments of what the process does in the block, by moment; whole when the block
    ends."""
    copies: dict[str, Path] = {}
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(release, table, into, copies, ended))
    watcher.start()
    try:
        yield copies
    finally:
        ended.set()
        watcher.join()


def _watch(release: Release, table: Path, into: Path, copies: dict[str, Path], ended: threading.Event) -> None:
    known, gone = _files(table), 0
    while not ended.is_set():
        now = _files(table)
        if any(_is_new(path, copies) for path in now - known) or len(known - now) > gone:
            with release.stopped():
                now = _files(table)
                removed = "removed" if known - now and "removed" not in copies else ""
                for name, later in _moments(table, now - known, removed):
                    if name not in copies:
                        copies[name] = place = into / f"{len(copies):02d}"
                        shutil.copytree(table, place)
                        for path in later:
                            (place / path).unlink()
            gone = len(known - now)
        known |= now
        time.sleep(0.003)


def _moments(table: Path, new: set[str], removed: str) -> Iterator[tuple[str, list[str]]]:
    """The moments of new files in the order in which they came, each with the files that came after it. `removed` is
    the last one, "" for none."""
    ordered = sorted(new, key=lambda path: (table / path).stat().st_ctime_ns)
    seen = {""}
    for place, path in enumerate(ordered):
        if (name := moment(path)) not in seen:
            seen.add(name)
            yield name, ordered[place + 1 :]
    if removed:
        yield removed, []


def _is_new(path: str, copies: Mapping[str, Path]) -> bool:
    kind = moment(path)
    return bool(kind) and kind not in copies


def put_back(copy: Path, table: Path) -> None:
    """Make the table what a death left of it."""
    shutil.rmtree(table)
    shutil.copytree(copy, table)
