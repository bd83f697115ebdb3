"""Record keys and partition paths of rows, as Hudi's key generators make them."""

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SchemaError, UnsupportedError
from lakebed.formats.hudi.config import config_from
from lakebed.formats.hudi.write.keys import RowKeys


def test_some_of_several_key_columns_may_be_null_or_empty() -> None:
    rows = pa.table({"a": ["x", None, ""], "b": pa.array([1, 2, None], pa.int32())})
    keys = RowKeys(("a", "b"), (), True, False, False)
    assert keys.keys(rows.slice(0, 2)).to_pylist() == ["a:x,b:1", "a:__null__,b:2"]
    with pytest.raises(SchemaError, match="without any value"):
        keys.keys(rows)


def test_encoded_partition_paths_have_special_letters_in_hex() -> None:
    rows = pa.table({"p": ["x é=1", "c/d%", "^{}[]", "a-b_c.d", None]})
    keys = RowKeys(("p",), ("p",), False, True, True)
    assert keys.partitions(rows).to_pylist() == [
        "p=x é%3D1", "p=c%2Fd%25", "p=%5E%7B}%5B%5D", "p=a-b_c.d", "p=__HIVE_DEFAULT_PARTITION__",
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["..", "../x", "x/..", "x/../y", ".", "x/./y"])
def test_a_partition_path_cannot_leave_the_table(value: str) -> None:
    with pytest.raises(SchemaError, match="leave its partition"):
        RowKeys(("p",), ("p",), False, False, False).partitions(pa.table({"p": [value]}))


@pytest.mark.parametrize("value", ["/a", "/", "a\0b"])
def test_a_value_that_no_folder_can_be_named_by(value: str) -> None:
    rows = pa.table({"p": ["x", value]})
    with pytest.raises(SchemaError, match=r"no folder can be named by.*urlencode=true"):
        RowKeys(("p",), ("p",), False, False, False).partitions(rows)
    assert len(set(RowKeys(("p",), ("p",), False, False, True).partitions(rows).to_pylist())) == 2


@pytest.mark.parametrize("column", ["_hoodie_record_key", "_hoodie_commit_time"])
@pytest.mark.parametrize("use", ["primary_key", "partition_by", "ordering"])
def test_meta_columns_are_no_keys(tmp_path: Path, column: str, use: str) -> None:
    given = {"primary_key": ["id"], "partition_by": [], "options": {}, use: [column]}
    if use == "ordering":
        given["options"] = {"hoodie.table.ordering.fields": column}
        del given["ordering"]
    with pytest.raises(SchemaError, match=f"no row can be found or ordered by '{column}'"):
        lakebed.create(tmp_path, "hudi", {"id": "int64", column: "string"}, **given)  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())


def test_the_name_of_the_row_kind_is_reserved(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="reserved for the row kind"):
        lakebed.create(tmp_path, "hudi", {"id": "int64", "_row_kind": "string"}, ["id"])


@pytest.mark.parametrize(
    ("version", "extra", "key"),
    [
        ("9", {}, "id:k1"),
        ("8", {}, "k1"),
        ("6", {}, "k1"),
        ("9", {"hoodie.table.complex.keygen.encoding": "VALUE_ONLY"}, "k1"),
    ],
)
def test_a_complex_key_of_one_column_has_the_name_of_the_column_from_version_9_on(
    version: str, extra: dict[str, str], key: str
) -> None:
    config = config_from(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": version,
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "a,b",
            "hoodie.table.keygenerator.type": "COMPLEX",
            **extra,
        }
    )
    rows = pa.table({"id": ["k1"], "a": ["x"], "b": [1]})
    keys = RowKeys.of(config, rows.schema)
    assert keys.keys(rows).to_pylist() == [key]
    assert keys.partitions(rows).to_pylist() == ["x/1"]


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([1.0, 0.1, 1e10, 1e-5, -0.0]), ["1.0", "0.1", "1.0E10", "1.0E-5", "-0.0"]),
        (pa.array([1.5, 0.1, 1e7], pa.float32()), ["1.5", "0.1", "1.0E7"]),
        (pa.array(["1.50", "0.00"]).cast(pa.decimal128(10, 2)), ["1.50", "0.00"]),
        (pa.array(["0.0000001"]).cast(pa.decimal128(10, 9)), ["1.00E-7"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([19723], pa.date32()), ["2024-01-01"]),
        (pa.array([1704067200000], pa.timestamp("ms", "UTC")), ["1704067200000000"]),
    ],
)
def test_keys_have_the_texts_of_java(column: pa.Array, texts: list[str]) -> None:
    rows = pa.table({"id": column})
    assert RowKeys(("id",), (), False, False, False).keys(rows).to_pylist() == texts


@pytest.mark.parametrize("value", [None, ""])
def test_a_lone_key_column_is_neither_null_nor_empty(value: str | None) -> None:
    with pytest.raises(SchemaError, match="without a value"):
        RowKeys(("id",), (), False, False, False).keys(pa.table({"id": pa.array([value, "x"])}))


def test_a_table_whose_keys_would_need_the_name_of_the_column_is_not_created(tmp_path: Path) -> None:
    options = {"hoodie.write.complex.keygen.new.encoding": "false"}
    columns = {"id": "string", "a": "string", "b": "string"}
    with pytest.raises(UnsupportedError, match="column's name in table version 8"):
        lakebed.create(
            tmp_path / "t", "hudi", columns, "id", ["a", "b"], {**options, "hoodie.write.table.version": "8"}
        )
    assert not (tmp_path / "t").exists()
    lakebed.create(tmp_path / "t", "hudi", columns, "id", ["a", "b"], options)


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.binary(2), pa.large_binary(), pa.list_(pa.int32()), pa.struct({"a": pa.int32()})], ids=str
)
def test_values_without_a_text_make_no_keys_and_no_partitions(tmp_path: Path, kind: pa.DataType) -> None:
    """Hudi's engines write Java's name of such an object: the same one for all bytes of a length."""
    schema = pa.schema([("id", pa.string()), ("x", kind)])
    for part in ({"primary_key": ["x"]}, {"primary_key": ["id"], "partition_by": ["x"]}):
        with pytest.raises(SchemaError, match=r"'x' is .*, of which Hudi makes no key and no partition"):
            lakebed.create(tmp_path / "t", "hudi", schema, **part)
    assert not (tmp_path / "t").exists()
    config = config_from({"hoodie.table.name": "t", "hoodie.table.version": "6", "hoodie.table.recordkey.fields": "x"})
    with pytest.raises(SchemaError, match="no key and no partition"):
        RowKeys.of(config, schema)


def test_rows_of_a_table_with_two_partition_columns_have_named_keys(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path, "hudi", {"id": "string", "a": "string", "b": "string"}, "id", ["a", "b"])
    for _ in range(2):
        table.write(pa.table({"id": ["k1"], "a": ["x"], "b": ["y"]}), mode="upsert")
    assert table.read().read_all()["_hoodie_record_key"].to_pylist() == ["id:k1"]


def test_keys_and_partition_paths_are_those_that_release_1_1_made_of_the_same_rows() -> None:
    utc = datetime.UTC
    rows = pa.table(
        {
            "s": ["k1", "k2", "k3", "k4"],
            "d": [1.0, 1e10, 1e-5, 2e23],
            "f": pa.array([1.5, 0.1, 1e7, 3.4e38], pa.float32()),
            "c": pa.array(["1.50", "-7.00", "0.00", "12345678.90"]).cast(pa.decimal128(10, 2)),
            "c9": pa.array(["0.000000100", "0.1", "0", "1"]).cast(pa.decimal128(10, 9)),
            "dt": pa.array(["2024-01-01", "1969-12-31", "9999-01-01", "2000-02-29"]).cast(pa.date32()),
            "tm": pa.array(
                [
                    datetime.datetime(2024, 1, 1, tzinfo=utc),
                    datetime.datetime(2024, 1, 1, 0, 0, 0, 1, utc),
                    datetime.datetime(1969, 12, 31, 23, 59, 59, 0, utc),
                    datetime.datetime(2000, 1, 1, tzinfo=utc),
                ],
                pa.timestamp("us", "UTC"),
            ),
            "b": [True, False, True, True],
        }
    )
    keys = RowKeys(tuple(rows.schema.names), ("d", "tm", "c9"), True, False, False)
    assert keys.keys(rows).to_pylist() == [
        "s:k1,d:1.0,f:1.5,c:1.50,c9:1.00E-7,dt:2024-01-01,tm:1704067200000000,b:true",
        "s:k2,d:1.0E10,f:0.1,c:-7.00,c9:0.100000000,dt:1969-12-31,tm:1704067200000001,b:false",
        "s:k3,d:1.0E-5,f:1.0E7,c:0.00,c9:0E-9,dt:9999-01-01,tm:-1000000,b:true",
        "s:k4,d:1.9999999999999998E23,f:3.4E38,c:12345678.90,c9:1.000000000,dt:2000-02-29,tm:946684800000000,b:true",
    ]
    assert keys.partitions(rows).to_pylist() == [
        "1.0/1704067200000000/1.00E-7",
        "1.0E10/1704067200000001/0.100000000",
        "1.0E-5/-1000000/0E-9",
        "1.9999999999999998E23/946684800000000/1.000000000",
    ]
    odd = pa.table({"odd": ["a b", "x:y", "é%", "^[]"]})
    names = RowKeys(("odd",), ("odd",), False, True, True).partitions(odd).to_pylist()
    assert names == ["odd=a b", "odd=x%3Ay", "odd=é%25", "odd=%5E%5B%5D"]
