"""Rewriting manifests, and the health report before and after."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import OptionError, UnsupportedError, UsageError
from lakebed.formats.iceberg.manifests import read_entries, read_manifest_list
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.model.report import Health
from tests.golden import names, opening, unpack
from tests.tables.iceberg import commits
from tests.tables.iceberg.small import create, data_file, equality_deletes, ids

MANIFESTS = {"lakebed.rewrite.what": "manifests"}
COLUMNS = ("file_path", "sequence_number", "file_sequence_number", "first_row_id", "snapshot_id", "record_count")


def entries(table: IcebergTable) -> set[tuple[object, ...]]:
    metadata = table.table_metadata
    head = metadata.head()
    assert head is not None
    found = set()
    for manifest in read_manifest_list(table.operations.files, head):
        for row in read_entries(table.operations.files, metadata, [manifest]).to_pylist():
            found.add((*(row[name] for name in COLUMNS), row["content_offset"]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
def test_many_manifests_become_one(tmp_path: Path, version: int) -> None:
    table = create(tmp_path / "t", version)
    for number in range(6):
        commits.append(table.operations, [data_file(table, [number], "ab"[number % 2])])
    if version > 1:
        commits.row_delta(table.operations, [], [equality_deletes(table, [0])])
    before, rows = entries(table), ids(table)
    planned = table.rewrite(dry_run=True, options=MANIFESTS)
    assert (planned.files_before, planned.files_after, planned.dry_run) == (6, 1, True)
    assert len(planned.skipped) == (version > 1)
    done = table.rewrite(options=MANIFESTS)
    assert (done.files_before, done.files_after) == (6, 1)
    assert done.bytes_after < done.bytes_before
    assert entries(table) == before and ids(table) == rows
    newest = table.history()[-1]
    assert newest.action == "replace"
    assert (newest.summary["manifests-replaced"], newest.summary["manifests-created"]) == ("6", "1")
    assert newest.summary["total-records"] == "6"
    assert table.rewrite(options=MANIFESTS).files_before == 0  # nothing is left to do
    assert len(table.history()) == (8 if version > 1 else 7)
    commits.append(table.operations, [data_file(table, [9])])
    assert ids(table) == [*rows, 9]


def test_small_targets_make_more_manifests_in_the_order_of_partitions(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [n], "dcba"[n % 4]) for n in range(8)])
    commits.append(table.operations, [data_file(table, [n], "dcba"[n % 4]) for n in range(8)])
    table.rewrite(options={**MANIFESTS, "commit.manifest.target-size-bytes": 100})
    head = table.table_metadata.head()
    assert head is not None
    manifests = read_manifest_list(table.operations.files, head)
    found = [
        p
        for m in manifests
        for p in read_entries(table.operations.files, table.table_metadata, [m])["partition"].to_pylist()
    ]
    assert [p["p"] for p in found] == sorted(p["p"] for p in found)
    assert ids(table) == sorted([*range(8), *range(8)])


def test_wrong_options_of_a_rewrite_of_manifests(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [1])])
    with pytest.raises(OptionError, match="spec-id"):
        table.rewrite(options={**MANIFESTS, "spec-idd": 1})
    with pytest.raises(UsageError, match="no partition spec 7"):
        table.rewrite(options={**MANIFESTS, "spec_id": 7})
    with pytest.raises(OptionError, match="data-files"):
        table.rewrite(options={"lakebed.rewrite.what": "nonsense"})
    with pytest.raises(UsageError, match="where"):
        table.rewrite(where="id = 1", options=MANIFESTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", names("iceberg"))
def test_golden_tables_with_fewer_manifests(name: str, tmp_path: Path) -> None:
    folder = unpack("iceberg", name, into=tmp_path)
    if name == "variant_v3":
        return  # pyiceberg opens no catalog's table with variants, and by its path it is not to be changed
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    options |= opening(folder)
    table = lakebed.open(folder) if name == "hadoop_v2" else lakebed.open(f"ice:db.{name}", options)
    assert isinstance(table, IcebergTable)
    rows = table.read().read_all()
    if table.table_metadata.head() is None:
        assert table.rewrite(options=MANIFESTS).files_before == 0
        return
    before = entries(table)
    table.rewrite(options=MANIFESTS)
    assert entries(table) == before
    assert table.read().read_all().num_rows == rows.num_rows


# ---- inspect ---------------------------------------------------------------------------------------------------------


def test_a_new_table_is_well(tmp_path: Path) -> None:
    report = create(tmp_path / "t").inspect()
    assert report.health is Health.GOOD and report.findings == () and report.advice == ()
    assert report.figures["snapshots"]["snapshots"] == 0
    assert report.figures["files"]["data files"] == 0


@pytest.mark.slow
def test_small_files_deletes_and_manifests_are_told(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    for number in range(60):
        commits.append(table.operations, [data_file(table, [number], "ab"[number % 2])])
    commits.row_delta(table.operations, [], [equality_deletes(table, [0])])
    report = table.inspect()
    files = report.figures["files"]
    assert (files["data files"], files["small files"], files["partitions worth a rewrite"]) == (60, 60, 2)
    assert (files["equality deletes"], files["records"]) == (1, 60)
    assert report.health is Health.ATTENTION
    advice = " ".join(report.advice)
    assert "table.rewrite()" in advice and "manifests" in advice and "'equality-deletes'" in advice
    table.rewrite(options={"lakebed.rewrite.what": "equality-deletes"})
    assert table.inspect().figures["files"]["equality deletes"] == 0
    table.rewrite()
    table.rewrite(options=MANIFESTS)
    assert "small files" not in " ".join(finding.what for finding in table.inspect().findings)


def test_what_is_lost_is_told(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [1])])
    head = table.table_metadata.head()
    assert head is not None
    (manifest,) = read_manifest_list(table.operations.files, head)
    Path(manifest.path).unlink()
    report = table.inspect()
    assert report.health is Health.BROKEN
    assert manifest.path in report.findings[0].why


@pytest.mark.parametrize("name", names("iceberg"))
def test_golden_tables_are_inspected(name: str) -> None:
    table = lakebed.open(unpack("iceberg", name))
    report = table.inspect()
    assert report.health is not Health.BROKEN
    counted = {"statistics", "distinct values"} if name == "concurrent_stats" else set()
    assert set(report.figures) == {"table", "snapshots", "files", "manifests", "metadata", *counted}
    head = table.table_metadata.head()  # type: ignore[attr-defined]
    if head is not None and "total-data-files" in head.summary:
        files = report.figures["files"]
        assert str(files["data files"]) == head.summary["total-data-files"]
        assert str(files["records"]) == head.summary["total-records"]
        assert str(files["delete files"]) == head.summary["total-delete-files"]


def test_advice_is_what_the_table_can_follow_as_it_was_opened(tmp_path: Path) -> None:
    """A catalog's table that is opened by its path cannot be changed, and the advice says so first."""
    catalog = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
               "lakebed.catalog.warehouse": str(tmp_path / "lake")}  # fmt: skip
    schema = pa.schema([("id", pa.int64())])
    named = lakebed.create("ice:db.t", "iceberg", schema, options=catalog)
    for number in range(6):
        named.write(pa.table({"id": [number]}, schema=schema))
    assert "Run table.rewrite()" in named.inspect().advice
    by_path = lakebed.open(named.table_metadata.location)  # type: ignore[attr-defined]
    assert "Open it by its name, as catalog:namespace.table, then: Run table.rewrite()" in by_path.inspect().advice
    with pytest.raises(UnsupportedError, match="belongs to a catalog"):
        by_path.rewrite(dry_run=True)
