"""Delete blocks of old releases: the Java objects that Hudi 0.9 to 0.12 wrote, and damage to them."""

import datetime
import struct
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.delete_rows import OrderingBranch, natural_order
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import write_block
from lakebed.kernel.scratch import Scratch
from tests.golden import HERE
from tests.tables.hudi.writing import HudiFolder, rows, t

SCRATCH = Scratch()
UTC = datetime.UTC
VECTORS = {
    (release, name): bytes.fromhex(content)
    for line in (HERE / "hudi" / "delete_objects.txt").read_text().splitlines()
    for release, name, content in [line.split()]
}
VALUES = {
    "int": [0, 1, -5, 2**31 - 1, -(2**31)],
    "long": [0, 300, -7, 2**63 - 1, -(2**63), 2**40],
    "string": ["a", "", "abé漢", "a", "y" * 90, "A", "😀"],
    "double": [1.5, -0.0, 1e300],
    "float": [1.5, -2.0],
    "boolean": [True, False],
    "decimal": [Decimal(text) for text in ("12.50", "0", "-99999999999999999999.123456789", "1", "1000")],
    "utf8": ["abc", "", "é漢"],
    "date": [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)],
    # Kryo keeps a timestamp's milliseconds alone.
    "timestamp": [
        datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 995000, UTC),
    ],
    "instant": [
        datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, UTC),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 5, UTC),
    ],
}
KNOWN = {"utf8": "string", "instant": "timestamp"}
UNKNOWN = {"bytes": "java.nio.HeapByteBuffer", "big_integer": "java.math.BigInteger", "sql_date": "java.sql.Date"}


@pytest.mark.parametrize(("release", "name"), [key for key in VECTORS if key[1] in VALUES])
def test_ordering_values_of_every_class(release: str, name: str) -> None:
    actual = decode_deletes(VECTORS[release, name], SCRATCH)
    branch = OrderingBranch[KNOWN.get(name, name).upper()]
    assert actual.column_names == ["record_key", "partition_path", "ordering_branch", f"ordering_{branch.name.lower()}"]
    assert actual["record_key"].to_pylist() == [f"k{number}" for number in range(len(VALUES[name]))]
    assert set(actual["partition_path"].to_pylist()) == {"part=a"}
    assert set(actual["ordering_branch"].to_pylist()) == {branch}
    assert actual[3].to_pylist() == VALUES[name]


@pytest.mark.parametrize("release", ["0.9.0", "0.10.1"])
def test_keys_alone_have_no_ordering_values(release: str) -> None:
    actual = decode_deletes(VECTORS[release, "keys"], SCRATCH)
    assert actual["record_key"].to_pylist() == ["k1", "k2", "ké3 ж漢", "k1", "x" * 200, None, "k\0z"]
    assert actual["partition_path"].to_pylist() == ["part=a", "part=a", "part=b", None, "", "q", "emoji 😀"]
    assert natural_order(actual).to_pylist() == [True] * 7


@pytest.mark.parametrize("release", ["0.11.1", "0.12.3"])
def test_mixed_and_missing_values(release: str) -> None:
    assert natural_order(decode_deletes(VECTORS[release, "none"], SCRATCH)).to_pylist() == [True] * 3
    actual = decode_deletes(VECTORS[release, "mixed"], SCRATCH)
    assert actual["ordering_branch"].to_pylist() == [2, 3, 0, 7, 5, 9, 2, 7, 8]
    assert actual["ordering_string"].drop_null().to_pylist() == ["s", "s"]
    assert actual["ordering_decimal"].drop_null().to_pylist() == [Decimal("1.5")]


@pytest.mark.parametrize(("release", "name"), [key for key in VECTORS if key[1] == "empty"])
def test_no_deletes(release: str, name: str) -> None:
    assert decode_deletes(VECTORS[release, name], SCRATCH).num_rows == 0


@pytest.mark.parametrize(("release", "name"), [key for key in VECTORS if key[1] in UNKNOWN])
def test_values_of_another_class_are_refused_by_its_name(release: str, name: str) -> None:
    with pytest.raises(UnsupportedError, match=UNKNOWN[name]):
        decode_deletes(VECTORS[release, name], SCRATCH)


@pytest.mark.slow
@pytest.mark.parametrize(("release", "name"), VECTORS)
def test_damage_to_objects_is_told_or_stays_inside_a_value(release: str, name: str) -> None:
    content = VECTORS[release, name]
    try:
        whole = decode_deletes(content, SCRATCH)
    except UnsupportedError:
        whole = None
    for at in range(8, len(content)):
        with pytest.raises((CorruptError, UnsupportedError)):
            decode_deletes(content[:4] + struct.pack(">i", at - 8) + content[8:at], SCRATCH)
        for bit in range(8):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            try:
                actual = decode_deletes(bytes(damaged), SCRATCH)
            except (CorruptError, UnsupportedError):
                continue
            assert whole is not None
            assert actual.num_rows == whole.num_rows


@pytest.mark.parametrize("blocks", [("keys", "long"), ("long",)])
def test_a_table_with_old_delete_blocks(tmp_path: Path, blocks: tuple[str, ...]) -> None:
    """k1 and k2 are deleted by keys alone, then k2 by a late delete, which takes that place, k3 by a newer one."""
    table = HudiFolder(tmp_path)
    base = table.base("a", 1, [{"id": f"k{n}", "ts": 100, "x": "old"} for n in range(1, 4)])
    table.done(1, [base])
    deletes = {"keys": VECTORS["0.9.0", "keys"], "long": VECTORS["0.12.3", "long"]}
    header = {HeaderKey.INSTANT_TIME: t(2)}
    log = table.log("a", 1, b"".join(write_block(BlockKind.DELETE, header, deletes[name]) for name in blocks))
    table.done(2, [log])
    # the first block alone takes k1 and k2; of the second k1 (300) goes, k2 (-7) loses to its base row, k3 goes
    assert rows(table.open(), "x") == {"k2": "old"}


def test_decimals_keep_their_scale() -> None:
    actual = decode_deletes(VECTORS["0.12.3", "decimal"], SCRATCH)
    assert pa.types.is_decimal(actual["ordering_decimal"].type)
