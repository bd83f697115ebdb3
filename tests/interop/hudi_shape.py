"""The shapes of Hudi tables that live with several engines, and the rows that go into them: all from one seed."""

from __future__ import annotations

import datetime
import decimal
import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

KEYGEN = "org.apache.hudi.keygen."
PAYLOAD = "org.apache.hudi.common.model."
VERSIONS = {"0.15.0": (6,), "1.0.2": (6, 8), "1.1.1": (6, 8, 9)}
INDEXES = ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "BUCKET", "CONSISTENT", "RECORD_INDEX")
PARTITIONINGS = ("none", "simple", "hive", "encoded", "complex", "timestamp", "custom")
METADATA = ("off", "files", "statistics", "all")
PLAIN = {
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.async": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.archive.async": "false",
    "hoodie.compact.inline": "false",
}
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "100",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.client.heartbeat.interval_in_ms": "1000",
}
"""With these writers share a table under a lock file, and a clean takes failed writes back."""
JVM_ONLY = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.rollback.using.markers": "false",
}
Row = dict[str, Any]


@dataclass
class Shape:
    """One table: what it is, and the options with which each engine writes it. Without `keys` each row gets a record
    key of its own (the wish `keys=auto`). With `folds` the release compacts the logs of the metadata table, with
    `non_blocking` writers share buckets of merge-on-read tables of version 8 on. Without `meta_columns` files leave
    these empty."""

    release: str
    version: int
    merge_on_read: bool
    index: str
    partitioning: str
    keys: tuple[str, ...]
    metadata: str
    event_time: bool
    log_format: str = "avro"
    change_log: str = ""
    locks: bool = False
    positions: bool = False
    layout: str = "linear"
    drops: bool = False
    folds: bool = False
    non_blocking: bool = False
    meta_columns: bool = True
    ruled: bool = False
    name: str = "life"
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        kind = "mor" if self.merge_on_read else "cow"
        order = "event" if self.event_time else "commit"
        keys = "+".join(self.keys) or "auto"
        parts = (self.release, f"v{self.version}", kind, self.index, self.partitioning, keys)
        wishes = ("locks", "positions", "drops", "folds", "non_blocking", "ruled")
        more = [name for name in wishes if getattr(self, name)]
        more += [] if self.meta_columns else ["no meta columns"]
        told = (f"mdt={self.metadata}", order, self.log_format, f"cdc={self.change_log or 'off'}", self.layout)
        return " ".join((*parts, *told, *more))

    @classmethod
    def drawn(cls, release: str, chance: random.Random, wanted: dict[str, Any]) -> Shape:
        """A shape that the release can write; `wanted` are fields that are not left to chance."""
        given = {"release": release, **wanted}

        def pick(name: str, choices: Any) -> Any:
            choice = chance.choice(choices)  # drawn always, so that one wish leaves the rest as it was
            return given.setdefault(name, choice)

        version = pick("version", VERSIONS[release])
        merge_on_read = pick("merge_on_read", (True, True, False))
        index = pick("index", INDEXES)
        if given.get("non_blocking"):
            assert version > 6, "such writers need completion times"
            given |= {"merge_on_read": True, "index": "BUCKET", "locks": True}
            merge_on_read, index = True, "BUCKET"
        virtual = not given.get("meta_columns", True)
        if virtual:  # the releases look keys up by no other index
            index = {"GLOBAL_BLOOM": "GLOBAL_SIMPLE", "GLOBAL_SIMPLE": "GLOBAL_SIMPLE", "BUCKET": "BUCKET"}.get(
                index, "BUCKET" if index == "CONSISTENT" else "SIMPLE"
            )
            given |= {"index": index, "change_log": ""}
        if index == "CONSISTENT" and not merge_on_read:
            index = given["index"] = "BUCKET"
        partitioning = pick("partitioning", PARTITIONINGS)
        keys = pick("keys", (("id",), ("id",), ("id", "k2")))
        if virtual and partitioning in ("timestamp", "custom"):
            partitioning = given["partitioning"] = "simple"
        if virtual and release == "0.15.0" and merge_on_read:  # it reads no logs by several key columns
            keys = given["keys"] = ("id",)
            partitioning = given["partitioning"] = "simple" if partitioning == "complex" else partitioning
        if keys == "auto":
            given["keys"], index = (), "SIMPLE"
            given["index"] = index
            wanted = {**wanted, "change_log": given.setdefault("change_log", "")}
        elif partitioning == "timestamp":
            keys = given["keys"] = ("id",)
        elif partitioning == "complex":
            keys = given["keys"] = ("id", "k2")
        metadata = pick("metadata", METADATA)
        if index == "RECORD_INDEX" or given.get("folds"):
            given["metadata"] = "all"
        if virtual and metadata == "all":  # its files have no filters
            given["metadata"] = "statistics"
        pick("event_time", (True, False))
        log_format = pick("log_format", ("avro", "avro", "parquet"))
        if not merge_on_read:
            given["log_format"] = "avro"
        pick("change_log", ("", "", "op_key_only", "data_before", "data_before_after"))
        if merge_on_read and "change_log" not in wanted:
            given["change_log"] = ""
        pick("locks", (False, False, False, True))
        pick("positions", (False, True) if merge_on_read and release != "0.15.0" else (False,))
        pick("layout", ("linear", "z-order", "hilbert"))
        pick("ruled", (False, True) if release == "1.1.1" and given["index"] == "BUCKET" else (False,))
        del version, keys, metadata, log_format
        found = cls(**given)
        found.options = {**PLAIN, **found._table(), **found._index(), **found._metadata()}
        if found.locks:
            found.options |= SHARED
        if found.non_blocking:
            found.options["hoodie.write.concurrency.mode"] = "non_blocking_concurrency_control"
        if found.positions:
            found.options["hoodie.write.record.positions"] = "true"
        return found

    @property
    def is_global(self) -> bool:
        """Whether a key is unique over all partitions."""
        return self.index.startswith("GLOBAL") or self.index == "RECORD_INDEX"

    @property
    def keyed(self) -> bool:
        """Whether rows have record keys that are known beforehand."""
        return bool(self.keys) and self.meta_columns

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that make the partition."""
        return {"none": (), "complex": ("part", "p2"), "timestamp": ("at",), "custom": ("part", "at")}.get(
            self.partitioning, ("part",)
        )

    @property
    def unread(self) -> set[str]:
        """Columns whose source values an engine replaces by what the partition's path says."""
        if self.partitioning == "encoded":  # ranges of Hudi's have it as the folder is spelled
            return {"part"}
        return {"at"} if self.partitioning in ("timestamp", "custom") else set()

    def _table(self) -> dict[str, str]:
        generator = {"none": "Nonpartitioned", "complex": "Complex", "timestamp": "TimestampBased", "custom": "Custom"}
        named = generator.get(self.partitioning, "Complex" if len(self.keys) > 1 else "Simple")
        keys = {"hoodie.datasource.write.recordkey.field": ",".join(self.keys)} if self.keys else {}
        fields = ",".join(self.partition_by)
        if self.partitioning == "custom":
            fields = "part:SIMPLE,at:TIMESTAMP"
        found = {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE",
            **keys,
            **({"hoodie.datasource.write.drop.partition.columns": "true"} if self.drops else {}),
            **({} if self.meta_columns else {"hoodie.populate.meta.fields": "false"}),
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": fields,
            "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}{named}KeyGenerator",
            "hoodie.datasource.write.hive_style_partitioning": str(self.partitioning == "hive").lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.partitioning == "encoded").lower(),
            "hoodie.datasource.write.payload.class": PAYLOAD
            + ("DefaultHoodieRecordPayload" if self.event_time else "OverwriteWithLatestAvroPayload"),
        }
        if self.release != "0.15.0":
            found["hoodie.write.table.version"] = str(self.version)
            found["hoodie.record.merge.mode"] = "EVENT_TIME_ORDERING" if self.event_time else "COMMIT_TIME_ORDERING"
        if self.partitioning in ("timestamp", "custom"):
            found["hoodie.keygen.timebased.timestamp.type"] = "UNIX_TIMESTAMP"
            found["hoodie.keygen.timebased.output.dateformat"] = "yyyyMMdd"  # a number, as the column is
            found["hoodie.keygen.timebased.timezone"] = "UTC"
        if self.merge_on_read:
            found["hoodie.logfile.data.block.format"] = self.log_format
        if self.change_log:
            found["hoodie.table.cdc.enabled"] = "true"
            found["hoodie.table.cdc.supplemental.logging.mode"] = self.change_log
        return found

    def _index(self) -> dict[str, str]:
        bucket = {
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.bucket.index.hash.field": "".join(self.keys[:1]),
        }
        if self.index == "BUCKET":
            rules = {"hoodie.bucket.index.partition.expressions": "[ab],3;c$,5"} if self.ruled else {}
            return {**bucket, **rules}
        if self.index == "CONSISTENT":
            return {
                **bucket,
                "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
                "hoodie.bucket.index.min.num.buckets": "1",  # a clustering merges what is small
                "hoodie.bucket.index.max.num.buckets": "4",
                "hoodie.storage.layout.type": "BUCKET",
            }
        found = {"hoodie.index.type": self.index}
        if self.index == "RECORD_INDEX":
            found |= {"hoodie.record.index.update.partition.path": "true"}
        return found

    def _metadata(self) -> dict[str, str]:
        on = {
            "off": (), "files": ("",), "statistics": ("", "column.stats"), "all": ("", "column.stats", "bloom.filter")
        }[self.metadata]  # fmt: skip
        found = {
            "hoodie.metadata.enable": str("" in on).lower(),
            "hoodie.metadata.index.column.stats.enable": str("column.stats" in on).lower(),
            "hoodie.metadata.index.bloom.filter.enable": str("bloom.filter" in on).lower(),
            "hoodie.metadata.record.index.enable": str(self.index == "RECORD_INDEX").lower(),
        }
        if on and self.folds:
            found["hoodie.metadata.log.compaction.enable"] = "true"
            found["hoodie.metadata.log.compaction.blocks.threshold"] = "2"
            found["hoodie.metadata.compact.max.delta.commits"] = "8"
        elif on:  # so that each engine compacts it after the other
            found["hoodie.metadata.compact.max.delta.commits"] = "3"
        if self.release != "0.15.0":
            found["hoodie.metadata.index.partition.stats.enable"] = str("column.stats" in on).lower()
        return found

    # ---- rows ----

    @property
    def schema(self) -> pa.Schema:
        """The user's columns. 1.0.2 cannot compare the deletes of its own delete operation with a long ordering, and a
        clustering of 0.15.0 leaves decimals a hundred times too large to its next write."""
        columns: dict[str, pa.DataType] = (
            {
                "id": pa.string(), "k2": pa.int32(), "ts": pa.int64() if self.release == "1.1.1" else pa.int32(),
                "part": pa.string(), "p2": pa.int32(), "at": pa.int64(), "x": pa.string(), "n": pa.int32(),
                "f": pa.float64(), "dec": pa.decimal128(10, 2), "day": pa.date32(),
                "tm": pa.timestamp("us", "UTC"), "flag": pa.bool_(),
            }
        )  # fmt: skip
        if self.release == "0.15.0":
            del columns["dec"]
        return pa.schema(columns)

    def row(self, chance: random.Random, key: int, ts: int, moved: bool = False) -> Row:
        """A row of a key; `moved` puts it into the other partition."""

        def maybe(value: Any) -> Any:
            return None if chance.random() < 0.15 else value

        side = (key + moved) % 2
        parts = ("x é=1", "c/d%") if self.partitioning == "encoded" else ("a", "b")
        return {
            "id": f"k{key:02d}", "k2": None if key % 5 == 0 else key % 3, "ts": ts, "part": parts[side], "p2": side,
            "at": 1_600_000_000 + side * 86_400 * 40, "x": maybe(chance.choice(("", "é☃", "x" * 40, "p"))),
            "n": maybe(chance.randrange(-50, 50)), "f": maybe(chance.random()),
            "dec": maybe(decimal.Decimal(chance.randrange(-9999, 9999)).scaleb(-2)),
            "day": maybe(datetime.date(1969, 12, 1) + datetime.timedelta(days=chance.randrange(900))),
            "tm": maybe(
                datetime.datetime(1969, 12, 31, 12, tzinfo=datetime.UTC)
                + datetime.timedelta(microseconds=chance.randrange(10**12))
            ),
            "flag": maybe(chance.random() < 0.5),
        }  # fmt: skip

    def key(self, row: Row) -> tuple[Any, ...]:
        """What identifies a row in the table."""
        found = tuple(row[name] for name in self.keys or ("id",))
        return found if self.is_global else (*found, *(row[name] for name in self.partition_by))

    def record_key(self, row: Row) -> str:
        """The text of `_hoodie_record_key`."""
        if len(self.keys) == 1 and self.partitioning != "complex":
            return str(row[self.keys[0]])
        return ",".join(f"{name}:{'__null__' if row[name] is None else row[name]}" for name in self.keys)


def as_text(value: Any) -> str | None:
    """A value as the text that each engine's rows are compared by."""
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None)
    return None if value is None else str(value)
