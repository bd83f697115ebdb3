"""Tables whose files hold some columns of rows: which file a column comes from, large values, what is left closed, and
files that do not fit each other."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, OptionError, UnsupportedError
from lakebed.formats.paimon.codec.blob_index import index_bytes, record_lengths
from lakebed.formats.paimon.read import evolution_task
from lakebed.model.alter import AddColumn
from tests.tables.paimon.evolved import EVOLVES, blob_file, evolving, put

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.float64())])
PICTURES = pa.schema([("id", pa.int64()), ("pic", pa.binary())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "a": [f"a{n}" for n in ids], "b": [n / 2 for n in ids]}, schema=SCHEMA)


def read(table: lakebed.Table, *columns: str, **how: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.read([*columns], **how).read_all().to_pylist()]


@pytest.fixture
def table(tmp_path: Path) -> lakebed.Table:
    """Two commits of lakebed, and two that give rows 0 to 2 other columns."""
    made = evolving(tmp_path / "t", SCHEMA)
    made.write(rows(0, 1, 2))
    made.write(rows(3, 4))
    put(made, (0, pa.table({"a": ["x", "y", None]}), "a.parquet"))
    put(made, (0, pa.table({"b": [7.0, 8.0, 9.0], "a": ["X", "Y", "Z"]}), "b.parquet"))
    return made


def test_a_column_comes_from_the_newest_file_that_has_it(table: lakebed.Table) -> None:
    assert read(table, "id", "a", "b") == [
        (0, "X", 7.0), (1, "Y", 8.0), (2, "Z", 9.0), (3, "a3", 1.5), (4, "a4", 2.0)
    ]  # fmt: skip
    assert read(table, "a", as_of=3)[:3] == [("x",), ("y",), (None,)]
    assert read(table, "_ROW_ID", "_SEQUENCE_NUMBER") == [(0, 4), (1, 4), (2, 4), (3, 2), (4, 2)]
    assert table.read([]).read_all().num_rows == 5


def test_conditions_hold_for_the_newest_values(table: lakebed.Table) -> None:
    """Statistics of a file whose column a newer one has say nothing."""
    assert read(table, "id", where="a = 'Y'") == [(1,)]
    assert read(table, "id", where="a = 'a1'") == []
    assert read(table, "b", where="id = 1 and b > 7") == [(8.0,)]
    assert read(table, "id", where="_ROW_ID in (1, 4)") == [(1,), (4,)]
    files = [f.file_name for split in table.plan_read(where="_ROW_ID = 4").splits for f in split.files]  # type: ignore[attr-defined]
    assert len(files) == 1


def test_ranges_stay_whole_in_splits(table: lakebed.Table) -> None:
    many = lakebed.open(table.location, {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"})
    assert [len(split.files) for split in many.plan_read().splits] == [3, 1]  # type: ignore[attr-defined]
    assert sorted(read(many, "id", "a")) == read(table, "id", "a")


def test_a_new_column_is_null_where_no_file_has_it(table: lakebed.Table) -> None:
    table.alter(AddColumn("c", pa.int32()))
    put(table, (3, pa.table({"c": [1, 2]}), "c.parquet"))
    again = lakebed.open(table.location)
    assert read(again, "c") == [(None,), (None,), (None,), (1,), (2,)]
    assert read(again, "id", where="c is null") == [(0,), (1,), (2,)]
    assert read(again, "id", where="c = 2") == [(4,)]


def test_batches_of_several_files_are_put_side_by_side(table: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(*sizes: int, name: str) -> Any:
        start = 0
        for size in sizes:
            yield pa.record_batch({name: [*range(start, start + size)]})
            start += size

    sides = [parts(2, 0, 3, name="x"), parts(1, 4, name="y")]
    found = pa.Table.from_batches(evolution_task.side_by_side(sides, 5, ""))
    assert found.to_pydict() == {"x": [0, 1, 2, 3, 4], "y": [0, 1, 2, 3, 4]}
    with pytest.raises(CorruptError, match="same number of rows"):
        list(evolution_task.side_by_side([parts(2, name="x"), parts(1, name="y")], 2, ""))


def test_files_that_do_not_fit_each_other_are_damage(table: lakebed.Table) -> None:
    put(table, (1, pa.table({"a": ["p", "q"]}), "half.parquet"))
    with pytest.raises(CorruptError, match="do not have the same rows"):
        table.read()


def test_what_lakebed_does_not_do_with_such_tables(table: lakebed.Table, tmp_path: Path) -> None:
    for act in (lambda: table.changes(after=1), lambda: table.stream().initial() and table.stream().schema):
        with pytest.raises(UnsupportedError, match=r"data-evolution\.enabled"):
            act()
    with pytest.raises(UnsupportedError, match=r"cannot rewrite the files of a table with data-evolution\.enabled"):
        table.rewrite(dry_run=True)
    report = lakebed.open(table.location, {"compaction.min.file-num": "2"}).inspect()
    assert [finding.remedy for finding in report.findings] == ["Compact it with Paimon's own engine"]
    with pytest.raises(UnsupportedError, match="a row may have columns in older files"):
        lakebed.open(table.location, {"scan.file-creation-time-millis": "1"}).read()
    with pytest.raises(UnsupportedError, match=r"'row-tracking\.enabled' is 'false'"):
        lakebed.open(table.location, {"row-tracking.enabled": "false"}).read()
    for keys, options, why in (
        (["id"], EVOLVES, "without a primary key"),
        ([], {"data-evolution.enabled": "true"}, "needs row-tracking"),
        ([], {"row-tracking.enabled": "true", "bucket": "1", "bucket-key": "id"}, "needs bucket=-1"),
    ):
        with pytest.raises(OptionError, match=why):
            lakebed.create(tmp_path / "new", "paimon", SCHEMA, keys, options=options)


# ---- large values ----


@pytest.fixture
def pictures(tmp_path: Path) -> lakebed.Table:
    """Six rows, whose pictures are in two files, and a third one with two new ones."""
    made = evolving(tmp_path / "p", PICTURES, ["pic"])
    ids = pa.table({"id": range(6)}, schema=pa.schema([("id", pa.int64())]))
    put(
        made,
        (None, ids, "1.parquet"),
        (None, [b"zero", None, b""], "1.blob"),
        (None, [b"x" * 300, b"4", b"5"], "2.blob"),
    )
    put(made, (2, [b"two", -2, None], "3.blob"))
    return made


def test_large_values_come_from_the_newest_file_that_has_them(pictures: lakebed.Table) -> None:
    wanted = [(0, b"zero"), (1, None), (2, b"two"), (3, b"x" * 300), (4, None), (5, b"5")]
    assert read(pictures, "id", "pic") == wanted
    assert read(pictures, "pic") == [(value,) for _, value in wanted]
    assert read(pictures, "id", where="pic is null") == [(1,), (4,)]
    assert read(pictures, "pic", as_of=1)[2] == (b"",)
    assert pictures.schema.field("pic").type == pa.binary()


def test_large_values_are_read_in_bounded_pieces(pictures: lakebed.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = read(pictures, "pic")
    monkeypatch.setattr("lakebed.formats.paimon.read.blobs._BATCH_BYTES", 40)
    monkeypatch.setattr("lakebed.formats.paimon.read.blobs._GAP", 30)
    monkeypatch.setattr("lakebed.formats.paimon.read.blobs._BATCH_ROWS", 2)
    assert read(pictures, "pic") == wanted


def test_large_values_are_not_written(pictures: lakebed.Table, tmp_path: Path) -> None:
    for act in (lambda: pictures.write(pa.table({"id": [1]})), pictures.rewrite):
        with pytest.raises(UnsupportedError, match="'pic' of type BLOB"):
            act()
    with pytest.raises(UnsupportedError, match="'more' would have type BLOB"):
        pictures.alter(lakebed.add_column("more", "BLOB"))
    assert pictures.expire().expired == ()
    plain = evolving(tmp_path / "q", PICTURES, ["pic"], **{"data-evolution.enabled": "false"})
    with pytest.raises(UnsupportedError, match=r"tables with data-evolution\.enabled"):
        plain.read()


def test_a_damaged_file_of_large_values_is_named(pictures: lakebed.Table) -> None:
    path = Path(pictures.location) / "bucket-0" / "2.blob"
    whole = path.read_bytes()
    for number in (*range(4), *range(len(whole) - 9, len(whole))):  # a magic number, then the index and the footer
        path.write_bytes(whole[:number] + bytes([whole[number] ^ 0x41]) + whole[number + 1 :])
        with pytest.raises((CorruptError, UnsupportedError), match=r"2\.blob"):
            pictures.read().read_all()
    path.write_bytes(whole[:-1])
    with pytest.raises(CorruptError, match=r"2\.blob"):
        pictures.read().read_all()


def test_lengths_of_records() -> None:
    values: list[bytes | int | None] = [b"", None, b"a" * 5000, -2, b"b"]
    data = blob_file(values)
    size = index_bytes(data[-5:])
    lengths = record_lengths(data[-5 - size : -5], len(data) - 5 - size)
    assert lengths.tolist() == [16, -1, 5016, -2, 17]
    assert record_lengths(b"", 0).tolist() == []
    for index, count in ((b"\x80", 0), (b"\x20", 17), (b"\x05", 0), (b"\xff" * 9 + b"\x01", 0)):
        with pytest.raises(CorruptError):
            record_lengths(index, count)
