"""What a partition's path tells of its columns: values where files leave them out, and which partitions a predicate may
pass over."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.read.partitions import PartitionColumns, list_partitions
from lakebed.kernel.files import open_store
from lakebed.kernel.predicates.where import parse_where
from tests.golden import unpack
from tests.tables.hudi.writing import HudiFolder, changed, rows, t

SIMPLE = {"table__keygenerator__type": "SIMPLE"}
HIVE = {"datasource__write__hive_style_partitioning": "true"}
ENCODED = {"datasource__write__partitionpath__urlencode": "true"}
DROPS = {"datasource__write__drop__partition__columns": "true"}
PACKAGE = "org.apache.hudi.keygen."


def _table(folder: Path, partition: str, value: Any, **properties: str) -> HudiFolder:
    """Two partitions: one with key a and `value` in column x, one with key b."""
    table = HudiFolder(folder, **{"table__partition__fields": "x", **properties})
    (folder / ".hoodie_partition_metadata").unlink()
    paths = [
        table.base("g", 1, [{"id": "a", "ts": 1, "x": value}], partition=partition),
        table.base("h", 1, [{"id": "b", "ts": 1, "x": "other"}], partition="other"),
    ]
    table.done(1, paths)
    return table


def _read(table: HudiFolder, where: str) -> int:
    """How many partitions a predicate leaves."""
    return len(table.open().plan_read(["id"], where).splits)


@pytest.mark.parametrize(
    ("folder", "properties"),
    [("x=v 1", HIVE), ("v 1", {}), ("v%201", ENCODED), ("x=v%201", {**ENCODED, **HIVE})],
)
def test_partition_folders(tmp_path: Path, folder: str, properties: dict[str, str]) -> None:
    table = _table(tmp_path, folder, "v 1", **SIMPLE, **properties)
    assert rows(table.open(), "x") == {"a": "v 1", "b": "other"}
    assert _read(table, "x = 'v 1'") == 1
    table.done(2, [table.log("g", 1, table.deletes(2, {"a": None}, folder), partition=folder)], deletes=1)
    assert changed(table.open(), "x", after=t(1)) == {"a": "-D"}
    assert table.open().changes(after=t(1)).read_all()["x"].to_pylist() == ["v 1"]


@pytest.mark.parametrize(
    ("generator", "fields", "prunes"),
    [
        ({"table__keygenerator__class": f"{PACKAGE}SimpleKeyGenerator"}, "x", True),
        ({"table__keygenerator__class": f"{PACKAGE}SimpleAvroKeyGenerator"}, "x", True),
        ({"table__keygenerator__class": f"{PACKAGE}ComplexKeyGenerator"}, "x", True),
        ({"table__keygenerator__type": "COMPLEX_AVRO"}, "x", True),
        ({"table__keygenerator__type": "CUSTOM"}, "x:SIMPLE", True),
        ({"table__keygenerator__type": "CUSTOM"}, "x", False),
        ({"table__keygenerator__type": "CUSTOM"}, "x:TIMESTAMP", False),
        ({"table__keygenerator__type": "TIMESTAMP"}, "x", False),
        ({"table__keygenerator__class": f"{PACKAGE}TimestampBasedKeyGenerator"}, "x", False),
        ({"table__keygenerator__type": "USER_PROVIDED"}, "x", False),
        ({"table__keygenerator__class": "com.acme.MyKeyGenerator"}, "x", False),
        ({"table__keygenerator__class": "com.acme.SimpleKeyGenerator"}, "x", False),
        ({"table__keygenerator__type": "SIMPLE", "table__keygenerator__class": "com.acme.Mine"}, "x", False),
        ({**SIMPLE, "datasource__write__slash__separated__date__partitioning": "true"}, "x", False),
        ({}, "x", False),
    ],
)
def test_a_path_rules_partitions_out_only_where_its_key_generator_copies_the_values(
    tmp_path: Path, generator: dict[str, str], fields: str, prunes: bool
) -> None:
    table = _table(tmp_path, "v", "v", **{"table__partition__fields": fields, **generator})
    assert rows(table.open(), "x", where="x = 'v'") == {"a": "v"}
    assert _read(table, "x = 'v'") == (1 if prunes else 2)


@pytest.mark.parametrize(
    ("folder", "value", "properties"),
    [
        ("default", None, {}),  # the null folder of releases before 0.12
        ("x=v", "x=v", {}),  # a value, not a Hive-style folder
        ("50%25", "50%25", {}),  # encoded or not: the properties do not say
        ("__HIVE_DEFAULT_PARTITION__", "", {}),
        ("2026/01/06", "2026-01-06", {"datasource__write__slash__separated__date__partitioning": "true"}),
        ("20260106", "06.01.2026", {"table__keygenerator__type": "USER_PROVIDED"}),
    ],
)
def test_a_path_that_another_value_could_have_made_rules_nothing_out(
    tmp_path: Path, folder: str, value: str | None, properties: dict[str, str]
) -> None:
    table = _table(tmp_path, folder, value, **{**SIMPLE, **properties})
    where = "x is null" if value is None else f"x = '{value}'"
    assert rows(table.open(), "x", where=where) == {"a": value}
    table.done(2, [table.log("g", 1, table.deletes(2, {"a": None}, folder), partition=folder)], deletes=1)
    assert table.open().changes(["x"], after=t(1)).read_all().to_pylist() == [{"x": None, "_row_kind": "-D"}]


def test_key_columns_rule_out_base_rows_only_where_equal_keys_mean_equal_columns(tmp_path: Path) -> None:
    """A generator of the user's own may make one key of two values: the older version must lose to the newer one."""
    properties = {"table__keygenerator__class": "com.acme.Lower", "populate__meta__fields": "true"}
    table = HudiFolder(tmp_path, **properties)
    old = {"id": "A", "_hoodie_record_key": "a", "ts": 9}
    table.done(1, [table.base("g", 1, [old])])
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "_hoodie_record_key": "a", "ts": 1}]))])
    assert rows(table.open(), "ts") == {"A": 9}
    assert rows(table.open(), "ts", where="id = 'a'") == {}


def test_partition_columns_that_files_leave_out(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path, table__partition__fields="n", **DROPS)
    (tmp_path / ".hoodie_partition_metadata").unlink()
    kept = {"id": "string", "ts": "long", "x": "string"}
    path = table.base(
        "g", 1, [{"id": "a", "ts": 1, "x": "a"}, {"id": "b", "ts": 1, "x": "b"}], partition="7", columns=kept
    )
    table.done(1, [path])
    assert rows(table.open(), "n") == {"a": 7, "b": 7}
    block = table.data(2, [{"id": "a", "ts": 2, "x": "a2"}], "7", columns=kept)
    table.done(2, [table.log("g", 1, block, partition="7")])
    assert rows(table.open(), "n", "x", where="n = 7") == {"a": (7, "a2"), "b": (7, "b")}
    table.done(3, [table.log("g", 1, block, version=2, partition="7")], columns=kept)
    assert rows(table.open(), "n") == {"a": 7, "b": 7}, "an older commit still gives the column its type"
    assert table.open().schema.names[-1] == "n"


@pytest.mark.parametrize(
    ("folder", "fields", "why"),
    [("2026/01", "n", "'2026/01' does not fit int32"), ("a/b/c", "n,x", "have one folder for each of n, x")],
)
def test_a_path_that_does_not_tell_a_column_left_out_is_refused(
    tmp_path: Path, folder: str, fields: str, why: str
) -> None:
    table = HudiFolder(tmp_path, **{"table__partition__fields": fields, **DROPS})
    (tmp_path / ".hoodie_partition_metadata").unlink()
    kept = {"id": "string", "ts": "long"}
    table.done(1, [table.base("g", 1, [{"id": "a", "ts": 1}], partition=folder, columns=kept)])
    with pytest.raises(UnsupportedError, match=why):
        table.open().read(["n"]).read_all()
    assert table.open().read(["ts"]).read_all()["ts"].to_pylist() == [1], "other columns are not affected"
    with pytest.raises(UnsupportedError, match=why):
        table.open().read(["ts"], where="n = 7").read_all()


@pytest.mark.parametrize("generator", ["org.apache.hudi.keygen.SimpleKeyGenerator", "com.acme.MyKeyGenerator"])
def test_dates_in_folders_of_their_parts(tmp_path: Path, generator: str) -> None:
    folder = unpack("hudi", "slashdate_h015", into=tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("org.apache.hudi.keygen.SimpleKeyGenerator", generator)
    if generator.startswith("com."):
        text = text.replace("hoodie.datasource.write.slash.separated.date.partitioning=true\n", "")
    properties.write_text(text)
    actual = lakebed.open(folder).read(["id"], where="d = '2026-01-06'").read_all()
    assert sorted(actual["id"].to_pylist()) == ["k1", "k3"]


@pytest.mark.parametrize(
    ("name", "where", "keys"),
    [
        ("droppart_v9", "part is null", ["k2", "k5"]),
        ("droppart_v9", "part = 'b'", ["k1", "k4"]),
        ("oddparts_v9", "part = 'default'", ["k0"]),
        ("oddparts_v9", "part = 'part=x'", ["k2"]),
        ("oddparts_v9", "part is null", []),
    ],
)
def test_columns_that_stand_in_paths_alone_can_be_asked_for(name: str, where: str, keys: list[str]) -> None:
    actual = lakebed.open(unpack("hudi", name)).read(["id"], where=where).read_all()
    assert sorted(actual["id"].to_pylist()) == keys


VALUES = ["2026-01-05", "2026-01-06", "5", "17", "x", "x-1", "z/y", "default", "a%2Fb", "__HIVE_DEFAULT_PARTITION__"]


@pytest.mark.parametrize("fields", [("a",), ("a", "b")])
@pytest.mark.parametrize("hive_style", [False, True])
@pytest.mark.parametrize("url_encoded", [None, False, True])
def test_a_folder_is_passed_over_where_all_below_it_would_be(
    tmp_path: Path, fields: tuple[str, ...], hive_style: bool, url_encoded: bool | None
) -> None:
    for values in itertools.product(VALUES, repeat=len(fields)):
        parts = [f"{name}={text}" if hive_style else text for name, text in zip(fields, values, strict=True)]
        folder = tmp_path.joinpath(*parts)
        folder.mkdir(parents=True)
        (folder / ".hoodie_partition_metadata").write_text("")
    columns, store = PartitionColumns(fields, hive_style, url_encoded, False, True), open_store(tmp_path)
    every = list_partitions(store, ())
    assert len(every) == len(VALUES) ** len(fields)
    fewer = 0
    for kind, value in (
        (pa.string(), "'x'"),
        (pa.string(), "'z/y'"),
        (pa.int32(), "17"),
        (pa.date32(), "'2026-01-06'"),
    ):
        schema = pa.schema([pa.field(name, kind) for name in fields])
        for condition in ("a = {}", "a <> {}", "a < {}", "a >= {}", "a is null", f"{fields[-1]} = {{}}"):
            keeping = columns.keeping(parse_where(condition.format(value), schema), schema)
            assert keeping is not None
            found = list_partitions(store, (), keeping=keeping)
            wanted = set(keeping.kept(every))
            # A deeper path does not tell which field has the slash, though each field begins at its folder or above.
            told = {path for path in wanted if len(fields) == 1 or path.count("/") < len(fields)}
            assert told <= set(found), f"{kind} {condition} {value}"
            assert set(keeping.kept(found)) <= wanted
            fewer += len(found) < len(every)
    assert fewer
