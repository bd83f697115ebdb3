"""What a failing store does to reads and writes: the right bytes, or one clear error in time."""

import copy
import datetime
import pickle
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakebed
from lakebed.errors import CommitUnknownError, NotWrittenError, OptionError, RetryableError, StorageError, UsageError
from lakebed.formats.iceberg.catalog.file_io import StoreFileIO
from lakebed.formats.iceberg.catalog.table import CatalogTable, parse_identifier
from lakebed.kernel.files import FileInfo, Store, open_store
from lakebed.kernel.files.credentials import KEYS_END, credentials_from
from tests.objectstore.server import StoreServer

SETTING = "lakebed.storage.setting."


@pytest.fixture
def store(store_server: StoreServer) -> Store:
    store = open_store(store_server.url("a table"), store_server.options)
    store.write_many({f"d/{n}": bytes([n]) * 1000 for n in range(8)})
    return store


@pytest.mark.parametrize("fault", ["503", "429", "500", "500-after", "503-after", "reset-before", "reset-after", "cut"])
def test_what_passes_is_asked_again(store_server: StoreServer, store: Store, fault: str) -> None:
    with store_server.fault(fault, chance=0.4):
        assert store.read_many([f"d/{n}" for n in range(8)]) == [bytes([n]) * 1000 for n in range(8)]
        assert store.read("d/3", 10, 5) == bytes([3]) * 5
        assert len(store.list("d").files) == 8 and len(list(store.walk())) == 8
        assert store.size("d/3") == 1000
        store.write("d/new", b"1")
        store.delete_many(["d/new", "d/7"])
    assert sorted(info.name for info in store.list("d").files) == [str(n) for n in range(7)]


def test_a_long_listing_that_breaks_off_goes_on(store_server: StoreServer) -> None:
    store = open_store(store_server.url(), store_server.options)
    files = {f"f{n:04}": b"" if n % 100 == 0 else b"x" for n in range(1200)}
    store.write_many(files)
    with store_server.fault("cut", target="list-type", skip=1, times=2):
        assert sorted(info.path for info in store.walk()) == sorted(files)
    with store_server.fault("cut", target="list-type"), pytest.raises(RetryableError, match="cannot list"):
        list(store.walk())


REFUSALS: list[tuple[str, str]] = [
    ("AccessDenied", "may not do this"),
    ("ExpiredToken", "AWS_SESSION_TOKEN"),
    ("InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
    ("SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
    ("RequestTimeTooSkewed", "clock"),
    ("AuthorizationHeaderMalformed", "AWS_REGION"),
]


@pytest.mark.parametrize(("code", "todo"), REFUSALS)
def test_a_refusal_is_one_clear_line_at_once(store_server: StoreServer, store: Store, code: str, todo: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.read("d/1"), lambda: store.list(), lambda: list(store.walk()), lambda: store.write("x", b"1"),
        lambda: store.delete("d/1"), lambda: store.delete_many(["d/1", "d/2"]), lambda: store.open_input("d/1"),
        lambda: store.put_if_absent("x", b"1"),
    ]  # fmt: skip
    with store_server.fault("403", code=code):
        for call in calls:
            began = time.monotonic()
            with pytest.raises(StorageError, match=rf"the store answered 403 {code}.*{todo}") as raised:
                call()
            assert time.monotonic() - began < 5
            assert not isinstance(raised.value, RetryableError) and "<" not in str(raised.value)
    assert store.read("d/1") == bytes([1]) * 1000


def test_a_refused_data_file_and_a_refused_commit(store_server: StoreServer) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    for table_format in ("iceberg", "paimon"):
        table = lakebed.create(store_server.url(), table_format, rows.schema, options=store_server.options)
        table.write(rows)
        said = pytest.raises(StorageError, match="the store answered 403 AccessDenied")
        with store_server.fault("403", method="GET", target="parquet"), said:
            table.read().read_all()
        with store_server.fault("403", method="PUT"), pytest.raises(StorageError, match="403 AccessDenied"):
            table.write(rows)
        assert table.read().read_all().num_rows == 3
        with store_server.fault("403", method="PUT"):
            with pytest.raises(StorageError, match="403 AccessDenied") as raised:
                lakebed.create(store_server.url(), table_format, rows.schema, options=store_server.options)
            assert not isinstance(raised.value, CommitUnknownError), "it is known: nothing was made"


def test_no_answer_is_told_in_time(store_server: StoreServer, store: Store) -> None:
    impatient = open_store(store.location, {**store_server.options, "lakebed.storage.timeout": "1.5"})
    for fault in ("hang", "hang-middle"):
        with store_server.fault(fault, hang=20):
            for call in (
                lambda: impatient.read("d/1"),
                lambda: impatient.list("d"),
                lambda: impatient.write("x", b"1"),
            ):
                began = time.monotonic()
                with pytest.raises(RetryableError, match=r"no answer came|cannot") as raised:
                    call()
                    raise RetryableError("cannot: the whole body had come")
                assert time.monotonic() - began < 6, raised.value
    assert impatient.read("d/1") == bytes([1]) * 1000


@pytest.mark.parametrize("seconds", ["0.5", "3"])
def test_a_server_that_stays_busy_is_told_with_what_was_tried(
    store_server: StoreServer, store: Store, seconds: str
) -> None:
    impatient = open_store(store.location, {**store_server.options, "lakebed.storage.timeout": seconds})
    with store_server.fault("503"), pytest.raises(RetryableError, match=r"503 SlowDown.*, \d+ times in [\d.]+ s"):
        impatient.read("d/1")


def test_a_late_answer_is_asked_for_twice(store_server: StoreServer, store: Store) -> None:
    hedging = open_store(store.location, {**store_server.options, "lakebed.storage.hedge": "100"})
    with store_server.fault("hang", method="GET", times=1, hang=5):
        began = time.monotonic()
        assert hedging.read("d/1") == bytes([1]) * 1000
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("fault", ["503-after", "reset-after", "500-after", "reset-before", "503"])
def test_each_commit_counts_once(store_server: StoreServer, fault: str) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    for table_format in ("iceberg", "paimon"):
        table = lakebed.create(store_server.url(), table_format, rows.schema, options=store_server.options)
        with store_server.fault(fault, method="PUT", chance=0.4):
            for _ in range(3):
                table.write(rows)
        assert table.read().read_all().num_rows == 9 and len(table.history()) == 3


def test_wrong_keys(store_server: StoreServer) -> None:
    with pytest.raises(UsageError, match=r"half of the keys"):
        lakebed.open(store_server.url(), {**store_server.options, f"{SETTING}aws_secret_access_key": ""})
    with pytest.raises(StorageError, match="bucket exists"):
        lakebed.open("s3://no-such-bucket-here/t", store_server.options)


@pytest.mark.parametrize("place", ["", "/", "a b", "plus+sign", "100%25", "ü/ö", "a=b/c&d", "deep/er/"])
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_odd_places(store_server: StoreServer, place: str, scheme: str) -> None:
    if place in ("", "/"):
        bucket = f"root-{scheme}{len(place)}-{store_server.bucket[-6:]}"
        store_server.client().create_bucket(Bucket=bucket)
        url = f"{scheme}://{bucket}{place}"
    else:
        url = f"{scheme}{store_server.url().removeprefix('s3')}/{place}"
    for table_format in ("iceberg", "paimon"):
        if place in ("", "/") and table_format == "paimon":
            continue
        location = url if place in ("", "/") else f"{url.rstrip('/')}/{table_format}/"
        rows = pa.table({"id": [1, 2], "p": ["x y+z%", "a/b=ü"]})
        table = lakebed.create(location, table_format, rows.schema, partition_by=["p"], options=store_server.options)
        table.write(rows)
        again = lakebed.open(location, store_server.options)
        assert again.read().read_all().sort_by("id").to_pydict() == rows.to_pydict()


def test_what_was_not_removed_is_told(store_server: StoreServer, store: Store) -> None:
    with store_server.fault("403", method="POST|DELETE", target="(/|=)(d/[12]|)(\\?|$)|delete"):
        stand = store.undeleted(["d/1", "d/2", "d/none"])
    assert set(stand) == {"d/1", "d/2", "d/none"}
    assert all(isinstance(error, StorageError) for error in stand.values())
    assert store.undeleted(["d/1", "d/2", "d/none"]) == {} and FileInfo("d/1", 1000) not in store.list("d").files


def test_a_refused_put_was_not_written(store_server: StoreServer, store: Store) -> None:
    with store_server.fault("403", method="PUT|GET"), pytest.raises(NotWrittenError, match="403"):
        store.put_if_absent("name", b"ours")
    assert not store.exists("name")


RENEWED: list[datetime.datetime] = []


def renewing() -> dict[str, object]:
    """A provider as users write it, whose keys end soon."""

    def keys() -> dict[str, object]:
        RENEWED.append(datetime.datetime.now(datetime.UTC))
        ends = RENEWED[-1] + datetime.timedelta(seconds=1)
        return {"access_key_id": "key", "secret_access_key": "hushhush", "token": None, "expires_at": ends}

    return {"credential_provider": keys}


def test_keys_that_end_are_asked_for_again(store_server: StoreServer, store: Store) -> None:
    options = {key: value for key, value in store_server.options.items() if not key.endswith(("key_id", "access_key"))}
    named = open_store(store.location, {**options, "lakebed.storage.provider": f"{__name__}:renewing"})
    travelled = pickle.loads(pickle.dumps(named))
    for one in (named, travelled):
        RENEWED.clear()
        for _ in range(3):
            assert one.read("d/1") == bytes([1]) * 1000
            time.sleep(0.6)
        assert len(RENEWED) > 1, "one client, two sets of keys"


@pytest.mark.parametrize("fault", ["503", "reset-after", "hang-after"])
@pytest.mark.parametrize(
    ("table_format", "target"), [("iceberg", "/v3.metadata.json"), ("paimon", "/snapshot/snapshot-2")]
)
def test_a_commit_that_cannot_be_seen_is_told_in_time(
    store_server: StoreServer, table_format: str, target: str, fault: str
) -> None:
    rows, options = pa.table({"id": [1, 2, 3]}), {**store_server.options, "lakebed.storage.timeout": "3"}
    url = store_server.url()
    table = lakebed.create(url, table_format, rows.schema, options=options)
    table.write(rows)
    with store_server.fault(fault, method="GET|PUT", target=target, skip=1, hang=30):
        began = time.monotonic()
        with pytest.raises(CommitUnknownError):
            table.write(rows)
        assert time.monotonic() - began < 10
    landed = fault != "503"
    assert lakebed.open(url, options).read().read_all().num_rows == (6 if landed else 3)


def test_a_large_body_may_take_longer_than_one_try(store_server: StoreServer) -> None:
    """A store answers when it has all of the body. The server here reads slowly."""
    with SlowServer(bytes_per_second=4e6) as endpoint:
        options = {**store_server.options, f"{SETTING}aws_endpoint": endpoint, "lakebed.storage.timeout": "1"}
        began = time.monotonic()
        open_store("s3://bucket/t", options).put_if_absent("large", bytes(6 << 20))
        assert time.monotonic() - began > 1


@pytest.mark.parametrize(
    ("setting", "why"), [("aws_bucket", "the table's URL names the bucket"), ("aws_conditional_put", "commits need")]
)
def test_what_cannot_be_set(store_server: StoreServer, setting: str, why: str) -> None:
    with pytest.raises(OptionError, match=f"'{SETTING}{setting}' cannot be set: {why}"):
        lakebed.open(store_server.url(), {**store_server.options, f"{SETTING}{setting}": "disabled"})


def test_nobody_at_the_endpoint(store_server: StoreServer) -> None:
    options = {**store_server.options, f"{SETTING}aws_endpoint": "http://127.0.0.1:1", "lakebed.storage.timeout": "2"}
    with pytest.raises(
        RetryableError, match=r"no answer came from http://127.0.0.1:1, \d+ times in .*AWS_ENDPOINT_URL"
    ):
        lakebed.open("s3://bucket/t", options)


def test_a_role_that_the_machine_does_not_have(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {key: value for key, value in store_server.options.items() if not key.endswith(("key_id", "access_key"))}
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    asked = {**options, "lakebed.storage.provider": "instance", "lakebed.storage.timeout": "2"}
    with pytest.raises(RetryableError, match=r"no answer came from http://127.0.0.1:1.*provider=instance"):
        lakebed.open("s3://bucket/t", asked)


def raising() -> dict[str, object]:
    """A provider as users write it, which fails at once."""
    raise PermissionError("log in first")


def late_raising() -> dict[str, object]:
    """A provider as users write it, which fails when keys are needed."""
    return {"credential_provider": raising}


@pytest.mark.parametrize("name", ["raising", "late_raising"])
def test_a_provider_that_fails_is_named(store_server: StoreServer, name: str) -> None:
    options = {key: value for key, value in store_server.options.items() if not key.endswith(("key_id", "access_key"))}
    named = {**options, "lakebed.storage.provider": f"{__name__}:{name}"}
    began = time.monotonic()
    with pytest.raises(
        (StorageError, UsageError), match=r"lakebed.storage.provider.*log in first|log in first.*provider"
    ):
        lakebed.open(store_server.url(), named)
    assert time.monotonic() - began < 5


class SlowServer:
    """A server that takes each body at a bounded speed, then says yes."""

    def __init__(self, bytes_per_second: float) -> None:
        self._speed = bytes_per_second
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._take, args=[connection], daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1000)
            size = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            left = int(size[1]) - len(head.partition(b"\r\n\r\n")[2]) if size else 0
            while left > 0 and (data := connection.recv(1 << 16)):
                left -= len(data)
                time.sleep(len(data) / self._speed)
            connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 0\r\n\r\n')


HANDED_OUT: list[int] = []


def handed_out(options: dict[str, str]) -> dict[str, str]:
    """The options that a catalog gives, with keys that end after a second."""
    HANDED_OUT.append(int(time.time() * 1000) + 1000)
    return {**options, f"{SETTING}aws_session_token": "t", f"{SETTING}{KEYS_END}": str(HANDED_OUT[-1])}


def test_keys_that_a_catalog_hands_out_are_asked_for_again(store_server: StoreServer, store: Store) -> None:
    ask = partial(handed_out, store_server.options)
    credentials = replace(credentials_from(ask()), renewal=ask)
    named = open_store(store.location, credentials=credentials)
    sent = pickle.dumps(named)
    for one, already in ((named, 1), (pickle.loads(sent), 0)):
        HANDED_OUT.clear()
        for _ in range(3):
            assert one.read("d/1") == bytes([1]) * 1000
            time.sleep(0.6)
        assert len(HANDED_OUT) > 1 - already


def test_a_rest_catalogs_keys_are_renewed_and_stay_here(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = {f"{SETTING}{name}": store_server.options[f"{SETTING}{name}"] for name in ("aws_endpoint", "aws_region")}
    catalog = {
        "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/c.db",
        "lakebed.catalog.warehouse": store_server.url(),
    }  # fmt: skip
    asked: list[str] = []

    def load(catalog: Any, identifier: Any) -> Any:
        entry = copy.copy(loaded)
        entry.io = StoreFileIO()
        asked.append(str(identifier))
        ends = str(int(time.time() * 1000) + 1000)
        keys = {"s3.access-key-id": "key", "s3.secret-access-key": "hushhush", "s3.session-token": f"token {ends}"}
        entry.config = {**entry.config, **keys, "s3.session-token-expires-at-ms": ends}
        return entry

    rows = pa.table({"id": [1, 2, 3]})
    lakebed.create("cat:n.t", "iceberg", rows.schema, options={**catalog, **store_server.options}).write(rows)
    loaded = CatalogTable(parse_identifier("cat:n.t"), {**catalog, **store_server.options}).catalog.load_table("n.t")
    monkeypatch.setattr(SqlCatalog, "load_table", load)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    files = CatalogTable(parse_identifier("cat:n.t"), {**catalog, **own}).files
    (name,) = [info.path for info in files.home.walk("data")]
    sent = pickle.dumps(files)
    assert b"hushhush" not in sent and b"token" not in sent.replace(b"session_token", b"")
    for one in (files, pickle.loads(sent)):
        asked.clear()
        for _ in range(4):
            assert one.home.read(name)
            time.sleep(0.5)
        assert len(asked) > 1
