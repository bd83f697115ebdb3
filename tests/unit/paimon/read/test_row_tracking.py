"""The ids and sequence numbers of rows: read by name, kept through compactions, deleted rows and later commits."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SchemaError
from lakebed.formats.paimon.codec.manifest import (
    SOURCE_APPEND,
    SOURCE_COMPACT,
    DataFileMeta,
    ManifestEntry,
    SimpleStats,
)
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.commit.row_ids import with_row_ids
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.options import table_options
from lakebed.formats.paimon.rewrite.vectors import BucketVectors
from lakebed.formats.paimon.snapshot import History
from tests.golden import expected, unpack

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
TRACKED = ("_ROW_ID", "id", "_SEQUENCE_NUMBER")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": [f"v{n}" for n in ids]}, schema=SCHEMA)


def read(table: lakebed.Table, *columns: str, **how: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.read([*(columns or TRACKED)], **how).read_all().to_pylist()]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_ids_stay_through_compactions(tmp_path: Path, file_format: str) -> None:
    options = {"row-tracking.enabled": "true", "compaction.min.file-num": "2", "file.format": file_format}
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options=options)
    for ids in ((5, 6), (1,), (9, 8)):
        table.write(rows(*ids))
    wanted = [(0, 5, 1), (1, 6, 1), (2, 1, 2), (3, 9, 3), (4, 8, 3)]
    assert read(table) == wanted
    assert table.rewrite().files_after == 1
    assert read(table) == wanted
    table.write(rows(7))
    assert read(table) == [*wanted, (5, 7, 5)]
    assert table.rewrite(options={"order_strategy": "order", "order_by": "id"}).files_after == 1
    assert read(table) == sorted([*wanted, (5, 7, 5)], key=lambda row: row[1])
    assert read(table, "id", where="_ROW_ID > 3 and v <> 'v7'") == [(8,)]
    assert read(table, "_ROW_ID", as_of=1) == [(0,), (1,)]
    assert table.read().read_all().column_names == ["id", "v"]


def test_conditions_on_ids_leave_files_closed(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options={"row-tracking.enabled": "true"})
    for first in range(0, 9, 3):
        table.write(rows(*range(first, first + 3)))
    plan = table.plan_read(["id"], "_row_id = 4")
    assert [len(split.files) for split in plan.splits] == [1]  # type: ignore[attr-defined]
    assert read(table, "id", where="_row_id = 4") == [(4,)]
    assert read(table, "id", where="_ROW_ID is null or _ROW_ID = 100") == []


def test_changes_have_ids_too(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options={"row-tracking.enabled": "true"})
    table.write(rows(1, 2))
    table.write(rows(3))
    assert table.changes(["_ROW_ID", "v"], after=1).read_all().to_pylist() == [
        {"_ROW_ID": 2, "v": "v3", "_row_kind": "+I"}
    ]


def test_deleted_rows_keep_the_ids_of_others(tmp_path: Path) -> None:
    """Also through a compaction, which leaves them out."""
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true", "compaction.min.file-num": "2"}
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options=options)
    for ids in ((1, 2, 3), (4,)):
        table.write(rows(*ids))
    history = History(table.store)
    (first, _), schema = live_files(table.store, history.latest()), history.latest_schema()
    vectors = BucketVectors(table.store, [], {})
    vectors.delete(first.file, np.array([1]))
    message = PaimonMessage(
        first.partition, 0, -1, "bucket-0", new_index_files=vectors.write(first.partition, 0, False)
    )
    Committer(history, schema, table_options(schema.options), CommitOptions("u")).commit(1, [message])
    wanted = [(0, 1, 1), (2, 3, 1), (3, 4, 2)]
    assert read(table) == wanted
    assert table.rewrite().files_after == 1
    assert read(table) == wanted
    assert not [entry for entry in index_files(table.store, history.latest()) if entry.ranges]


def test_other_tables_have_no_such_column(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA)
    with pytest.raises(SchemaError, match="_ROW_ID"):
        table.read(["_ROW_ID"])


def test_ids_of_the_jvm() -> None:
    folder = unpack("paimon", "row_tracking")
    table = lakebed.open(folder)
    ids = [row[0] for row in read(table, "_ROW_ID")]
    assert sorted(ids) == [*range(len((expected(folder) / "snapshot.jsonl").read_text().splitlines()))]


def file(**more: Any) -> DataFileMeta:
    given = {"file_source": SOURCE_APPEND, "min_sequence_number": 0, "max_sequence_number": 0, "row_count": 3, **more}
    numbers = (given.pop("min_sequence_number"), given.pop("max_sequence_number"))
    name, count = given.pop("file_name", "a.parquet"), given.pop("row_count")
    return DataFileMeta(name, 1, count, b"", b"", SimpleStats(), SimpleStats(), *numbers, 0, 0, **given)


@pytest.mark.parametrize(
    ("files", "wanted", "next_row"),
    [
        ([file(), file()], [(10, 7, 7), (13, 7, 7)], 16),
        ([file(file_source=SOURCE_COMPACT, min_sequence_number=2, max_sequence_number=5)], [(None, 2, 5)], 10),
        ([file(write_cols=("id", "_ROW_ID"), min_sequence_number=2, max_sequence_number=0)], [(None, 2, 7)], 10),
        ([file(first_row_id=4, write_cols=("v",))], [(4, 7, 7)], 10),
        (
            [
                file(),
                file(file_name="1.blob", row_count=2, write_cols=("p",)),
                file(file_name="2.blob", row_count=1, write_cols=("p",)),
                file(file_name="3.blob", row_count=3, write_cols=("q",)),
                file(),
                file(file_name="4.blob", row_count=3, write_cols=("p",)),
            ],
            [(10, 7, 7), (10, 7, 7), (12, 7, 7), (10, 7, 7), (13, 7, 7), (13, 7, 7)],
            16,
        ),
    ],
)
def test_ids_are_given_as_the_reference_does(
    files: list[DataFileMeta], wanted: list[tuple[int | None, int, int]], next_row: int
) -> None:
    entries, after = with_row_ids([ManifestEntry(0, b"", 0, -1, one) for one in files], 7, 10)
    found = [(e.file.first_row_id, e.file.min_sequence_number, e.file.max_sequence_number) for e in entries]
    assert (found, after) == (wanted, next_row)
