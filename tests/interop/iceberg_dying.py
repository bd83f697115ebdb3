"""A process of lakebed that does one thing to an Iceberg table and is killed in the middle of it.

    python -m tests.interop.iceberg_dying < REQUEST

A request is a pickled `Deed` and the `Moment` of its death. The process kills itself at the named call of a store or of
a catalog, as the system would: nothing of it goes on. It ends well where that call never comes, and says on its
standard error what lakebed refused.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from lakebed.errors import UnsupportedError
from lakebed.kernel.files.local import LocalStore
from tests.interop.conftest import HERE
from tests.interop.iceberg_actors import Lakebed, Place

CALLS = {
    "data file": r"/data/|\.parquet$|\.orc$|\.puffin$", "manifest": r"-m\d+\.avro$", "metadata": r"\.metadata\.json$",
    "manifest list": r"/snap-[^/]*\.avro$", "hint": r"version-hint\.text$", "statistics": r"\.stats$|partition-stats",
}  # fmt: skip
"""The files whose writing a process may die at, by what their location matches."""
OTHERS = ("removal", "catalog")
"""Other calls that it may die at: the removal of any file, and a table's creation or commit in a catalog."""
REFUSED = 3
_WRITERS = (
    "append", "upsert", "delete", "overwrite", "replace_part", "rewrite", "add_files", "stage", "publish", "repair",
    "migrate",
)  # fmt: skip
"""What makes a snapshot."""


@dataclass(frozen=True)
class Moment:
    """A call of CALLS or OTHERS, the how-manieth of its kind, and whether the process dies after it or before it."""

    call: str
    number: int
    after: bool

    @classmethod
    def drawn(cls, chance: Random, verb: str, by_path: bool) -> Moment:
        """A random moment of what `Lakebed` does, mostly one that there is."""
        calls = ["metadata", "hint" if by_path else "catalog"]
        calls += ["removal"] * 2 if verb in ("expire", "sweep") else []
        calls += ["statistics"] * 2 if verb.endswith("_stats") else []
        if verb in _WRITERS:
            calls += ["data file"] * 2 if verb not in ("add_files", "publish") else []
            calls += ["manifest", "manifest list"]
        call = chance.choice(calls)
        return cls(call, chance.choice((1, 1, 2)) if call in ("data file", "removal") else 1, chance.random() < 0.5)

    @classmethod
    def named(cls, text: str) -> Moment:
        """The moment that its spelling names: `before-catalog`, `after-data_file-2`."""
        when, call, *number = text.replace("_", " ").split("-")
        assert when in ("before", "after") and call in (*CALLS, *OTHERS), text
        return cls(call, int(number[0]) if number else 1, when == "after")

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.call} {self.number}"


@dataclass(frozen=True)
class Deed:
    """What is done: a method of `Lakebed` on a table, and its arguments."""

    place: Place
    verb: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


class _Listener:
    """An actor that only hears what it is told."""

    def __init__(self) -> None:
        self.heard: tuple[str, tuple[Any, ...], dict[str, Any]] = ("", (), {})

    def __getattr__(self, verb: str) -> Callable[..., None]:
        def hear(*arguments: Any, **named: Any) -> None:
            self.heard = verb, arguments, named

        return hear


def deed(place: Place, do: Callable[[Any], None]) -> Deed:
    """What `do` tells an engine."""
    listener = _Listener()
    do(listener)
    return Deed(place, *listener.heard)


def die(done: Deed, moment: Moment) -> bool:
    """Whether the process was killed at the moment; False where it did what it was told. UnsupportedError."""
    command = [sys.executable, "-m", "tests.interop.iceberg_dying"]
    request = pickle.dumps((done, moment))
    ended = subprocess.run(command, input=request, capture_output=True, check=False, cwd=HERE.parents[1])
    said = ended.stderr.decode()
    if ended.returncode == REFUSED:
        raise UnsupportedError(said.strip().rpartition("\n")[2])
    assert ended.returncode in (0, -signal.SIGKILL), said[-3000:]
    return ended.returncode != 0


class _Reaper:
    """Counts the calls of one kind, and kills this process at one of them."""

    def __init__(self, moment: Moment) -> None:
        self.moment, self.seen = moment, 0

    @contextmanager
    def at(self, call: str, path: str = "") -> Iterator[None]:
        """Around a call: one of OTHERS, or the writing of a file."""
        moment = self.moment
        written = moment.call in CALLS and not call and re.search(CALLS[moment.call], path) is not None
        mine = written or call == moment.call
        self.seen += mine
        due = mine and self.seen == moment.number
        if due and not moment.after:
            os.kill(os.getpid(), signal.SIGKILL)
        yield
        if due:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Stand beside every store of this machine, and every catalog."""
        store: Any = LocalStore
        for name in ("write", "put_if_absent", "delete", "_delete_in"):
            setattr(store, name, self._around(getattr(store, name), "removal" if "delete" in name else ""))
        store.open_output = self._during(store.open_output)
        for catalog in (RestCatalog, SqlCatalog, HiveCatalog):
            for name in ("commit_table", "create_table", "register_table"):
                setattr(catalog, name, self._around(getattr(catalog, name), "catalog"))

    def _around(self, act: Callable[..., Any], call: str) -> Callable[..., Any]:
        def watched(owner: Any, *arguments: Any, **named: Any) -> Any:
            path = next((one for one in arguments if isinstance(one, str)), "")
            with self.at(call, f"/{path}"):
                return act(owner, *arguments, **named)

        return watched

    def _during(self, act: Callable[..., Any]) -> Callable[..., Any]:
        """A file that is written piece by piece: a death before it is one with an unfinished file."""

        @contextmanager
        def watched(owner: Any, path: str) -> Iterator[Any]:
            with act(owner, path) as sink, self.at("", f"/{path}"):
                yield sink

        return watched


def main() -> None:
    """The one request."""
    done, moment = pickle.load(sys.stdin.buffer)
    _Reaper(moment).watch()
    try:
        getattr(Lakebed(done.place), done.verb)(*done.arguments, **done.named)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
