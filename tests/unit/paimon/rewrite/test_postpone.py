"""Postponed buckets: Avro files that wait, and the compaction that gives their rows real buckets in one commit."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, UsageError
from lakebed.formats.paimon.codec.snapshot_json import CommitKind
from lakebed.formats.paimon.commit.conflicts import check_vectors
from lakebed.formats.paimon.commit.kinds import Changes
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.table import PaimonTable
from tests.golden import expected, unpack
from tests.golden.compare import diff, load
from tests.tables.paimon.small import Make, contents, rows


def kinds_of(table: PaimonTable) -> list[str]:
    return [snapshot.commit_kind for snapshot in table._history.snapshots()]


def test_rows_wait_in_avro_files_until_one_compact_commit(make: Make) -> None:
    table = make(bucket="-2", postpone_default__bucket__num="2")
    table.write(rows(("a", 1, "old", 1), ("a", 2, "x", 1), ("b", 3, "y", 1)))
    table.write(rows(("a", 1, "new", 2), ("a", 2, "x", 2), kinds=["+U", "-D"]))
    files = sorted(Path(table.location).glob("*/bucket-postpone/*"))
    assert [file.suffix for file in files] == [".avro"] * 3
    assert all("-u-" in file.name and "-s-" in file.name and "-w-" in file.name for file in files)
    assert contents(table) == []

    planned = table.rewrite(dry_run=True)
    assert (planned.dry_run, planned.files_before, planned.groups) == (True, 3, 2)
    assert contents(table) == []
    done = table.rewrite()
    assert (done.files_before, done.groups, done.dry_run) == (3, 2, False)
    assert contents(table) == [("a", 1, "new", 2), ("b", 3, "y", 1)]
    assert isinstance(table, PaimonTable)
    assert kinds_of(table) == [CommitKind.APPEND, CommitKind.APPEND, CommitKind.COMPACT]
    assert table.rewrite().files_before == 0
    assert len(table.history()) == 3


def test_later_rows_win_over_compacted_ones(make: Make) -> None:
    table = make(bucket="-2", write__buffer__size="1 b")
    for version in range(3):
        table.write(rows(*[("a", i, f"v{version}", version) for i in range(20)]))
        table.rewrite()
        assert contents(table) == sorted((("a", i, f"v{version}", version) for i in range(20)), key=repr)


def test_where_picks_partitions(make: Make) -> None:
    table = make(bucket="-2")
    table.write(rows(("a", 1, "x", 1), ("b", 2, "y", 1)))
    with pytest.raises(UsageError, match="names id"):
        table.rewrite(where="id = 1")
    assert table.rewrite(where="dt = 'b'").groups == 1
    assert contents(table) == [("b", 2, "y", 1)]
    table.rewrite()
    assert contents(table) == [("a", 1, "x", 1), ("b", 2, "y", 1)]


def test_a_partition_keeps_its_number_of_buckets(make: Make) -> None:
    table = make(bucket="-2")
    table.write(rows(*[("a", i, "x", 1) for i in range(40)]))
    table.rewrite(options={"postpone.default-bucket-num": 4})
    table.write(rows(*[("a", i, "y", 2) for i in range(80)], ("b", 1, "y", 2)))
    table.rewrite(options={"postpone.default-bucket-num": 3})
    buckets = {split.bucket for split in table.plan_read(where="dt = 'a'").splits}
    assert buckets == {0, 1, 2, 3}
    assert len(contents(table)) == 81


@pytest.mark.parametrize(
    ("expires", "why"), [(False, "stands in the way"), (True, "replaced files of this compaction")]
)
def test_the_slower_of_two_compactions_leaves_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, expires: bool, why: str
) -> None:
    from lakebed.formats.paimon.rewrite.postpone import PostponeRewrite

    table = make(bucket="-2")
    table.write(rows(("a", 1, "x", 1)))
    compact = PostponeRewrite.compact

    def with_another(self: PostponeRewrite, partition: object) -> object:
        monkeypatch.setattr(PostponeRewrite, "compact", compact)
        lakebed.open(table.location).rewrite()
        if expires:
            table.expire(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
        return compact(self, partition)  # type: ignore[arg-type]

    monkeypatch.setattr(PostponeRewrite, "compact", with_another)
    with pytest.raises(CommitConflictError, match=why):
        table.rewrite()
    assert contents(table) == [("a", 1, "x", 1)]
    assert len(list(Path(table.location).glob("*/bucket-0/*"))) == 1


def test_merge_engines_hold_in_the_compaction(make: Make) -> None:
    table = make(bucket="-2", merge__engine="aggregation", fields_n_aggregate__function="sum")
    for turn in range(3):
        table.write(rows(("a", 1, f"v{turn}", 5), ("a", 1, None, 1)))
    table.rewrite()
    table.write(rows(("a", 1, "last", 10)))
    table.rewrite()
    assert contents(table) == [("a", 1, "last", 28)]


@pytest.mark.parametrize("engine", ["first-row", "deduplicate"])
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_compaction_writes_the_changelog(make: Make, engine: str, producer: str) -> None:
    if engine == "first-row" and producer != "lookup":
        return
    table = make(bucket="-2", merge__engine=engine, changelog__producer=producer)
    table.write(rows(("a", 1, "x", 1), ("a", 2, "y", 1)))
    table.rewrite()
    table.write(rows(("a", 1, "z", 2), ("a", 3, "z", 2)))
    table.rewrite()
    assert isinstance(table, PaimonTable)
    changes = [snapshot.changelog_record_count for snapshot in table._history.snapshots()]
    assert changes == [0, 2, 0, 1 if engine == "first-row" else 3]
    assert [row[2] for row in contents(table)] == (["x", "y", "z"] if engine == "first-row" else ["z", "y", "z"])


@pytest.mark.parametrize("buffer", ["256 mb", "1 b"])
def test_the_first_row_of_a_key_stays(make: Make, buffer: str) -> None:
    table = make(bucket="-2", merge__engine="first-row", postpone_default__bucket__num="2", write__buffer__size=buffer)
    for version in range(3):
        table.write(rows(*[("a", number, f"v{version}", version) for number in range(20 + 5 * version)]))
        table.rewrite()
    assert [row[2] for row in contents(table)].count("v0") == 20
    assert len(contents(table)) == 30
    files = table.inspect().figures["files"]
    assert (files["files"], files["level 0 files"]) == (2, 0)
    assert len(list(Path(table.location).rglob("data-*"))) > 2, "of older snapshots"
    table.expire(options={"snapshot.num-retained.min": 1, "snapshot.time-retained": "0 ms"})
    assert len(list(Path(table.location).rglob("data-*"))) == 2
    assert len(contents(table)) == 30


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
def test_tables_with_deletion_vectors(make: Make, engine: str) -> None:
    table = make(bucket="-2", deletion__vectors_enabled="true", merge__engine=engine, ignore__delete="false")
    table.write(rows(("a", 1, "old", 1), ("a", 2, "x", 1), ("b", 3, "y", 1)))
    table.rewrite()
    table.write(rows(("a", 1, None, 2)))
    table.rewrite()
    last = None if engine == "deduplicate" else "old"
    assert contents(table) == sorted([("a", 1, last, 2), ("a", 2, "x", 1), ("b", 3, "y", 1)], key=repr)
    if engine == "deduplicate":
        table.write(rows(("a", 1, None, None), ("b", 3, None, None), kinds=["-D", "-D"]))
        table.rewrite()
        assert contents(table) == [("a", 2, "x", 1)]
        assert table.inspect().figures["files"]["files"] == 1


def test_vectors_made_meanwhile_are_a_conflict(tmp_path: Path) -> None:
    """A bucket is planned; then another job marks rows of it as deleted."""
    folder = unpack("paimon", "pk_dv", into=tmp_path)
    table = lakebed.open(folder)
    assert isinstance(table, PaimonTable)
    snapshot = table._history.latest()
    entries = live_files(table.store, snapshot)
    vectors = [entry for entry in index_files(table.store, snapshot) if entry.index_type == "DELETION_VECTORS"]
    gone = tuple(replace(entry, kind=1) for entry in entries if entry.bucket == vectors[0].bucket)
    check_vectors(vectors, Changes(gone, removed_indexes=tuple(vectors)), "t")
    with pytest.raises(CommitConflictError, match="marked as deleted meanwhile"):
        check_vectors(vectors, Changes(gone, removed_indexes=tuple(vectors[1:])), "t")
    seen = {(vectors[0].partition, vectors[0].bucket): frozenset([vectors[0].file_name])}
    check_vectors(vectors, Changes(gone, known=seen), "t")


def test_columns_that_avro_lacks_wait_in_files_of_the_table(tmp_path: Path) -> None:
    """As the reference does: what Avro cannot hold is written in the table's own format."""
    schema = pa.schema([pa.field("id", pa.int64(), False), ("at", pa.timestamp("ns"))])
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["id"], options={"bucket": "-2"})
    data = pa.table([pa.array([1, 2]), pa.array([1, None], pa.timestamp("ns"))], schema=schema)
    table.write(data)
    assert [file.suffix for file in (tmp_path / "t").glob("bucket-postpone/*")] == [".parquet"]
    table.rewrite()
    assert table.read().read_all() == data


def test_the_golden_table_is_compacted_further(tmp_path: Path) -> None:
    """Two files of two partitions wait in it; after the compaction its streamed rows are all visible."""
    folder = unpack("paimon", "pk_postpone", into=tmp_path)
    table = lakebed.open(folder)
    assert diff("paimon", table.read(), load(expected(folder) / "snapshot.jsonl")) is None
    before = {row["id"]: row for row in table.read().read_all().to_pylist()}
    assert table.rewrite().files_before >= 1
    after = {row["id"]: row for row in table.read().read_all().to_pylist()}
    assert set(after) - set(before) == {30, 31, 32, 33}
    assert after[8]["name"] != before[8]["name"]
    assert table.rewrite().files_before == 0
