"""Tables that lakebed brought in, beside Iceberg's own engine: files added by it and by `add_files` have the same
metrics, and Spark, pyiceberg and DuckDB read snapshots, migrated folders, registered tables and copies, and go on."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.formats.iceberg.codec.puffin import read_footer
from lakebed.formats.iceberg.codec.theta import Sketch, decoded
from lakebed.kernel.inflate import inflated
from tests.interop.hudi_ask import ask
from tests.interop.iceberg_ask import ENGINES, Rows, spark_sql
from tests.unit.iceberg.add_files.test_run import ids, put, rows
from tests.unit.iceberg.relocate.test_copy import copied, prints
from tests.unit.iceberg.relocate.test_run import lived
from tests.unit.iceberg.relocate.test_run import rows as of_copy

pytestmark = pytest.mark.timeout(1800)
COLUMNS = "id bigint, x double, name string, at timestamp_ntz, d date, s struct<a: int, b: string>, l array<bigint>"
AT = datetime.datetime(2026, 11, 1, 12)


def figures(name: str) -> str:
    bounds = ", ".join(f"hex(lower_bounds[{id}]), hex(upper_bounds[{id}])" for id in (1, 2, 3, 4, 5, 9))
    counts = ", ".join(f"value_counts[{id}], null_value_counts[{id}]" for id in (1, 2, 3, 4, 5, 9, 10))
    return (
        f"SELECT partition.dt, record_count, split_offsets, {bounds}, {counts} FROM {name}.files ORDER BY partition.dt"
    )


def partition_figures(table: Any) -> list[dict[str, Any]]:
    """The rows of the partition statistics of a table's newest snapshot, without who wrote a snapshot last."""
    metadata = lakebed.open(table.location).table_metadata  # type: ignore[attr-defined]
    head = metadata.head().snapshot_id
    (entry,) = (one for one in metadata.document["partition-statistics"] if one["snapshot-id"] == head)
    rows: list[dict[str, Any]] = pq.read_table(entry["statistics-path"]).to_pylist()
    return rows


def landing(folder: Path) -> Path:
    """Files as Spark writes them: timestamps as INT96, a wider type in the newer file, and a null partition."""
    for number, (day, kind) in enumerate((("2026-11-01", pa.int32()), ("__HIVE_DEFAULT_PARTITION__", pa.int64()))):
        (folder / f"dt={day}" / "hour=07").mkdir(parents=True)
        table = pa.table({"id": pa.array([number], kind), "at": pa.array([AT], pa.timestamp("us"))})
        pq.write_table(
            table, folder / f"dt={day}" / "hour=07" / "a.parquet", use_deprecated_int96_timestamps=True
        )  # fmt: skip
    return folder


@dataclass
class Told:
    """What Spark answered, and what lakebed made before."""

    folder: Path
    options: dict[str, str]
    copy_before: dict[str, str]
    answers: dict[str, list[Rows]]
    newest: dict[str, str]
    sketches: dict[int, tuple[str, Sketch]]
    partitions: list[dict[str, Any]]


TYPED = {
    "flag": [True, False, True], "small": pa.array([1, -2, 1], pa.int32()), "id": [2**40, -1, None],
    "f": pa.array([1.5, -0.0, 1.5], pa.float32()), "x": [1.5, -2.25, 0.0], "name": ["a", "", "a longer text of words"],
    "raw": [b"\x00", b"\xff" * 17, None], "day": [AT.date(), None, None], "at": pa.array([AT] * 3, pa.timestamp("us")),
    "moment": pa.array([AT, None, AT], pa.timestamp("us", "UTC")),
    "price": pa.array([Decimal("1.28"), Decimal("-1.29"), Decimal("123456789.01")], pa.decimal128(20, 2)),
    "s": [{"a": 1}, {"a": 2}, None],
}  # fmt: skip


def sketches(table: Any) -> dict[int, tuple[str, Sketch]]:
    """By field id, the figure and the sketch in the statistics of a table's newest snapshot."""
    metadata = lakebed.open(table.location).table_metadata  # type: ignore[attr-defined]
    (entry,) = metadata.document["statistics"]
    assert entry["snapshot-id"] == metadata.head().snapshot_id
    data = Path(entry["statistics-path"]).read_bytes()
    assert len(data) == entry["file-size-in-bytes"]
    blobs, _ = read_footer(data[-entry["file-footer-size-in-bytes"] :], "")
    assert [(b.type, list(b.fields), dict(b.properties)) for b in blobs] == [
        (b["type"], b["fields"], b["properties"]) for b in entry["blob-metadata"]
    ]
    packed = {blob.fields[0]: data[blob.offset : blob.offset + blob.length] for blob in blobs}
    return {
        blob.fields[0]: (blob.properties["ndv"], decoded(bytes(inflated(packed[blob.fields[0]], "zstandard")), ""))
        for blob in blobs
    }


@pytest.fixture(scope="module", params=ENGINES)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("brought")
    version = {"4.0": 2, "4.1": 3}[request.param]
    landings = {name: folder / "db" / name / "landing" for name in ("ours", "theirs")}
    for place in landings.values():
        for number, day in enumerate(("2026-11-01", "2026-11-02", "__HIVE_DEFAULT_PARTITION__")):
            put(place / f"dt={day}" / "a.parquet", rows(10 * number))
    schema = rows(0).schema.append(pa.field("dt", pa.date32()))
    ours: Any = lakebed.create(folder / "db" / "ours", "iceberg", schema, (), ["dt"])
    ours.add_files(str(landings["ours"]))
    original: Any = lived(folder / "original", version)
    done = original.rewrite_table_path(str(folder / "db" / "copy"), str(folder / "stage"))
    copied(done)
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}
    options = {f"lakebed.catalog.{key}": value for key, value in catalog.items()}
    table_options = {"format-version": str(version)}
    source = landing(folder / "source")
    lakebed.snapshot(source, folder / "db" / "trial", options=table_options)
    lakebed.snapshot(source, "ice:db.trial", options={**options, **table_options})
    lakebed.migrate(landing(folder / "db" / "moved"), options=table_options)
    loose: Any = lakebed.create(folder / "loose", "iceberg", {"id": "int64"}, options=table_options)
    loose.write(pa.table({"id": [1]}))
    newest = {
        name: lakebed.open(folder / "db" / name).operations.load().location for name in ("trial", "moved", "copy")  # type: ignore[attr-defined]
    }  # fmt: skip
    lakebed.register("ice:db.loose", loose.operations.load().location, options=options)
    before = prints(folder / "original")
    typed: Any = lakebed.create(folder / "db" / "typed", "iceberg", pa.table(TYPED).schema, options=table_options)
    typed.write(pa.table(TYPED))
    typed.write(pa.table({**TYPED, "id": [7, 8, 9]}))
    typed.compute_table_stats()
    of_ours = sketches(typed)
    figures_of = {}
    for name in ("parts", "sums"):  # the same history twice: lakebed sums up one, Spark the other
        parts: Any = lived(folder / "db" / name, 3 if version == 3 else 2)
        figures_of[name] = parts
    figures_of["parts"].compute_partition_stats(snapshot=int(figures_of["parts"].history()[1].time))
    assert figures_of["parts"].compute_partition_stats().incremental
    read = "SELECT id, date_format(at, 'yyyy-MM-dd HH:mm'), cast(dt AS string), hour FROM {} ORDER BY id"
    write = "INSERT INTO {} VALUES (9, TIMESTAMP '2026-11-02 00:00:00', DATE '2026-11-02', '08')"
    of_partitions = partition_figures(figures_of["parts"])
    answers = spark_sql(folder, {
        "theirs": [
            f"CREATE TABLE had.db.theirs ({COLUMNS}, dt date) USING iceberg PARTITIONED BY (dt)",
            f"CALL had.system.add_files(table => 'db.theirs', source_table => '`parquet`.`{landings['theirs']}`')",
            figures("had.db.theirs"),
        ],
        "ours": [
            figures("had.db.ours"),
            "SELECT id, dt, s.a FROM had.db.ours ORDER BY id",
            "DELETE FROM had.db.ours WHERE id = 11",
            "CALL had.system.rewrite_data_files(table => 'db.ours', options => map('rewrite-all', 'true'))",
            f"CALL had.system.add_files(table => 'db.ours', source_table => '`parquet`.`{landings['theirs']}`')",
        ],
        "copy": [
            *(f"SELECT id, x FROM had.db.copy VERSION AS OF {instant.time} ORDER BY id, x"
              for instant in original.history()),
            "SELECT id FROM had.db.copy VERSION AS OF 'before' ORDER BY id",
            "INSERT INTO had.db.copy VALUES (500, 'p', 'a')",
            "DELETE FROM had.db.copy WHERE id = 1",
            "CALL had.system.rewrite_data_files(table => 'db.copy', options => map('rewrite-all', 'true'))",
            "CALL had.system.expire_snapshots(table => 'db.copy', older_than => TIMESTAMP '2100-01-01')",
        ],
        "trial": [read.format("had.db.trial"), write.format("had.db.trial"), read.format("had.db.trial"),
                  read.format("ice.db.trial"), write.format("ice.db.trial"), read.format("ice.db.trial")],
        "moved": [read.format("had.db.moved"), write.format("had.db.moved"),
                  "DELETE FROM had.db.moved WHERE id = 0", read.format("had.db.moved")],
        "typed": ["SELECT count(*) FROM had.db.typed", "CALL had.system.compute_table_stats('db.typed')"],
        "sums": ["CALL had.system.compute_partition_stats('db.sums')"],
        "parts": ["DELETE FROM had.db.parts WHERE id = 2", "CALL had.system.compute_partition_stats('db.parts')"],
        "loose": ["SELECT id FROM ice.db.loose", "INSERT INTO ice.db.loose VALUES (2)"],
    }, request.param)  # fmt: skip
    return Told(folder, options, before, answers, newest, of_ours, of_partitions)


def test_added_files_are_those_of_spark(told: Told) -> None:
    answers, landing = told.answers, told.folder / "db" / "theirs" / "landing"
    assert answers["ours"][0] == answers["theirs"][-1]
    assert [row[0] for row in answers["ours"][1]] == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert [row[2] for row in answers["ours"][1]] == [0, 1, 2, 3] * 3
    table: Any = lakebed.open(told.folder / "db" / "ours", {"lakebed.storage.places": str(landing)})
    assert len(ids(table)) == 23


def test_spark_reads_every_state_of_a_copy_and_goes_on(told: Told) -> None:
    original: Any = lakebed.open(told.folder / "original")
    history = original.history()
    for instant, found in zip(history, told.answers["copy"], strict=False):
        ours = original.read(["id", "x"], as_of=int(instant.time)).read_all().to_pylist()
        assert sorted([row["id"], row["x"]] for row in ours) == sorted(found)
    assert prints(told.folder / "original") == told.copy_before
    table: Any = lakebed.open(told.folder / "db" / "copy")
    now = sorted(table.read(["id"]).read_all()["id"].to_pylist())
    assert 500 in now and 1 not in now
    table.write(of_copy(900))
    assert len(table.read(["id"]).read_all()) == len(now) + 6


def test_spark_reads_folders_as_tables_and_goes_on(told: Told) -> None:
    first = [[0, "2026-11-01 12:00", "2026-11-01", "07"], [1, "2026-11-01 12:00", None, "07"]]
    added = [9, "2026-11-02 00:00", "2026-11-02", "08"]
    by_path, _, after, in_catalog, _, after_there = told.answers["trial"]
    assert by_path == in_catalog == first and after == after_there == [*first, added]
    read, _, _, left = told.answers["moved"]
    assert read == first and left == [first[1], added]
    places = {"lakebed.storage.places": str(told.folder / "source")}
    tables = {
        "trial": lakebed.open(told.folder / "db" / "trial", places),
        "moved": lakebed.open(told.folder / "db" / "moved"),
        "there": lakebed.open("ice:db.trial", {**told.options, **places}),
    }
    found = {name: sorted(table.read(["id"]).read_all()["id"].to_pylist()) for name, table in tables.items()}
    assert found == {"trial": [0, 1, 9], "moved": [1, 9], "there": [0, 1, 9]}
    assert told.answers["loose"][0] == [[1]]
    loose = lakebed.open("ice:db.loose", told.options)
    loose.write(pa.table({"id": [3]}))
    assert sorted(loose.read().read_all()["id"].to_pylist()) == [1, 2, 3]


def test_statistics_are_those_of_spark(told: Told) -> None:
    table: Any = lakebed.open(told.folder / "db" / "typed")
    theirs = sketches(table)
    assert {id: figure for id, (figure, _) in theirs.items()} == {
        id: figure for id, (figure, _) in told.sketches.items()
    }
    for id, (_, sketch) in theirs.items():
        ours = told.sketches[id][1]
        assert (sketch.theta, sketch.hashes.tolist()) == (ours.theta, ours.hashes.tolist()), id
    assert len(theirs) == len(TYPED) - 1
    table.write(pa.table(TYPED))
    table.expire(options={"retain-last": 1, "older-than": "2100-01-01T00:00:00"})
    assert not lakebed.open(table.location).table_metadata.statistics_files  # type: ignore[attr-defined]
    assert not [*Path(table.location, "metadata").glob(f"{table.history()[0].time}*.stats")]


def test_partition_statistics_are_those_of_spark(told: Told) -> None:
    """Spark sums up one of two tables with the same history, and goes on from our file of the other."""
    theirs = partition_figures(lakebed.open(told.folder / "db" / "sums"))
    assert without_times(told.partitions) == without_times(theirs)
    table: Any = lakebed.open(told.folder / "db" / "parts")
    of_spark = partition_figures(table)
    for entry in table.table_metadata.document["partition-statistics"]:
        Path(entry["statistics-path"]).rename(f"{entry['statistics-path']}.away")
    table.write(of_copy(700))
    done = table.compute_partition_stats()
    assert not done.incremental
    counts = {row["partition"]["part"]: row["data_record_count"] for row in of_spark}
    assert {row["partition"]["part"]: row["data_record_count"] for row in partition_figures(table)} == {
        part: count + 3 for part, count in counts.items()
    }


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures without when, and by which snapshot, a partition was changed: the histories have other ones; bytes
    are those of footers with other paths."""
    gone = ("last_updated_at", "last_updated_snapshot_id", "total_data_file_size_in_bytes")
    return [{name: value for name, value in row.items() if name not in gone} for row in rows]


def test_other_readers_see_the_same(told: Told, tmp_path: Path) -> None:
    wanted = {"trial": [0, 1], "moved": [0, 1]}
    requests = []
    for name, numbers in wanted.items():
        place = told.newest[name]
        scan = StaticTable.from_metadata(place).scan(selected_fields=("id",))  # in version 3 it takes no INT96
        assert sorted(scan.to_arrow()["id"].to_pylist()) == numbers
        requests.append(json.dumps({"name": name, "metadata": place, "to": str(tmp_path / name)}))
    for answer in ask("LAKEBED_INTEROP_PYTHON", "duckdb_peer.py", [], requests):
        assert not answer["error"], answer["error"]
        with pa.OSFile(str(tmp_path / answer["name"])) as source:
            assert sorted(pa.ipc.open_stream(source).read_all()["id"].to_pylist()) == wanted[answer["name"]]
