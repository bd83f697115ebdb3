"""What a Paimon table of a life is: drawn by chance, but for what is wished."""

from __future__ import annotations

import datetime
import decimal
import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

MODES = ("fixed", "dynamic", "crossing", "postponed", "append", "append-fixed")
ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
PRODUCERS = ("none", "input", "lookup", "full-compaction")
FORMATS = ("parquet", "orc", "avro", "mixed")
VECTORS = ("off", "32", "64")
SUMS = {
    "fields.n.aggregate-function": "sum",
    "fields.f.aggregate-function": "max",
    "fields.default-aggregate-function": "last_non_null_value",
}
PARTS = ("a", "é b=1")
Row = dict[str, Any]


@dataclass
class Shape:
    """One table. `sequence` orders rows by a column, `write_only` leaves compaction to jobs beside the writers."""

    mode: str
    engine: str
    producer: str
    file_format: str
    vectors: str
    sequence: bool
    write_only: bool
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        more = [name for name in ("sequence", "write_only") if getattr(self, name)]
        kind = (self.engine, self.producer, f"vectors={self.vectors}") if self.keys else ()
        return " ".join((self.mode, *kind, self.file_format, *more))

    @classmethod
    def drawn(cls, chance: random.Random, wanted: dict[str, Any]) -> Shape:
        """A table that Paimon can make; `wanted` are fields that are not left to chance."""
        given = dict(wanted)

        def pick(name: str, choices: tuple[Any, ...], only: tuple[Any, ...] = ()) -> Any:
            choice = chance.choice(choices)  # drawn always, so that one wish leaves the rest as it was
            found = given.setdefault(name, choice)
            if only and found not in only:
                assert name not in wanted, f"{name}={found} does not go with {given}"
                found = given[name] = only[0]
            return found

        mode = pick("mode", (*MODES, "fixed", "fixed"))
        keyed = not mode.startswith("append")
        engine = pick("engine", ENGINES, ("deduplicate",) if mode == "crossing" or not keyed else ())
        producers = PRODUCERS
        if not keyed or mode == "postponed":
            producers = ("none",)
        elif mode == "crossing":
            producers = ("none", "lookup", "full-compaction")
        elif engine == "first-row":
            producers = ("none", "lookup")
        elif engine != "deduplicate":
            producers = ("none", "lookup", "full-compaction")
        producer = pick("producer", PRODUCERS, producers)
        pick("file_format", FORMATS, () if keyed else FORMATS[:3])
        vectored = keyed and mode != "postponed" and engine != "first-row" and producer in ("none", "lookup")
        pick("vectors", ("off", *VECTORS), () if vectored else ("off",))
        pick("sequence", (False, False, True), () if engine == "deduplicate" and mode == "fixed" else (False,))
        pick("write_only", (False, False, True), () if keyed and mode != "postponed" else (False,))
        found = cls(**given)
        found.options = found._options()
        return found

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        if self.mode.startswith("append"):
            return ()
        return ("id",) if self.mode == "crossing" else ("part", "id")

    @property
    def deletes(self) -> bool:
        """Whether rows can be deleted by their key."""
        return bool(self.keys) and self.engine != "first-row"

    @property
    def waits(self) -> bool:
        """Whether readers do not see what no compaction has met."""
        return self.mode == "postponed" or self.vectors != "off" or self.engine == "first-row"

    @property
    def told_by_compaction(self) -> bool:
        """Whether changelogs come with compactions."""
        return self.producer in ("lookup", "full-compaction")

    @property
    def pypaimon_writes(self) -> bool:
        """pypaimon 2.1 assigns dynamic buckets without the table's index, and merges by keys alone."""
        return self.mode in ("fixed", "append") and self.engine == "deduplicate"

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table begins with."""
        free = not self.keys
        return pa.schema(
            [
                pa.field("part", pa.string(), nullable=free), pa.field("id", pa.int64(), nullable=free),
                ("ts", pa.int32()), ("x", pa.string()), ("n", pa.int32()), ("f", pa.float64()),
                ("dec", pa.decimal128(10, 2)), ("day", pa.date32()), ("tm", pa.timestamp("us")), ("ok", pa.bool_()),
            ]
        )  # fmt: skip

    def key(self, row: Row) -> tuple[Any, ...]:
        """What identifies a row. Rows of append tables each have an id of their own."""
        return tuple(row[name] for name in self.keys or ("id",))

    def row(self, chance: random.Random, number: int, ts: int, schema: pa.Schema) -> Row:
        """A row of the key `number`; one of a table with keys over partitions may move."""

        def maybe(value: Any) -> Any:
            return None if chance.random() < 0.2 else value

        side = chance.randrange(2) if self.mode == "crossing" else number % 2
        moment = datetime.datetime(1971, 2, 3) + datetime.timedelta(microseconds=chance.randrange(10**15))
        known = {
            "part": PARTS[side], "id": number, "ts": ts, "x": maybe(chance.choice(("", "é☃", "y" * 40, "p"))),
            "n": maybe(chance.randrange(-50, 50)), "f": maybe(chance.randrange(1000) / 8),
            "dec": maybe(decimal.Decimal(chance.randrange(-9999, 9999)).scaleb(-2)),
            "day": maybe(datetime.date(1969, 12, 1) + datetime.timedelta(days=chance.randrange(900))),
            "tm": maybe(moment), "ok": maybe(chance.random() < 0.5),
        }  # fmt: skip
        return {name: known[name] if name in known else maybe(chance.randrange(999)) for name in schema.names}

    def merged(self, old: Row | None, new: Row) -> Row:
        """The row of a key after another write of it."""
        if old is None:
            return new
        if self.engine == "first-row":
            return old
        if self.engine == "deduplicate":
            return old if self.sequence and new["ts"] < old["ts"] else new
        found = old | {name: old.get(name) if new[name] is None else new[name] for name in new}
        if self.engine == "aggregation":
            both = [name for name in ("n", "f") if old[name] is not None and new[name] is not None]
            found |= {name: old[name] + new[name] if name == "n" else max(old[name], new[name]) for name in both}
        return found

    def _options(self) -> dict[str, str]:
        bucket = {
            "fixed": {"bucket": "2"}, "append": {"bucket": "-1"}, "append-fixed": {"bucket": "2", "bucket-key": "id"},
            "postponed": {"bucket": "-2", "postpone.default-bucket-num": "2"},
        }.get(self.mode, {"bucket": "-1", "dynamic-bucket.target-row-num": "12"})  # fmt: skip
        found = {**bucket, "snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
        found |= {"file.format": self.file_format} if self.file_format != "mixed" else {
            "file.format": "parquet", "file.format.per.level": "0:avro,5:orc"
        }  # fmt: skip
        if not self.keys:
            return found
        found["merge-engine"] = self.engine
        found["changelog-producer"] = self.producer
        if self.vectors != "off":
            found |= {
                "deletion-vectors.enabled": "true",
                "deletion-vectors.bitmap64": str(self.vectors == "64").lower(),
            }
        if self.sequence:
            found["sequence.field"] = "ts"
        if self.write_only:
            found["write-only"] = "true"
        if self.engine == "aggregation":
            found |= SUMS | {"aggregation.remove-record-on-delete": "true"}
        if self.engine == "partial-update":
            found["partial-update.remove-record-on-delete"] = "true"
        return found


def spelled(value: Any, kind: pa.DataType) -> Any:
    """A value as the Java program spells it."""
    if value is None:
        return None
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) * 1000
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if pa.types.is_floating(kind):
        return float(value)
    return f"{value:f}" if isinstance(value, decimal.Decimal) else value
