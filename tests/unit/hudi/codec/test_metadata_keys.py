"""Keys of the metadata table: as the golden tables have them."""

import pyarrow as pa

from lakebed.formats.hudi.codec.metadata_keys import file_groups_of, file_hash, hash_of, partition_hash, xxh64


def test_hashes_of_golden_keys() -> None:
    name = "6e7fd576-20bf-4029-8010-7abfb480d2c7-2_0-217-348_20261127213955067.parquet"
    assert hash_of("i") + partition_hash("c") + file_hash(name) == b"G7uSFvrozM8=OZhw7bXTfHQ=J0O8tsN8bCsIiHC3QB+hew=="
    assert hash_of("_hoodie_commit_time") == b"JBBzUToHtLc="
    assert partition_hash("") == hash_of(".")


def test_known_answers_of_xxh64() -> None:
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999
    assert xxh64(b"The quick brown fox jumps over the lazy dog", 0) == 0x0B242D361FDA71BC


def test_file_groups() -> None:
    keys = pa.array(["k0003", "polygenelubricants", ""])  # the hash of the second is the least of all numbers
    assert file_groups_of(keys, 1).tolist() == [0, 0, 0]
    assert file_groups_of(keys, 7).tolist() == [100294382 % 7, 2**31 % 7, 0]
