"""Processes of lakebed that end in the middle of what they do to a table, at a change of its store."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakebed.kernel.files import open_store
from lakebed.testing.faults import Call, Crash, Fault, FaultyStore, Kind
from tests.interop.hudi_actors import Lakebed
from tests.interop.hudi_shape import Shape

MOMENTS = ("requested", "inflight", "files", "metadata", "completed", "published")
"""Just after the instant is requested, after it is inflight, in the middle of its files, after the metadata table has
it, just before and just after it is completed. A moment that something never comes to is its last change."""
STATE = re.compile(r"\.hoodie/(?:timeline/)?\d{17}(?:_\d+)?\.(?P<suffix>[a-z.]+)$")


@dataclass(frozen=True)
class Death:
    """How an attempt ended: the change of the store that was its last, of how many."""

    at: int
    of: int
    call: Call

    def __str__(self) -> str:
        return f"dies after change {self.at} of {self.of}: {self.call.verb} {self.call.path}"


def die(shape: Shape, path: Path, do: Callable[[Lakebed], None], moment: str | float) -> Death | None:
    """Do it in a process that dies at a moment of MOMENTS, or after a share of its changes. None where it changes
    nothing."""
    copy = path.with_name(f"{path.name}_tried")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    whole = FaultyStore(open_store(str(copy)))
    do(Lakebed(shape, copy, whole))
    shutil.rmtree(copy)
    calls = whole.changes
    if not calls:
        return None
    at = _change(calls, moment) if isinstance(moment, str) else 1 + min(len(calls) - 1, int(moment * len(calls)))
    store = FaultyStore(open_store(str(path)), Fault(at, Kind.CRASH_AFTER))
    with suppress(Crash):
        do(Lakebed(shape, path, store))
    return Death(at, len(calls), store.changes[min(at, len(store.changes)) - 1])


def _change(calls: Sequence[Call], moment: str) -> int:
    """The number of the last change of a process, counted from 1."""
    states = [(number, found["suffix"]) for number, call in enumerate(calls, 1) if (found := STATE.match(call.path))]
    firsts: dict[str, int] = {}
    for number, suffix in states:
        kind = suffix.rpartition(".")[2]
        firsts.setdefault(kind if kind in ("requested", "inflight") else "completed", number)
    last = len(calls)
    published = firsts.get("completed", last)
    files = [n for n, call in enumerate(calls, 1) if n < published and not call.path.startswith(".hoodie")]
    metadata = [n for n, call in enumerate(calls, 1) if n < published and call.path.startswith(".hoodie/metadata/")]
    return {
        "requested": firsts.get("requested", last),
        "inflight": firsts.get("inflight", last),
        "files": files[len(files) // 2] if files else last,
        "metadata": metadata[-1] if metadata else max(published - 1, 1),
        "completed": max(published - 1, 1),
        "published": published,
    }[moment]
