"""A proxy before an S3 server: it counts requests, delays them and makes them fail.

Run as a process of its own: `python -m tests.objectstore.proxy BACKEND` prints the port it listens on. Requests for
`/-/KIND` control it: `set` takes the fields of `Settings` as JSON, `log` gives the requests so far, `clear` forgets
them. Without BACKEND it is the server too: it keeps the objects in its memory (`buckets.py`), and prints a second port,
where requests meet neither faults nor delays and are not counted.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.objectstore.buckets import Buckets

FAULTS = (
    "503", "429", "500", "403",  # answered without asking the server
    "500-after", "503-after",  # answered after the server has done it
    "reset-before", "reset-after",  # the connection breaks, before or after the server has done it
    "cut",  # the connection breaks in the middle of the body
    "hang", "hang-after", "hang-middle",  # no answer, or no end of it
)  # fmt: skip
_OWN_HEADERS = ("expect", "connection", "transfer-encoding")
"""Headers of a request that are not passed on: the proxy has the whole body."""
_CODES = {"503": "SlowDown", "429": "SlowDown", "500": "InternalError", "403": "AccessDenied"}


@dataclass
class Settings:
    """What the proxy does to requests. `fault` meets requests whose method and target match, after the first `skip`,
    with probability `chance`, and at most `times` of them (-1: all)."""

    latency: float = 0.0
    """Seconds before a request is passed on."""
    bytes_per_second: float = 0.0
    """Of one answer's body; 0 is no limit."""
    fault: str = ""
    method: str = ".*"
    target: str = ".*"
    chance: float = 1.0
    skip: int = 0
    times: int = -1
    hang: float = 60.0
    """Seconds without an answer."""
    code: str = ""
    """The code of a refusal, such as ExpiredToken; by default the usual one of its status."""


@dataclass
class Entry:
    """One request: when it began and ended in seconds, and the bytes of the bodies that came in and went out."""

    method: str
    target: str
    range: str
    began: float
    ended: float = 0.0
    status: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    fault: str = ""


@dataclass
class State:
    """What the threads of the proxy share."""

    backend: tuple[str, int] | Buckets
    settings: Settings = field(default_factory=Settings)
    log: list[Entry] = field(default_factory=list)
    counted_from: float = 0.0
    """Requests that began earlier are not logged: somebody asked and did not wait, such as a read ahead."""
    matched: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_of(self, method: str, target: str) -> str:
        """The fault that a request meets, "" for none."""
        with self.lock:
            set_to = self.settings
            if not set_to.fault or not set_to.times:
                return ""
            if not re.fullmatch(set_to.method, method) or not re.search(set_to.target, target):
                return ""
            self.matched += 1
            if self.matched <= set_to.skip or self.dice.random() >= set_to.chance:
                return ""
            set_to.times -= set_to.times > 0
            return set_to.fault


class Handler(BaseHTTPRequestHandler):
    """Passes requests on, over one connection to the server for each connection of a client, or answers them itself."""

    protocol_version = "HTTP/1.1"
    state: State
    _server: http.client.HTTPConnection | None = None

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle_one_request(self) -> None:
        """As the base class, for every method."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
        elif self.parse_request():
            body = self._body()
            self._control(body) if self.path.startswith("/-/") else self._pass_on(body)
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _control(self, body: bytes) -> None:
        state = self.state
        with state.lock:
            if self.path == "/-/set":
                state.settings = Settings(**json.loads(body))
                state.matched, state.dice = 0, random.Random(1)
            elif self.path == "/-/clear":
                state.log.clear()
                state.counted_from = time.monotonic()
            answer = json.dumps([asdict(entry) for entry in state.log] if self.path == "/-/log" else None).encode()
        self._answer(200, {"Content-Type": "application/json"}, answer)

    def _pass_on(self, body: bytes) -> None:
        state, settings = self.state, self.state.settings
        entry = Entry(self.command, self.path, self.headers.get("Range", ""), time.monotonic(), bytes_in=len(body))
        entry.fault = fault = state.fault_of(self.command, self.path)
        try:
            time.sleep(settings.latency)
            if fault in _CODES:
                self._refuse(entry, fault)
            elif fault == "reset-before":
                self._log(entry)
                self._reset()
            elif fault == "hang":
                self._hang(settings)
            else:
                self._forward(entry, body, settings, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self._log(entry)

    def _log(self, entry: Entry) -> None:
        """Log a request, before its answer goes out: the client may ask for more, or for the log, at once."""
        if not entry.ended:
            entry.ended = time.monotonic()
            with self.state.lock:
                if entry.began >= self.state.counted_from:
                    self.state.log.append(entry)

    def _forward(self, entry: Entry, body: bytes, settings: Settings, fault: str) -> None:
        status, headers, data = self._asked(body)
        if fault.removesuffix("-after") in _CODES:
            self._refuse(entry, fault.removesuffix("-after"))
        elif fault == "reset-after":
            self._log(entry)
            self._reset()
        elif fault == "hang-after":
            self._hang(settings)
        elif fault in ("cut", "hang-middle") and data:
            self._log(entry)
            self._answer(status, headers, data, len(data) // 2)
            self._hang(settings) if fault == "hang-middle" else self._reset()
        else:
            entry.status = status
            if settings.bytes_per_second:
                time.sleep(len(data) / settings.bytes_per_second)
            entry.bytes_out = len(data)
            self._log(entry)
            self._answer(status, headers, data)

    def _asked(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """The server's answer. The connection is opened anew when the server has closed it meanwhile."""
        backend = self.state.backend
        if isinstance(backend, Buckets):
            return backend.answer(self.command, self.path, dict(self.headers.items()), body)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
        for attempt in range(2):
            if self._server is None:
                self._server = http.client.HTTPConnection(*backend, timeout=120)
                self._server.connect()
                self._server.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._server.request(self.command, self.path, body or None, headers)
                answer = self._server.getresponse()
                return answer.status, dict(answer.getheaders()), answer.read()
            except (http.client.HTTPException, OSError):
                self._server.close()
                self._server = None
                if attempt:
                    raise
        raise AssertionError("unreachable")

    def _answer(self, status: int, headers: dict[str, str], data: bytes, sent: int | None = None) -> None:
        kept = {
            name: value for name, value in headers.items()
            if name.lower() not in ("connection", "transfer-encoding", "date", "server")
        }  # fmt: skip
        if self.command != "HEAD":
            kept = {name: value for name, value in kept.items() if name.lower() != "content-length"}
            if status not in (204, 304):
                kept["Content-Length"] = str(len(data))
        self.send_response(status)
        for name, value in kept.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[:sent])
        self.wfile.flush()

    def _refuse(self, entry: Entry, fault: str) -> None:
        entry.status = int(fault)
        self._log(entry)
        code = self.state.settings.code or _CODES[fault]
        text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}.</Message></Error>'
        self._answer(
            entry.status, {"Content-Type": "application/xml"}, b"" if self.command == "HEAD" else text.encode()
        )

    def _reset(self) -> None:
        """Break the connection in a way that the client sees."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _hang(self, settings: Settings) -> None:
        time.sleep(settings.hang)
        self._reset()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        if self._server is not None:
            self._server.close()


class Direct(Handler):
    """Answers requests as they are."""

    def _pass_on(self, body: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answer(*self._asked(body))


class Server(ThreadingHTTPServer):
    """One thread for each connection of a client."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        """A client that went away is no news."""


def main(backend: str = "") -> None:
    """Serve until the process is killed."""
    parts = urlsplit(backend)
    state = State((parts.hostname or "127.0.0.1", parts.port or 80) if backend else Buckets())
    faces = (Handler,) if backend else (Handler, Direct)
    servers = [Server(("127.0.0.1", 0), type(f"_{face.__name__}", (face,), {"state": state})) for face in faces]
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*(server.server_address[1] for server in servers), flush=True)
    servers[0].serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
