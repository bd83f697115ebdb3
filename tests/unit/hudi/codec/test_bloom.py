"""Bloom filters, held against those in the footers of golden base files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.bloom import FilterBuilder, FilterSettings, FilterType, parse_filter
from tests.golden import unpack

_TEXT, _KIND = b"org.apache.hudi.bloomfilter", b"hoodie_bloom_filter_type_code"


@pytest.mark.parametrize("name", ["cow_v6", "mor_v8", "cow_h015", "mor_v9"])
def test_filters_have_the_bytes_of_the_engine(name: str) -> None:
    files = [path for path in Path(unpack("hudi", name)).rglob("*.parquet") if ".hoodie" not in path.parts]
    assert files
    for path in files:
        file = pq.ParquetFile(path)
        keys = file.read(columns=["_hoodie_record_key"]).column(0).combine_chunks()
        footer = file.metadata.metadata
        builder = FilterBuilder(FilterSettings(entries=60))
        builder.add(keys)
        assert builder.finish() == footer[_TEXT]
        assert parse_filter(footer[_TEXT], footer[_KIND].decode()).may_have(keys).all()


@pytest.mark.parametrize("kind", list(FilterType))
@pytest.mark.parametrize("rows", [1, 99, 1000])
def test_keys_are_found_and_others_are_not(kind: FilterType, rows: int) -> None:
    keys = pa.array([f"key {number} é" for number in range(rows)])
    builder = FilterBuilder(FilterSettings(kind, 100, 1e-6, 300))
    builder.add(keys.slice(0, rows // 2))
    builder.add(keys.slice(rows // 2))
    filtered = parse_filter(builder.finish(), kind)
    assert filtered.may_have(keys).all()
    if rows < 300:
        assert not filtered.may_have(pa.array([f"other {number}" for number in range(1000)])).any()


def _hash(data: bytes, seed: int) -> int:
    """The engine's Murmur hash of one key, byte for byte."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = seed ^ len(data)
    whole, left = len(data) // 4 * 4, len(data) % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        h = h * m & mask ^ (k ^ k >> 24) * m & mask
    for place in range(left):  # bytes are signed, and the last one is the lowest
        byte = data[len(data) - 1 - place]
        h ^= (byte - 256 * (byte > 127)) << 8 * place & mask
    if left:
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@pytest.mark.parametrize("key", ["", "k", "k3", "k30", "k300", "k3000", "k30é", "é☃", "é☃x", "id:k06,k2:0", "xxé"])
def test_a_key_of_any_length_sets_the_bits_of_the_engine(key: str) -> None:
    settings = FilterSettings(FilterType.SIMPLE, 100, 1e-6)
    wanted, state = set(), 0
    for _ in range(settings.hashes):
        state = _hash(key.encode(), state)
        signed = state - (1 << 32) * (state >> 31)
        wanted.add(abs(signed) % settings.bits)
    builder = FilterBuilder(settings)
    builder.add(pa.array([key]))
    (part,) = parse_filter(builder.finish(), "SIMPLE").parts
    assert set(np.flatnonzero(np.unpackbits(part, bitorder="little")).tolist()) == wanted


def test_damaged_bytes_are_an_error() -> None:
    with pytest.raises(CorruptError):
        parse_filter(b"AAAA", "SIMPLE")
