"""Object stores: outcomes of a conditional put, what travels to workers, what a user is told."""

import pickle
import random
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import obstore
import pytest

from lakebed.errors import NotWrittenError, RetryableError, StorageError, UsageError
from lakebed.kernel.files import FileInfo, PutOutcome, open_store
from lakebed.kernel.files.cache import ByteCache
from lakebed.kernel.files.fetching import WHOLE
from lakebed.kernel.files.objects import RemoteStore
from lakebed.kernel.files.upload import PART
from lakebed.kernel.files.waiting import budget
from tests.unit.kernel.conftest import s3_settings


@pytest.fixture
def store(bucket: str, s3_options: dict[str, str]) -> RemoteStore:
    return open_store(f"{bucket}/table", s3_options)


@pytest.fixture
def s3_client(s3_endpoint: str) -> Any:
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "hush", "region_name": "us-east-1"}
    return boto3.session.Session().client("s3", endpoint_url=s3_endpoint, **keys)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The ranges of all requests for a file, None for a whole one."""
    ranges: list[object] = []
    real = obstore.get

    def get(client: Any, path: str, *, options: Any) -> Any:
        ranges.append(options.get("range"))
        return real(client, path, options=options)

    monkeypatch.setattr(obstore, "get", get)
    return ranges


@pytest.mark.slow
def test_nothing_is_visible_before_the_block_ends(store: RemoteStore) -> None:
    with store.open_output("small") as small, store.open_output("large") as large:
        small.write(b"abc")
        for _ in range(5):
            large.write(bytes(4 << 20))
        assert store.list().files == () and list(store.walk()) == []
    assert store.list().files == (FileInfo("large", 20 << 20), FileInfo("small", 3))
    with pytest.raises(ZeroDivisionError), store.open_output("failed") as sink:
        for _ in range(5):
            sink.write(bytes(4 << 20))
        raise ZeroDivisionError
    assert not store.exists("failed")


def test_the_marker_of_a_folder_is_no_file(store: RemoteStore, bucket: str, s3_endpoint: str) -> None:
    name = bucket.removeprefix("s3://")
    for key in ("table/dt=1/", "table/dt=1/data", "table/dt=2/", "table/dt=2/e/", "table/dt=2/e/empty"):
        body = b"abc" if key.endswith("data") else b""
        headers = {"Content-Type": "application/octet-stream"}
        put = urllib.request.Request(f"{s3_endpoint}/{name}/{key}", body, headers, method="PUT")
        urllib.request.urlopen(put).close()
    assert store.list().folders == ("dt=1", "dt=2") and store.list().files == ()
    assert store.list("dt=1").files == (FileInfo("dt=1/data", 3),)
    assert sorted(info.path for info in store.walk()) == ["dt=1/data", "dt=2/e/empty"]
    assert [info.path for info in store.walk("dt=2")] == ["dt=2/e/empty"]


@pytest.mark.parametrize("path", ["a b#c", "a%20b", "é"])
def test_a_path_in_the_bucket_is_taken_letter_by_letter(bucket: str, s3_options: dict[str, str], path: str) -> None:
    open_store(bucket, s3_options).write(f"{path}/f", b"abc")
    assert open_store(f"{bucket}/{path}", s3_options).read("f") == b"abc"


def test_s3a_is_s3(bucket: str, s3_options: dict[str, str]) -> None:
    open_store(bucket.replace("s3:", "s3a:") + "/t/", s3_options).write("f", b"abc")
    assert open_store(bucket.replace("s3:", "S3N:") + "/t", s3_options).read("f") == b"abc"
    assert open_store(bucket.replace("s3:", "s3a:") + "/t/").location == f"{bucket}/t"


def test_a_bucket_that_is_not_there(s3_options: dict[str, str]) -> None:
    store = open_store("s3://no-such-bucket/t", s3_options)
    for call in (
        store.list, lambda: list(store.walk()), lambda: store.write("f", b"x"), lambda: store.put_if_absent("f", b"x")
    ):  # fmt: skip
        with pytest.raises(StorageError, match="Check that the bucket exists") as raised:
            call()
        assert not isinstance(raised.value, RetryableError)


def test_a_setting_that_the_client_does_not_know(bucket: str, s3_options: dict[str, str]) -> None:
    store = open_store(bucket, {**s3_options, "lakebed.storage.setting.nonsense": "1"})
    with pytest.raises(UsageError, match="nonsense"):
        store.list()


def test_a_small_file_is_one_request(store: RemoteStore, asked: list[object]) -> None:
    store.write("f", bytes(range(100)))
    for size in (100, 90, 120, None):  # the metadata may be wrong: the size is that of the file
        asked.clear()
        with store.open_input("f", size) as file:
            assert file.size() == 100
            file.seek(10)
            assert file.read(5) == bytes(range(10, 15)) and file.read(5) == bytes(range(15, 20))
            file.seek(98)
            assert file.read() == bytes([98, 99])
        assert len(asked) == 1
    store.write("empty", b"")
    for size in (0, 5, None):
        assert store.open_input("empty", size).size() == 0


@pytest.mark.parametrize("stated", [None, 0, -1, 1])
def test_a_large_file_comes_from_its_end_and_in_parts(
    store: RemoteStore, asked: list[object], stated: int | None
) -> None:
    data = random.Random(1).randbytes(WHOLE + (20 << 20))
    store.write("f", data)
    asked.clear()
    with store.open_input("f", None if stated is None else len(data) + stated) as file:
        assert file.size() == len(data) and len(asked) <= 2
        assert file.read_at(100, len(data) - 100) == data[-100:]
        asked.clear()
        chunks = [(10, 3 << 20), (3 << 20, 4 << 20), ((4 << 20) + 1000, 5 << 20), (12 << 20, 22 << 20)]
        file.file.announce(chunks)
        for start, stop in chunks:
            assert file.read_at(stop - start, start) == data[start:stop]
        assert len(asked) == 3, "near ones joined, a large one cut"
        assert file.read_at(100, (3 << 20) - 50) == data[(3 << 20) - 50 : (3 << 20) + 50], "read once more"
    assert budget(256 << 20)._free == 256 << 20


def test_files_are_fetched_ahead_and_dropped(store: RemoteStore, asked: list[object]) -> None:
    files = [FileInfo(f"f{n}", n) for n in range(1, 20)]
    store.write_many({path: b"x" * size for path, size in files})
    asked.clear()
    with store.fetching(files):
        for path, size in files[3:10]:
            assert store.open_input(path, size).read() == b"x" * size
            assert store.read(path) == b"x" * size
    assert len([part for part in asked if part is None]) == len(asked)
    assert 19 <= len(asked) <= 19 + 7 and budget(256 << 20)._free == 256 << 20
    with store.fetching([FileInfo("gone", 10)]), pytest.raises(FileNotFoundError):
        store.open_input("gone", 10)


def test_a_file_that_a_block_announces_twice_is_fetched_once(store: RemoteStore, asked: list[object]) -> None:
    files = [FileInfo("f", 3), FileInfo("g", 1), FileInfo("f", 3)]
    store.write_many({"f": b"abc", "g": b"d"})
    asked.clear()
    with store.fetching(files):
        assert [store.read("f"), store.read("g"), store.read("f")] == [b"abc", b"d", b"abc"]
        assert len(asked) == 2
        assert store.read("f") == b"abc" and len(asked) == 3, "it was announced twice, not three times"
    with store.fetching(files):
        assert store.read("f") == b"abc"
    assert budget(256 << 20)._free == 256 << 20


def test_bytes_of_immutable_files_are_kept(store: RemoteStore, asked: list[object]) -> None:
    files = [FileInfo(f"f{n}", 10 + n) for n in range(5)]
    store.write_many({path: b"x" * size for path, size in files})
    first = store.read_immutable(files)
    asked.clear()
    assert store.read_immutable(files[::-1]) == first[::-1] and not asked
    other = FileInfo(files[0].path, 7)
    assert store.read_immutable([other]) == [b"x" * 10] == store.read_immutable([other]), "the size is another"
    assert len(asked) == 2


def test_bytes_of_immutable_files_that_were_written_here_are_kept(store: RemoteStore, asked: list[object]) -> None:
    store.write_immutable({"m1": b"abc", "m2": b"defg"})
    asked.clear()
    assert store.read_immutable([FileInfo("m2", 4), FileInfo("m1", 3)]) == [b"defg", b"abc"] and not asked
    assert store.read_immutable([FileInfo("m1", 4)]) == [b"abc"] and len(asked) == 1, "the size is another"


def test_the_cache_keeps_its_limit() -> None:
    cache = ByteCache()
    for n in range(100):
        cache.put(n, bytes(50), 1000)
    assert cache.size <= 1000 and cache.get(99) == bytes(50) and cache.get(0) is None
    cache.put("large", bytes(500), 1000)
    assert cache.get("large") is None


def test_a_large_upload_comes_in_parts_and_leaves_none_behind(store: RemoteStore, s3_client: Any) -> None:
    data = random.Random(2).randbytes(3 * PART + 5)
    with store.open_output("f") as sink:
        for at in range(0, len(data), 1 << 20):
            sink.write(data[at : at + (1 << 20)])
    assert store.read("f") == data
    with pytest.raises(ZeroDivisionError), store.open_output("g") as sink:
        sink.write(data)
        raise ZeroDivisionError
    assert [info.path for info in store.walk()] == ["f"]
    assert not s3_client.list_multipart_uploads(Bucket=store.location.split("/")[2]).get("Uploads")


def test_files_are_removed_by_the_thousand(store: RemoteStore) -> None:
    store.write_many({f"d/{n}": b"x" for n in range(30)})
    assert store.undeleted([*(f"d/{n}" for n in range(30)), "none", "d/1"]) == {}
    assert not list(store.walk())


def test_secrets_travel_only_when_allowed(bucket: str, s3_options: dict[str, str]) -> None:
    store = open_store(bucket, s3_options)
    with pytest.raises(UsageError, match=r"aws_secret_access_key.*ship-secrets") as raised:
        pickle.dumps(store)
    assert "hush" not in str(raised.value) + repr(store) + repr(vars(store))
    store.write("f", b"abc")
    allowed = open_store(bucket, {**s3_options, "lakebed.storage.ship-secrets": "true"})
    assert pickle.loads(pickle.dumps(allowed)).read("f") == b"abc"


def test_a_store_without_explicit_secrets_travels(
    bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {k: v for k, v in s3_settings(s3_endpoint).items() if "key" not in k}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    store = open_store(bucket, options)
    store.write("f", b"abc")
    sent = pickle.dumps(store)
    assert b"hush" not in sent and pickle.loads(sent).read("f") == b"abc"


def test_an_endpoint_of_the_environment_needs_no_tls(
    bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {k: v for k, v in s3_settings(s3_endpoint).items() if "endpoint" not in k}
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    open_store(bucket, options).write("f", b"abc")


def client_settings() -> dict[str, object]:
    """A credential provider as users write it."""
    return {"config": {"aws_access_key_id": "key", "aws_secret_access_key": "hush"}}


def test_a_provider_is_called_where_the_store_is_used(bucket: str, s3_endpoint: str) -> None:
    options = {k: v for k, v in s3_settings(s3_endpoint).items() if "key" not in k}
    options["lakebed.storage.provider"] = f"{__name__}:client_settings"
    sent = pickle.dumps(open_store(bucket, options))
    assert b"hush" not in sent
    pickle.loads(sent).write("f", b"abc")


# ---- put-if-absent before a server that lies ------------------------------------------------------------------------

Answer = Callable[[dict[str, bytes], str, bytes], int]
OURS = b"ours"


class _Server(ThreadingHTTPServer):
    """Objects in memory; the first PUT is answered by `answer`, later ones as S3 does, GET by `get` where given."""

    def __init__(self, answer: Answer, get: int | None) -> None:
        self.objects: dict[str, bytes] = {}
        self.answers, self.get, self.puts = [answer], get, 0
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.puts += 1
        answer = self.server.answers.pop() if self.server.answers else as_s3_does
        self._reply(answer(self.server.objects, self.path, body), b"")

    def do_GET(self) -> None:
        there = self.server.objects.get(self.path)
        status = self.server.get or (200 if there is not None else 404)
        self._reply(status, there or b"" if status == 200 else b"")

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def as_s3_does(objects: dict[str, bytes], key: str, body: bytes) -> int:
    if key in objects:
        return 412
    objects[key] = body
    return 200


def stores_then(status: int, content: bytes | None = None) -> Answer:
    def answer(objects: dict[str, bytes], key: str, body: bytes) -> int:
        objects[key] = body if content is None else content
        return status

    return answer


def only_says(status: int) -> Answer:
    return lambda objects, key, body: status


@pytest.fixture
def lying() -> Iterator[Callable[..., tuple[RemoteStore, _Server]]]:
    servers: list[_Server] = []

    def make(answer: Answer, get: int | None = None) -> tuple[RemoteStore, _Server]:
        server = _Server(answer, get)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = s3_settings(f"http://127.0.0.1:{server.server_address[1]}")
        return open_store("s3://bucket/table", options), server

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("answer", "get", "outcome"),
    [
        pytest.param(as_s3_does, None, PutOutcome.CREATED, id="plain"),
        pytest.param(stores_then(500), None, PutOutcome.CREATED, id="stored, then 500: the retry meets our own bytes"),
        pytest.param(stores_then(409), None, PutOutcome.CREATED, id="stored, then 409"),
        pytest.param(stores_then(412), None, PutOutcome.CREATED, id="stored, then 412"),
        pytest.param(stores_then(412, b"theirs"), None, PutOutcome.EXISTS, id="others were faster"),
        pytest.param(stores_then(500, b"theirs"), None, PutOutcome.EXISTS, id="500, and others were faster"),
        pytest.param(only_says(409), None, PutOutcome.UNKNOWN, id="409 with nothing stored"),
        pytest.param(only_says(412), None, PutOutcome.UNKNOWN, id="412 with nothing stored"),
        pytest.param(stores_then(412), 403, PutOutcome.UNKNOWN, id="cannot be read back"),
    ],
)
def test_put_if_absent(
    lying: Callable[..., tuple[RemoteStore, _Server]], answer: Answer, get: int | None, outcome: PutOutcome
) -> None:
    store, server = lying(answer, get)
    assert store.put_if_absent("snapshot/snapshot-1", OURS) is outcome
    if outcome is PutOutcome.CREATED:
        assert list(server.objects.values()) == [OURS]


@pytest.mark.parametrize("get", [None, 403], ids=["the name is free", "cannot be read back"])
def test_put_if_absent_that_is_refused_says_so(
    lying: Callable[..., tuple[RemoteStore, _Server]], get: int | None
) -> None:
    store, server = lying(only_says(403), get)
    with pytest.raises(NotWrittenError, match=r"cannot write snapshot-1.*credentials"):
        store.put_if_absent("snapshot-1", OURS)
    assert server.objects == {}


def test_an_unknown_put_may_be_tried_again(lying: Callable[..., tuple[RemoteStore, _Server]]) -> None:
    store, _ = lying(only_says(409))
    assert store.put_if_absent("snapshot-1", OURS) is PutOutcome.UNKNOWN
    assert store.put_if_absent("snapshot-1", OURS) is PutOutcome.CREATED
    assert store.put_if_absent("snapshot-1", OURS) is PutOutcome.CREATED
    assert store.put_if_absent("snapshot-1", b"theirs") is PutOutcome.EXISTS


def test_already_exists_is_what_the_client_says_for_our_own_bytes(
    lying: Callable[..., tuple[RemoteStore, _Server]],
) -> None:
    """Why the verdict is read back; when this fails, obstore has changed and the rule may be looked at again."""
    store, server = lying(stores_then(500))
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store._client, "snapshot-1", OURS, mode="create")
    assert list(server.objects.values()) == [OURS]


def test_signatures_in_urls_are_not_shown(store: RemoteStore) -> None:
    error = store._failed("read", "f", obstore.exceptions.GenericError("GET https://x/y?sp=r&sig=AbC%2F1 failed"))
    assert "AbC" not in str(error) and "sig=..." in str(error)
