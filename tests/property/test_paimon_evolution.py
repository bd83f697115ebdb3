"""Tables whose files hold some columns of rows, against a model: any order of appends, new values of columns, large
values, deletes and added columns gives the rows that a list of dicts has, for any columns and conditions."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.options import table_options
from lakebed.formats.paimon.read.evolution import row_ranges
from lakebed.formats.paimon.read.plan import deletion_files
from lakebed.formats.paimon.rewrite.vectors import BucketVectors
from lakebed.formats.paimon.snapshot import History
from tests.tables.paimon.evolved import evolving, put

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("pic", pa.binary())])
PLAIN = pa.schema([SCHEMA.field("a"), SCHEMA.field("b")])
NUMBERS = st.one_of(st.none(), st.integers(0, 5))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "x", "y"]))
BYTES = st.one_of(st.none(), st.binary(max_size=3))
VALUES = {"a": NUMBERS, "b": TEXTS, "pic": BYTES}


class Evolving:
    """A table, and what it should hold: each row by its id, None once it is deleted."""

    def __init__(self, folder: Path, large: bool) -> None:
        options = {"deletion-vectors.enabled": "true"}
        self.large, self.schema = large, SCHEMA if large else PLAIN
        self.table = evolving(folder, self.schema, ["pic"] if large else [], **options)
        self.rows: list[dict[str, Any] | None] = []
        self.ranges: list[range] = []
        self.files = 0

    def name(self, ending: str) -> str:
        self.files += 1
        return f"{self.files}{ending}"

    def append(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=4))
        self.ranges.append(range(len(self.rows), len(self.rows) + len(rows)))
        self.rows += rows
        plain = pa.Table.from_pylist([{"a": row["a"], "b": row["b"]} for row in rows], schema=PLAIN)
        if not self.large:  # lakebed's own write, with statistics
            self.table.write(plain)
            return
        cut = data.draw(st.integers(0, len(rows)))
        pictures = [part for part in (rows[:cut], rows[cut:]) if part]
        values = [(None, [row["pic"] for row in part], self.name(".blob")) for part in pictures]
        put(self.table, (None, plain, self.name(".parquet")), *values)

    def update(self, data: st.DataObject) -> None:
        span = data.draw(st.sampled_from(self.ranges))
        name = data.draw(st.sampled_from(self.schema.names))
        new = data.draw(st.lists(VALUES[name], min_size=len(span), max_size=len(span)))
        if name == "pic":
            changed = data.draw(st.lists(st.booleans(), min_size=len(span), max_size=len(span)))
            values = [value if is_new else -2 for value, is_new in zip(new, changed, strict=True)]
            put(self.table, (span.start, values, self.name(".blob")))
        else:
            changed = [True] * len(span)
            column = pa.table({name: pa.array(new, SCHEMA.field(name).type)})
            put(self.table, (span.start, column, self.name(".parquet")))
        for place, value, is_new in zip(span, new, changed, strict=True):
            row = self.rows[place]
            if row is not None and is_new:
                self.rows[place] = {**row, name: value}

    def delete(self, data: st.DataObject) -> None:
        span = data.draw(st.sampled_from(self.ranges))
        gone = data.draw(st.sampled_from(span))
        if self.rows[gone] is None:
            return
        self.rows[gone] = None
        history = History(self.table.store)
        live, indexes = live_and_index_files(history.store, history.latest())
        groups = row_ranges((entry.file for entry in live), "t")
        partition = live[0].partition
        vectors = BucketVectors(
            history.store, [group.anchor for group in groups], deletion_files(indexes).get((partition, 0), {})
        )
        (anchor,) = (group.anchor for group in groups if group.first == span.start)
        vectors.delete(anchor, np.array([gone - span.start]))
        message = PaimonMessage(
            partition, 0, -1, "bucket-0", new_index_files=vectors.write(partition, 0, False),
            deleted_index_files=tuple(indexes),
        )  # fmt: skip
        schema = history.latest_schema()
        committer = Committer(history, schema, table_options(schema.options), CommitOptions("u"))
        committer.commit(len(history.snapshots()), [message])

    def check(self, data: st.DataObject) -> None:
        names = data.draw(st.lists(st.sampled_from([*self.schema.names, "_ROW_ID"]), min_size=1, unique=True))
        where, keeps = data.draw(st.sampled_from(CONDITIONS if self.large else CONDITIONS[:-1]))
        there = [{**row, "_ROW_ID": place} for place, row in enumerate(self.rows) if row is not None]
        wanted = sorted(repr([row[name] for name in names]) for row in there if keeps(row))
        small = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
        found = (
            lakebed.open(self.table.location, small if data.draw(st.booleans()) else {})
            .read(names, where)
            .read_all()
            .to_pylist()
        )
        assert sorted(repr([*row.values()]) for row in found) == wanted


CONDITIONS: list[tuple[str | None, Any]] = [
    (None, lambda row: True),
    ("a = 3", lambda row: row["a"] == 3),
    ("a is null", lambda row: row["a"] is None),
    ("b = 'x' or a > 2", lambda row: row["b"] == "x" or (row["a"] or 0) > 2),
    ("_ROW_ID >= 3", lambda row: row["_ROW_ID"] >= 3),
    ("pic is null", lambda row: row["pic"] is None),
]


@given(st.data(), st.booleans())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_order_of_changes(data: st.DataObject, large: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Evolving(Path(folder) / "t", large)
        table.append(data)
        for step in data.draw(st.lists(st.sampled_from(["append", "update", "update", "delete"]), max_size=6)):
            getattr(table, step)(data)
        table.check(data)
        table.check(data)
