"""Log files block by block: what is kept, what is counted as corrupt, what is refused."""

import time

import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.log import MAGIC, BlockKind, HeaderKey, LogScan, parse_log
from lakebed.testing.hudi_log import rollback_block, write_block

GOOD = write_block(BlockKind.AVRO_DATA, {HeaderKey.INSTANT_TIME: "001", HeaderKey.SCHEMA: "{}"}, b"first rows")
NEXT = write_block(BlockKind.AVRO_DATA, {HeaderKey.INSTANT_TIME: "002", HeaderKey.SCHEMA: "{}"}, b"more rows")


def contents(scan: LogScan) -> list[bytes]:
    return [bytes(block.content) for block in scan.blocks]


def test_a_rollback_as_hudi_wrote_it():
    data = bytes.fromhex(
        "23 48 55 44 49 23 00 00 00 00 00 00 00 5b 00 00 00 01 00 00 00 00 00 00 00 03"
        "00 00 00 00 00 00 00 11 32 30 32 36 31 31 32 37 32 30 34 38 32 33 36 36 37"
        "00 00 00 03 00 00 00 01 30"
        "00 00 00 01 00 00 00 11 32 30 32 36 31 31 32 37 32 30 34 38 32 31 36 38 34"
        "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 61"
    )
    (block,) = parse_log(data).blocks
    assert block.is_rollback
    assert (block.instant_time, block.target_instant_time) == ("20261127204823667", "20261127204821684")
    assert (block.offset, block.length, len(block.content)) == (0, 105, 0)
    expected = {
        HeaderKey.INSTANT_TIME: "20261127204823667",
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
        HeaderKey.TARGET_INSTANT_TIME: "20261127204821684",
    }
    assert data == write_block(BlockKind.COMMAND, expected, b"")


def test_an_empty_file_has_nothing():
    assert parse_log(b"") == LogScan((), ())


def test_headers_say_what_a_block_is():
    headers = {
        HeaderKey.INSTANT_TIME: "005",
        HeaderKey.COMPACTED_BLOCK_TIMES: "001, 002,003",
        HeaderKey.IS_PARTIAL: "true",
    }
    (block,) = parse_log(write_block(BlockKind.AVRO_DATA, headers, b"", footers={0: "x"})).blocks
    assert block.compacted_instants == ("001", "002", "003")
    assert block.is_partial
    assert not block.is_rollback
    with pytest.raises(CorruptError, match="no SCHEMA"):
        _ = block.schema


def test_contents_are_slices_of_the_file():
    data = bytearray(GOOD)
    (block,) = parse_log(data).blocks
    data[data.index(b"first")] = ord("F")
    assert bytes(block.content) == b"First rows"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (MAGIC, "disagree"),
        (MAGIC + MAGIC, "disagree"),
        (GOOD[:-9], "disagree"),
        (GOOD[:20], "disagree"),
        (b"foreign bytes", "no block marker"),
        (bytes(100), "no block marker"),
        (GOOD[:40] + MAGIC + GOOD[40:60], "disagree"),
    ],
    ids=["marker", "markers", "torn end", "torn head", "foreign", "zeros", "marker inside"],
)
@pytest.mark.parametrize("first", [b"", GOOD], ids=["at start", "after a block"])
def test_bad_bytes_before_a_block_are_one_range_and_take_no_block_with_them(first, before, why):
    scan = parse_log(first + before + NEXT)
    assert contents(scan) == ([b"first rows"] if first else []) + [b"more rows"]
    (bad,) = scan.corrupt
    assert (bad.offset, bad.length) == (len(first), len(before))
    assert why in bad.reason or "past the end" in bad.reason or "too small" in bad.reason


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 30, len(NEXT) - 6, len(NEXT) - 1])
def test_a_torn_tail_is_one_range(cut):
    scan = parse_log(GOOD + NEXT[:-cut])
    assert contents(scan) == [b"first rows"]
    (bad,) = scan.corrupt
    assert (bad.offset, bad.length) == (len(GOOD), len(NEXT) - cut)
    assert not bad.framed


def test_a_block_that_ends_the_file_and_one_before_a_marker_both_count():
    assert contents(parse_log(GOOD + NEXT)) == [b"first rows", b"more rows"]


def test_a_block_before_foreign_bytes_counts():
    scan = parse_log(GOOD + b"??" + NEXT)
    assert contents(scan) == [b"first rows", b"more rows"]
    assert [(bad.offset, bad.length) for bad in scan.corrupt] == [(len(GOOD), 2)]


@pytest.mark.parametrize("target", ["001", "002"])
def test_a_rollback_behind_torn_bytes_names_its_own_target(target):
    scan = parse_log(GOOD + GOOD[:50] + rollback_block("003", target))
    assert [block.kind for block in scan.blocks] == [BlockKind.AVRO_DATA, BlockKind.COMMAND]
    assert scan.blocks[1].target_instant_time == target


def test_a_torn_marker_shares_no_byte_with_the_next_block():
    assert contents(parse_log(MAGIC[:-1] + GOOD)) == [b"first rows"]


def test_the_same_block_twice_is_two_blocks():
    assert contents(parse_log(GOOD + GOOD)) == [b"first rows"] * 2


def test_lengths_inside_a_whole_frame_must_agree():
    at = GOOD.index(b"first rows") - 1
    for change in (1, 255):
        damaged = bytearray(GOOD)
        damaged[at] = (damaged[at] + change) % 256
        scan = parse_log(bytes(damaged) + NEXT)
        assert contents(scan) == [b"more rows"]
        assert scan.corrupt[0].framed


@pytest.mark.parametrize("version", [0, 2, 77])
def test_an_unknown_log_format_version_is_refused(version):
    with pytest.raises(UnsupportedError, match=f"version {version}"):
        parse_log(GOOD + write_block(BlockKind.AVRO_DATA, {HeaderKey.INSTANT_TIME: "1"}, b"", version=version))


def test_an_unknown_kind_header_or_command_is_refused():
    with pytest.raises(UnsupportedError, match="kind 7"):
        parse_log(write_block(7, {HeaderKey.INSTANT_TIME: "1"}, b""))
    with pytest.raises(UnsupportedError, match="kind 9"):
        parse_log(write_block(BlockKind.AVRO_DATA, {9: "1"}, b""))
    with pytest.raises(UnsupportedError, match="command '1'"):
        parse_log(write_block(BlockKind.COMMAND, {HeaderKey.COMMAND_BLOCK_TYPE: "1"}, b""))


def test_a_block_of_kind_corrupt_is_a_range():
    bad = write_block(BlockKind.CORRUPT, {}, b"xx")
    scan = parse_log(GOOD + bad + NEXT)
    assert contents(scan) == [b"first rows", b"more rows"]
    assert [(actual.offset, actual.length) for actual in scan.corrupt] == [(len(GOOD), len(bad))]


@pytest.mark.parametrize(
    "hostile",
    [
        MAGIC * 200_000,
        b"#HUDI" * 200_000,
        (MAGIC + bytes(7) + b"\x40" + bytes(4)) * 50_000,
        write_block(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: "x"}, b"")[:-1] * 10_000,
    ],
    ids=["markers", "halves", "sizes", "torn"],
)
def test_time_is_linear_on_hostile_files(hostile):
    start = time.process_time()
    scan = parse_log(hostile + NEXT)
    assert time.process_time() - start < 5
    assert contents(scan)[-1] == b"more rows"
