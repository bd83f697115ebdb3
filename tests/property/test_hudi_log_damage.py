"""Damage at every place of a small log: the read ends, and rows are right or the damage is reported."""

import contextlib
import json
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import CorruptError, SchemaError, UnsupportedError
from lakebed.formats.hudi.codec.avro import decode_blocks, decode_records
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.delete_rows import OrderingBranch
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, parse_log
from lakebed.formats.hudi.read.log_reader import parquet_rows
from lakebed.kernel.scratch import Scratch
from lakebed.testing.hudi_log import (
    Delete,
    avro_content,
    avro_data_block,
    delete_block,
    delete_content,
    parquet_data_block,
    rollback_block,
)

SCRATCH = Scratch()
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "row",
        "fields": [{"name": "k", "type": "string"}, {"name": "n", "type": ["null", "long"], "default": None}],
    }
)
BLOCKS = [
    avro_data_block(SCHEMA, [{"k": "a", "n": 1}, {"k": "bb", "n": None}], "001"),
    delete_block([Delete("a", "p"), Delete("c", "p", OrderingBranch.LONG, 7)], "002"),
    rollback_block("003", "002"),
    avro_data_block(SCHEMA, [{"k": "d", "n": 4}], "004"),
]
LOG = b"".join(BLOCKS)
PARQUET_LOG = parquet_data_block(SCHEMA, pa.table({"k": ["e", "ff"], "n": pa.array([5, None], pa.int64())}), "005")


def decoded(data):
    """Every block as (kind, headers, rows), and how many ranges are corrupt."""
    scan = parse_log(data)
    blocks = []
    for block in scan.blocks:
        if block.is_rollback:
            rows = []
        elif block.kind is BlockKind.DELETE:
            rows = decode_deletes(block.content, SCRATCH).to_pylist()
        elif block.kind is BlockKind.PARQUET_DATA:
            rows = parquet_rows(block, None).to_pylist()
        else:
            rows = decode_blocks([block], None, SCRATCH).to_pylist()
        blocks.append((block.kind, dict(block.headers), rows))
    return blocks, len(scan.corrupt)


@pytest.mark.parametrize("keep", ["head", "tail"])
def test_a_cut_loses_only_what_it_cuts(keep):
    ends = [sum(map(len, BLOCKS[: place + 1])) for place in range(len(BLOCKS))]
    for at in range(len(LOG)):
        scan = parse_log(LOG[:at] if keep == "head" else LOG[at:])
        if keep == "head":
            left = [place for place, end in enumerate(ends) if end <= at]
        else:
            left = [place for place, end in enumerate([0, *ends[:-1]]) if end >= at]
        assert [bytes(block.content) for block in scan.blocks] == [
            bytes(parse_log(BLOCKS[place]).blocks[0].content) for place in left
        ]
        assert len(scan.corrupt) == (at not in (0, *ends))


def test_a_doubled_stretch_keeps_every_block():
    for at in range(len(LOG)):
        for length in (1, 6, 50):
            twice = LOG[: at + length] + LOG[at:]
            try:
                scan = parse_log(twice)
            except UnsupportedError:
                continue
            kept = {(block.kind, bytes(block.content)) for block in scan.blocks}
            # The block that the stretch lies in may be torn; its neighbours are whole.
            torn = [b for b in parse_log(LOG).blocks if b.offset < at + length and at <= b.offset + b.length]
            whole = {(b.kind, bytes(b.content)) for b in parse_log(LOG).blocks if b not in torn}
            assert whole <= kept


@pytest.mark.parametrize("bit", [0, 3, 7])
@pytest.mark.parametrize("log", [LOG, PARQUET_LOG], ids=["avro", "parquet"])
def test_a_flipped_bit_is_reported_or_stays_inside_a_value(log, bit):
    whole, _ = decoded(log)
    for at in range(len(log)):
        damaged = bytearray(log)
        damaged[at] ^= 1 << bit
        try:
            blocks, corrupt = decoded(bytes(damaged))
        except (CorruptError, UnsupportedError, SchemaError):
            continue
        if corrupt:
            continue
        # Nothing was reported: then these are the same blocks with as many rows, and at most one text or value differs.
        # Of an ordering value, its branch and the columns of both branches differ. Parquet pages have checksums.
        assert [(kind, len(rows)) for kind, _, rows in blocks] == [(kind, len(rows)) for kind, _, rows in whole]
        differing = [change for pair in zip(whole, blocks, strict=True) for change in _differences(*pair)]
        assert len(differing) <= 3, (at, differing)


def _differences(before, after):
    _, headers, rows = before
    _, other_headers, other_rows = after
    if headers.get(HeaderKey.SCHEMA) != other_headers.get(HeaderKey.SCHEMA):
        return [("schema", "a schema that fits the bytes as well")]
    values = [(headers.get(key), other_headers.get(key)) for key in {*headers, *other_headers}]
    for row, other in zip(rows, other_rows, strict=True):
        values += [(row.get(name), other.get(name)) for name in {*row, *other}]
    return [(was, now) for was, now in values if was != now]


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 40))
def test_any_bytes_as_avro_end_and_are_corrupt_or_rows(body, count):
    try:
        table = decode_records(SCHEMA, [(count, memoryview(body))], None, SCRATCH)
    except CorruptError:
        return
    again = avro_content(SCHEMA, table)
    assert table.num_rows == count
    assert decode_records(SCHEMA, [(count, memoryview(again)[8:])], None, SCRATCH).equals(table)


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_as_deletes_end_and_are_corrupt_or_deletes(body):
    with contextlib.suppress(CorruptError):
        decode_deletes(struct.pack(">ii", 3, len(body)) + body, SCRATCH)


@settings(max_examples=200)
@given(st.lists(st.sampled_from([*BLOCKS, b"#HUDI#", b"#HUDI", b"x", BLOCKS[0][:70]]), max_size=8))
def test_blocks_among_rubbish_are_all_found(parts):
    scan = parse_log(b"".join(parts))
    expected = [part for part in parts if part in BLOCKS]
    data = b"".join(parts)
    assert [data[block.offset : block.offset + block.length] for block in scan.blocks] == expected
    assert sum(bad.length for bad in scan.corrupt) == len(data) - sum(map(len, expected))


ORDERINGS = {
    OrderingBranch.NULL: st.none(),
    OrderingBranch.BOOLEAN: st.booleans(),
    OrderingBranch.INT: st.integers(-(2**31), 2**31 - 1),
    OrderingBranch.LONG: st.integers(-(2**63), 2**63 - 1),
    OrderingBranch.DOUBLE: st.floats(allow_nan=False),
    OrderingBranch.BYTES: st.binary(max_size=5),
    OrderingBranch.STRING: st.text(max_size=5),
    OrderingBranch.DECIMAL: st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-15)),
    OrderingBranch.DATE: st.integers(-700_000, 2_000_000),
    OrderingBranch.TIME: st.integers(0, 86_399_999_999),
    OrderingBranch.TIMESTAMP: st.integers(-(10**16), 10**16),
}


@settings(max_examples=100)
@given(st.data())
def test_deletes_come_back_typed_whatever_the_mixture(data):
    branches = data.draw(st.lists(st.sampled_from(list(ORDERINGS)), min_size=1, max_size=3, unique=True))
    delete = st.sampled_from(branches).flatmap(
        lambda branch: st.builds(Delete, st.text(max_size=6), st.text(max_size=3), st.just(branch), ORDERINGS[branch])
    )
    deletes = data.draw(st.lists(delete, max_size=12))
    table = decode_deletes(delete_content(deletes), SCRATCH)
    assert table["record_key"].to_pylist() == [delete.record_key for delete in deletes]
    assert table["partition_path"].to_pylist() == [delete.partition_path for delete in deletes]
    assert table["ordering_branch"].to_pylist() == [delete.branch for delete in deletes]
    for branch in {delete.branch for delete in deletes} - {OrderingBranch.NULL}:
        raw = table[f"ordering_{branch.name.lower()}"]
        if branch in (OrderingBranch.DATE, OrderingBranch.TIME, OrderingBranch.TIMESTAMP):
            raw = raw.cast("int32" if branch is OrderingBranch.DATE else "int64")
        expected = [delete.ordering if delete.branch is branch else None for delete in deletes]
        assert raw.to_pylist() == expected


def test_a_schema_header_of_another_record_is_corrupt_not_wrong():
    other = SCHEMA.replace('"string"', '"long"')
    block = avro_data_block(SCHEMA, [{"k": "a", "n": 1}], "001", headers={HeaderKey.SCHEMA: other})
    with pytest.raises(CorruptError):
        decode_blocks(parse_log(block).blocks, None, SCRATCH)
