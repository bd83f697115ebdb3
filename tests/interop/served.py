"""A server of an outside engine, on this machine for as long as a test runs."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


def free_port() -> int:
    """A port of this machine on which nothing listens. It is none of those that the system gives away by itself, which
    another program may get before a server that starts slowly has bound it."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


@contextmanager
def served(
    command: Sequence[str], folder: Path, answers: Callable[[], bool], settings: Mapping[str, str] = {},
    seconds: float = 300,
) -> Iterator[None]:  # fmt: skip
    """Run a command in `folder`, which keeps what it says in server.txt, once it `answers`; AssertionError when it does
    not in time. `settings` are variables of its environment."""
    said = folder / "server.txt"
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **settings})
        try:
            began = time.monotonic()
            while not answers():
                assert process.poll() is None and time.monotonic() - began < seconds, said.read_text("utf-8")[-2000:]
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait()
