"""This machine, and whether a process of it runs: how a lock tells that its holder has died."""

from __future__ import annotations

import functools
import os
import socket
from contextlib import suppress


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
