"""What a writer does while it has its turn, in which all other writers of the machine wait; and what an attempt that
lost its race leaves to the next one."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.formats.paimon.commit import loop
from lakebed.kernel.commit import turns
from lakebed.kernel.files.local import LocalStore

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
INSERT = {"hoodie.datasource.write.operation": "insert", "hoodie.metadata.enable": "false"}
OPTIONS: dict[str, dict[str, str]] = {"paimon": {}, "iceberg": {}, "hudi": INSERT}
SYNCED = {
    "paimon": (["manifest/manifest-list-", "manifest/manifest-"], ["manifest/manifest-list-", "snapshot/snapshot-"]),
    "iceberg": (["metadata/*.avro"], ["metadata/snap-*.avro", "metadata/v*.metadata.json"]),
    "hudi": ([".hoodie/.temp/*.marker.MERGE", ".hoodie/timeline/*"], [".hoodie/timeline/*"] * 2),
}
EMPTY = {"hudi": 2}
"""How many of these files are empty: a marker, and the requested state."""


@pytest.mark.parametrize("format", sorted(SYNCED))
def test_only_what_the_newest_snapshot_decides_is_synced_in_a_turn(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakebed.create(tmp_path / "t", format, ROWS.schema, ["id"] if format == "hudi" else [])
    options = OPTIONS[format]
    table.write(ROWS, options=options)
    synced: dict[bool, list[str]] = {False: [], True: []}
    syncs: list[int] = []
    filled: list[str] = []
    write, put, sync = LocalStore._write, LocalStore._put, os.fsync

    def noted(self: Any, path: str, data: bytes, lasting: bool) -> None:
        if lasting:
            synced[has_turn()].append(kind(path))
            filled.extend([path] if data else [])
        write(self, path, data, lasting)

    def noted_put(self: Any, path: str, data: bytes, lasting: bool) -> Any:
        if lasting:
            synced[has_turn()].append(kind(path))
            filled.extend([path] if data else [])
        return put(self, path, data, lasting)

    def noted_sync(descriptor: int) -> None:
        syncs.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(LocalStore, "_write", noted)
    monkeypatch.setattr(LocalStore, "_put", noted_put)
    monkeypatch.setattr(os, "fsync", noted_sync)
    table.write(ROWS, options=options)
    before, during = SYNCED[format]
    assert Counter(synced[True]) == Counter(during)
    assert Counter(synced[False]) == Counter(before)
    assert len(filled) == len(before) + len(during) - EMPTY.get(format, 0)
    assert len(syncs) == len(filled), "hints, locks, heartbeats and empty files do not wait for the disk"
    assert table.count() == 6


def has_turn() -> bool:
    return any(queue.holder for queue, _ in turns._queues.values())


def kind(path: str) -> str:
    """A path without what is unique in it."""
    if path.startswith(("manifest/", "snapshot/")):
        return re.sub(r"(manifest-list-|manifest-|snapshot-)(?!list).*", r"\1", path)
    if path.startswith("metadata/"):
        return re.sub(r"/(snap-|v|).*?(\.avro|\.metadata\.json)$", r"/\1*\2", path)
    if path.startswith(".hoodie/.temp/"):
        return ".hoodie/.temp/*" + path[path.rindex(".marker.") :]
    return os.path.dirname(path) + "/*"


class Rival:
    """Commits to a table just before another writer claims its snapshot, so many times."""

    def __init__(self, location: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, claim = times, loop.claim_snapshot

        def late(*given: Any) -> Any:
            if self.left:
                self.left -= 1
                with turns.as_rival(), pytest.MonkeyPatch.context() as patch:
                    patch.setattr(loop, "claim_snapshot", claim)
                    lakebed.open(location).write(ROWS)
            return claim(*given)

        monkeypatch.setattr(loop, "claim_snapshot", late)


def manifest_files(folder: Path) -> Counter[str]:
    return Counter(kind(f"manifest/{path.name}") for path in (folder / "manifest").iterdir())


def files_of(snapshots: int) -> Counter[str]:
    return Counter({"manifest/manifest-": snapshots, "manifest/manifest-list-": 2 * snapshots})


def test_a_lost_race_leaves_the_manifests_of_the_changes_to_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ROWS.schema)
    table.write(ROWS)
    written: list[str] = []
    write = LocalStore._write

    def noted(self: Any, path: str, data: bytes, lasting: bool) -> None:
        written.append(path)
        write(self, path, data, lasting)

    Rival(tmp_path / "t", 2, monkeypatch)
    monkeypatch.setattr(LocalStore, "_write", noted)
    table.write(ROWS)
    # 3 commits write a manifest and 2 lists each, and 2 attempts that lost a list each
    assert Counter(kind(path) for path in written if "LATEST" not in path) == files_of(3) + Counter(
        {"manifest/manifest-list-": 2}
    )
    assert manifest_files(tmp_path / "t") == files_of(4)
    assert table.count() == 12 and len(table.history()) == 4


def test_a_commit_that_fails_for_good_removes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ROWS.schema)
    table.write(ROWS)
    Rival(tmp_path / "t", 1, monkeypatch)
    with pytest.raises(CommitConflictError, match="won every race"):
        table.write(ROWS, options={"commit.max-retries": "0"})
    assert manifest_files(tmp_path / "t") == files_of(2)
    assert table.count() == 6


def test_a_replay_removes_them(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ROWS.schema)
    for _ in range(2):
        with table.writer("job") as writer:
            writer.write(ROWS)
            writer.commit(7, writer.prepare_commit())
    assert manifest_files(tmp_path / "t") == files_of(1)
    assert table.count() == 3
