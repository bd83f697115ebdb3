"""Every golden Hudi table and every range of it, read as Hudi's own readers read it where they are right."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import DataCleanedError
from lakebed.verbs.table import Table
from tests.golden import compare, expected, names, unpack

CLEANED = {
    ("archived_savepoint_v6", "20261127205045271_20261127205046770"),
    ("archived_savepoint_v6", "20261127205053057_20261127205055002"),
    ("archived_savepoint_v8", "20261127205244762_20261127205245985"),
    ("archived_savepoint_v8", "20261127205252777_20261127205255699"),
    ("archived_savepoint_v9", "20261127214202569_20261127214203598"),
    ("archived_v6", "20261127205018673_20261127205020246"),
    ("archived_v8", "20261127205220610_20261127205223155"),
    ("archived_v9", "20261127214150501_20261127214151607"),
    ("cow_nonpart_v8", "20261127204940127_20261127204941989"),
    ("cow_v8", "20261127204910140_20261127204912748"),
    ("cow_v9", "20261127214041795_20261127214043013"),
    ("mor_mdt_v8", "20261127204652599_20261127204657075"),
    ("mor_v8", "20261127204536444_20261127204538016"),
    ("mor_v9", "20261127213905570_20261127213913252"),
}
"""Ranges of which the cleaner removed files that the end needs: nobody can read them exactly any more."""

LOGS_ALONE = {
    ("partial_payload_v9", "20261127215157397_20261127215200495"),
    ("partial_payload_v9", "20261127215200495_latest"),
}
"""Ranges that the JVM answers from the range's log blocks alone (caveat 8): nulls where the row keeps older values."""


VIRTUAL = ("virtual_complex_v9", "virtual_timestamp_h015")
"""Tables without meta columns: they have no changes to read. `test_virtual_keys.py` reads their snapshots."""

REFUSED = ("bootstrap_h015",)
"""Tables that lakebed refuses by name."""

READ = [name for name in names("hudi") if name not in (*VIRTUAL, *REFUSED)]


def _meta(name: str) -> dict[str, Any]:
    actual: dict[str, Any] = json.loads((expected(unpack("hudi", name)) / "meta.json").read_text())
    return actual


def _ranges() -> list[tuple[str, str]]:
    return [
        (name, read["file"].removeprefix("incremental_").removesuffix(".jsonl"))
        for name in READ
        for read in _meta(name)["reads"]
        if read["file"].startswith("incremental_")
    ]


def _changes(name: str, span: str) -> pa.Table:
    """The rows that the range's file should hold; bundle 1.0.2 took the begin of version 8's ranges as inclusive."""
    table = lakebed.open(unpack("hudi", name))
    begin, end = span.split("_")
    _, _, exclusive = compare.hudi_oracle(
        expected(unpack("hudi", name)), f"incremental_{span}.jsonl", _meta(name)["table_version"] >= 8
    )
    after = None if begin == "000" else begin if exclusive else str(int(begin) - 1)
    return table.changes(after=after, until=None if end == "latest" else end).read_all()


@pytest.mark.parametrize("name", READ)
def test_snapshot(name: str) -> None:
    table = lakebed.open(unpack("hudi", name))
    rows = table.read().read_all()
    assert compare.hudi_snapshot_diff(rows, expected(unpack("hudi", name))) is None
    assert table.count() == len(rows)
    assert table.schema.names[:5] == compare.META


@pytest.mark.parametrize(
    "name", [n for n in names("hudi") if (expected(unpack("hudi", n)) / "read_optimized.jsonl").exists()]
)
def test_read_optimized(name: str) -> None:
    table = lakebed.open(unpack("hudi", name), {"hoodie.datasource.query.type": "read_optimized"})
    wanted = compare.load(expected(unpack("hudi", name)) / "read_optimized.jsonl")
    assert compare.diff("hudi", table.read(), wanted) is None


# The engine that wrote some of these tables cleaned files that a delete needs, and a read says so.
@pytest.mark.filterwarnings("ignore:deletes of:lakebed.errors.ReadWarning")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "span"), _ranges())
def test_range(name: str, span: str) -> None:
    folder = expected(unpack("hudi", name))
    if (name, span) in CLEANED:
        with pytest.raises(DataCleanedError, match="earliest instant that can still be read is 2026"):
            _changes(name, span)
        return
    how, truth, _ = compare.hudi_oracle(folder, f"incremental_{span}.jsonl", _meta(name)["table_version"] >= 8)
    changed = compare.net(_changes(name, span))
    if (name, span) in LOGS_ALONE:
        _is_part_of_the_snapshot(name, changed, span.partition("_")[2])
    elif how == "keys":
        assert compare.keys_diff(changed, truth) is None
    elif how == "rows" and span == "000_latest" and name.startswith("merge_event"):
        assert _as_the_snapshot(name, changed)
    elif how == "rows":
        assert compare.diff("hudi", changed, truth) is None
    elif span == "000_latest":
        assert _as_the_snapshot(name, changed)
    else:
        assert not changed.num_rows or set(changed["_hoodie_record_key"].to_pylist())


def _as_the_snapshot(name: str, changed: pa.Table) -> bool:
    actual = lakebed.open(unpack("hudi", name)).read().read_all()
    key = [("_hoodie_record_key", "ascending")]
    return bool(actual.sort_by(key).equals(changed.cast(actual.schema).sort_by(key)))


def test_a_late_row_after_a_delete_reads_alike_before_and_after_its_compaction() -> None:
    """The engine's answer before, the file that its compaction wrote after; changes report that the row is back."""
    folder = unpack("hudi", "late_after_delete_v9")
    table = lakebed.open(folder)
    _, deleted, late, _, compacted = (i.time for i in table.history() if i.state == "completed")
    before = compare.load(expected(folder) / "before_compaction.jsonl")
    assert compare.diff("hudi", table.read(as_of=late), before) is None
    ends = ((deleted, late), (deleted, compacted))
    for options in ({}, {"cdc.enabled": "true"}):
        for after, until in ends:
            actual = lakebed.open(folder, options).changes(["id", "v"], "id = 'k1'", after, until).read_all()
            assert actual.to_pylist() == [{"id": "k1", "v": "v1", "_row_kind": "+I"}]
    assert not table.changes(["id"], "id = 'k1'", late, compacted).read_all().num_rows


def _is_part_of_the_snapshot(name: str, changed: pa.Table, end: str) -> None:
    """Each changed row is the row of its key at the end of the range."""
    table = lakebed.open(unpack("hudi", name))
    snapshot = table.read(as_of=None if end == "latest" else end).read_all().to_pylist()
    actual = {row["_hoodie_record_key"]: row for row in snapshot}
    assert changed.num_rows
    assert all(actual[row["_hoodie_record_key"]] == row for row in changed.to_pylist())


# The engine that wrote some of these tables cleaned files that a delete needs, and a read says so.
@pytest.mark.filterwarnings("ignore:deletes of:lakebed.errors.ReadWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_each_moment_is_the_sum_of_the_changes_up_to_it(name: str) -> None:
    """As of every completed write: the snapshot is what all changes up to then leave, or both say what was cleaned."""
    table = lakebed.open(unpack("hudi", name))
    for instant in table.history():
        if instant.action not in ("commit", "deltacommit", "replacecommit") or instant.state != "completed":
            continue
        snapshot, changes = _keys(table, as_of=instant), _net_keys(table, instant)
        assert snapshot == changes, instant.time


def _keys(table: Table, as_of: Any) -> dict[str, str] | None:
    try:
        actual = table.read(["_hoodie_record_key", "_hoodie_commit_time"], as_of=as_of).read_all()
    except DataCleanedError:
        return None
    return dict(zip(*(column.to_pylist() for column in actual.columns), strict=True))


def _net_keys(table: Table, until: Any) -> dict[str, str] | None:
    try:
        actual = compare.net(table.changes(list(compare.META), until=until))
    except DataCleanedError:
        return None
    return dict(zip(actual["_hoodie_record_key"].to_pylist(), actual["_hoodie_commit_time"].to_pylist(), strict=True))


@pytest.mark.parametrize("name", [n for n in names("hudi") if n.startswith("archived")])
def test_archived_history(name: str) -> None:
    """Every instant that Hudi archived, once."""
    table = lakebed.open(unpack("hudi", name))
    wanted = json.loads((expected(unpack("hudi", name)) / "archived.json").read_text())
    actual = {(i.time, i.action) for i in table.history(archived=True) if i.archived}
    assert {(entry["instant"], entry["action"]) for entry in wanted["archived"]} >= actual
    assert {entry["instant"] for entry in wanted["archived"]} <= {i.time for i in table.history(archived=True)}


@pytest.mark.parametrize("name", [n for n in names("hudi") if n.startswith(("mor_v", "mor_rollback", "archived_mor"))])
def test_file_times_decide_nothing(name: str, tmp_path: Path) -> None:
    """The same rows from a copy whose files were all touched in another order."""
    folder = unpack("hudi", name, into=tmp_path)
    for number, path in enumerate(sorted(folder.rglob("*"), reverse=True)):
        os.utime(path, (number, number))
    original = lakebed.open(unpack("hudi", name)).read().read_all().sort_by("_hoodie_commit_seqno")
    assert lakebed.open(folder).read().read_all().sort_by("_hoodie_commit_seqno").equals(original)
