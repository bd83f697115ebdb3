"""Manifests that a rewrite merges: which, how many they become, and why the rest stays."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import UsageError
from lakebed.formats.paimon import manifests as reading
from lakebed.formats.paimon.codec.manifest import ADD, ManifestFileMeta
from lakebed.formats.paimon.manifests import data_manifests, entries_of
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store
from lakebed.testing.faults import Fault, FaultyStore, Kind
from tests.tables.paimon.small import Make, contents, rows

WHAT = {"lakebed.rewrite.what": "manifests"}
PUTS = frozenset({"put_if_absent"})
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}


def metas(table: Table) -> list[ManifestFileMeta]:
    latest = History(table.store).latest()
    assert latest is not None
    return data_manifests(table.store, latest)


@pytest.fixture
def replaced(make: Make) -> Table:
    """Three partitions, of which the first was replaced twice: each commit has a manifest."""
    table = make(write__only="true")
    for name in "abc":
        table.write(rows((name, 1, "v", 1), (name, 2, "w", 2)))
    for number in range(2):
        table.write(rows(("a", number, "new", number)), "overwrite", {"overwrite.partition": "dt=a"})
    return table


@pytest.mark.parametrize("as_columns", [False, True])
def test_small_manifests_become_one_without_deleted_files(
    replaced: Table, as_columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if as_columns:
        monkeypatch.setattr(reading, "_COLUMNS_FROM", 0)
    before, seen = metas(replaced), contents(replaced)
    old = History(replaced.store).latest()
    plan = replaced.rewrite(dry_run=True, options=WHAT)
    assert metas(replaced) == before
    assert (plan.files_before, plan.files_after, plan.dry_run) == (len(before), 1, True)
    assert plan.bytes_before == sum(meta.file_size for meta in before)
    assert "entries are of deleted files" in plan.plan[0].reason

    done = replaced.rewrite(options=WHAT)
    (left,) = metas(replaced)
    new = History(replaced.store).latest()
    assert old is not None and new is not None
    assert done.instants == (str(new.id),) and (done.files_before, done.files_after) == (len(before), 1)
    assert done.bytes_after == left.file_size and left.num_deleted_files == 0
    entries = entries_of(replaced.store, [left])
    buckets = {entry.bucket for entry in entries}
    assert (left.min_bucket, left.max_bucket, left.min_level, left.max_level) == (min(buckets), max(buckets), 0, 0)
    assert {entry.kind for entry in entries} == {ADD} and len(entries) == left.num_added_files
    assert contents(replaced) == seen and contents(replaced, where="dt = 'a'") == [("a", 1, "new", 1)]
    assert (new.commit_kind, new.delta_record_count, new.total_record_count) == ("COMPACT", 0, old.total_record_count)
    assert replaced.changes(after=old.id).read_all().num_rows == 0

    again = replaced.rewrite(options=WHAT)
    assert not again.instants and [item.reason for item in again.skipped] == ["it has nothing to be merged with"]
    replaced.write(rows(("b", 9, "later", 9)))
    assert len(contents(replaced)) == len(seen) + 1


def test_full_manifests_without_deleted_files_stay(make: Make) -> None:
    table = make(write__only="true", manifest_target__file__size="1 b", manifest_merge__min__count="100")
    for name in "abc":
        table.write(rows((name, 1, "v", 1)))
    table.write(rows(("b", 2, "w", 2)), "overwrite", {"overwrite.partition": "dt=b"})
    table.write(rows(("b", 3, "w", 2)))
    table.write(rows(("c", 4, "w", 2)), "overwrite", {"overwrite.partition": "dt=c"})
    before = {meta.file_name for meta in metas(table)}
    plan = table.rewrite(dry_run=True, options=WHAT)
    reasons = {item.what: item.reason for item in plan.skipped}
    assert sorted(reasons.values()) == [
        "it is full, and no deleted file is in its partitions",
        "it is full, and none of its files was deleted",
    ]
    done = table.rewrite(options=WHAT)
    after = {meta.file_name for meta in metas(table)}
    assert {f"manifest/{name}" for name in before & after} == reasons.keys()
    assert done.files_before == plan.files_before == 4 and done.files_after == len(after - before)
    assert contents(table) == [("a", 1, "v", 1), ("b", 2, "w", 2), ("b", 3, "w", 2), ("c", 4, "w", 2)]


def test_nothing_to_merge(make: Make) -> None:
    table = make()
    assert not table.rewrite(options=WHAT).groups
    table.write(rows(("a", 1, "v", 1)))
    assert not table.rewrite(options=WHAT).instants and len(table.history()) == 1
    with pytest.raises(UsageError, match="has no `where`"):
        table.rewrite(where="dt = 'a'", options=WHAT)


def test_manifests_are_cut_by_their_size(make: Make) -> None:
    table: Any = make((), (), bucket="-1", write__only="true", manifest_target__file__size="10 kb")
    writer = table.writer("w")
    writer.write(rows(("a", 1, "v", 1)))
    (message,) = writer.prepare_commit()
    files = [replace(message.new_files[0], file_name=f"data-{uuid.uuid4()}-0.parquet") for _ in range(2500)]
    writer.commit(1, [replace(message, new_files=tuple(files))])
    before = metas(table)
    assert [meta.num_added_files for meta in before] == [1000, 1000, 500]
    assert all(meta.file_size >= 10 << 10 for meta in before)
    table.write(rows(("a", 2, "v", 1)))
    assert metas(table)[:3] == before, "a commit wrote full manifests anew"


def test_a_rewrite_beside_other_writers(replaced: Table) -> None:
    def run(store: Store) -> lakebed.RewriteResult:
        return lakebed.open(store, QUICK).rewrite(options=WHAT)

    def append(store: Store) -> None:
        lakebed.open(store, QUICK).write(rows(("c", 7, "late", 7)))

    seen = contents(replaced)
    done = run(FaultyStore(replaced.store, Fault(1, Kind.EXISTS, PUTS, append)))
    assert len(metas(replaced)) == 1 and done.files_after == 1
    assert contents(replaced) == sorted([*seen, ("c", 7, "late", 7)])

    append(replaced.store)
    history = len(replaced.history())
    lost = run(FaultyStore(replaced.store, Fault(1, Kind.EXISTS, PUTS, lambda store: run(store) and None)))
    assert lost.notes == ("nothing was merged: another writer merged the manifests meanwhile",) and not lost.instants
    assert len(replaced.history()) == history + 1
    named = {meta.file_name for s in History(replaced.store).snapshots() for meta in data_manifests(replaced.store, s)}
    written = {path.name for path in (Path(replaced.location) / "manifest").glob("manifest-*")}
    assert {name for name in written if not name.startswith("manifest-list")} == named
