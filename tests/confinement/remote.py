"""The ground of a table in a bucket: every request of a verb is seen by the server."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

import pyarrow as pa

import lakebed
from lakebed.errors import LakebedError
from lakebed.kernel.files import cache, open_store
from tests.confinement import tables
from tests.confinement.matrix import Field
from tests.confinement.tables import Content
from tests.objectstore.server import StoreServer


class RemoteGround:
    """A table on the server, with objects beside it that nothing may ask for."""

    def __init__(self, server: StoreServer, table: str) -> None:
        self.name, self.form, self.server = table, table.split()[0], server
        self.url = server.url()
        self.above = self.url.rpartition("/")[0]
        self._store = open_store(self.url, server.direct)
        self.content = tables.MADE[table](self.url, server.direct)
        if self.content:
            self._store.write_many(self.content)
        else:
            self.content = self._stored()
        self.rows = tables.some_rows(self.url, server.direct)

    def _stored(self) -> Content:
        paths = [info.path for info in self._store.walk()]
        return dict(zip(paths, self._store.read_many(paths), strict=True))

    def lay(self, content: Content) -> None:
        """The table's files, in place of what is there."""
        there = self._stored()
        self._store.write_many({path: data for path, data in content.items() if there.get(path) != data})
        self._store.undeleted([path for path in there if path not in content])

    def hostile(self, field: Field, template: str) -> Content:
        """The table with a hostile text in a field."""

        def value(old: str) -> str:
            tail = old.rpartition("/")[2] or "precious"
            return template.format(old=old, tail=tail, table=self.url, victim=f"{self.above}/victim")

        store = open_store(self.above, self.server.direct)
        store.write_many({f"{folder}/precious": b"precious" for folder in ("victim", "tablex")})
        self._before = self._beside()
        return field.edited(self.content, value)

    def act(self, verb: Callable[[Any, pa.Table], object]) -> tuple[str, set[str]]:
        """How a verb ends, and the keys outside the table that were asked for, with their buckets."""
        ended = ""
        cache.CACHE.clear()  # it has the bytes of the table that was here before, under the same names
        self.server.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                verb(lakebed.open(self.url, self.server.options), self.rows)
            except LakebedError as error:
                ended = type(error).__name__
        asked = {_asked(entry.target) for entry in self.server.requests()}
        root = self.url.removeprefix("s3://")
        # The request that removes many keys names them in its body: the bucket's other keys are looked at below.
        own = re.compile(rf"{re.escape(root)}(/.*)?|{re.escape(self.server.bucket)}/\?delete")
        return ended, {place for place in asked if not own.fullmatch(place)}

    def victims_changed(self) -> bool:
        """Whether an object beside the table is not what it was."""
        return self._beside() != self._before

    def _beside(self) -> Content:
        store = open_store(self.above, self.server.direct)
        paths = [info.path for info in store.walk() if not info.path.startswith("table/")]
        return dict(zip(paths, store.read_many(paths), strict=True))


def _asked(target: str) -> str:
    """The bucket and key, or prefix of a list, that a request names."""
    path, _, query = target.partition("?")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    if "delete" in asked:
        return f"{unquote(path).strip('/')}/?delete"
    if "prefix" in asked:
        return f"{unquote(path).strip('/')}/{asked['prefix']}".rstrip("/")
    return unquote(path).lstrip("/")
