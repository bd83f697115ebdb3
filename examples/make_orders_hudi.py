"""Writes examples/orders_hudi: orders of a small shop as a Hudi merge-on-read table, by Hudi's own Spark bundle.

    .venv-hudi-jvm/bin/python examples/make_orders_hudi.py BUNDLE.jar

Needs PySpark 3.5 and hudi-spark3.5-bundle_2.12 0.15.0 (`./run interop` fetches both). The table has version 6, Avro log
blocks and event-time ordering (DefaultHoodieRecordPayload): an update that comes late, with a smaller `ts`, loses. The
history holds updates, late updates, both kinds of delete (the delete operation, and rows with `_hoodie_is_deleted`), a
compaction that ran and one left pending with commits after it.

Beside the table goes orders_hudi.expected.json: what Hudi's own reader gives, which this script holds against a replay
of the same orders in plain Python. The orders are the same at every run; instants and file names are not.
"""

import datetime
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE / "orders_hudi"
EXPECTED = HERE / "orders_hudi.expected.json"
COLUMNS = ["order_id", "customer", "amount", "status", "ts", "dt"]
SCHEMA = (
    "order_id bigint, customer string, amount decimal(10,2), status string, ts bigint, updated_at timestamp, "
    "_hoodie_is_deleted boolean, dt string"
)
OPTIONS = {
    "hoodie.table.name": "orders_hudi",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.logfile.data.block.format": "avro",
    "hoodie.index.type": "SIMPLE",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.bloom.index.filter.dynamic.max.entries": "2000",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.datasource.meta.sync.enable": "false",
}
CUSTOMERS = [
    "Ada Lovelace", "Alan Turing", "Barbara Liskov", "Edsger Dijkstra", "Frances Allen", "Grace Hopper", "Jim Gray",
    "José Álvarez", "Katherine Johnson", "Łukasz Nowak", "Margaret Hamilton", "Michael Stonebraker", "小川 花",
    "Radia Perlman", "Søren Ærø", "Tony Hoare",
]  # fmt: skip
DAYS = ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]
MINUTE = 60_000  # milliseconds


class Shop:
    """The orders as they stand, and the batches that change them: what a till would send, late messages included."""

    def __init__(self):
        self.random = random.Random(20260301)
        self.live = {}  # order_id -> row
        self.next_id = 100_001
        self.commits = []

    def new(self, count, days):
        """Rows of `count` new orders."""
        rows = []
        for _ in range(count):
            day = self.random.choice(days)
            midnight = datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.UTC)
            amount = Decimal(self.random.randrange(199, 48_000)).scaleb(-2)
            ts = int(midnight.timestamp() * 1000) + self.random.randrange(20 * 60) * MINUTE
            rows.append(row(self.next_id, self.random.choice(CUSTOMERS), amount, "placed", ts, day))
            self.next_id += 1
        return rows

    def pick(self, count, taken):
        """Live orders that no other part of this batch has taken."""
        chosen = self.random.sample(sorted(set(self.live) - taken), count)
        taken.update(chosen)
        return [self.live[key] for key in chosen]

    def batch(self, what, inserts=(), updates=0, late=0, flagged=0):
        """One upsert: new orders, orders moved on, late messages that must lose, orders flagged as deleted."""
        taken, rows = set(), list(inserts)
        for old in self.pick(updates, taken):
            status = {"placed": "paid", "paid": "shipped"}.get(old["status"], "delivered")
            discount = Decimal("0.95") if self.random.random() < 0.2 else Decimal(1)
            amount = (old["amount"] * discount).quantize(Decimal("0.01"))
            later = old["ts"] + self.random.randrange(5, 600) * MINUTE
            rows.append(row(old["order_id"], old["customer"], amount, status, later, old["dt"]))
        for old in self.pick(late, taken):
            earlier = old["ts"] - self.random.randrange(1, 240) * MINUTE
            rows.append(row(old["order_id"], old["customer"], old["amount"] + 1, "too late", earlier, old["dt"]))
        for old in self.pick(flagged, taken):
            later = old["ts"] + self.random.randrange(5, 600) * MINUTE
            gone = row(old["order_id"], old["customer"], old["amount"], "cancelled", later, old["dt"])
            rows.append(gone | {"_hoodie_is_deleted": True})
        for new in rows:
            old = self.live.get(new["order_id"])
            if old and old["ts"] > new["ts"]:
                continue
            if new["_hoodie_is_deleted"]:
                del self.live[new["order_id"]]
            else:
                self.live[new["order_id"]] = new
        self.random.shuffle(rows)
        counts = {"inserted": len(inserts), "updated": updates, "late": late, "deleted": flagged}
        self.commits.append({"what": what} | counts)
        return rows

    def delete(self, what, count):
        """One delete operation."""
        rows = self.pick(count, set())
        for old in rows:
            del self.live[old["order_id"]]
        self.commits.append({"what": what, "inserted": 0, "updated": 0, "late": 0, "deleted": count})
        return rows


def row(order_id, customer, amount, status, ts, dt):
    """One order; `ts` in milliseconds since 1970 UTC."""
    return {
        "order_id": order_id,
        "customer": customer,
        "amount": amount,
        "status": status,
        "ts": ts,
        "updated_at": datetime.datetime.fromtimestamp(ts / 1000, datetime.UTC),
        "_hoodie_is_deleted": False,
        "dt": dt,
    }


def checksum(rows):
    """SHA-256 of UTF-8 lines order_id|customer|amount|status|ts|dt, by rising order_id, each ended by a newline."""
    by_id = sorted(rows, key=lambda order: order["order_id"])
    lines = ("|".join(str(order[name]) for name in COLUMNS) + "\n" for order in by_id)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def differences(read, live):
    """Orders on which the rows read and the live orders do not agree, each as (order_id, read, live)."""
    got = {order["order_id"]: tuple(str(order[name]) for name in COLUMNS) for order in read}
    want = {key: tuple(str(order[name]) for name in COLUMNS) for key, order in live.items()}
    return [(key, got.get(key), want.get(key)) for key in sorted(got.keys() | want) if got.get(key) != want.get(key)]


def write_history(spark, shop, location):
    """Plays the shop's days into the table at `location`."""

    def write(rows, operation, mode="append"):
        data = spark.createDataFrame([tuple(order.values()) for order in rows], SCHEMA).coalesce(1)
        options = OPTIONS | {"hoodie.datasource.write.operation": operation}
        data.write.format("hudi").options(**options).mode(mode).save(location)

    def compaction(step):
        for key in (name for name in OPTIONS if ".bloom." in name):  # else 400 kB of empty filter in each base file
            spark.sql(f"set {key}={OPTIONS[key]}")
        options = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
        spark.sql(f"call run_compaction(op => '{step}', path => '{location}', options => '{options}')").collect()

    write(shop.batch("the first three days", shop.new(1600, DAYS[:3])), "bulk_insert", "overwrite")
    write(shop.batch("orders move on", shop.new(60, DAYS[:3]), updates=280), "upsert")
    write(shop.batch("more, with late messages", shop.new(40, DAYS[1:3]), updates=160, late=40), "upsert")
    write(shop.delete("test orders removed", 30), "delete")
    write(shop.batch("cancellations as flagged rows", updates=50, flagged=25), "upsert")
    compaction("schedule")
    compaction("run")
    write(shop.batch("the fourth day", shop.new(420, DAYS[3:]), updates=180), "upsert")
    write(shop.delete("customers who asked to be forgotten", 20), "delete")
    compaction("schedule")
    write(shop.batch("after the pending compaction", shop.new(60, DAYS[2:]), updates=140, late=20), "upsert")
    write(shop.delete("more test orders removed", 15), "delete")
    write(shop.batch("the last word", updates=40, late=10, flagged=10), "upsert")


def main(jar):
    """Writes the table and its expected answers."""
    os.environ["TZ"] = "UTC"
    from pyspark.sql import SparkSession  # a version of its own, not lakebed's

    scratch = Path(tempfile.mkdtemp())
    location = scratch / "orders_hudi"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.default.parallelism", "1")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    shop = Shop()
    write_history(spark, shop, str(location))

    read = [order.asDict() for order in spark.read.format("hudi").load(str(location)).collect()]
    assert not differences(read, shop.live), f"Hudi's reader and the replay differ: {differences(read, shop.live)[:5]}"
    deltas = sorted((location / ".hoodie").glob("*.deltacommit"))
    assert len(deltas) == len(shop.commits)
    for commit, file in zip(shop.commits, deltas, strict=True):
        written = json.loads(file.read_text())["partitionToWriteStats"]
        stats = [stat for partition in written.values() for stat in partition]
        commit["instant"] = file.name.split(".")[0]
        commit["live_rows"] = sum(order["_hoodie_commit_time"] == commit["instant"] for order in read)
        commit["hudi_stats"] = {
            name: sum(stat[name] for stat in stats) for name in ("numInserts", "numUpdateWrites", "numDeletes")
        }
    expected = {
        "writer": Path(jar).name,
        "rows": len(read),
        "checksum": checksum(read),
        "checksum_rule": checksum.__doc__,
        "amount_total": str(sum(order["amount"] for order in read)),
        "rows_by_dt": {day: sum(order["dt"] == day for order in read) for day in DAYS},
        "compactions": {
            "completed": [file.name.split(".")[0] for file in sorted((location / ".hoodie").glob("*.commit"))],
            "pending": pending_compactions(location),
        },
        "commits": shop.commits,
    }
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    lay_down(location)
    spark.stop()
    shutil.rmtree(scratch)


def pending_compactions(location):
    """Instants of compactions that were planned and never ran."""
    planned = {file.name.split(".")[0] for file in (location / ".hoodie").glob("*.compaction.requested")}
    return sorted(planned - {file.name.split(".")[0] for file in (location / ".hoodie").glob("*.commit")})


def lay_down(location):
    """Copies the table to examples/ without side files and empty folders."""
    shutil.rmtree(TABLE, ignore_errors=True)
    for file in sorted(location.rglob("*")):
        if file.is_file() and file.suffix != ".crc" and ".temp" not in file.parts:
            target = TABLE / file.relative_to(location)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
