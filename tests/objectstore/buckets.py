"""The buckets of an S3 server in memory: the requests that stores of tables make, answered as S3's API reference says.

`test_buckets.py` compares the answers with those of moto. Signatures are not looked at.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

Answer = tuple[int, dict[str, str], bytes]
_MOST_KEYS = 1000
_KEPT = re.compile(r"x-amz-meta-.*|content-type|cache-control|content-disposition|content-language")
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@dataclass(frozen=True)
class Object:
    """One object; `headers` are those that came with it and go out with it."""

    data: bytes
    etag: str
    headers: Mapping[str, str]
    changed: float


@dataclass
class Upload:
    """An upload in parts that has not ended."""

    key: str
    headers: Mapping[str, str]
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass
class Bucket:
    """`keys` are those of `objects`, sorted as their bytes are."""

    objects: dict[str, Object] = field(default_factory=dict)
    keys: list[bytes] = field(default_factory=list)
    uploads: dict[str, Upload] = field(default_factory=dict)

    def put(self, key: str, stored: Object) -> None:
        if key not in self.objects:
            bisect.insort(self.keys, key.encode())
        self.objects[key] = stored

    def remove(self, key: str) -> None:
        if self.objects.pop(key, None):
            del self.keys[bisect.bisect_left(self.keys, key.encode())]


class Refused(Exception):
    """A request that fails with a status and a code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class Buckets:
    """All buckets. Threads may ask at the same time."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Status, headers and body. The answer to HEAD has no body, and the Content-Length of the object."""
        path, _, query = target.partition("?")
        name, _, key = unquote(path).lstrip("/").partition("/")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        sent = {header.lower(): value for header, value in headers.items()}
        try:
            with self._lock:
                if method == "PUT" and not key:
                    self._buckets.setdefault(name, Bucket())
                    return 200, {}, b""
                if name not in self._buckets:
                    raise Refused(404, "NoSuchBucket")
                return _answered(self._buckets[name], method, key, asked, sent, body, self._numbers)
        except Refused as refused:
            text = f"<Error><Code>{refused.code}</Code><Message>{refused.code}.</Message></Error>"
            return refused.status, {"Content-Type": "application/xml"}, b"" if method == "HEAD" else _xml(text)


def _answered(
    bucket: Bucket, method: str, key: str, asked: Mapping[str, str], sent: Mapping[str, str], body: bytes,
    numbers: itertools.count[int],
) -> Answer:  # fmt: skip
    """The answer to a request about a bucket or one of its objects."""
    if not key:
        if method == "POST" and "delete" in asked:
            return _deleted(bucket, body)
        if method == "GET":
            return _listed(bucket, asked)
        return 200, {}, b""
    if "uploads" in asked or "uploadId" in asked:
        return _uploaded(bucket, method, key, asked, sent, body, numbers)
    if method == "PUT":
        return _put(bucket, key, _object(_data(sent, body), sent), sent)
    if method == "DELETE":
        bucket.remove(key)
        return 204, {}, b""
    return _got(bucket, method, key, sent)


def _put(bucket: Bucket, key: str, stored: Object, sent: Mapping[str, str]) -> Answer:
    """Keep an object if the conditions of the request are met."""
    there = bucket.objects.get(key)
    if sent.get("if-none-match") == "*" and there:
        raise Refused(412, "PreconditionFailed")
    if "if-match" in sent:
        if not there:
            raise Refused(404, "NoSuchKey")
        if sent["if-match"].strip('"') != there.etag:
            raise Refused(412, "PreconditionFailed")
    bucket.put(key, stored)
    return 200, {"ETag": f'"{stored.etag}"'}, b""


def _got(bucket: Bucket, method: str, key: str, sent: Mapping[str, str]) -> Answer:
    there = bucket.objects.get(key)
    if not there:
        raise Refused(404, "NoSuchKey")
    if "if-match" in sent and sent["if-match"].strip('"') != there.etag:
        raise Refused(412, "PreconditionFailed")
    if sent.get("if-none-match", "").strip('"') == there.etag:
        return 304, {"ETag": f'"{there.etag}"'}, b""
    headers = {
        **there.headers, "ETag": f'"{there.etag}"', "Last-Modified": formatdate(there.changed, usegmt=True),
        "Accept-Ranges": "bytes", "Content-Length": str(len(there.data)),
    }  # fmt: skip
    if method == "HEAD":
        return 200, headers, b""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", sent.get("range", ""))
    if not match or match[0] == "bytes=-":
        return 200, headers, there.data
    size = len(there.data)
    first = int(match[1]) if match[1] else max(size - int(match[2]), 0)
    last = min(int(match[2]), size - 1) if match[1] and match[2] else size - 1
    if first >= size or first > last:
        raise Refused(416, "InvalidRange")
    return 206, {**headers, "Content-Range": f"bytes {first}-{last}/{size}"}, there.data[first : last + 1]


def _listed(bucket: Bucket, asked: Mapping[str, str]) -> Answer:
    """One page of the keys, version 2 of the list API."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    token = asked.get("continuation-token", "")
    after = bytes.fromhex(token) if token else asked.get("start-after", "").encode()
    most = min(int(asked.get("max-keys", _MOST_KEYS)), _MOST_KEYS)
    keys, start = bucket.keys, prefix.encode()
    at = max(bisect.bisect_left(keys, start), bisect.bisect_right(keys, after) if after else 0)
    entries, last, truncated = [], b"", False
    while at < len(keys) and keys[at].startswith(start):
        if len(entries) == most:
            truncated = True
            break
        key = keys[at].decode()
        rest = key[len(prefix) :]
        if delimiter and delimiter in rest:
            folder = prefix + rest.partition(delimiter)[0] + delimiter
            last = folder.encode() + b"\xff"  # behind every key in the folder
            at = bisect.bisect_left(keys, last, at)
            entries.append(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>")
        else:
            last, at = keys[at], at + 1
            entries.append(_entry(key, bucket.objects[key]))
    more = f"<NextContinuationToken>{last.hex()}</NextContinuationToken>" if truncated else ""
    text = (
        f'<ListBucketResult xmlns="{_SPACE}"><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries)}</KeyCount>'
        f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(truncated).lower()}</IsTruncated>{more}{''.join(entries)}"
        "</ListBucketResult>"
    )
    return 200, {"Content-Type": "application/xml"}, _xml(text)


def _entry(key: str, stored: Object) -> str:
    changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored.changed))
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{changed}</LastModified><ETag>&quot;{stored.etag}&quot;</ETag>"
        f"<Size>{len(stored.data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _deleted(bucket: Bucket, body: bytes) -> Answer:
    """Many keys by one request. A key that is not there counts as removed."""
    document = ElementTree.fromstring(body)
    space = document.tag.partition("}")[0] + "}" if document.tag.startswith("{") else ""
    keys = [found.findtext(f"{space}Key") or "" for found in document.iter(f"{space}Object")]
    for key in keys:
        bucket.remove(key)
    quiet = (document.findtext(f"{space}Quiet") or "").lower() == "true"
    told = "" if quiet else "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
    return 200, {"Content-Type": "application/xml"}, _xml(f'<DeleteResult xmlns="{_SPACE}">{told}</DeleteResult>')


def _uploaded(
    bucket: Bucket, method: str, key: str, asked: Mapping[str, str], sent: Mapping[str, str], body: bytes,
    numbers: itertools.count[int],
) -> Answer:  # fmt: skip
    """A step of an upload in parts: its begin, a part, its end, or giving it up."""
    if method == "POST" and "uploads" in asked:
        name = f"upload-{next(numbers)}"
        bucket.uploads[name] = Upload(key, sent)
        text = f"<UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
        return 200, {}, _xml(f'<InitiateMultipartUploadResult xmlns="{_SPACE}"><Key>{escape(key)}</Key>{text}')
    name = asked["uploadId"]
    if name not in bucket.uploads or bucket.uploads[name].key != key:
        raise Refused(404, "NoSuchUpload")
    upload = bucket.uploads[name]
    if method == "PUT":
        upload.parts[int(asked["partNumber"])] = data = _data(sent, body)
        return 200, {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}, b""
    if method == "DELETE":
        del bucket.uploads[name]
        return 204, {}, b""
    wanted = [int(number) for number in re.findall(r"<PartNumber>(\d+)</PartNumber>", body.decode())]
    if not wanted or wanted != sorted(wanted) or not upload.parts.keys() >= set(wanted):
        raise Refused(400, "InvalidPart")
    parts = [upload.parts[number] for number in wanted]
    together = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).hexdigest()
    stored = _object(b"".join(parts), upload.headers, f"{together}-{len(parts)}")
    _put(bucket, key, stored, sent)
    del bucket.uploads[name]
    text = f"<Key>{escape(key)}</Key><ETag>&quot;{stored.etag}&quot;</ETag></CompleteMultipartUploadResult>"
    return 200, {}, _xml(f'<CompleteMultipartUploadResult xmlns="{_SPACE}">{text}')


def _object(data: bytes, sent: Mapping[str, str], etag: str = "") -> Object:
    kept = {name: value for name, value in sent.items() if _KEPT.fullmatch(name)}
    return Object(data, etag or hashlib.md5(data).hexdigest(), kept, time.time())


def _data(sent: Mapping[str, str], body: bytes) -> bytes:
    """The body, without the frames in which signed chunks come."""
    if "aws-chunked" not in sent.get("content-encoding", ""):
        return body
    chunks, at = [], 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].partition(b";")[0], 16)
        if not size:
            return b"".join(chunks)
        chunks.append(body[end + 2 : end + 2 + size])
        at = end + 4 + size


def _xml(text: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
