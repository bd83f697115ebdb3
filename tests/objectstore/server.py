"""An S3 server on this machine behind the proxy: fresh places, requests counted, faults."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.objectstore.proxy import Entry, Settings

KEY, SECRET = "key", "hushhush"
_ROOT = Path(__file__).parents[2]
_STEP_SECONDS = 0.05
_STARTS_WITHIN = 60.0


@dataclass(frozen=True)
class Counted:
    """What a call asked of the store.

    `steps` is the longest chain of requests of which each began when the one before had ended: how often somebody
    waited in a row. `kinds` counts GET, GETr (a range), HEAD, LIST, PUT, DELETE, DELETES (many by one request) and
    UPLOAD (beginning, ending or giving up an upload in parts).
    """

    result: Any
    requests: int
    steps: int
    kinds: Mapping[str, int]
    bytes_in: int
    bytes_out: int
    at_once: int
    log: Sequence[Entry]


class StoreServer:
    """An S3 server and the proxy before it, in a process of their own, or where the environment variable
    LAKEBED_S3_SERVER names another server's program, in two: versitygw's, or "moto" for moto's.

    `options` opens tables through the proxy, `direct` past it.
    """

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[Any]] = []
        self._folder = tempfile.mkdtemp(prefix="lakebed-s3-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        program = os.environ.get("LAKEBED_S3_SERVER", "")
        self.kind = os.path.basename(program) or "memory"
        backend = [self._started(program)] if program else []
        command = [sys.executable, "-m", "tests.objectstore.proxy", *backend]
        proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT)
        self._processes.append(proxy)
        assert proxy.stdout is not None
        self.endpoint, *direct = (f"http://127.0.0.1:{port}" for port in proxy.stdout.readline().split())
        (self.backend,) = backend or direct
        self.options = _options(self.endpoint)
        self.direct = _options(self.backend)
        self.bucket = f"bucket-{secrets.token_hex(4)}"
        self.client().create_bucket(Bucket=self.bucket)
        self.set(Settings())

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which any client finds the server through the proxy."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint, "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
        }  # fmt: skip

    def stop(self) -> None:
        """End the processes."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self, program: str) -> str:
        """The address of another server."""
        port = _free_port()
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        command = [program, "--port", f"127.0.0.1:{port}", "posix", self._folder]
        if program == "moto":
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        quiet = subprocess.DEVNULL
        self._processes.append(subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, **keys}))
        _await(f"http://127.0.0.1:{port}")
        return f"http://127.0.0.1:{port}"

    def client(self) -> Any:
        """A boto3 client of the server itself."""
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        config = Config(s3={"addressing_style": "path"}, max_pool_connections=32)
        return boto3.session.Session().client("s3", endpoint_url=self.backend, config=config, **keys)

    def url(self, name: str = "table") -> str:
        """A place of that name that nobody used before."""
        return f"s3://{self.bucket}/{secrets.token_hex(6)}/{name}"

    def upload(self, folder: str | os.PathLike[str], url: str | None = None) -> str:
        """Copy a folder to the server, past the proxy. Returns its URL there."""
        url = url or self.url()
        client, root = self.client(), Path(folder)
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        files = [path for path in root.rglob("*") if path.is_file()]

        def put(path: Path) -> None:
            client.put_object(Bucket=bucket, Key=f"{prefix}/{path.relative_to(root)}", Body=path.read_bytes())

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(put, files))
        return url

    def set(self, settings: Settings) -> None:
        """What the proxy does from now on."""
        self._control("set", json.dumps(settings.__dict__).encode())

    def latency(self, seconds: float) -> None:
        """Each request takes so many seconds more."""
        self.set(Settings(latency=seconds))

    @contextmanager
    def fault(self, kind: str, **settings: Any) -> Iterator[None]:
        """A block in which requests fail (`proxy.Settings`)."""
        self.set(Settings(fault=kind, **settings))
        try:
            yield
        finally:
            self.set(Settings())

    def clear(self) -> None:
        """Forget the requests so far."""
        self._control("clear")

    def requests(self) -> list[Entry]:
        """The requests that were answered since `clear`, by when they began."""
        return sorted((Entry(**entry) for entry in json.loads(self._control("log"))), key=lambda entry: entry.began)

    def measure(
        self,
        call: Callable[..., Any],
        prepare: Callable[[], Any] | None = None,
        tries: int = 5,
        enough: int | None = None,
        requests: int | None = None,
    ) -> Counted:
        """What a call asks of the store: the run of several that asked least, since noise only adds to that.

        `prepare` makes the argument of each run, and is not counted. A run of at most `enough` steps, and at most
        `requests` requests where that is given, is the last, unless it made a request again before that was answered:
        so do clients that have waited too long on a busy machine. `steps` are the fewest of any run.
        """
        best: Counted | None = None
        for _ in range(tries):
            arguments = [] if prepare is None else [prepare()]
            self.latency(_STEP_SECONDS)
            self.clear()
            try:
                result = call(*arguments)
                log = self.requests()
            finally:
                self.set(Settings())
            counted = counted_of(result, log)
            steps = min(counted.steps, best.steps if best else counted.steps)
            if best is None or (_repeats(log), counted.requests) < (_repeats(best.log), best.requests):
                best = counted
            best = replace(best, steps=steps)
            few = best.requests <= requests if requests is not None else not _repeats(best.log)
            if enough is not None and steps <= enough and few:
                break
        assert best is not None
        return best

    def _control(self, kind: str, body: bytes = b"") -> bytes:
        request = urllib.request.Request(f"{self.endpoint}/-/{kind}", body, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())


def counted_of(result: Any, log: Sequence[Entry]) -> Counted:
    """The counts of a log."""
    return Counted(
        result, len(log), _steps(log), Counter(kind_of(entry) for entry in log),
        sum(entry.bytes_in for entry in log), sum(entry.bytes_out for entry in log), _at_once(log), log,
    )  # fmt: skip


def kind_of(entry: Entry) -> str:
    """The kind of a request, as `Counted.kinds` names it."""
    _, _, query = entry.target.partition("?")
    if entry.method == "GET" and re.search(r"(^|&)(list-type|prefix|delimiter)=", query):
        return "LIST"
    if entry.method == "POST" and re.search(r"(^|&)delete(=|&|$)", query):
        return "DELETES"
    if re.search(r"(^|&)uploads?(Id)?(=|&|$)", query):
        return "PART" if entry.method == "PUT" else "UPLOAD"
    return "GETr" if entry.method == "GET" and entry.range else entry.method


def _repeats(log: Sequence[Entry]) -> int:
    """The number of requests that were made again before they were answered."""
    ends: dict[tuple[str, str, str], float] = {}
    repeats = 0
    for entry in log:
        key = (entry.method, entry.target, entry.range)
        repeats += entry.began < ends.get(key, 0.0)
        ends[key] = max(entry.ended, ends.get(key, 0.0))
    return repeats


def _steps(log: Sequence[Entry]) -> int:
    """The largest number of requests of which no two overlap."""
    steps, end = 0, float("-inf")
    for entry in sorted(log, key=lambda entry: entry.ended):
        if entry.began >= end:
            steps, end = steps + 1, entry.ended
    return steps


def _at_once(log: Sequence[Entry]) -> int:
    """The most requests that were under way at one time."""
    moments = sorted([(entry.began, 1) for entry in log] + [(entry.ended, -1) for entry in log])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def _options(endpoint: str) -> dict[str, str]:
    settings = {
        "aws_endpoint": endpoint, "aws_region": "us-east-1", "aws_access_key_id": KEY, "aws_secret_access_key": SECRET
    }  # fmt: skip
    return {f"lakebed.storage.setting.{key}": value for key, value in settings.items()}


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _await(url: str) -> None:
    until = time.monotonic() + _STARTS_WITHIN
    while True:
        try:
            urllib.request.urlopen(f"{url}/-", timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return
