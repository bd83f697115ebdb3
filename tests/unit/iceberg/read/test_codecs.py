"""Transforms, deletion vectors, Puffin files and bounds, checked against pyiceberg and the specification's examples."""

import datetime
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import _to_partition_representation
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakebed.errors import CorruptError, SchemaError
from lakebed.formats.iceberg.codec.bounds import decoded_bounds
from lakebed.formats.iceberg.codec.puffin import (
    DELETION_VECTOR,
    Blob,
    decode_vector,
    encode_vector,
    read_footer,
    write_puffin,
)
from lakebed.formats.iceberg.codec.schema import arrow_type
from lakebed.formats.iceberg.codec.transforms import hashed, source_bounds, transformed

CHANCE = random.Random(7)
DAY = datetime.date(1970, 1, 1)
MAKE: dict[PrimitiveType, Callable[[], Any]] = {
    IntegerType(): lambda: CHANCE.randrange(-(2**31), 2**31),
    LongType(): lambda: CHANCE.randrange(-(2**63), 2**63),
    DateType(): lambda: datetime.date(1900, 1, 1) + datetime.timedelta(CHANCE.randrange(100_000)),
    TimestampType(): lambda: datetime.datetime(1900, 1, 1) + datetime.timedelta(microseconds=CHANCE.randrange(10**16)),
    TimeType(): lambda: (
        datetime.datetime.min + datetime.timedelta(microseconds=CHANCE.randrange(86400 * 10**6))
    ).time(),
    StringType(): lambda: "".join(CHANCE.choice("aé漢😀xyz") for _ in range(CHANCE.randrange(9))),
    BinaryType(): lambda: CHANCE.randbytes(CHANCE.randrange(9)),
    FixedType(5): lambda: CHANCE.randbytes(5),
    DecimalType(12, 3): lambda: Decimal(CHANCE.randrange(-(10**9), 10**9)).scaleb(-3),
    UUIDType(): lambda: uuid.UUID(int=CHANCE.getrandbits(128)),
}
TRANSFORMS: list[Transform[Any, Any]] = [
    BucketTransform(16), TruncateTransform(3), YearTransform(), MonthTransform(), DayTransform(), HourTransform(),
    IdentityTransform(), VoidTransform(),
]  # fmt: skip
CASES = [(t, kind) for kind in MAKE for t in TRANSFORMS if t.can_transform(kind)]


def column(kind: PrimitiveType, values: list[Any]) -> pa.Array:
    return pa.array([v.bytes if isinstance(v, uuid.UUID) else v for v in values], arrow_type(kind))


@pytest.mark.parametrize(("transform", "kind"), CASES, ids=str)
def test_transforms_are_pyicebergs(transform: Transform[Any, Any], kind: PrimitiveType) -> None:
    values = [MAKE[kind]() for _ in range(200)] + [None]
    given = column(kind, values)
    for array in (given, given.slice(7)):
        found = transformed(transform, array, kind)
        if isinstance(transform, IdentityTransform):
            assert found.equals(array)
            continue
        one = transform.transform(kind)
        wanted = [one(_to_partition_representation(kind, v)) for v in values[-len(array) :]]
        if isinstance(transform, DayTransform):
            wanted = [None if day is None else DAY + datetime.timedelta(day) for day in wanted]
        assert found.to_pylist() == wanted


@pytest.mark.parametrize(("transform", "kind"), CASES, ids=str)
def test_what_a_partition_says_of_its_rows_is_true(transform: Transform[Any, Any], kind: PrimitiveType) -> None:
    rows = column(kind, [MAKE[kind]() for _ in range(300)])
    if isinstance(kind, UUIDType):
        rows = rows.storage
    found = transformed(transform, rows, kind)
    bounds = None if isinstance(transform, VoidTransform) else source_bounds(transform, found, found, rows.type)
    if bounds is None:
        assert isinstance(transform, BucketTransform | VoidTransform)
        return
    assert pc.all(pc.less_equal(bounds[0], rows)).as_py() is True
    assert pc.all(pc.fill_null(pc.greater_equal(bounds[1], rows), True)).as_py() is True


@pytest.mark.parametrize("width", [3, 10, 16, 2**31 - 1])
@pytest.mark.parametrize(("kind", "bits"), [(IntegerType(), 32), (LongType(), 64), (LongType(), 32)], ids=str)
def test_truncated_numbers_that_wrap_round_are_not_ruled_out(kind: PrimitiveType, bits: int, width: int) -> None:
    """The smallest numbers become the greatest, as in the reference engine, even for an int that is a long now."""
    end = 2 ** (bits - 1)
    rows = pa.array([-end, -end + 1, -end + width, -5, 0, 5, end - width, end - 2, end - 1], f"int{bits}")
    cut = transformed(TruncateTransform(width), rows, kind).cast(arrow_type(kind))
    assert cut.to_pylist()[0] == ((-end - (-end) % width) + end) % (2 * end) - end
    rows = rows.cast(cut.type)
    for first in range(len(rows)):  # of one partition, and of a manifest that has some
        for last in range(first + 1, len(rows) + 1):
            some = rows.slice(first, last - first)
            ends = pc.min_max(cut.slice(first, last - first))
            low, high = source_bounds(
                TruncateTransform(width), pa.array([ends["min"].as_py()], cut.type),
                pa.array([ends["max"].as_py()], cut.type), rows.type,
            ) or (None, None)  # fmt: skip
            assert low is not None and high is not None
            assert low[0].as_py() is None or low[0].as_py() <= pc.min(some).as_py()
            assert high[0].as_py() >= pc.max(some).as_py()


def test_a_decimal_that_has_no_partition_value_is_refused() -> None:
    rows = pa.array([Decimal("-0.9999"), Decimal("0.5")], pa.decimal128(4, 4))
    with pytest.raises(SchemaError, match=r"-0\.9999 of a decimal\(4, 4\) has no partition value"):
        transformed(TruncateTransform(2), rows, DecimalType(4, 4))
    assert transformed(TruncateTransform(2), rows.slice(1), DecimalType(4, 4)).to_pylist() == [Decimal("0.5000")]


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (IntegerType(), 34, 2017239379), (LongType(), 34, 2017239379),
        (DecimalType(9, 2), Decimal("14.20"), -500754589),
        (DateType(), datetime.date(2017, 11, 16), -653330422), (TimeType(), datetime.time(22, 31, 8), -662762989),
        (TimestampType(), datetime.datetime(2017, 11, 16, 22, 31, 8), -2047944441),
        (StringType(), "iceberg", 1210000089), (FixedType(4), b"\0\1\2\3", -188683207),
        (UUIDType(), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
    ],
    ids=str,
)  # fmt: skip
def test_hashes_of_the_specification(kind: PrimitiveType, value: Any, wanted: int) -> None:
    assert hashed(column(kind, [value, value])).to_pylist() == [wanted, wanted]


VECTORS = [[], [0], [5, 7, 7 << 30, 2**40], list(range(70_000)), sorted(CHANCE.sample(range(10**6), 5000))]


@pytest.mark.parametrize("positions", VECTORS, ids=len)
def test_deletion_vectors_both_ways(positions: list[int]) -> None:
    blob = encode_vector(np.array(positions, np.int64))
    assert decode_vector(blob, "f").tolist() == positions
    data, placed = write_puffin([(Blob(DELETION_VECTOR, 0, 0, properties={"referenced-data-file": "x"}), blob)])
    found, properties = read_footer(data, "f")
    assert found == placed and properties == {}
    there = found[0]
    assert decode_vector(data[there.offset : there.offset + there.length], "f").tolist() == positions
    theirs = PuffinFile(data)
    assert theirs.footer.blobs[0].properties == {"referenced-data-file": "x"}


def test_damaged_vectors_and_files_are_refused() -> None:
    blob = encode_vector(np.array([1, 2, 3], np.int64))
    data, _ = write_puffin([(Blob(DELETION_VECTOR, 0, 0), blob)])
    for place in range(len(blob)):
        broken = blob[:place] + bytes([blob[place] ^ 0x55]) + blob[place + 1 :]
        with pytest.raises(CorruptError):
            decode_vector(broken, "f")
    for cut in (b"", data[:-1], data[4:30], b"PFA1" * 5):
        with pytest.raises(CorruptError):
            read_footer(cut, "f")


MORE: dict[PrimitiveType, Callable[[], Any]] = {
    **MAKE, BooleanType(): lambda: CHANCE.random() < 0.5, DoubleType(): lambda: CHANCE.uniform(-1e9, 1e9),
    FloatType(): lambda: float(np.float32(CHANCE.uniform(-1e9, 1e9))),
}  # fmt: skip


@pytest.mark.parametrize("kind", MORE, ids=str)
def test_bounds_are_pyicebergs(kind: PrimitiveType) -> None:
    values = [MORE[kind]() for _ in range(50)] + [None]
    stored = pa.array([None if v is None else to_bytes(kind, v) for v in values], pa.binary())
    wanted = column(kind, values)
    found = decoded_bounds(stored, kind)
    assert found.equals(wanted.storage if isinstance(wanted, pa.ExtensionArray) else wanted)


def test_bounds_of_narrower_types_and_of_no_value() -> None:
    short = pa.array([b"\x05\0\0\0", b"\xff" * 8, None, b"\1", b""], pa.binary())
    assert decoded_bounds(short, LongType()).to_pylist() == [5, -1, None, None, None]
    real = pa.array([np.float32(1.5).tobytes(), np.float64(2.5).tobytes(), np.float64("nan").tobytes()], pa.binary())
    assert decoded_bounds(real, DoubleType()).to_pylist() == [1.5, 2.5, None]
    days = pa.array([(19_000).to_bytes(4, "little")], pa.binary())
    assert decoded_bounds(days, TimestampType()).to_pylist() == [datetime.datetime(2022, 1, 8)]
    assert decoded_bounds(days, TimestamptzType()).type == pa.timestamp("us", "UTC")
    assert decoded_bounds(pa.array([b"\xff\xfe"], pa.binary()), StringType()).to_pylist() == [None]
