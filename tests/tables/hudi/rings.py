"""Tables with consistent hashing, and a look at their rows that holds each one against its bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed import Table
from lakebed.formats.hudi.codec.hashing import HashingMetadata, parse_hashing
from lakebed.formats.hudi.index.consistent import places_of, ring_hashes
from lakebed.formats.hudi.index.hash_fields import HashFields

RING = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
}
META = ".hoodie/.bucket_index/consistent_hashing_metadata"
ROWS = {"id": "int64", "dt": "string", "v": "string"}


def orders(folder: Path, version: int = 9, **options: Any) -> Table:
    """A new table: `id` is the key, `dt` the partition, which begins with four buckets."""
    described = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    return lakebed.create(folder / "t", "hudi", ROWS, ["id"], ["dt"], {**described, **RING, **options})


def batch(*ids: int, v: str = "x") -> pa.Table:
    """Rows of keys, those of even ones in partition a, the others in b."""
    return pa.table({"id": pa.array(ids, pa.int64()), "dt": ["ab"[number % 2] for number in ids], "v": [v] * len(ids)})


def rings(table: Table, partition: str) -> list[HashingMetadata]:
    """The metadata of a partition, oldest first."""
    folder = Path(table.location) / META / partition
    return [parse_hashing(path.read_bytes()) for path in sorted(folder.glob("*.hashing_meta"))]


def held(table: Table) -> dict[int, str]:
    """The rows, each of which is in the file group of its bucket."""
    names = ["id", "v", "dt", "_hoodie_file_name", "_hoodie_record_key"]
    found = table.read(names).read_all()
    rule = HashFields(("id",), ("id",), False, "t")
    hashes = ring_hashes(found["_hoodie_record_key"].combine_chunks(), rule)
    rows = found.to_pylist()
    for number, row in enumerate(rows):
        newest = rings(table, row["dt"])[-1]
        place = int(places_of(hashes[number : number + 1], newest)[0])
        assert row["_hoodie_file_name"].startswith(newest.nodes[place].prefix)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}
