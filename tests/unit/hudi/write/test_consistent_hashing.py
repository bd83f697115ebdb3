"""Consistent hashing: the bucket of a key, what each operation does with buckets, two writers of a partition."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, CorruptError, UnsupportedError, UsageError
from lakebed.formats.hudi.codec.hashing import FIRST, HashingMetadata, HashingNode, encode_hashing, parse_hashing
from lakebed.formats.hudi.index.consistent import places_of, ring_hashes
from lakebed.formats.hudi.index.hash_fields import HashFields
from lakebed.formats.hudi.write.run import WriteRun
from tests.golden import unpack
from tests.tables.hudi.rings import META, RING, ROWS, batch, held, orders, rings

OPERATION = "hoodie.datasource.write.operation"


def test_metadata_is_as_hudi_writes_it() -> None:
    folder = unpack("hudi", "consistent_hash_h015")
    data = (folder / META / f"{FIRST}.hashing_meta").read_bytes()
    ring = parse_hashing(data)
    assert ring == HashingMetadata.initial("", 1)
    assert encode_hashing(ring) == data
    two = HashingMetadata.initial("é=1", 3)
    assert parse_hashing(encode_hashing(two)) == two
    assert [node.value for node in two.nodes] == [715827883, 1431655766, 2147483647]


def test_children_take_the_place_of_nodes() -> None:
    ring = HashingMetadata.initial("a", 4)
    first, second, third, fourth = ring.nodes
    children = [HashingNode(7, "n", "REPLACE"), HashingNode(second.value, "", "DELETE"), third._replace(tag="REPLACE")]
    after = ring.with_children(children, "20260101000000000")
    assert after.nodes == (HashingNode(7, "n"), first, third, fourth)
    assert (after.sequence, after.first) == (1, 4)
    for wrong in (HashingNode(7, "n", "NORMAL"), HashingNode(8, "", "DELETE")):
        with pytest.raises(CorruptError, match="does not belong"):
            ring.with_children([wrong], "1")


@pytest.mark.parametrize("version", [6, 9])
def test_every_operation_keeps_rows_in_their_bucket(tmp_path: Path, version: int) -> None:
    table = orders(tmp_path, version)
    table = lakebed.open(table.location)  # the index stands in the table's properties
    table.write(batch(*range(6)), options={OPERATION: "bulk_insert"})
    table.write(batch(6, 7, v="new"))
    table.write(batch(0, 7, 8, v="up"), "upsert", {"hoodie.bucket.index.num.buckets": "7"})  # too late: it has 4
    table.write(batch(1, 100), "delete")
    model = {0: "up", 2: "x", 3: "x", 4: "x", 5: "x", 6: "new", 7: "up", 8: "up"}
    assert held(table) == model
    assert [len(each.nodes) for each in (*rings(table, "a"), *rings(table, "b"))] == [4, 4]
    table.write(batch(0, 10, v="over"), "overwrite")
    model = {number: v for number, v in model.items() if number % 2} | {0: "over", 10: "over"}
    assert held(table) == model
    assert [each.sequence for each in rings(table, "a")] == [0, 1]
    table.write(batch(10, 12, 13, v="after"), "upsert")
    model |= {10: "after", 12: "after", 13: "after"}
    assert held(table) == model
    table.rewrite()
    assert held(table) == model


@pytest.mark.parametrize("version", [6, 8])
def test_a_partition_that_was_deleted_can_be_written_again(tmp_path: Path, version: int) -> None:
    table = orders(tmp_path, version)
    table.write(batch(*range(8)))
    deleted = {OPERATION: "delete_partition", "hoodie.datasource.write.partitions.to.delete": "a"}
    table.write(batch()[:0], "delete", deleted)
    assert held(table) == dict.fromkeys((1, 3, 5, 7), "x")
    table.write(batch(0, 2, v="again"), "upsert")
    table.write(batch(4, v="all"), options={OPERATION: "insert_overwrite_table"})
    assert held(table) == {4: "all"}
    table.write(batch(4, 1, v="end"), "upsert")
    assert held(table) == {4: "end", 1: "end"}
    assert len(rings(table, "a")) == 3
    for marker in (Path(table.location) / META / "a").glob("*.commit"):
        marker.unlink()  # as a writer leaves it that died just before: the timeline tells
    table.write(batch(4, v="more"), "upsert")
    assert held(table) == {4: "more", 1: "end"}


def test_two_writers_begin_a_partition_together(tmp_path: Path) -> None:
    table = orders(tmp_path)

    def write(number: int) -> str:
        options = {"hoodie.bucket.index.num.buckets": str(number + 2)}
        try:
            lakebed.open(table.location).write(batch(*range(8), v=str(number)), "upsert", options)
        except CommitConflictError:
            return ""
        return str(number)

    with ThreadPoolExecutor(3) as pool:
        won = {*pool.map(write, range(3))} - {""}
    assert won and {*held(table).values()} <= won
    assert len(rings(table, "a")) == len(rings(table, "b")) == 1


def test_metadata_of_instants_that_did_not_complete_counts_for_nothing(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(0, 2))
    other = HashingMetadata.initial("a", 4).renewed("20990101000000000")
    path = Path(table.location) / META / "a" / "20990101000000000.hashing_meta"
    path.write_bytes(encode_hashing(other))
    table.write(batch(0, 4, v="up"), "upsert")
    assert {row["v"] for row in table.read().read_all().to_pylist()} == {"up", "x"}
    path.unlink()
    assert held(table) == {0: "up", 2: "x", 4: "up"}


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    table = orders(tmp_path)
    table.write(batch(*range(8)), options={OPERATION: "bulk_insert"})
    before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())
    for options, error in [
        ({"hoodie.index.type": "BLOOM"}, "consistent hashing index"),
        ({"hoodie.index.bucket.engine": "SIMPLE"}, "consistent hashing index"),
        ({"hoodie.datasource.insert.dup.policy": "drop", OPERATION: "insert"}, "known keys in an insert"),
    ]:
        with pytest.raises((UsageError, UnsupportedError), match=error):
            table.write(batch(1), "append", options)
    assert sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()) == before
    meta = Path(table.location) / META / "a" / f"{FIRST}.hashing_meta"
    text = meta.read_text()
    meta.write_text(text[:100])
    with pytest.raises(CorruptError, match=r"hashing_meta"):
        table.write(batch(0), "upsert")
    meta.write_text(text.replace(HashingMetadata.initial("a", 4).nodes[0].prefix, "another"))
    with pytest.raises(UsageError, match="none of its buckets"):
        table.write(batch(0), "upsert")
    cow = {**RING, "hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    plain = lakebed.create(tmp_path / "c", "hudi", ROWS, ["id"], ["dt"])
    with pytest.raises(UnsupportedError, match="copy-on-write"):
        plain.write(batch(1), "upsert", cow)
    with pytest.raises(UnsupportedError, match="copy-on-write"):
        lakebed.create(tmp_path / "d", "hudi", ROWS, ["id"], ["dt"], cow)


def test_the_bucket_of_a_key() -> None:
    """As `ConsistentBucketIdentifier` of releases 0.15.0, 1.0.2 and 1.1.1 finds it."""
    ring = HashingMetadata.initial("a", 7)

    def buckets(keys: list[str], fields: tuple[str, ...]) -> list[int]:
        return places_of(ring_hashes(pa.array(keys), HashFields(fields, fields, False, "t")), ring).tolist()

    assert buckets(["k1", "k2", "", "é☃😀", "x" * 40, "2024-01-01 10:00:00"], ("id",)) == [0, 4, 0, 3, 3, 3]
    assert buckets(["id:k1,k2:__null__", "id:__empty__,k2:7", "id:a, b,k2:7"], ("id", "k2")) == [5, 1, 0]


@pytest.mark.parametrize("shared", [False, True])
def test_a_bucket_that_begins_beside_an_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """The overwrite gives the bucket another file group: the write that began the old one has to be done again."""
    occ = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    options = occ if shared else {}
    table = orders(tmp_path, 8)
    table.write(batch(0), options=options)
    run = WriteRun.run

    def interrupted(self: WriteRun, rows: Any) -> Any:
        monkeypatch.setattr(WriteRun, "run", run)
        outcome = run(self, rows)
        lakebed.open(table.location).write(batch(2, v="over"), "overwrite", options)
        return outcome

    monkeypatch.setattr(WriteRun, "run", interrupted)
    with pytest.raises(CommitConflictError):
        table.write(batch(*range(4, 24, 2), v="up"), "upsert", options)
    assert held(table) == {2: "over"}
    table.write(batch(*range(4, 24, 2), v="up"), "upsert", options)
    assert held(table) == {2: "over"} | dict.fromkeys(range(4, 24, 2), "up")


def test_buckets_that_another_write_renews_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began later and completes first, so that its buckets would count, and no row of the other write be found."""
    dropped = {OPERATION: "delete_partition"}
    table = orders(tmp_path)
    table.write(batch(0))
    table.write(batch(0), "delete", dropped)
    run = WriteRun.run

    def interrupted(self: WriteRun, rows: Any) -> Any:
        monkeypatch.setattr(WriteRun, "run", run)
        outcome = run(self, rows)
        lakebed.open(table.location).write(batch(0), "delete", dropped)
        return outcome

    monkeypatch.setattr(WriteRun, "run", interrupted)
    with pytest.raises(CommitConflictError):
        table.write(batch(2, v="over"), "overwrite")
    assert held(table) == {}
    table.write(batch(2, v="over"), "overwrite")
    table.write(batch(2, 4, v="up"), "upsert")
    assert held(table) == {2: "up", 4: "up"}
