"""Compactions of tables without a primary key equal those of Paimon's Java engine: the packing of tables without
buckets round by round, and each COMPACT snapshot of the golden tables, made again from the snapshot before it."""

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.formats.paimon.codec.manifest import ADD, DELETE, DataFileMeta, SimpleStats
from lakebed.formats.paimon.codec.snapshot_json import CommitKind
from lakebed.formats.paimon.manifests import delta_list, entries_of, index_files, manifest_metas
from lakebed.formats.paimon.rewrite.append import AppendRules, PartitionPacker
from lakebed.formats.paimon.snapshot import History
from tests.golden import HERE, expected, names, unpack
from tests.golden.compare import diff, load


def test_packing_is_that_of_the_jvm() -> None:
    """All 100 vectors: the files that come in each round, and the tasks that the reference makes."""
    lines = (HERE / "paimon" / "append_pack_vectors.jsonl").read_text().splitlines()
    for vector in map(json.loads, lines):
        rules = AppendRules(
            vector["targetFileSize"], vector["compactionFileSize"], vector["openFileCost"], vector["minFileNum"]
        )
        packer = PartitionPacker(rules)
        for number, each in enumerate(vector["rounds"]):
            files = [file(*given) for given in each["new_files"]]
            if files:
                packer.add(file for file in files if rules.takes(file, None))
            tasks = [sorted(file.file_name for file in task) for task in packer.round()]
            assert sorted(tasks) == sorted(each["tasks"]), (number, vector)
            if packer.is_done:
                packer = PartitionPacker(rules)
    assert len(lines) == 100


def file(name: str, size: int) -> DataFileMeta:
    return DataFileMeta(name, size, 1, b"", b"", SimpleStats(), SimpleStats(), 0, 0, 0, 0)


def compactions() -> list[tuple[str, int]]:
    """Each COMPACT snapshot of a table without a primary key whose predecessor is there."""
    found = []
    for name in names("paimon"):
        answer = json.loads((expected(unpack("paimon", name)) / "meta.json").read_text())
        if answer.get("primaryKeys"):
            continue
        ids = {snapshot.id: snapshot for snapshot in History(lakebed.open(unpack("paimon", name)).store).snapshots()}
        found += [
            (name, number)
            for number, snapshot in ids.items()
            if snapshot.commit_kind is CommitKind.COMPACT and number - 1 in ids
        ]
    return found


@pytest.mark.parametrize(("name", "number"), compactions())
def test_a_compaction_is_that_of_the_jvm(tmp_path: Path, name: str, number: int) -> None:
    theirs = lakebed.open(unpack("paimon", name))
    folder = unpack("paimon", name, into=tmp_path)
    for path in (folder / "snapshot").glob("snapshot-*"):
        if int(path.name.removeprefix("snapshot-")) >= number:
            path.unlink()
    (folder / "snapshot" / "LATEST").write_text(str(number - 1))
    table = lakebed.open(folder)
    assert table.rewrite().instants == (str(number),)
    assert diff("paimon", table.read(), load(expected(unpack("paimon", name)) / f"snapshot_{number}.jsonl")) is None
    assert shape(table, number) == shape(theirs, number)


def test_deleted_rows_are_left_out_and_their_vectors_removed(tmp_path: Path) -> None:
    folder = unpack("paimon", "append_dv", into=tmp_path)
    table = lakebed.open(folder)
    before = sorted(map(str, table.read().read_all().to_pylist()))
    result = table.rewrite(options={"compaction.delete-ratio-threshold": "0"})
    snapshot = History(table.store).latest()
    assert result.instants == ("5",) and snapshot is not None
    assert sorted(map(str, table.read().read_all().to_pylist())) == before
    assert index_files(table.store, snapshot) == []
    assert snapshot.total_record_count == len(before)


def shape(table: lakebed.Table, number: int) -> Any:
    """The files that a snapshot takes away by name, and those that it adds without their names."""
    snapshot = History(table.store).snapshot(number)
    entries = entries_of(table.store, manifest_metas(table.store, delta_list(snapshot)))
    gone = {entry.file.file_name for entry in entries if entry.kind == DELETE}
    new = sorted(
        (e.partition, e.bucket, e.total_buckets, f.level, f.row_count, f.min_sequence_number, f.max_sequence_number,
         f.file_source, f.delete_row_count, f.value_stats)
        for e in entries if e.kind == ADD for f in (e.file,)
    )  # fmt: skip
    return gone, new, snapshot.delta_record_count
