"""Where a table lies: a plain path or a URL, in one spelling."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from lakebed.errors import UnsupportedError, UsageError

REMOTE_SCHEMES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs",
    "abfs": "abfss", "abfss": "abfss", "az": "az", "azure": "az", "http": "http", "https": "https", "memory": "memory",
}  # fmt: skip
"""Scheme as written -> the scheme that the storage client knows."""


@dataclass(frozen=True, slots=True)
class Location:
    """`scheme` is "file" or a remote scheme; `text` the absolute path or the URL, without a trailing slash."""

    scheme: str
    text: str

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this machine."""
        return self.scheme == "file"


def parse_location(location: str | os.PathLike[str]) -> Location:
    """A path, `file:` URL or remote URL in its one spelling; `s3a:` and `s3n:` are `s3:`.

    Raises UsageError for an empty text, UnsupportedError for a scheme that no store here serves.
    """
    text = os.fspath(location)
    if not text.strip():
        raise UsageError("the location is empty", todo="Give a path or a URL")
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if (
        not colon
        or "/" in scheme
        or len(scheme) == 1
        or (scheme not in {*REMOTE_SCHEMES, "file"} and "//" not in rest[:2])
    ):
        return Location("file", os.path.abspath(os.path.expanduser(text)))
    if scheme == "file":
        path = unquote(urlsplit(text).path) if rest.startswith("//") else rest
        return Location("file", os.path.abspath(path))
    if scheme in ("hdfs", "viewfs"):
        raise UnsupportedError(
            f"location {text!r} is on HDFS", why="lakebed has no client for it",
            todo="Mount it (hdfs-fuse, NFS gateway) and give the local path, or copy the table to an object store",
        )  # fmt: skip
    if scheme not in REMOTE_SCHEMES:
        raise UnsupportedError(
            f"location {text!r} has the unknown scheme {scheme!r}",
            todo="Known: a plain path, file:, s3:// (s3a, s3n), gs://, abfss://, az://",
        )
    return Location(REMOTE_SCHEMES[scheme], f"{REMOTE_SCHEMES[scheme]}:{rest.rstrip('/')}")
