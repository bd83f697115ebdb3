"""The location of a table: a plain path or a URL, in one spelling."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote

from lakebed.errors import UnsupportedError, UsageError

REMOTE_SCHEMES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs",
    "abfs": "abfss", "abfss": "abfss", "az": "az", "azure": "az", "http": "http", "https": "https", "memory": "memory",
}  # fmt: skip
"""Schemes as users write them, and the scheme that the storage client knows for each."""
_CONTAINERS = ("abfs", "abfss", "az", "azure")
"""Schemes in whose URLs the part before an `@` is a container."""
_HDFS = ("hdfs", "viewfs", "webhdfs")


@dataclass(frozen=True, slots=True)
class Location:
    """A location in its one spelling.

    `scheme` is "file" or a remote scheme, `text` the absolute path or the URL, without a trailing slash.
    """

    scheme: str
    text: str

    @property
    def is_local(self) -> bool:
        """Whether it is a path on this machine."""
        return self.scheme == "file"


def parse_location(location: str | os.PathLike[str]) -> Location:
    """Bring a path, `file:` URL or remote URL into its one spelling. `s3a:` and `s3n:` become `s3:`.

    UsageError for a text that is empty or has a NUL, UnsupportedError for a scheme that no store serves.
    """
    text = os.fspath(location) if isinstance(location, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"the location is a {type(location).__name__}", todo="Give a path or a URL")
    if not text.strip():
        raise UsageError("the location is empty", todo="Give a path or a URL")
    if "\0" in text:
        raise UsageError(f"location {text!r} has a character that no path can have", todo="Give a path or a URL")
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    known = scheme in REMOTE_SCHEMES or scheme == "file" or (scheme in _HDFS and rest.startswith("/"))
    if not colon or "/" in scheme or len(scheme) == 1 or not (known or rest.startswith("//")):
        return Location("file", os.path.abspath(os.path.expanduser(text)))
    if scheme == "file":
        return Location("file", _file_url(text, rest))
    if scheme in _HDFS:
        raise UnsupportedError(
            f"location {text!r} is on HDFS",
            why="lakebed has no client for it",
            todo="Mount it (hdfs-fuse, NFS gateway) and give the local path, or copy the table to an object store",
        )
    if scheme not in REMOTE_SCHEMES:
        raise UnsupportedError(
            f"location {text!r} has the unknown scheme {scheme!r}",
            todo="Known: a plain path, file:, s3:// (s3a, s3n), gs://, abfss://, az://",
        )
    bucket = rest.removeprefix("//").strip("/")
    if scheme not in _CONTAINERS and "@" in bucket.partition("/")[0]:
        raise UsageError(
            f"location {text!r} names a user and password",
            todo="Give keys in the options lakebed.storage.setting.*, in the environment or in a profile",
        )
    if not rest.startswith("//") or not bucket:
        raise UsageError(f"location {text!r} names no bucket", todo=f"Write {scheme}://BUCKET/PATH")
    return Location(REMOTE_SCHEMES[scheme], f"{REMOTE_SCHEMES[scheme]}:{rest.rstrip('/')}")


def _file_url(text: str, rest: str) -> str:
    """The path of a `file:` URL. Only the form with `//` has percent escapes. A `#` or `?` is part of the name."""
    if not rest.startswith("//"):
        return os.path.abspath(rest)
    host, slash, path = rest[2:].partition("/")
    if not slash or host.lower() not in ("", "localhost"):
        raise UsageError(f"location {text!r} names the host {host!r}", todo="Write file:///PATH, with three slashes")
    return os.path.abspath("/" + unquote(path))
