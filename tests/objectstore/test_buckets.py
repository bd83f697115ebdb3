"""The server in memory answers as moto does: the same requests to both."""

import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from xml.etree import ElementTree

import pytest
from moto.server import ThreadedMotoServer

from tests.objectstore.buckets import Buckets

Answer = tuple[int, Mapping[str, str], bytes]
Ask = Callable[..., Answer]
SHOWN = ("etag", "content-range", "x-amz-meta-note")
TEXT = b"0123456789"
ETAG = '"781e5e245d69b566979b86e28d23f2c7"'
AUTH = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20300101/us-east-1/s3/aws4_request, Signature=0"}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Ask, Ask]]:
    """moto's server and the one in memory, to be asked for a method, a target, headers and a body."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    buckets = Buckets()

    def ask_moto(method: str, target: str, headers: Mapping[str, str] = {}, body: bytes = b"") -> Answer:
        plain = {"Content-Type": "application/octet-stream", **AUTH, **headers}
        request = urllib.request.Request(f"http://{host}:{port}{target}", body or None, plain, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()

    def ask_memory(method: str, target: str, headers: Mapping[str, str] = {}, body: bytes = b"") -> Answer:
        return buckets.answer(method, target, headers, body)

    yield ask_moto, ask_memory
    moto.stop()


def shown(answer: Answer) -> tuple[int, dict[str, str], str]:
    """What a client looks at: the status, some headers, and the body with the names in XML that matter."""
    status, headers, body = answer
    kept = {name.lower(): value for name, value in headers.items() if name.lower() in SHOWN}
    if not body.lstrip().startswith(b"<"):
        return status, kept, body.decode()
    wanted = ("Code",) if status >= 300 else ("Key", "Size", "ETag", "Prefix", "IsTruncated", "KeyCount")
    found = [(one.tag.rpartition("}")[2], one.text) for one in ElementTree.fromstring(body.strip()).iter()]
    return status, kept, str(sorted((name, text or "") for name, text in found if name in wanted))


def test_objects_and_their_conditions(servers: tuple[Ask, Ask]) -> None:
    asked = [
        ("GET", "/one?list-type=2"), ("PUT", "/one"), ("GET", "/one/a"), ("HEAD", "/one/a"),
        ("PUT", "/one/a", {"If-None-Match": "*", "x-amz-meta-note": "n"}, TEXT), ("HEAD", "/one/a"), ("GET", "/one/a"),
        ("PUT", "/one/a", {"If-None-Match": "*"}, b"x"), ("PUT", "/one/a", {"If-Match": '"0"'}, b"x"),
        ("PUT", "/one/none", {"If-Match": ETAG}, b"x"), ("GET", "/one/a", {"If-Match": '"0"'}),
        ("GET", "/one/a", {"If-None-Match": ETAG}), ("PUT", "/one/a", {"If-Match": ETAG}, TEXT),
        *(("GET", "/one/a", {"Range": f"bytes={span}"}) for span in ("0-3", "3-", "-4", "8-99", "10-", "-99", "9-9")),
        ("PUT", "/one/with%20space%2B%C3%A9", {}, b"1"), ("GET", "/one/with%20space%2B%C3%A9"),
        ("DELETE", "/one/a"), ("DELETE", "/one/a"), ("GET", "/one/a"), ("GET", "/none/a"),
    ]  # fmt: skip
    same(servers, asked)


def test_lists_page_by_page(servers: tuple[Ask, Ask]) -> None:
    keys = ["a", "d/1", "d/2", "d/e/3", "d/f/4", "d-x", "z%C3%A9"]
    asked = [("PUT", "/two"), *(("PUT", f"/two/{key}", {}, key.encode()) for key in keys)]
    queries = ["", "&prefix=d/", "&prefix=d/&delimiter=/", "&delimiter=/", "&start-after=d/1", "&prefix=none",
               "&prefix=d/&start-after=d/e/3", "&max-keys=3", "&max-keys=2&delimiter=/"]  # fmt: skip
    same(servers, [*asked, *(("GET", f"/two?list-type=2{query}") for query in queries)])
    body = b"<Delete>%s</Delete>" % b"".join(b"<Object><Key>%s</Key></Object>" % key for key in (b"a", b"d/e/3", b"no"))
    same(servers, [("POST", "/two?delete", {}, body), ("GET", "/two?list-type=2")])


@pytest.mark.parametrize("delimiter", ["", "/"])
def test_pages_together_are_the_whole_list(delimiter: str) -> None:
    buckets = Buckets()
    buckets.answer("PUT", "/b", {}, b"")
    for key in ("a", "d/1", "d/2", "d/e/3", "dd", "e/5", "f"):
        buckets.answer("PUT", f"/b/{key}", {}, b"")

    def page(query: str) -> ElementTree.Element:
        _, _, data = buckets.answer("GET", f"/b?list-type=2&delimiter={delimiter}{query}", {}, b"")
        return ElementTree.fromstring(data)

    def names(found: ElementTree.Element) -> list[str | None]:
        return [one.text for one in found.iter() if one.tag.endswith(("}Key", "}Prefix")) and one.text]

    pages, token = [], ""
    while token is not None:
        found = page(f"&max-keys=1{token and f'&continuation-token={token}'}")
        pages += names(found)
        token = next((one.text for one in found.iter() if one.tag.endswith("}NextContinuationToken")), None)
    assert pages == names(page("")) and len(pages) == (7 if not delimiter else 5)


def test_uploads_in_parts(servers: tuple[Ask, Ask]) -> None:
    found = []
    for ask in servers:
        ask("PUT", "/three")
        answers = []
        for key, conditions in (("new", {"If-None-Match": "*"}), ("new", {"If-None-Match": "*"}), ("given-up", {})):
            (upload,) = re.findall(rb"<UploadId>(.*?)</UploadId>", ask("POST", f"/three/{key}?uploads")[2])
            upload = upload.decode()
            part = ask("PUT", f"/three/{key}?partNumber=1&uploadId={upload}", {}, b"x" * (5 << 20))
            answers += [part, ask("PUT", f"/three/{key}?partNumber=2&uploadId={upload}", {}, TEXT)]
            if key == "given-up":
                answers.append(ask("DELETE", f"/three/{key}?uploadId={upload}"))
            else:
                parts = "".join(
                    f"<Part><PartNumber>{number}</PartNumber><ETag>{shown(part)[1]['etag']}</ETag></Part>"
                    for number, part in enumerate(answers[-2:], 1)
                )
                end = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
                answers.append(ask("POST", f"/three/{key}?uploadId={upload}", conditions, end))
            answers.append(ask("HEAD", f"/three/{key}"))
        found.append([shown(answer) for answer in answers])
    assert found[0] == found[1]


def same(servers: tuple[Ask, Ask], requests: list[tuple]) -> None:
    """Both answer each request alike."""
    for request in requests:
        moto, memory = (shown(ask(*request)) for ask in servers)
        assert memory == moto, request
