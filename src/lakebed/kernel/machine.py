"""This machine, and whether a process of it runs: how a lock tells that its holder has died.

A file that others see says whose it is by the mark of a `Holder`; `is_gone` judges such a mark.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType


@functools.cache
def this_machine() -> str:
    """What tells this machine, or this container, from any other: its name, its boot, and its process namespace."""
    marks = [socket.gethostname()]
    with suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            marks.append(file.read().strip())
        marks.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(marks)


def is_running(process: int) -> bool:
    """Whether a process of this machine runs; true also where that cannot be told."""
    if process <= 0:
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


class Holder:
    """Who holds something in this process, from the beginning of its block to its end."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)

    def mark(self, more: Mapping[str, str] = {}) -> bytes:
        """The JSON that names it, with more fields before."""
        return json.dumps({**more, "machine": this_machine(), "process": os.getpid(), "token": self.token}).encode()

    def __enter__(self) -> Holder:
        _holders.add(self.token)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _holders.discard(self.token)


_holders: set[str] = set()
"""The tokens of the holders of this process."""


def is_gone(mark: bytes) -> bool:
    """Whether a mark is of a process of this machine that no longer runs, or of a holder of this process whose block
    has ended. False also where that cannot be told."""
    try:
        owner = json.loads(mark)
        if owner["machine"] != this_machine():
            return False
        process, token = int(owner["process"]), owner["token"]
    except (ValueError, KeyError, TypeError):
        return False
    return token not in _holders if process == os.getpid() else not is_running(process)
