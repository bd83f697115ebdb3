"""A server of an outside engine, on this machine for as long as a test runs."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


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
