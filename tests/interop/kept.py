"""Processes of outside engines that stay from one test file to the next, since an engine on Spark is slow to start."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar, cast


class Engine(Protocol):
    """A process of an engine."""

    @property
    def runs(self) -> bool: ...
    def close(self) -> None: ...


Process = TypeVar("Process", bound=Engine)
MOST = 3
"""So many processes stay, as many as there are releases of Hudi; one has one to two gigabytes of memory."""
_kept: dict[str, tuple[Engine, Path]] = {}


def kept(name: str, start: Callable[[Path], Process]) -> Process:
    """The process of that name: the one that stayed, else a new one, which `start` gives a folder of its own.

    The process that was asked for the longest ago ends when there are too many.
    """
    if name in _kept and not _kept[name][0].runs:
        end(name)
    if name in _kept:
        _kept[name] = _kept.pop(name)  # now the newest
    else:
        while len(_kept) >= MOST:
            end(next(iter(_kept)))
        folder = Path(tempfile.mkdtemp(prefix="lakebed-engine-"))
        _kept[name] = start(folder), folder
    return cast(Process, _kept[name][0])


def end(name: str) -> None:
    """End a process and remove its folder."""
    process, folder = _kept.pop(name)
    try:
        process.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_all() -> None:
    """End every process."""
    while _kept:
        end(next(iter(_kept)))
