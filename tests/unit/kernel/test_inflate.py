"""Compressed bytes inflated up to a bound, and not a byte more."""

import bz2
import gzip
import lzma
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.avro.records import RECORD_FILE_BYTES
from lakebed.kernel.avro.schema import DEPTH
from lakebed.kernel.decoding import decoding
from lakebed.kernel.inflate import INFLATED_BYTES, inflated

PLAIN = b"some text " * 1000


def deflated(data: bytes) -> bytes:
    maker = zlib.compressobj(9, zlib.DEFLATED, -15)
    return maker.compress(data) + maker.flush()


def streamed(data: bytes, codec: str) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, codec) as stream:
        stream.write(data)
    return bytes(out.getvalue().to_pybytes())


def snappy(data: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(data, asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


PACKED = {
    "null": PLAIN, "deflate": deflated(PLAIN), "gzip": gzip.compress(PLAIN), "snappy": snappy(PLAIN),
    "zstandard": streamed(PLAIN, "zstd"), "lz4": streamed(PLAIN, "lz4"), "bzip2": bz2.compress(PLAIN),
    "xz": lzma.compress(PLAIN),
}  # fmt: skip


@pytest.mark.parametrize("codec", PACKED)
def test_content_up_to_the_bound(codec: str) -> None:
    assert bytes(inflated(PACKED[codec], codec)) == PLAIN
    assert bytes(inflated(PACKED[codec], codec, most=len(PLAIN))) == PLAIN
    if codec != "null":
        with pytest.raises(UnsupportedError, match="more than"):
            inflated(PACKED[codec], codec, most=len(PLAIN) - 1)
        with pytest.raises(CorruptError), decoding("x"):
            inflated(PACKED[codec][:-6], codec)


def test_members_of_gzip_count_together() -> None:
    assert inflated(gzip.compress(b"a") + gzip.compress(b"b"), "gzip") == b"ab"
    with pytest.raises(UnsupportedError):
        inflated(gzip.compress(PLAIN) * 3, "gzip", most=2 * len(PLAIN))


@pytest.mark.slow
def test_bombs_stop_at_the_documented_bound() -> None:
    page = Path("docs/security.md").read_text(encoding="utf-8")
    assert f"{INFLATED_BYTES >> 20} MiB" in page
    assert f"{RECORD_FILE_BYTES >> 20:,} MiB" in page
    assert f"{DEPTH} deep" in page
    maker = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(maker.compress(bytes(1 << 20)) for _ in range((INFLATED_BYTES >> 20) + 1)) + maker.flush()
    with pytest.raises(UnsupportedError, match="256 MiB"):
        inflated(bomb, "deflate")
    claim = b"\xff\xff\xff\xff\x0f" + bytes(20)  # says 4 GiB, which nothing is asked for
    with pytest.raises(UnsupportedError, match="256 MiB"):
        inflated(claim, "snappy")


def test_a_wrong_checksum_and_an_unknown_codec() -> None:
    with pytest.raises(CorruptError, match="checksum"):
        inflated(PACKED["snappy"][:-1] + b"\0", "snappy")
    with pytest.raises(UnsupportedError, match="brotli"):
        inflated(b"", "brotli")
