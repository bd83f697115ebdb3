"""Writing and reading back: keys, kinds, sequence, partitions, and data that does not fit."""

import pickle
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CommitConflictError, OptionError, SchemaError, UnsupportedError, UsageError
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.manifests import changelog_lists, entries_of, live_files, manifest_metas
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.table import PaimonTable
from lakebed.model.commit import Outcome
from lakebed.verbs.write import Mode
from tests.tables.paimon.small import SCHEMA, Make, contents, rows


def files(table: lakebed.Table) -> list[ManifestEntry]:
    history = History(table.store)
    return live_files(table.store, history.latest())


def test_the_last_row_of_a_key_wins(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "old", 1), ("a", 2, "two", 2), ("a", 1, "new", 3), ("b", 1, "other", 4)))
    assert contents(table) == [("a", 1, "new", 3), ("a", 2, "two", 2), ("b", 1, "other", 4)]
    result = table.write(rows(("a", 2, None, None), ("b", 2, "x", 5)), "upsert")
    assert result.outcome is Outcome.COMMITTED
    assert result.snapshot_id == 2
    assert contents(table) == [("a", 1, "new", 3), ("a", 2, None, None), ("b", 1, "other", 4), ("b", 2, "x", 5)]
    assert contents(table, as_of=1) == [("a", 1, "new", 3), ("a", 2, "two", 2), ("b", 1, "other", 4)]


def test_kinds_in_every_spelling(make: Make) -> None:
    table = make()
    table.write(
        rows(
            ("a", 1, "v", 1), ("a", 2, "v", 1), ("a", 3, "v", 1), ("a", 4, "v", 1), ("a", 5, "v", 1), ("a", 6, "v", 1),
            kinds=["I", "+i", "U", "+U", "i", "+I"],
        )
    )  # fmt: skip
    assert len(contents(table)) == 6
    table.write(
        rows(("a", 1, "", 0), ("a", 2, "", 0), ("a", 3, "", 0), ("a", 4, "w", 0), kinds=["D", "-d", "-U", "+u"])
    )
    assert [row[1:3] for row in contents(table)] == [(4, "w"), (5, "v"), (6, "v")]


@pytest.mark.parametrize("kind", [None, "X", "+I ", ""])
def test_another_kind_names_the_row(make: Make, kind: str | None) -> None:
    table = make()
    with pytest.raises(SchemaError, match="id=7"):
        table.write(rows(("a", 7, "v", 1), kinds=[kind]))  # type: ignore[list-item]  # null on purpose
    assert table.history() == []


def test_delete_mode_takes_the_keys_away(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1)))
    table.write(pa.table({"dt": ["a"], "id": pa.array([1], pa.int64())}), "delete")
    assert contents(table) == [("a", 2, "v", 1)]


@pytest.mark.parametrize(("options", "left"), [({}, []), ({"ignore__delete": "true"}, [("a", 1, "v", 1)])])
def test_ignore_delete_sees_the_kind_column(make: Make, options: dict[str, str], left: list[Any]) -> None:
    table = make(**options)
    table.write(rows(("a", 1, "v", 1), ("a", 1, "v", 1), kinds=["+I", "-D"]))
    assert contents(table) == left


def test_rowkind_field_stays_a_column(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("op", pa.string())])
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["id"], options={"bucket": "1", "rowkind.field": "op"})
    table.write(pa.table({"id": [1, 2], "op": ["+I", "u"]}))
    table.write(pa.table({"id": [1], "op": ["-D"]}))
    assert table.read().read_all().to_pylist() == [{"id": 2, "op": "u"}]


def test_sequence_field_decides_before_arrival(make: Make) -> None:
    table = make(sequence_field="n")
    table.write(rows(("a", 1, "late", 9), ("a", 1, "early", 3), ("a", 2, "x", None), ("a", 2, "y", 1)))
    table.write(rows(("a", 1, "between", 5)))
    assert contents(table) == [("a", 1, "late", 9), ("a", 2, "y", 1)]
    down = make(sequence_field="n", sequence_field_sort__order="descending")
    down.write(rows(("a", 1, "late", 9), ("a", 1, "early", 3)))
    assert contents(down) == [("a", 1, "early", 3)]


def test_sequence_numbers_go_on_in_each_bucket(make: Make) -> None:
    table = make(bucket="1")
    table.write(rows(*(("a", i, "v", 1) for i in range(5))))
    table.write(rows(("a", 1, "v", 1), ("a", 1, "w", 2)))
    first, second = (entry.file for entry in files(table))
    assert (first.min_sequence_number, first.max_sequence_number) == (0, 4)
    assert (second.min_sequence_number, second.max_sequence_number) == (6, 6)
    assert second.row_count == 1


def test_one_file_a_bucket_and_the_buckets_of_the_row(make: Make) -> None:
    table = make(bucket="4")
    table.write(rows(*((f"p{i % 3}", i, "v", i) for i in range(200))))
    found = Counter((entry.partition, entry.bucket) for entry in files(table))
    assert len(found) == 12
    assert set(found.values()) == {1}
    assert all(entry.total_buckets == 4 for entry in files(table))


def test_files_end_at_the_target_size(make: Make) -> None:
    table = make(bucket="1", target__file__size="256 kb", partition_by=(), primary_key=("id",))
    payload = pa.array([f"{i * 2654435761 % 2**32:08x}" * 6 for i in range(40_000)])
    data = pa.table(
        {
            "dt": pa.nulls(40_000, pa.string()),
            "id": pa.array(range(40_000)),
            "v": payload,
            "n": pa.nulls(40_000, pa.int32()),
        }
    )
    table.write(data)
    sizes = [entry.file.file_size for entry in files(table)]
    total = sum(sizes)
    assert len(sizes) == -(-total // (256 << 10))
    assert table.read().read_all().num_rows == 40_000


def test_a_small_write_buffer_writes_early_and_loses_nothing(make: Make) -> None:
    table = make(write__buffer__size="4 kb")
    batches = rows(*((f"p{i % 2}", i % 500, f"v{i}", i) for i in range(2_000))).to_batches(100)
    table.write(pa.RecordBatchReader.from_batches(SCHEMA, batches))
    assert len(contents(table)) == 500
    assert {row[3] for row in contents(table)} == set(range(1_500, 2_000))


def test_null_and_odd_partition_values_share_no_rows(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.string()), ("d", pa.date32()), ("v", pa.int32())])
    table = lakebed.create(
        tmp_path / "t", "paimon", schema, partition_by=["p", "d"], options={"bucket": "1", "bucket-key": "v"}
    )
    values = [None, "", " ", "a/b=c%", "ü x"]
    data = pa.table(
        {
            "p": values,
            "d": pa.array([0, None, 19723, 1, 2], pa.int32()).cast(pa.date32()),
            "v": pa.array(range(5), pa.int32()),
        }
    )
    table.write(data)
    assert table.read().read_all().sort_by("v").to_pylist() == data.sort_by("v").to_pylist()
    folders = {path.relative_to(tmp_path / "t").as_posix() for path in (tmp_path / "t").glob("p=*/d=*")}
    assert folders == {
        "p=__DEFAULT_PARTITION__/d=0",
        "p=__DEFAULT_PARTITION__/d=__DEFAULT_PARTITION__",
        "p=__DEFAULT_PARTITION__/d=19723",
        "p=a%2Fb%3Dc%25/d=1", "p=ü x/d=2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pa.table({"dt": ["a"], "id": [1], "nope": [1]}), "columns the table does not have: nope"),
        (pa.table({"dt": ["a"]}), "missing that may not be null: id"),
        (pa.table({"dt": ["a"], "id": pa.array([None], pa.int64())}), "column 'id' may not be null"),
        (pa.table({"dt": ["a"], "id": ["1"]}), "column 'id' is string"),
        (pa.table({"dt": ["a"], "id": [1], "n": [2**40]}), "column 'n' holds values that do not fit int32"),
        (pa.table({"dt": ["a"], "id": [1.0]}), "column 'id' is double"),
    ],
)
def test_data_that_does_not_fit(make: Make, data: pa.Table, words: str) -> None:
    table = make()
    with pytest.raises(SchemaError, match=words):
        table.write(data)
    assert table.history() == []
    assert not list(Path(table.location).glob("dt=*"))


def test_casts_that_lose_nothing(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("ms")), ("d", pa.decimal128(10, 2))])
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["id"], options={"bucket": "1"})
    data = pa.table(
        {
            "id": pa.array([1, 2], pa.int8()),
            "s": pa.array(["x", "x"]).dictionary_encode(),
            "t": pa.array([1_000, 2_000], pa.int64()).cast(pa.timestamp("us")),
            "d": pa.array([1, 2], pa.int32()),
        }
    )
    table.write(data)
    assert [row["s"] for row in table.read().read_all().to_pylist()] == ["x", "x"]
    for kind in (pa.large_string(), pa.string_view()):
        table.write(data.select(["id"]).append_column("s", pa.array(["y", "z"], kind)))
    assert table.read(columns=["s"]).read_all()["s"].to_pylist() == ["y", "z"]
    with pytest.raises(SchemaError, match="column 't'"):
        table.write(data.select(["id"]).append_column("t", pa.array([1, 2], pa.int64()).cast(pa.timestamp("us"))))
    with pytest.raises(SchemaError, match="local time without a zone"):
        table.write(
            data.select(["id"]).append_column("t", pa.array([1, 2], pa.int64()).cast(pa.timestamp("us", "UTC")))
        )


def test_no_rows_no_snapshot(make: Make) -> None:
    table = make()
    result = table.write(rows())
    assert result.outcome is Outcome.SKIPPED
    assert result.snapshot_id is None
    assert table.history() == []


def test_append_table_keeps_every_row(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options={"bucket": "3", "bucket-key": "id"})
    for _ in range(2):
        table.write(rows(("a", 1, "v", 1), ("a", 1, "v", 1)))
    assert len(contents(table)) == 4
    with pytest.raises(UsageError, match=r"only \+I"):
        table.write(rows(("a", 1, "v", 1), kinds=["-D"]))
    with pytest.raises(UsageError, match="primary key"):
        table.write(rows(("a", 1, "v", 1)), "upsert")


def test_overwrite_replaces_the_partitions_it_has_rows_for(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1), ("b", 1, "v", 1)))
    assert table.write(rows(("b", 2, "w", 2)), "overwrite").snapshot_id == 2
    assert contents(table) == [("a", 1, "v", 1), ("b", 2, "w", 2)]
    assert table.history()[-1].action == "overwrite"
    assert table.write(rows(), "overwrite").outcome is Outcome.SKIPPED
    table.write(rows(("c", 3, "x", 3)), "overwrite", {"dynamic-partition-overwrite": "false"})
    assert contents(table) == [("c", 3, "x", 3)]


def test_overwrite_of_a_table_without_partitions_empties_it(make: Make) -> None:
    table = make(primary_key=("id",), partition_by=())
    table.write(rows(("a", 1, "v", 1)))
    table.write(rows(), "overwrite")
    assert contents(table) == []


def test_another_bucket_number_is_refused_until_overwritten(make: Make) -> None:
    table = make(bucket="2")
    table.write(rows(*(("a", i, "v", 1) for i in range(10))))
    again = lakebed.open(table.location, {"bucket": "4"})
    with pytest.raises(CommitConflictError, match="2 buckets, but option 'bucket' is 4"):
        again.write(rows(("a", 1, "w", 1)))
    again.write(rows(*(("a", i, "w", 1) for i in range(10))), "overwrite")
    assert {entry.total_buckets for entry in files(again)} == {4}
    assert len(contents(again)) == 10


def test_a_rescaled_partition_keeps_its_own_number(make: Make) -> None:
    table = make(bucket="4")
    table.write(rows(*((p, i, "v", 1) for p in ("p1", "p2") for i in range(50))))
    lakebed.open(table.location, {"bucket": "8"}).write(rows(*(("p1", i, "v", 1) for i in range(50))), "overwrite")
    table.write(rows(*((p, i, "w", 2) for p in ("p1", "p2") for i in range(50))))
    assert len(contents(table)) == 100
    assert {row[2] for row in contents(table)} == {"w"}
    counts = Counter((entry.partition[-8:], entry.total_buckets) for entry in files(table))
    assert len(counts) == 2


def test_a_plan_travels_and_routes(make: Make) -> None:
    table = make(bucket="4")
    data = rows(*((f"p{i % 3}", i, "v", i) for i in range(300)))
    plan = pickle.loads(pickle.dumps(table.sink(Mode.UPSERT, "user").plan(5)))
    (batch,) = data.to_batches()
    channels = plan.routing.channels(batch).to_pylist()
    assert set(channels) <= set(range(5))
    assert plan.routing.channels(batch.slice(0, 0)).to_pylist() == []
    messages = []
    for channel in range(5):
        writer = pickle.loads(pickle.dumps(plan)).task_writer()
        writer.write(batch.filter(pa.array([c == channel for c in channels])))
        messages += pickle.loads(pickle.dumps(writer.finish()))
    assert len({(m.partition, m.bucket) for m in messages}) == len(messages) == 12
    assert table.sink(Mode.UPSERT, "user").commit(1, messages).snapshot_id == 1
    assert len(contents(table)) == 300


def test_a_sink_travels_without_a_look_at_the_table(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tasks need is in the plan, so that pickling reads nothing; a copy commits what a plan's tasks wrote."""
    table = make()
    made = table.sink(Mode.UPSERT, "user")
    plan = made.plan()
    with monkeypatch.context() as patch:
        patch.setattr(type(table.store), "read", lambda *_: pytest.fail("the table was read"))
        patch.setattr(type(table.store), "list", lambda *_: pytest.fail("the table was listed"))
        copy = pickle.loads(pickle.dumps(made))
    writer = plan.task_writer()
    writer.write(rows(("a", 1, "v", 1)))
    assert copy.commit(1, writer.finish()).snapshot_id == 1
    assert contents(table) == [("a", 1, "v", 1)]


def test_a_plan_is_not_changed_by_another(make: Make) -> None:
    sink = make(bucket="-1").sink()
    unrouted, routed = sink.plan(), sink.plan(4)
    assert (unrouted.is_routed, routed.is_routed) == (False, True)
    assert unrouted.write_id == routed.write_id == sink.write_id


def test_input_changelog_has_every_row_as_it_came(make: Make) -> None:
    table = make(bucket="1", changelog__producer="input", partition_by=(), primary_key=("id",))
    table.write(
        rows(("", 1, "a", 1), ("", 2, "b", 1), ("", 1, "a", 1), ("", 1, "c", 2), kinds=["+I", "+I", "-U", "+U"])
    )
    snapshot = History(table.store).latest()
    assert snapshot is not None
    assert (snapshot.changelog_record_count, snapshot.delta_record_count) == (4, 2)
    assert snapshot.changelog_manifest_list is not None
    (entry,) = entries_of(table.store, manifest_metas(table.store, changelog_lists(snapshot)[0]))
    assert entry.file.file_name.startswith("changelog-")
    changes = pq.read_table(Path(table.location) / "bucket-0" / entry.file.file_name)
    assert changes["_SEQUENCE_NUMBER"].to_pylist() == [0, 2, 3, 1]
    assert changes["_VALUE_KIND"].to_pylist() == [0, 1, 2, 0]
    assert [row[1:3] for row in contents(table)] == [(1, "c"), (2, "b")]


def test_orc_files(tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("t", pa.time32("ms")), ("at", pa.timestamp("us")), ("d", pa.decimal128(20, 3))]
    )
    table = lakebed.create(tmp_path / "t", "paimon", schema, ["id"], options={"bucket": "1", "file.format": "orc"})
    data = pa.table(
        {
            "id": [1, 2],
            "t": pa.array([5, None], pa.int32()).cast(pa.time32("ms")),
            "at": pa.array([1_234_567, None], pa.int64()).cast(pa.timestamp("us")),
            "d": pa.array([Decimal("1.5"), Decimal("-2.25")], pa.decimal128(20, 3)),
        }
    )
    table.write(data)
    table.write(data.slice(1))
    assert table.read().read_all().sort_by("id").to_pylist() == data.cast(table.schema).to_pylist()
    assert list((tmp_path / "t/bucket-0").glob("*.orc"))
    early = data.set_column(2, "at", pa.array([-1, 0], pa.int64()).cast(pa.timestamp("us")))
    with pytest.raises(UnsupportedError, match="1970"):
        table.write(early)
    assert len(table.history()) == 2


def test_a_static_overwrite_replaces_the_partition_that_the_option_names(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1), ("b", 2, "v", 1)))
    table.write(rows(("b", 3, "w", 2)), "overwrite", {"overwrite.partition": "dt=b"})
    assert contents(table) == [("a", 1, "v", 1), ("b", 3, "w", 2)]
    with pytest.raises(UsageError, match="outside the partitions to overwrite"):
        table.write(rows(("b", 3, "w", 2)), "overwrite", {"overwrite.partition": "dt=a"})
    table.write(rows(), "overwrite", {"overwrite.partition": "dt = b"})
    assert contents(table) == [("a", 1, "v", 1)]
    for text in ("dt", "id=1", "h=1"):
        with pytest.raises(OptionError, match=r"overwrite\.partition"):
            table.write(rows(), "overwrite", {"overwrite.partition": text})
    with pytest.raises(UsageError, match="mode is append"):
        table.write(rows(("a", 1, "v", 1)), "append", {"overwrite.partition": "dt=a"})
    with pytest.raises(OptionError, match="has no partitions"):
        make(partition_by=()).write(rows(), "overwrite", {"overwrite.partition": "dt=a"})


def test_a_partition_to_overwrite_is_read_by_its_type(tmp_path: Path) -> None:
    schema = pa.schema([("day", pa.date32()), ("h", pa.int32()), ("v", pa.int64())])
    table = lakebed.create(tmp_path / "t", "paimon", schema, [], ["day", "h"])
    days = pa.array([19000, 19000, 19001, None], pa.int32()).cast(pa.date32())
    table.write(pa.table([days, pa.array([1, 2, 1, 1], pa.int32()), pa.array([1, 2, 3, 4])], schema=schema))
    for spec, left in (("day=2022-01-08,h=2", [1, 3, 4]), ("day=2022-01-08", [3, 4]), ("day=null", [3])):
        table.write(schema.empty_table(), "overwrite", {"overwrite.partition": spec})
        assert sorted(table.read().read_all()["v"].to_pylist()) == left
    with pytest.raises(OptionError, match=r"overwrite\.partition"):
        table.write(schema.empty_table(), "overwrite", {"overwrite.partition": "h=x"})


def test_rows_of_a_tracked_table_have_ids(tmp_path: Path) -> None:
    """Each commit goes on from the snapshot's next row id; the sequence of its files is the snapshot's id."""
    schema = pa.schema([("id", pa.int64())])
    table = lakebed.create(tmp_path / "t", "paimon", schema, options={"row-tracking.enabled": "true"})
    for ids in ([1, 2, 3], [4, 5]):
        table.write(pa.table([pa.array(ids)], schema=schema))
    assert isinstance(table, PaimonTable)
    files = [split.files for split in table.plan_read().splits]
    assert [(f.first_row_id, f.min_sequence_number, f.max_sequence_number) for f in files[0]] == [(0, 1, 1), (3, 2, 2)]
    assert [snapshot.next_row_id for snapshot in table._history.snapshots()] == [3, 5]
    table.write(pa.table([pa.array([6])], schema=schema), "overwrite")
    assert [(f.first_row_id, f.row_count) for f in table.plan_read().splits[0].files] == [(5, 1)]


def test_a_lone_retraction_takes_back_what_older_files_hold(make: Make) -> None:
    table = make(merge__engine="aggregation", fields_n_aggregate__function="sum")
    table.write(rows(("a", 1, "v", 10), ("a", 2, "v", 1)))
    table.write(rows(("a", 1, "v", 4), kinds=["-U"]))
    assert [row[1::2] for row in contents(table)] == [(1, 6), (2, 1)]
