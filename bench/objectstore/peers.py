"""Asks the peers in their own processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.objectstore import tables as make
from bench.objectstore.place import ROOT, Place
from lakebed.kernel.files import open_store
from tests.objectstore.server import KEY, SECRET, StoreServer

PYTHONS = {"pyiceberg": ".venv", "pypaimon": ".venv-interop", "hudi-rs": ".venv-interop"}


class PeerError(Exception):
    """What a peer said when it failed."""


class Peers:
    """The peers' processes, started when they are asked."""

    def __init__(self, server: StoreServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._log = (folder / "peers.log").open("w")
        self._processes: dict[str, subprocess.Popen[str]] = {}

    @staticmethod
    def has(peer: str) -> bool:
        """Whether this machine has the peer's environment."""
        return (ROOT / PYTHONS[peer] / "bin" / "python").exists()

    def prepare(self, peer: str, verb: str, place: Place) -> Callable[[], dict[str, Any]]:
        """Make ready the work of a verb; what is returned runs it and gives `value` and `seconds`."""
        asked = {
            "verb": verb, "place": place.url, "endpoint": self._server.endpoint, "key": KEY, "secret": SECRET,
            "catalog": str(place.catalog or ""),
        }  # fmt: skip
        if peer == "pyiceberg" and not place.catalog:
            asked["metadata"] = self._newest_metadata(place)
        if verb in ("append", "upsert"):
            rows = make.rows(4, 1000) if verb == "append" else make.rows(4, 0, 100)
            asked["rows"] = str(self._folder / f"{verb}.arrow")
            with pa.OSFile(asked["rows"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
        self._told(peer, json.dumps(asked))
        return lambda: self._told(peer, "go")

    def stop(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._log.close()

    def _told(self, peer: str, line: str) -> dict[str, Any]:
        process = self._processes.get(peer)
        if process is None:
            command = [str(ROOT / PYTHONS[peer] / "bin" / "python"), "-m", "bench.objectstore.peer", peer]
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
            )
            self._processes[peer] = process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        text = process.stdout.readline()
        if not text:
            del self._processes[peer]
            raise PeerError(f"the process of {peer} ended with {process.wait()}")
        answer: dict[str, Any] = json.loads(text)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def _newest_metadata(self, place: Place) -> str:
        store = open_store(place.url, self._server.direct)
        names = [file.path for file in store.list("metadata").files if file.path.endswith(".metadata.json")]
        newest = max(names, key=lambda name: int(name.rpartition("/")[2].removeprefix("v").partition(".")[0]))
        return f"{place.url}/{newest}"
