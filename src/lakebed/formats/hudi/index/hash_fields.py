"""The texts by which a record key is hashed to its bucket.

A key of several columns is `name:text,name:text`; the columns that are asked for count, in the key's order, null for
`__null__` and "" for `__empty__`. Any other key counts as a whole. A text with commas and colons is cut where releases
from 1.0 on cut it: at the last comma before the next colon that follows a comma.

Release 0.15 cuts at every comma, and finds no column in a lone text with a colon. In table version 6, which it writes
too, keys that it hashes to another bucket are refused.

Rules: Hudi's `BucketIdentifier.getHashKeys`, `KeyGenUtils.extractRecordKeysByFields`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, to_numpy

_VALUE = "[^,]*(?:,[^:]*)?"
"""The text of a column that is cut where it ends: no colon follows its first comma."""


@dataclass(frozen=True, slots=True)
class HashFields:
    """The columns of the record key that choose the bucket. `by_all_releases`: a key that releases hash differently is
    refused. Picklable."""

    record_keys: tuple[str, ...]
    fields: tuple[str, ...]
    by_all_releases: bool
    table: str

    def texts(self, keys: pa.StringArray) -> Iterator[tuple[Int64s, Sequence[pa.Array]]]:
        """The rows of keys that have equally many texts, and these: one array per text, null for none."""
        parts, named = _has(keys, ","), _has(keys, ":")
        whole = ~(parts & named)
        if whole.any():
            if self.by_all_releases and (whole & named).any():
                self._refuse(keys, whole & named)
            yield _taken(keys, whole)
        if whole.all():
            return
        rows = np.flatnonzero(~whole)
        left = keys.take(from_numpy(rows))
        pattern = ",".join(f"{_literal(name)}:(?P<k{at}>{_VALUE})" for at, name in enumerate(self.record_keys))
        groups = pc.extract_regex(left, f"(?s)^{pattern}$")
        regular = to_numpy(groups.is_valid())
        columns = [pc.struct_field(groups, at) for at in range(len(self.record_keys))]
        if self.by_all_releases:
            cut = ~regular
            for column in columns:
                cut |= _has(column.fill_null(""), ",")
            if cut.any():
                self._refuse(left, cut)
        if regular.any():
            yield (
                rows[regular],
                [
                    _plain(column.filter(from_numpy(regular)))
                    for name, column in zip(self.record_keys, columns, strict=True)
                    if name in self.fields
                ],
            )
        odd = np.flatnonzero(~regular)
        for row, key in zip(rows[odd], left.take(from_numpy(odd)).to_pylist(), strict=True):  # no real key is like this
            yield np.array([row]), [pa.array([text], pa.string()) for text in _cut(key, self.fields)]

    def _refuse(self, keys: pa.StringArray, which: Bools) -> None:
        key = keys[int(np.flatnonzero(which)[0])].as_py()
        raise UnsupportedError(
            f"the releases of Hudi that write this table do not agree on the bucket of the record key {key!r}",
            table=self.table,
            why="release 0.15 cuts keys at every comma and colon, later ones do not; the table has version 6",
            todo="Use keys without commas and colons, or table version 8 or later",
        )


def _cut(key: str, fields: Sequence[str]) -> list[str | None]:
    """The texts of one key of any form."""
    texts: list[str | None] = []
    start = 0
    while start < len(key):
        colon = key.find(":", start)
        name, following = key[start : max(colon, start)], key.find(":", colon + 1)
        comma = key.rfind(",", 0, following + 1) if following >= 0 else -1
        while comma < colon and following > 0:
            following = key.find(":", following + 1)
            comma = key.rfind(",", 0, following + 1) if following >= 0 else -1
        end = comma if comma > 0 else len(key)
        if name in fields:
            text = key[colon + 1 : end]
            texts.append(None if text == "__null__" else "" if text == "__empty__" else text)
        start = end + 1
    return texts or [key]


def _taken(keys: pa.StringArray, which: Bools) -> tuple[Int64s, Sequence[pa.Array]]:
    return np.flatnonzero(which), [keys if which.all() else keys.filter(from_numpy(which))]


def _plain(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(
        pc.equal(texts, "__null__"),
        pa.scalar(None, pa.string()),
        pc.if_else(pc.equal(texts, "__empty__"), "", texts),
    )


def _has(texts: pa.StringArray, part: str) -> Bools:
    matches: Bools = to_numpy(pc.match_substring(texts, part))
    return matches


def _literal(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter == "_" else f"\\{letter}" for letter in name)
