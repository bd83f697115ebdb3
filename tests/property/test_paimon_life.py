"""The whole life of a Paimon table against a dictionary: partitions with odd names, every bucket mode and file format,
sequence fields with nulls and ties, ignored deletes, overwrites of some and of all partitions, tags, expiry. Every
snapshot and tag that is left, and every predicate."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed

Row = dict[str, Any]
SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int32()), ("s", pa.int64()), ("t", pa.string()), ("x", pa.float64())])
PARTS = ("a", "a/b", "a%2F", "é =", None, "__DEFAULT__")
TEXTS = (None, "", "x", "a longer text" * 3, "ü\x00")


class Life:
    """A table and the rows it shall hold: by key with their kind, or as a list where it has no key."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.keyed, self.by_partition = chance.random() < 0.75, chance.random() < 0.7
        self.options = {"file.format": chance.choice(["parquet", "parquet", "orc", "avro"])}
        self.options["write-buffer-size"] = chance.choice(["256 mb", "1 b"])
        if self.keyed:
            self.options |= chance.choice([{"bucket": "1"}, {"bucket": "3"}, {"bucket": "-1"}, {"bucket": "-2"}])
            self.options |= {"dynamic-bucket.target-row-num": "2"} if self.options["bucket"] == "-1" else {}
            if chance.random() < 0.4:
                self.options["sequence.field"] = "s"
            if chance.random() < 0.2:
                self.options["ignore-delete"] = "true"
        elif chance.random() < 0.5:
            self.options |= {"bucket": "2", "bucket-key": "k"}
        key = (["p", "k"] if self.by_partition else ["k"]) if self.keyed else []
        self.table: Any = lakebed.create(
            folder, "paimon", SCHEMA, key, ["p"] if self.by_partition else [], options=self.options
        )
        self.parts = PARTS[:4] if self.keyed else PARTS
        self.state: dict[Any, Row] = {}
        self.rows: list[Row] = []
        self.moments: dict[int, list[Row]] = {}
        self.tags: dict[str, list[Row]] = {}

    def step(self) -> None:
        self.chance.choice([self.write, self.write, self.write, self.overwrite, self.tag, self.expire])()
        found = self.table.newest()
        if self.options.get("bucket") == "-2":
            self.table.rewrite()
            found = self.table.newest()
        assert bag(self.table.read().read_all().to_pylist()) == bag(self.live())
        if found is not None:
            self.moments[int(found.time)] = self.live()

    def live(self) -> list[Row]:
        rows = [row for row in self.state.values() if row["_row_kind"] in ("+I", "+U")] if self.keyed else self.rows
        return [{name: row[name] for name in SCHEMA.names} for row in rows]

    def write(self) -> None:
        rows = self.some_rows(["+I", "+U", "-U", "-D"] if self.keyed else ["+I"])
        self.table.write(self.data(rows))
        self.add(rows)

    def overwrite(self) -> None:
        """The partitions that rows lie in, one that is named, or the whole table."""
        rows = self.some_rows(["+I"])
        if not self.by_partition:
            self.table.write(self.data(rows), "overwrite")
            self.remove(lambda row: True)
        elif self.chance.random() < 0.6:
            self.table.write(self.data(rows), "overwrite")
            touched = {row["p"] for row in rows}
            self.remove(lambda row: row["p"] in touched)
        else:
            self.table.write(self.data(rows), "overwrite", {"dynamic-partition-overwrite": "false"})
            self.remove(lambda row: True)
        self.add(rows)

    def remove(self, gone: Any) -> None:
        self.state = {key: row for key, row in self.state.items() if not gone(row)}
        self.rows = [row for row in self.rows if not gone(row)]

    def add(self, rows: list[Row]) -> None:
        self.rows += rows if not self.keyed else []
        for row in rows if self.keyed else []:
            if self.options.get("ignore-delete") and row["_row_kind"] in ("-D", "-U"):
                continue
            key = (row["p"] if self.by_partition else None, row["k"])
            known = self.state.get(key)
            if known is None or "sequence.field" not in self.options or rank(row) >= rank(known):
                self.state[key] = row

    def tag(self) -> None:
        if self.moments:
            name = f"t{len(self.tags)}"
            number = self.chance.choice([*self.moments])
            self.table.tag(name, number)
            self.tags[name] = self.moments[number]

    def expire(self) -> None:
        kept = self.chance.randrange(1, 3)
        self.table.expire(
            options={
                "snapshot.num-retained.min": kept, "snapshot.num-retained.max": kept, "snapshot.time-retained": "1 ms",
                "snapshot.expire.limit": 1000,
            }
        )  # fmt: skip
        left = {int(instant.time) for instant in self.table.history()}
        assert len(left) <= kept
        self.moments = {number: rows for number, rows in self.moments.items() if number in left}

    def some_rows(self, kinds: list[str]) -> list[Row]:
        chance = self.chance
        return [
            {
                "p": chance.choice(self.parts), "k": chance.randrange(5), "s": chance.choice([None, 1, 2, 3]),
                "t": chance.choice(TEXTS), "x": chance.choice([None, 0.5, float("inf")]),
                "_row_kind": chance.choice(kinds),
            }
            for _ in range(chance.randrange(1, 9))
        ]  # fmt: skip

    def data(self, rows: list[Row]) -> pa.Table:
        schema = SCHEMA.append(pa.field("_row_kind", pa.string())) if self.keyed else SCHEMA
        return pa.Table.from_pylist(rows, schema)


def rank(row: Row) -> int:
    return -1 if row["s"] is None else int(row["s"])


def bag(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), steps=st.integers(2, 8))
def test_whatever_is_done_to_a_table_its_rows_are_those_of_the_dictionary(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "t", random.Random(seed))
        for _ in range(steps):
            life.step()
        for number, rows in life.moments.items():
            assert bag(life.table.read(as_of=number).read_all().to_pylist()) == bag(rows)
        for name, rows in life.tags.items():
            assert bag(life.table.read(as_of=f"tag:{name}").read_all().to_pylist()) == bag(rows)
        whole = life.table.read().read_all()
        for name in SCHEMA.names:
            values = sorted({value for value in whole[name].to_pylist() if value is not None})
            for predicate in [
                *(pc.field(name) == value for value in values[:2]), *(~(pc.field(name) > value) for value in values),
                pc.field(name).is_null(),
            ]:  # fmt: skip
                found = life.table.read(["k", "t"], predicate).read_all().to_pylist()
                assert bag(found) == bag(whole.filter(predicate).select(["k", "t"]).to_pylist())
        assert life.table.inspect() is not None
