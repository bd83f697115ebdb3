"""Partition values of timestamp-based key generators, as release 1.1.1 makes them.

`timestamp_partitions.json` has options (without `hoodie.keygen.timebased.`), a value with its kind in front (long,
double, float, decimal `b`, date `t`, text `s`, null `n`), and the value that `TimestampBasedAvroKeyGenerator` of
release 1.1.1 gave in the time zone America/New_York; null where it gave an error. 0.15.0 and 1.0.2 give the same,
without EPOCHMICROSECONDS in 0.15.0.
"""

import datetime
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, OptionError, SchemaError, UnsupportedError, UsageError
from lakebed.formats.hudi.timestamp_partitions import SETTINGS, TimestampPartitions

CASES = json.loads((Path(__file__).parent / "timestamp_partitions.json").read_text())
PREFIX = "hoodie.keygen.timebased."
SECONDS = {f"{PREFIX}timestamp.type": "UNIX_TIMESTAMP", f"{PREFIX}output.dateformat": "yyyy/MM/dd"}
COLUMNS = {"id": "string", "part": "string", "at": "int64"}


def made(options: dict[str, str]) -> TimestampPartitions:
    return TimestampPartitions.of({f"{PREFIX}{key}": text for key, text in options.items()}, SETTINGS.parse({}), "t")


def column(value: str, texts: bool) -> pa.Array:
    kind, text = value[0], value[1:]
    if kind == "n":
        return pa.nulls(1, pa.string() if texts else pa.int64())
    if kind in "il":
        return pa.array([int(text)], pa.int64())
    if kind in "df":
        return pa.array([float(text)], pa.float64() if kind == "d" else pa.float32())
    if kind == "b":
        return pa.array([decimal.Decimal(text)], pa.decimal128(38, 2))
    return pa.array([datetime.date.fromisoformat(text) if kind == "t" else text])


def test_values_are_those_that_release_1_1_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    assert len(CASES) > 60
    for options, value, wanted in CASES:
        times = made(options)
        try:
            found = times.values(column(value, bool(times.formats)))[0].as_py()
        except LakebedError:
            found = None
        assert found == wanted, (options, value)


def test_nulls_among_values_are_at_their_places() -> None:
    times = made({"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "days", "output.dateformat": "D",
                  "timezone": "UTC"})  # fmt: skip
    assert times.values(pa.array([None, 10, None, 3, None])).to_pylist() == ["2", "11", "2", "4", "2"]
    assert times.values(pa.nulls(2, pa.int64())).to_pylist() == ["2", "2"]
    assert times.values(pa.array([], pa.int64())).to_pylist() == []


def test_a_time_that_clocks_skip_is_refused() -> None:
    times = made({"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-MM-dd HH:mm", "output.dateformat": "HH",
                  "timezone": "Europe/Berlin"})  # fmt: skip
    assert times.values(pa.array(["2024-10-27 02:30"])).to_pylist() == ["02"]
    with pytest.raises(SchemaError, match="clocks were put forward"):
        times.values(pa.array(["2024-03-31 02:30"]))


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_a_table_keeps_the_settings_of_its_times(tmp_path: Path, version: str) -> None:
    options = {
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        **SECONDS,
        "hoodie.deltastreamer.keygen.timebased.timezone": "UTC",
    }
    table = lakebed.create(tmp_path, "hudi", COLUMNS, "id", "at", options)
    rows = pa.table({"id": ["a", "b", "c"], "part": ["x"] * 3, "at": pa.array([1_600_000_000, None, -1])})
    for _ in range(2):
        table.write(rows, mode="upsert")
    found = table.read().read_all().sort_by("id")
    assert found["_hoodie_partition_path"].to_pylist() == ["2020/09/13", "1970/01/01", "1969/12/31"]
    assert found["_hoodie_record_key"].to_pylist() == ["a", "b", "c"]
    assert found.num_rows == 3
    assert lakebed.open(tmp_path).read(where="at = -1").read_all()["id"].to_pylist() == ["c"]
    with pytest.raises(UsageError, match="does not agree with the table"):
        table.write(rows, options={f"{PREFIX}output.dateformat": "yyyy"})


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_custom_key_generator_makes_each_part_by_its_kind(tmp_path: Path, version: str) -> None:
    options = {
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        **SECONDS,
        f"{PREFIX}timezone": "GMT+05:30",
    }
    table = lakebed.create(tmp_path, "hudi", COLUMNS, ["id", "part"], ["part:simple", "at:TIMESTAMP"], options)
    table.write(pa.table({"id": ["a", "b"], "part": ["x/y", ""], "at": [1_600_000_000, 0]}))
    found = lakebed.open(tmp_path).read().read_all().sort_by("id")
    assert found["_hoodie_partition_path"].to_pylist() == [
        "part=x%2Fy/at=2020%2F09%2F13", "part=__HIVE_DEFAULT_PARTITION__/at=1970%2F01%2F01",
    ]  # fmt: skip
    assert found["_hoodie_record_key"].to_pylist() == ["id:a,part:x/y", "id:b,part:__empty__"]
    text = (tmp_path / ".hoodie" / "hoodie.properties").read_text()
    assert ("partition.fields=part,at" in text) == (version == "6")


def test_a_global_delete_key_generator_names_the_column_and_makes_no_partition(tmp_path: Path) -> None:
    generator = {"hoodie.datasource.write.keygenerator.type": "GLOBAL_DELETE"}
    table = lakebed.create(tmp_path, "hudi", COLUMNS, "id", options=generator)
    table.write(pa.table({"id": ["a"], "part": ["x"], "at": [1]}))
    found = table.read().read_all()
    assert found["_hoodie_record_key"].to_pylist() == ["id:a"]
    assert found["_hoodie_partition_path"].to_pylist() == [""]


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({f"{PREFIX}output.dateformat": ""}, OptionError, "needs to know"),
        ({f"{PREFIX}timestamp.type": "WEEKS"}, OptionError, "expected one of"),
        ({f"{PREFIX}timezone": "Foo/Bar"}, OptionError, "not a time zone"),
        ({f"{PREFIX}output.dateformat": "yyyy-bb"}, UsageError, "unknown letter b"),
        ({f"{PREFIX}output.dateformat": "yyyy z"}, UnsupportedError, "field 'z'"),
        ({f"{PREFIX}timestamp.type": "DATE_STRING"}, OptionError, "need a format"),
        (
            {f"{PREFIX}timestamp.type": "MIXED", f"{PREFIX}input.dateformat": "yyyy"},
            SchemaError,
            "is int64, which makes no partition",
        ),
        ({"hoodie.keygen.datetime.parser.class": "com.Own"}, UnsupportedError, "com.Own"),
    ],
)
def test_a_table_that_could_not_be_written_is_not_created(
    tmp_path: Path, more: dict[str, str], error: type[Exception], words: str
) -> None:
    options = {"hoodie.datasource.write.keygenerator.type": "TIMESTAMP", **SECONDS, **more}
    with pytest.raises(error, match=words):
        lakebed.create(tmp_path / "t", "hudi", COLUMNS, "id", "at", options)
    assert not (tmp_path / "t").exists()


def test_the_kinds_of_fields_come_with_the_write_where_the_table_lacks_them(tmp_path: Path) -> None:
    options = {"hoodie.write.table.version": "6", **SECONDS, f"{PREFIX}timezone": "UTC"}
    lakebed.create(tmp_path, "hudi", COLUMNS, "id", ["part:SIMPLE", "at:TIMESTAMP"], options)
    file = tmp_path / ".hoodie" / "hoodie.properties"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if "partitionpath.field" not in line and "timebased" not in line))
    rows = pa.table({"id": ["a"], "part": ["x"], "at": [0]})
    with pytest.raises(OptionError, match="does not say which of its partition fields hold times"):
        lakebed.open(tmp_path).write(rows)
    kinds = {"hoodie.datasource.write.partitionpath.field": "part:SIMPLE,at:TIMESTAMP", **SECONDS}
    lakebed.open(tmp_path).write(rows, options={**kinds, f"{PREFIX}timezone": "UTC"})
    assert lakebed.open(tmp_path).read().read_all()["_hoodie_partition_path"].to_pylist() == ["x/1970/01/01"]
