"""Entries as columns are the same entries: decoded, merged, pruned and made to splits as their values are."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon import manifests
from lakebed.formats.paimon.codec import entry_columns
from lakebed.formats.paimon.codec.binary_row import decode_field, encode_row, with_arity, without_arity
from lakebed.formats.paimon.codec.entry_columns import (
    ENTRY_SCHEMA,
    decode_entries,
    entry_blocks,
    entry_table,
    entry_values,
)
from lakebed.formats.paimon.codec.manifest import ADD, DELETE, DataFileMeta, ManifestEntry, SimpleStats
from lakebed.formats.paimon.codec.manifest_avro import manifest_blocks, manifest_to_bytes
from lakebed.formats.paimon.codec.row_fields import plain_array, row_fields
from lakebed.formats.paimon.codec.types import arrow_type, type_from_json
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.read import splits
from lakebed.formats.paimon.rewrite.run import Compaction
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.table import PaimonTable
from lakebed.verbs.many_splits import ManySplits
from tests.golden import unpack
from tests.tables.paimon.small import SCHEMA, rows

_FILE = DataFileMeta("f", 1, 1, b"", b"", SimpleStats(), SimpleStats(), 0, 0, 0, 0)
_TEXTS = st.text("ab/é", max_size=3)
_NAMES = st.lists(_TEXTS, max_size=2).map(tuple)
_BYTES = st.binary(max_size=9)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_STATS = st.builds(SimpleStats, _BYTES, _BYTES, st.lists(st.none() | _LONGS, max_size=3).map(tuple))


def files(names: st.SearchStrategy[str], levels: st.SearchStrategy[int]) -> st.SearchStrategy[DataFileMeta]:
    return st.builds(
        DataFileMeta, names, _LONGS, _LONGS, _BYTES, _BYTES, _STATS, _STATS, _LONGS, _LONGS, _LONGS, levels,
        _NAMES, st.none() | _LONGS, st.none() | _LONGS, st.none() | st.sampled_from([b"", b"i"]),
        st.none() | st.integers(0, 1), st.none() | _NAMES, st.none() | st.sampled_from(["", "file:/x"]),
        st.none() | _LONGS, st.none() | _NAMES,
    )  # fmt: skip


_ENTRIES = st.lists(
    st.builds(
        ManifestEntry, st.sampled_from([ADD, DELETE]), _BYTES, st.integers(-2, 9), st.just(4),
        files(_TEXTS, st.integers(-(2**31), 2**31 - 1)),
    ),
    max_size=3,
)  # fmt: skip


@given(st.lists(_ENTRIES, max_size=2), st.booleans())
@settings(max_examples=15, deadline=None)
def test_columns_hold_what_the_values_do(of_manifests: list[list[ManifestEntry]], stats: bool) -> None:
    contents = [(f"m{n}", manifest_to_bytes(each)) for n, each in enumerate(of_manifests)]
    every = [entry for each in of_manifests for entry in each]
    table = decode_entries(contents, stats)
    if not stats:
        none = SimpleStats()
        every = [replace(e, file=replace(e.file, key_stats=none, value_stats=none, value_stats_cols=())) for e in every]
    assert [*entry_values(table)] == every
    if stats:
        assert table.schema == ENTRY_SCHEMA
        assert [*entry_values(entry_table(every))] == every
        assert [*entry_blocks(entry_table(every))] == [*manifest_blocks(every)]


@pytest.mark.parametrize("seed", range(20))
def test_merging_columns_leaves_what_merging_values_does(seed: int) -> None:
    draw = random.Random(seed)
    every: list[ManifestEntry] = []
    for _ in range(draw.randrange(60)):
        index, outside = draw.choice([None, b"", b"i"]), draw.choice([None, None, "", "x"])
        extra = draw.choice([(), (), ("x",), ("x", "y")])
        file = replace(_FILE, file_name=draw.choice("abc"), level=draw.choice([0, 5]), extra_files=extra)
        file = replace(file, row_count=len(every), embedded_index=index, external_path=outside)
        every.append(ManifestEntry(draw.choice([ADD, DELETE]), draw.choice([b"", b"p"]), draw.choice([0, 1]), 4, file))
    merged = [*Entries.of(every).merged()]
    assert {e.identity: e for e in merged} == {e.identity: e for e in manifests.merge(every)}
    assert len(merged) == len({e.identity for e in merged})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("INT", [1, None, -7]), ("BIGINT", [2**40, None]), ("TINYINT", [-1, 4]), ("SMALLINT", [300]),
        ("BOOLEAN", [True, False, None]), ("FLOAT", [1.5, None]), ("DOUBLE", [-2.5]), ("DATE", [19000, None]),
        ("TIME(3)", [1000]), ("STRING", ["", "seven", "longer than inline", None]), ("BYTES", [b"\0", b"x" * 20]),
        ("TIMESTAMP(3)", [1_700_000_000_000, None]), ("TIMESTAMP(6)", [1_700_000_000_000_001, None]),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [-5]),
    ],
)  # fmt: skip
def test_a_field_of_many_rows_is_that_of_each(kind: str, values: Sequence[object]) -> None:
    of_type, other = type_from_json(kind), type_from_json("BIGINT")
    whole = [with_arity(encode_row([value, 9], [of_type, other]), 2) for value in values]
    each = [decode_field(without_arity(row), 0, 2, of_type) for row in whole]
    sliced = pa.array([b"xx", *whole, with_arity(bytes(8), 0)], pa.binary()).slice(1)
    found = row_fields(sliced, 0, 2, of_type)
    assert found.equals(plain_array([*each, None], arrow_type(of_type)))
    assert row_fields(sliced, 1, 2, other).to_pylist() == [9] * len(values) + [None]


def test_a_row_that_ends_too_early_is_damage() -> None:
    row = with_arity(encode_row([1], [type_from_json("INT")]), 1)
    with pytest.raises(CorruptError, match="ends too early"):
        row_fields(pa.array([row], pa.binary()), 4, 5, type_from_json("INT"))


@pytest.mark.parametrize("name", ["pk_dv", "append_dv", "evolve"])
def test_plans_of_columns_are_those_of_values(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpack("paimon", name, tmp_path)
    for options in ({}, {"source.split.target-size": "1 b"}):
        table = lakebed.open(folder, options)
        plain = [table.plan_read(as_of=int(instant.time)) for instant in table.history()]
        with monkeypatch.context() as patched:
            patched.setattr(manifests, "_COLUMNS_FROM", 0)
            patched.setattr(splits, "MANY", 0)
            many = [table.plan_read(as_of=int(instant.time)) for instant in table.history()]
        for one, other in zip(plain, many, strict=True):
            assert len(one.splits) == len(other.splits)
            for left, right in zip(one.splits, other.splits, strict=True):
                names = [[file.file_name for file in split.files] for split in (left, right)]
                assert names[0] == names[1] and left.deletions == right.deletions
                assert replace(left, files=()) == replace(right, files=())
            assert [*map(repr, other.splits)] == [repr(other.splits[n]) for n in range(len(other.splits))]
            if not other.splits:
                continue
            assert isinstance(other.splits, ManySplits)
            assert other.splits.sizes.tolist() == [split.size for split in one.splits]
            for places in (np.arange(len(one.splits))[::-2], np.zeros(1, np.int64), np.zeros(0, np.int64)):
                part = pickle.loads(pickle.dumps(other.splits.taken(places)))
                assert [*part] == [other.splits[n] for n in places.tolist()]


@pytest.mark.parametrize("name", ["pk_dv", "append_dv", "pk_fixed"])
def test_a_rewrite_of_columns_is_that_of_values(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run makes one value of each file, without statistics, and keeps no task; what it says is what is done."""
    table = lakebed.open(unpack("paimon", name, tmp_path))
    options = {"compaction.min.file-num": "2", "write-only": "false"}
    before = sorted(map(repr, table.read().read_all().to_pylist()))
    plain, count = table.rewrite(dry_run=True, options=options), len(table.metadata("files").read_all())
    made, planned, file_values = 0, list[int](), entry_columns.file_values

    def counted(files: pa.Table) -> Iterator[DataFileMeta]:
        nonlocal made
        made += len(files)
        return file_values(files)

    def noted(compaction: Compaction, *arguments: Any) -> Any:
        planned.append(len(compaction.plan.tasks))
        return run(compaction, *arguments)

    run = Compaction.run
    monkeypatch.setattr(Compaction, "run", noted)
    monkeypatch.setattr(manifests, "_COLUMNS_FROM", 0)
    monkeypatch.setattr(entry_columns, "file_values", counted)
    assert table.rewrite(dry_run=True, options=options) == plain
    assert made == count
    done = table.rewrite(options=options)
    assert (done.plan, done.skipped) == (plain.plan, plain.skipped)
    assert plain.plan and planned == [0, len(plain.plan)]
    assert sorted(map(repr, table.read().read_all().to_pylist())) == before


def test_a_plan_of_one_partition_reads_the_manifests_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, [], ["dt"], {"write-only": "true"})
    for number in range(12):
        table.write(rows((f"d{number}", number, "v", 1), (f"d{number}", number + 100, "v", 1)))
    read, decoded = list[str](), list[str]()
    real = manifests._read
    monkeypatch.setattr(manifests, "_read", lambda store, files: real(store, _noted(files, read)))
    monkeypatch.setattr(manifests, "manifest_from_bytes", _counting(decoded))
    assert isinstance(table, PaimonTable)
    (split,) = table.plan_read(where="dt = 'd7' and id < 1000").splits
    assert [file.row_count for file in split.files] == [2]
    assert len([name for name in read if not name.startswith("manifest-list")]) == len(decoded) == 1
    assert not table.plan_read(where="dt is null").splits


def _noted(files: Sequence[manifests.MetadataFile], read: list[str]) -> Sequence[manifests.MetadataFile]:
    read.extend(file.name for file in files)
    return files


def _counting(decoded: list[str]) -> object:
    real = manifests.manifest_from_bytes

    def counted(data: bytes, file: str) -> list[ManifestEntry]:
        values = [*real(data, file)]
        decoded.extend(entry.file.file_name for entry in values)
        return values

    return counted


def test_buckets_are_in_the_order_of_their_first_entries() -> None:
    def entry(partition: bytes, bucket: int) -> ManifestEntry:
        return ManifestEntry(ADD, partition, bucket, -1, _FILE)

    many = Entries.of([entry(b"b", 1), entry(b"a", -2), entry(b"b", 0), entry(b"b", 1)])
    assert many.buckets.partitions == [b"b", b"a", b"b"]
    assert many.buckets.numbers.tolist() == [1, -2, 0]
    assert many.buckets.codes.tolist() == [0, 1, 2, 0]
    kept = many.in_buckets(lambda partitions, numbers: np.array([p == b"b" for p in partitions]) & (numbers == 1))
    assert len(kept) == 2 and next(iter(many[1:3])) == many[1]


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (ManifestEntry(DELETE, b"", 0, -1, _FILE), CorruptError),
        (ManifestEntry(ADD, b"", 0, -1, replace(_FILE, external_path="file:/etc/passwd")), UnsupportedError),
    ],
)
def test_columns_are_checked_as_values_are(
    entry: ManifestEntry, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, [], ["dt"])
    table.write(rows(("a", 1, "v", 1)))
    real = decode_entries
    monkeypatch.setattr(manifests, "_COLUMNS_FROM", 0)
    monkeypatch.setattr(
        manifests, "decode_entries", lambda *given: pa.concat_tables([real(*given), entry_table([entry])])
    )
    with pytest.raises(error, match=r"never added it|is outside the table"):
        live_files(table.store, History(table.store).latest())
