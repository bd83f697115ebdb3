"""Native scans: what Spark's own Parquet reader reads of a table, and that it gives the very rows of the Arrow path."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import DataCleanedError
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.spark import deleted_rows, native_scan
from tests.golden import opening, unpack
from tests.pyspark_release import needs
from tests.spark.tables import as_bag

FILES = {
    ("hudi", "cow_v9"): (3, 0), ("hudi", "mor_v9"): (2, 3), ("hudi", "evo_rename_h015"): (2, 0),
    ("hudi", "droppart_v9"): (3, 0), ("hudi", "timestamps_h015"): (0, 1), ("hudi", "evo_v9"): (3, 3),
    ("paimon", "append_dv"): (2, 0), ("paimon", "pk_fixed"): (12, 0), ("paimon", "evolve"): (1, 0),
    ("paimon", "pk_dv64"): (3, 0),
    ("iceberg", "added_files"): (1, 2), ("iceberg", "codecs"): (4, 1), ("iceberg", "column_defaults_v3"): (5, 0),
    ("iceberg", "dv_v3"): (6, 0), ("iceberg", "eq_deletes_part"): (2, 1), ("iceberg", "types_nested"): (1, 0),
    ("iceberg", "pos_deletes"): (9, 0), ("iceberg", "mixed_formats"): (1, 2),
}  # fmt: skip
"""Golden tables, each with the files that Spark reads itself and the splits that are left for the Arrow path."""
DELETED = {
    ("paimon", "append_dv"), ("paimon", "pk_fixed"), ("paimon", "pk_dv64"),
    ("iceberg", "dv_v3"), ("iceberg", "pos_deletes"), ("iceberg", "mixed_formats"),
}  # fmt: skip
"""Those of them with files of which rows are deleted or replaced."""
DELETED_ROWS = "native scans of files with deleted rows"
"""What Spark needs `createDataFrame` of an Arrow table for. The rows are the same without: a test asks for it last."""


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[native_scan.Choice]]:
    """What reads chose, in their order."""
    made: list[native_scan.Choice] = []

    def kept(*arguments: Any) -> native_scan.Choice:
        made.append(native_scan.choose(*arguments))
        return made[-1]

    monkeypatch.setattr(sys.modules["lakebed.spark.read"], "choose", kept)
    yield made


def scans(frame: DataFrame) -> str:
    """The plan that Spark runs."""
    return str(frame._jdf.queryExecution().executedPlan().toString())  # type: ignore[attr-defined]


def both(
    spark: SparkSession, table: Path, options: Mapping[str, str] = {}, **what: Any
) -> tuple[list[Any], list[Any], DataFrame]:
    """The rows of the Arrow path and of a native read, and the DataFrame of the latter."""
    native = lakebed.spark.read(spark, str(table), options=options, **what)
    arrow = lakebed.spark.read(spark, str(table), options=options, native=False, **what)
    assert [(f.name, f.dataType) for f in arrow.schema] == [(f.name, f.dataType) for f in native.schema]
    return as_bag(arrow.toArrow()), as_bag(native.toArrow()), native


@pytest.mark.parametrize(("table_format", "name"), FILES)
def test_rows_are_those_of_the_arrow_path(
    spark: SparkSession, choices: list[native_scan.Choice], table_format: str, name: str
) -> None:
    table = unpack(table_format, name)
    arrow, native, _ = both(spark, table, opening(table))
    assert native == arrow
    assert native
    if (table_format, name) in DELETED:
        needs("4.0", DELETED_ROWS)
    assert (len(choices[0].paths), len(choices[0].rest.splits)) == FILES[table_format, name]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Paimon table of one file whose folder has a blank, a percent sign and a colon in its name."""
    folder = tmp_path_factory.mktemp("a b%20:c") / "t"
    schema = pa.schema(
        [
            ("id", pa.int64()), ("x.y", pa.string()), ("d", pa.float64()), ("day", pa.date32()), ("n", pa.int32()),
            ("at", pa.timestamp("us")), ("raw", pa.binary()),
        ]
    )  # fmt: skip
    table = lakebed.create(folder, "paimon", schema, options={"file.format": "parquet"})
    nan = float("nan")
    doubles = [nan, 1.0, None, -0.0, 2.5, float("inf")]
    rows = {
        "id": range(6),
        "x.y": ["a", None, "B", "é", "", "a`"],
        "d": doubles,
        "day": range(6),
        "n": [None, *range(5)],
        "at": [0, 1, -1, None, 1_000_000, 10**15],
        "raw": [b"", b"\xff", b"a", None, b"ab", b"\x00"],
    }
    table.write(pa.table({name: pa.array([*values], schema.field(name).type) for name, values in rows.items()}))
    return folder


THROUGH_ARROW = (
    "`x.y` like '_%'", "`x.y` ilike 'A%'", "lower(`x.y`) = 'b'", "id + 1 > 3", "n / 2 > 1", "d in (0, 1)",
    "n * 1000000000000000000 > 0", "d = d",
)  # fmt: skip
"""Predicates without a counterpart that is certain to mean the same."""
WHERE = (
    "d > 1", "not (d > 1)", "d <= 1", "d <> 1", "d = 0", "d is null", "not (d >= 2 or n < 2)", "id in (1, 3, 9)",
    "not (n in (1, 2))", "`x.y` = 'a' or n >= 3", "`x.y` > 'a'", "day between '1970-01-02' and '1970-01-04'",
    "`x.y` <=> null", "`x.y` is distinct from 'a'", "isnan(d)", "not isnan(d)", "n in (1, null)",
    "not (n in (1, null))",
    "`x.y` like 'a%'", "`x.y` like '%`'", "`x.y` not like '%a%'", "`x.y` like 'a'", "`x.y` like '%a%`%'",
    "n + 1 > 3", "2 - n >= n * 2", "3 < n + n", "n * -2 between -6 and -1", "not (n - 1 = 1)", "n < id", "not (n = id)",
    "d * 2 > 2", "n + d > 1", "not (d + 1 > 2)", "1 - d <= 0",
    "at >= '1970-01-01 00:00:00.000001'", "at < timestamp_ntz '1970-01-01'",
    "raw = X'ff'", "raw > 'a'", "raw <> X''",
    *THROUGH_ARROW, "n = null",
)  # fmt: skip
"""The last one rules out every file."""


def test_where_keeps_the_same_rows(spark: SparkSession, numbers: Path, choices: list[native_scan.Choice]) -> None:
    for where in WHERE:
        wanted = as_bag(lakebed.open(numbers).read(["id"], where))
        assert as_bag(lakebed.spark.read(spark, str(numbers), ["id"], where).toArrow()) == wanted, where
    native = [len(choice.paths) for choice in choices]
    through_arrow = [where for where, files in zip(WHERE, native, strict=True) if not files]
    assert through_arrow == [*THROUGH_ARROW, "n = null"], native


def test_spark_sees_into_it(spark: SparkSession, numbers: Path) -> None:
    frame = lakebed.spark.read(spark, str(numbers))
    frame.createOrReplaceTempView("seen_into")
    plan = scans(spark.sql("SELECT `x.y` FROM seen_into WHERE id > 3"))
    assert "ReadSchema: struct<id:bigint,x.y:string>" in plan
    assert "GreaterThan(id,3)" in plan
    assert "FileScan parquet" in plan
    assert "Python" not in plan and "MapInArrow" not in plan
    assert "ReadSchema: struct<>" in scans(spark.sql("SELECT count(*) FROM seen_into"))
    assert "FileScan" not in scans(lakebed.spark.read(spark, str(numbers), native=False))


def test_no_filter_loses_a_nan(spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice]) -> None:
    """Spark takes NaN for the greatest number; the statistics of a file do not have it."""
    schema = pa.schema(
        [("id", pa.int64()), ("d", pa.float64()), ("f", pa.float32()), ("s", pa.struct([("d", pa.float64())]))]
    )
    table = lakebed.create(tmp_path / "t", "paimon", schema, options={"file.format": "parquet"})
    doubles = [float("nan"), 1.0, -0.0, None]
    rows = {"id": range(4), "d": doubles, "f": doubles, "s": [{"d": double} for double in doubles]}
    table.write(pa.table([pa.array([*rows[name]], schema.field(name).type) for name in schema.names], schema=schema))
    frame, through_arrow = (lakebed.spark.read(spark, table.location, native=native) for native in (True, False))
    for where in ("d > 1", "f >= 2", "s.d > 1", "d = double('nan')", "d = 0", "s.d = 0", "f <=> null", "not (d <= 1)"):
        ids = ids_of(through_arrow.where(where))
        assert ids_of(frame.where(where)) == ids, where
        assert ids, where
    assert ids_of(lakebed.spark.read(spark, table.location, where="not (d <= 1)")) == [0]
    assert [len(choice.paths) for choice in choices] == [1, 1]


def test_no_filter_loses_an_instant(spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice]) -> None:
    """Spark cuts a bound to the unit of the file: what is before half a millisecond is not before 0."""
    instant = pa.timestamp("ms", "UTC")
    schema = pa.schema([("id", pa.int64()), ("at", instant), ("s", pa.struct([("at", instant)]))])
    table = lakebed.create(tmp_path / "t", "paimon", schema, options={"file.format": "parquet"})
    instants = [0, 0, 1000]
    rows = {"id": range(3), "at": instants, "s": [{"at": at} for at in instants]}
    table.write(pa.table([pa.array([*rows[name]], schema.field(name).type) for name in schema.names], schema=schema))
    frame = lakebed.spark.read(spark, table.location)
    bound = "timestamp '1970-01-01 00:00:00.0005Z'"
    for where, ids in {f"at < {bound}": [0, 1], f"s.at < {bound}": [0, 1], f"at <> {bound}": [0, 1, 2]}.items():
        assert ids_of(frame.where(where)) == ids, where
    assert len(choices[0].paths) == 1


SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "0",
}


def test_settings_of_a_session_change_no_row(spark: SparkSession, choices: list[native_scan.Choice]) -> None:
    tables = [unpack("hudi", "cow_v9"), unpack("iceberg", "types_nested")]
    wanted = [as_bag(lakebed.open(table).read()) for table in tables]
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    try:
        for key, text in SETTINGS.items():
            spark.conf.set(key, text)
        assert [as_bag(lakebed.spark.read(spark, str(table)).toArrow()) for table in tables] == wanted
        assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == "0"
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
    assert [len(choice.paths) for choice in choices] == [3, 1]


def test_a_file_that_is_gone_is_an_error_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    table = unpack("iceberg", "many_small_hash", into=tmp_path)
    frame = lakebed.spark.read(spark, str(table))
    gone = Path(frame.inputFiles()[0].removeprefix("file://"))
    gone.unlink()
    for act in (frame.count, frame.toArrow):
        with pytest.raises(DataCleanedError, match="since the DataFrame was made") as caught:
            act()
        assert (caught.value.table, caught.value.file) == (str(table), str(gone))
    with pytest.raises(DataCleanedError, match="Read a newer snapshot"):
        lakebed.spark.read(spark, str(table)).count()


def test_a_file_that_is_not_as_stated_goes_the_arrow_way(
    spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice]
) -> None:
    table = lakebed.create(tmp_path / "[t]", "paimon", pa.schema([("id", pa.int64())]))
    table.write(pa.table({"id": [1, 2]}))
    assert lakebed.spark.read(spark, table.location).count() == 2  # Hadoop takes [ ] for a pattern
    plain = lakebed.create(
        tmp_path / "t", "paimon", pa.schema([("id", pa.int64())]), options={"file.format": "parquet"}
    )
    plain.write(pa.table({"id": [1, 2]}))
    (file,) = Path(plain.location).glob("bucket-0/*.parquet")
    assert lakebed.spark.read(spark, plain.location).count() == 2
    pq.write_table(pa.table({"id": [1, 2, 3]}), file)
    with pytest.raises(lakebed.errors.CorruptError):
        lakebed.spark.read(spark, plain.location).count()
    assert [len(choice.paths) for choice in choices] == [0, 1, 0]


def test_parts_that_may_not_be_null(spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice]) -> None:
    inside = pa.struct(
        [pa.field("a", pa.int32(), False), pa.field("b", pa.list_(pa.field("element", pa.string(), False)))]
    )
    schema = pa.schema([pa.field("id", pa.int64(), False), ("s", inside), ("m", pa.map_(pa.string(), inside))])
    value = {"a": 1, "b": ["x"]}
    rows = pa.table({"id": [1, 2], "s": [value, None], "m": [[("k", value)], None]}, schema)
    table = lakebed.create(tmp_path / "t", "paimon", schema, options={"file.format": "parquet"})
    table.write(rows)
    native = lakebed.spark.read(spark, table.location)
    assert as_bag(native.toArrow()) == as_bag(rows)
    table.write(rows, options={"file.format": "avro"})
    mixed = lakebed.spark.read(spark, table.location)
    assert as_bag(mixed.toArrow()) == as_bag(table.read())
    assert mixed.selectExpr("s.a").where("a is not null").count() == 2
    assert [(len(choice.paths), len(choice.rest.splits)) for choice in choices] == [(1, 0), (1, 1)]


NUMBERS = pa.schema([("id", pa.int64()), ("odd", pa.bool_())])


@pytest.fixture(scope="module", params=[2, 3], ids=["position deletes", "deletion vectors"])
def deleted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, set[int]]:
    """An Iceberg table of three files, two of which have one name, and the ids that were not deleted of it: of the
    first file ids at the edges of words, runs and row groups went, of the second all, of the third none."""
    folder = tmp_path_factory.mktemp("deleted")
    options = {"format-version": str(request.param), "write.delete.mode": "merge-on-read"}
    table = lakebed.create(folder / "t", "iceberg", NUMBERS, options=options)
    for part, (name, first, count) in enumerate([("a", 0, 5000), ("a", 5000, 100), ("b", 5100, 3000)]):
        ids = range(first, first + count)
        place = folder / "t" / "data" / str(part) / f"{name}.parquet"
        place.parent.mkdir(parents=True)
        rows = pa.table({"id": ids, "odd": [id % 2 == 1 for id in ids]}, NUMBERS)
        pq.write_table(rows, place, row_group_size=700)
        table.add_files([str(place)])
    gone = {0, 63, 64, 699, 700, 1023, 1024, 2047, 4095, 4999, *range(1500, 1700), *range(5000, 5100)}
    table.write(pa.table({"id": sorted(gone)}), mode="delete", options={"upsert.keys": "id"})
    return table.location, set(range(8100)) - gone


def ids_of(frame: DataFrame) -> list[int]:
    return sorted(frame.select("id").toArrow().column(0).to_pylist())


def test_rows_deleted_by_position(
    spark: SparkSession, deleted: tuple[str, set[int]], choices: list[native_scan.Choice]
) -> None:
    location, live = deleted
    frame = lakebed.spark.read(spark, location)
    assert ids_of(frame) == sorted(live)
    assert ids_of(frame.where("id between 690 and 1100 and odd")) == [
        id for id in sorted(live) if 690 <= id <= 1100 and id % 2
    ]
    assert frame.count() == len(live)
    assert frame.alias("one").join(frame.alias("other"), "id").count() == len(live)
    plan = scans(frame.where("id < 65"))
    assert "LessThan(id,65)" in plan
    assert "Join" not in plan
    assert ids_of(lakebed.spark.read(spark, location, ["odd", "id"], "id >= 4000")) == [
        n for n in sorted(live) if n >= 4000
    ]
    needs("4.0", DELETED_ROWS)
    # The second file has the name of the first, so Spark could not tell their rows.
    assert [(len(choice.paths), len(choice.rest.splits)) for choice in choices] == [(2, 1), (2, 1)]


def test_a_file_is_found_among_many(
    spark: SparkSession,
    deleted: tuple[str, set[int]],
    choices: list[native_scan.Choice],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a scan of more files than a row finds by one look."""
    location, live = deleted
    monkeypatch.setattr(deleted_rows, "_FEW", 0)
    assert ids_of(lakebed.spark.read(spark, location)) == sorted(live)
    needs("4.0", DELETED_ROWS)
    assert len(choices[0].paths) == 2


@pytest.mark.parametrize("count", [1, 2, 9, 128, 129, 3000])
def test_each_file_has_a_slot_of_its_own(count: int) -> None:
    keys = np.array([deleted_rows.key_of(f"{number}-file.parquet") for number in range(count)], np.int64)
    directory = deleted_rows.Directory.of(keys)
    looked_up = keys % directory.width
    if directory.span > 1:
        looked_up = directory.starts[looked_up] + keys % directory.span
    assert looked_up.tolist() == directory.slots.tolist()
    assert len(set(looked_up.tolist())) == count
    assert min(looked_up) >= len(directory.starts)
    assert max(looked_up) < 17 * count, "a directory is much smaller than the bits"


def test_more_deleted_rows_than_are_sent_to_executors(
    spark: SparkSession,
    deleted: tuple[str, set[int]],
    choices: list[native_scan.Choice],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    location, live = deleted
    for name in ("_DELETES_BYTES", "_MOST_STATED"):
        with monkeypatch.context() as patched:
            patched.setattr(native_scan, name, 1)
            assert ids_of(lakebed.spark.read(spark, location)) == sorted(live)
    assert [(len(choice.paths), len(choice.rest.splits)) for choice in choices] == [(1, 2), (1, 2)]


def test_deletes_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    table = unpack("iceberg", "dv_v3", into=tmp_path)
    for vector in table.rglob("*.puffin"):
        vector.write_bytes(vector.read_bytes()[:20])
    with pytest.raises(lakebed.errors.CorruptError):
        lakebed.spark.read(spark, str(table)).count()


def test_names_that_spark_uses_itself(spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice]) -> None:
    names = ["id", "_METADATA", "__lakebed_place"]
    table = lakebed.create(
        tmp_path / "t",
        "iceberg",
        pa.schema([(name, pa.int64()) for name in names]),
        options={"write.delete.mode": "merge-on-read"},
    )
    table.write(pa.table([range(9)] * 3, names))
    table.write(pa.table({"id": [3, 4]}), mode="delete", options={"upsert.keys": "id"})
    frame = lakebed.spark.read(spark, table.location)
    assert frame.where("_METADATA > 2").count() == 4
    assert as_bag(frame.toArrow()) == as_bag(table.read())
    assert len(choices[0].paths) == 0


VERSIONS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("version", pa.int64())])


def versions(ids: range, version: int) -> pa.Table:
    names = [f"{id * 7919 % 10007} in version {version}" for id in ids]
    return pa.table({"id": ids, "name": names, "version": [version] * len(ids)}, VERSIONS)


def merge_on_read(folder: Path, ordering: str = "version") -> lakebed.Table:
    """A Hudi table of one file group with 5000 rows of version 5."""
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.datasource.write.recordkey.field": "id"}
    if ordering:
        options["hoodie.datasource.write.precombine.field"] = ordering
    table = lakebed.create(folder, "hudi", VERSIONS, options=options)
    table.write(versions(range(5000), 5))
    return table


@pytest.mark.parametrize("ordering", ["version", ""])
def test_base_files_under_a_log(
    spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice], ordering: str
) -> None:
    table = merge_on_read(tmp_path / "t", ordering)
    table.write(versions(range(650, 750), 6), mode="upsert")
    table.write(versions(range(700, 800), 7), mode="upsert")
    table.write(versions(range(740, 745), 8), mode="delete")
    table.write(versions(range(4999, 5005), 9), mode="upsert")
    for what in ({}, {"where": "version > 5 or id < 3"}, {"columns": ["name"], "where": "id between 600 and 760"}):
        arrow, native, frame = both(spark, Path(table.location), **what)
        assert native == arrow == as_bag(table.read(**what))
        assert "FileScan parquet" in scans(frame)
    assert lakebed.spark.read(spark, table.location).where("version = 5").count() == 4849
    needs("4.0", DELETED_ROWS)
    paths = [(len(choice.paths), len(choice.rest.splits)) for choice in choices]
    assert paths == [(2, 1), (2, 1), (1, 1), (2, 1)], "new keys lie in a file of their own without a log"
    assert {len(file.positions) for scan in choices[0].scans for file in scan.deleted} == {151}


def test_logs_that_only_their_format_merges(
    spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that came too late; more bytes than are searched; a log that is no small one."""
    late = merge_on_read(tmp_path / "late")
    late.write(versions(range(3), 4), mode="upsert")
    searched = merge_on_read(tmp_path / "searched")
    searched.write(versions(range(3), 6), mode="upsert")
    large = merge_on_read(tmp_path / "large")
    large.write(versions(range(4000), 6), mode="upsert")
    for table, most in ((late, 512 << 20), (searched, 1000), (large, 512 << 20)):
        monkeypatch.setattr(native_scan, "_MOST_SEARCHED", most)
        arrow, native, _ = both(spark, Path(table.location))
        assert native == arrow == as_bag(table.read())
    assert [(len(choice.paths), len(choice.rest.splits)) for choice in choices] == [(0, 1)] * 3
    assert len(as_bag(late.read(where="version = 5"))) == 5000


KEYED = pa.schema(
    [
        ("dt", pa.string()), ("k", pa.string()), ("n", pa.decimal128(12, 2)), ("seq", pa.int32()),
        ("v", pa.struct([("a", pa.int64())])),
    ]
)  # fmt: skip


def keyed(folder: Path, options: Mapping[str, str] = {}) -> lakebed.Table:
    """A Paimon table of one bucket per partition, whose files stay as they are written."""
    options = {"bucket": "1", "write-only": "true", "file.format": "parquet", **options}
    return lakebed.create(folder, "paimon", KEYED, primary_key=["dt", "n", "k"], partition_by=["dt"], options=options)


def entries(ids: range, seq: int | None, note: int) -> pa.Table:
    rows = [
        {"dt": "d", "k": f"k{id % 7}", "n": f"{id}.50", "seq": seq, "v": None if id % 5 == 0 else {"a": note}}
        for id in ids
    ]
    columns = {name: pa.array([row[name] for row in rows], KEYED.field(name).type) for name in ("dt", "k", "seq", "v")}
    numbers = pa.array([row["n"] for row in rows]).cast(pa.decimal128(12, 2))
    return pa.table([numbers if name == "n" else columns[name] for name in KEYED.names], schema=KEYED)


WHERES: tuple[Mapping[str, Any], ...] = (
    {}, {"where": "seq < 6"}, {"where": "k >= 'k3' and k < 'k6'"},
    {"columns": ["v"], "where": "seq is null or seq > 6"},
)  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{}, {"sequence.field": "seq"}, {"sequence.field": "seq", "sequence.field.sort-order": "descending"}],
    ids=["arrival", "sequence field", "descending"],
)
def test_files_whose_keys_overlap(
    spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice], options: dict[str, str]
) -> None:
    """The newest version of a key may lie in any file, and may be a delete."""
    table = keyed(tmp_path / "t", options)
    table.write(entries(range(2000), 5, 1))
    table.write(entries(range(900, 1100), 7, 2))
    table.write(entries(range(1000, 1010), None, 3))
    table.write(entries(range(1050, 1060), 6, 4).append_column("_row_kind", pa.array(["-D"] * 10)))
    table.write(entries(range(1990, 2010), 5, 5))
    frames = []
    for what in WHERES:
        arrow, native, frame = both(spark, tmp_path / "t", **what)
        assert native == arrow == as_bag(table.read(**what)), what
        frames.append(frame)
    frame = lakebed.spark.read(spark, table.location)
    assert frame.count() == len(as_bag(table.read()))
    # A filter on the version of a key that lost must not show it.
    assert frame.where("seq = 5 and v.a = 1").count() == len(as_bag(table.read(where="seq = 5 and v.a = 1")))
    needs("4.0", DELETED_ROWS)
    for what, frame in zip(WHERES, frames, strict=True):
        assert ("FileScan parquet" in scans(frame)) == ("MapInArrow" not in scans(frame)) == ("columns" not in what)
    # Where columns are named, Python merges them alone.
    assert [len(choice.paths) > 0 for choice in choices] == [*("columns" not in what for what in WHERES), True]
    assert [len(choice.rest.splits) for choice in choices] == [*("columns" in what for what in WHERES), 0]


def test_files_of_other_formats_among_merged_ones(
    spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice]
) -> None:
    """Avro files beside Parquet files: their merged rows come from Python, unless a row of them loses to Parquet's."""
    table = keyed(tmp_path / "t", {"sequence.field": "seq"})
    table.write(entries(range(5000), 5, 1))
    table.write(entries(range(1000, 1040), 7, 2), options={"file.format": "avro"})
    table.write(entries(range(1020, 1060), 6, 3), options={"file.format": "avro"})
    arrow, native, frame = both(spark, tmp_path / "t")
    assert native == arrow == as_bag(table.read())
    assert frame.where("seq = 5").count() == 4940
    table.write(entries(range(3000, 3001), 4, 4), options={"file.format": "avro"})
    arrow, native, frame = both(spark, tmp_path / "t")
    assert native == arrow == as_bag(table.read())
    assert frame.where("seq = 5").count() == 4940
    needs("4.0", DELETED_ROWS)
    assert [(len(choice.paths), len(choice.rest.splits)) for choice in choices] == [(1, 1), (0, 1)]


def test_merges_that_only_their_format_does(
    spark: SparkSession, tmp_path: Path, choices: list[native_scan.Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows made of several; more bytes or rows than are searched; a column that was of another type; more ways of
    storing files than are scanned; rows that Spark cannot tell, which are not even searched."""
    for name, options in {
        "aggregation": {"merge-engine": "aggregation", "fields.seq.aggregate-function": "sum"},
        "partial": {"merge-engine": "partial-update"},
        "bytes": {}, "rows": {}, "type": {}, "scans": {}, "untold": {},
    }.items():  # fmt: skip
        table = keyed(tmp_path / name, options)
        table.write(entries(range(100), 5, 1))
        if name == "type":
            table.alter(lakebed.widen("seq", "STRING"))
        if name == "scans":
            table.alter(lakebed.add_column("new", "int32"))
        newer = entries(range(50, 150), None, 2)
        table.write(newer.set_column(3, "seq", newer["seq"].cast(pa.string())) if name == "type" else newer)
        with monkeypatch.context() as patched:
            patched.setattr(native_scan, "_MOST_SEARCHED", 1000 if name == "bytes" else 512 << 20)
            patched.setattr(native_scan, "_MOST_SEARCHED_ROWS", 150 if name == "rows" else 32 << 20)
            patched.setattr(native_scan, "_MOST_SCANS", 1 if name == "scans" else 32)
            if name == "untold":
                patched.setattr(native_scan, "can_be_told", lambda *_: False)
                patched.setattr(BucketReader, "live", pytest.fail)
            arrow, native, _ = both(spark, tmp_path / name)
        assert native == arrow == as_bag(table.read())
    assert [(len(choice.paths), len(choice.rest.splits)) for choice in choices] == [(0, 1)] * 7
