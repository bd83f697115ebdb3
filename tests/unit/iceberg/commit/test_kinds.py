"""The kinds of commit to Iceberg tables: what they write, their summaries, and their conflicts."""

import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import CommitConflictError, CommitUnknownError, StorageError, UnsupportedError
from lakebed.formats.iceberg.catalog import hadoop
from lakebed.formats.iceberg.data_files import DataFile, data_files, delete_files
from lakebed.formats.iceberg.manifests import read_manifest_list
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import PutOutcome
from lakebed.kernel.files.local import LocalStore
from lakebed.model.commit import Outcome
from tests.golden import unpack
from tests.tables.iceberg import commits
from tests.tables.iceberg.commits import scan
from tests.tables.iceberg.small import create, data_file, equality_deletes, ids, metadata_files, position_deletes

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def summary(table: IcebergTable) -> dict[str, str]:
    return dict(table.history()[-1].summary)


def live_data(table: IcebergTable) -> list[DataFile]:
    metadata = table.table_metadata
    found = scan(table.operations.files, metadata, metadata.head())
    return [file for entries in found.data.values() for file in data_files(entries)]


def by_pyiceberg(table: IcebergTable) -> list[int]:
    location = table.operations.load().location
    rows: list[int] = sorted(StaticTable.from_metadata(location).scan().to_arrow()["id"].to_pylist())
    return rows


@VERSIONS
def test_append_adds_rows_that_pyiceberg_reads(tmp_path: Path, version: int) -> None:
    table = create(tmp_path / "t", version)
    first = commits.append(table.operations, [data_file(table, [1, 2]), data_file(table, [3], "b")], summary={"k": "v"})
    second = commits.append(table.operations, [data_file(table, [4])])
    assert (first.outcome, second.outcome) == (Outcome.COMMITTED, Outcome.COMMITTED)
    assert ids(table) == by_pyiceberg(table) == [1, 2, 3, 4]
    assert ids(table, as_of=first.snapshot_id) == [1, 2, 3]
    past = table.history()[0].summary
    assert past["k"] == "v" and past["added-data-files"] == "2" and past["changed-partition-count"] == "2"
    now = summary(table)
    assert (now["total-records"], now["total-data-files"], now["added-records"]) == ("4", "3", "1")
    assert now["total-delete-files"] == "0" and "added-delete-files" not in now
    metadata = table.table_metadata
    assert [entry[1] for entry in metadata.snapshot_log] == [first.snapshot_id, second.snapshot_id]
    assert metadata.last_sequence_number == (0 if version == 1 else 2)
    if version == 3:
        assert metadata.next_row_id == 4
        assert sorted(f.first_row_id for f in live_data(table) if f.first_row_id is not None) == [0, 2, 3]


def test_nothing_to_append_commits_nothing(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    assert commits.append(table.operations, []).outcome is Outcome.SKIPPED
    assert table.history() == []


@pytest.mark.slow
@VERSIONS
def test_overwrites_replace_all_or_partitions(tmp_path: Path, version: int) -> None:
    table = create(tmp_path / "t", version)
    commits.append(table.operations, [data_file(table, [1, 2]), data_file(table, [3], "b")])
    commits.overwrite(table.operations, [data_file(table, [9], "b")], [(0, ("b",))], dynamic=True)
    assert ids(table) == by_pyiceberg(table) == [1, 2, 9]
    said = summary(table)
    assert said["replace-partitions"] == "true" and said["deleted-data-files"] == "1"
    assert (said["deleted-records"], said["total-records"]) == ("1", "3")
    commits.overwrite(table.operations, [data_file(table, [7])])
    assert ids(table) == by_pyiceberg(table) == [7]
    commits.overwrite(table.operations, [])
    assert ids(table) == [] and table.history()[-1].action == "delete"


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_replace_keeps_the_starting_sequence_number(tmp_path: Path, version: int) -> None:
    table = create(tmp_path / "t", version)
    commits.append(table.operations, [data_file(table, [1, 2])])
    commits.append(table.operations, [data_file(table, [3])])
    start = table.table_metadata.head()
    assert start is not None
    old = live_data(table)
    rewritten = data_file(table, [1, 2, 3])
    commits.row_delta(table.operations, [], [equality_deletes(table, [2])])  # a writer in between
    commits.append(table.operations, [data_file(table, [2])])
    commits.replace(table.operations, start.snapshot_id, old, [rewritten])
    assert ids(table) == [1, 2, 3]  # the new row 2 is younger than the delete
    (mine,) = [f for f in live_data(table) if f.path == rewritten.path]
    assert (mine.sequence_number, mine.file_sequence_number) == (2, 5)
    said = summary(table)
    assert table.history()[-1].action == "replace"
    assert (said["added-records"], said["deleted-records"], said["total-equality-deletes"]) == ("3", "3", "1")


def appended(table: IcebergTable, old: list[DataFile]) -> None:
    commits.append(table.operations, [data_file(table, [50])])


def position_deleted(table: IcebergTable, old: list[DataFile]) -> None:
    commits.row_delta(table.operations, [], [position_deletes(table, old[0], [0])])


def elsewhere_deleted(table: IcebergTable, old: list[DataFile]) -> None:
    other = next(f for f in live_data(table) if f.partition == ("z",))
    commits.row_delta(table.operations, [], [position_deletes(table, other, [0])])


def equality_deleted(table: IcebergTable, old: list[DataFile]) -> None:
    commits.row_delta(table.operations, [], [equality_deletes(table, [1])])


def overwritten(table: IcebergTable, old: list[DataFile]) -> None:
    commits.overwrite(table.operations, [data_file(table, [60])], [(0, ("a",))])


def rewritten(table: IcebergTable, old: list[DataFile]) -> None:
    head = table.table_metadata.head()
    commits.replace(table.operations, head and head.snapshot_id, old[:1], [data_file(table, [1, 2])])


def elsewhere_rewritten(table: IcebergTable, old: list[DataFile]) -> None:
    head = table.table_metadata.head()
    other = [f for f in live_data(table) if f.partition == ("z",)]
    commits.replace(table.operations, head and head.snapshot_id, other, [data_file(table, [99], "z")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rival", "starting", "conflict"),
    [
        (appended, True, False), (appended, False, False), (elsewhere_deleted, True, False),
        (elsewhere_rewritten, True, False), (equality_deleted, True, False), (equality_deleted, False, True),
        (position_deleted, True, True), (position_deleted, False, True), (overwritten, True, True),
        (rewritten, True, True),
    ],
)  # fmt: skip
def test_conflicts_of_a_rewrite(
    tmp_path: Path, rival: Callable[[IcebergTable, list[DataFile]], None], starting: bool, conflict: bool
) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [1, 2]), data_file(table, [3]), data_file(table, [99], "z")])
    start = table.table_metadata.head()
    assert start is not None
    old = [f for f in live_data(table) if f.partition == ("a",)]
    new = data_file(table, [1, 2, 3])
    rival(table, old)
    before, files = ids(table), metadata_files(table)
    if conflict:
        with pytest.raises(CommitConflictError):
            commits.replace(table.operations, start.snapshot_id, old, [new], keeps_sequence_number=starting)
        assert metadata_files(table) == files  # nothing of it stays
        assert table.history()[-1].action != "replace" or rival is rewritten
    else:
        commits.replace(table.operations, start.snapshot_id, old, [new], keeps_sequence_number=starting)
        assert table.history()[-1].action == "replace"
    assert ids(table) == before


def test_a_start_that_is_gone_is_a_conflict(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [1])])
    with pytest.raises(CommitConflictError, match="history since snapshot 17"):
        commits.replace(table.operations, 17, live_data(table), [data_file(table, [1])])


@pytest.mark.slow
def test_a_replace_of_files_with_vectors(tmp_path: Path) -> None:
    table = lakebed.open(unpack("iceberg", "dv_v3", into=tmp_path))
    assert isinstance(table, IcebergTable)
    metadata = table.table_metadata
    head = metadata.head()
    assert head is not None
    found = scan(table.operations.files, metadata, head)
    deletes = [f for entries in found.deletes.values() for f in delete_files(entries)]
    target = next(f for f in live_data(table) if f.path == deletes[0].referenced_data_file)
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    named = lakebed.open("ice:db.dv_v3", options)
    assert isinstance(named, IcebergTable)
    commits.replace(named.operations, head.snapshot_id, [target], [])
    said = summary(named)
    assert (said["removed-dvs"], said["removed-delete-files"], said["deleted-data-files"]) == ("1", "1", "1")
    after = scan(named.operations.files, named.table_metadata, named.table_metadata.head())
    left = [f for entries in after.deletes.values() for f in delete_files(entries)]
    assert target.path not in {f.referenced_data_file for f in left} and len(left) == len(deletes) - 1
    before_ids = {f.path: f.first_row_id for f in live_data(table)}
    assert all(f.first_row_id == before_ids[f.path] for f in live_data(named))
    loaded = load_catalog("ice", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db").load_table("db.dv_v3")
    assert loaded.scan().to_arrow().num_rows == named.read().read_all().num_rows


def test_a_second_vector_for_a_file_is_a_conflict(tmp_path: Path) -> None:
    unpack("iceberg", "dv_v3", into=tmp_path)
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    table = lakebed.open("ice:db.dv_v3", options)
    assert isinstance(table, IcebergTable)
    found = scan(table.operations.files, table.table_metadata, table.table_metadata.head())
    vector = next(f for entries in found.deletes.values() for f in delete_files(entries))
    with pytest.raises(CommitConflictError, match="deleted rows of the same data file"):
        commits.row_delta(table.operations, [], [vector])
    commits.row_delta(table.operations, [], [vector], removed=[vector])
    assert summary(table)["added-dvs"] == summary(table)["removed-dvs"] == "1"


@pytest.mark.slow
@VERSIONS
def test_manifests_are_merged_when_enough_have_gathered(tmp_path: Path, version: int) -> None:
    table = create(tmp_path / "t", version, **{"commit.manifest.min-count-to-merge": "4"})
    counts = []
    for number in range(9):
        commits.append(table.operations, [data_file(table, [number])])
        head = table.table_metadata.head()
        assert head is not None
        counts.append(len(read_manifest_list(table.operations.files, head)))
    assert counts == [1, 2, 3, 1, 2, 3, 1, 2, 3]
    assert ids(table) == by_pyiceberg(table) == [*range(9)]
    if version > 1:
        assert sorted(f.sequence_number or 0 for f in live_data(table)) == [*range(1, 10)]
        assert sorted(f.file_sequence_number or 0 for f in live_data(table)) == [*range(1, 10)]
    if version == 3:
        assert len({f.first_row_id for f in live_data(table)}) == 9


def test_deletes_older_than_all_data_are_dropped(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [1, 2])])
    commits.row_delta(table.operations, [], [equality_deletes(table, [1])])
    commits.overwrite(table.operations, [data_file(table, [5])], [(0, ("a",))])
    commits.append(table.operations, [data_file(table, [6])])
    assert summary(table)["total-delete-files"] == "0"
    assert ids(table) == [5, 6]


def test_a_branch_of_its_own(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    commits.append(table.operations, [data_file(table, [1])])
    table.tag("one")
    table.branch("audit")
    commits.append(table.operations, [data_file(table, [2])], branch="audit")
    commits.append(table.operations, [data_file(table, [3])])
    audit = lakebed.open(tmp_path / "t", {"branch": "audit"})
    assert (ids(table), ids(audit), ids(table, as_of="tag:one")) == ([1, 3], [1, 2], [1])  # type: ignore[arg-type]
    table.delete_branch("audit")
    table.delete_tag("one")
    assert {*table.table_metadata.refs} == {"main"}


def test_a_catalogs_table_is_not_changed_by_its_path(tmp_path: Path) -> None:
    table = lakebed.open(unpack("iceberg", "pos_deletes", into=tmp_path))
    assert isinstance(table, IcebergTable)
    with pytest.raises(UnsupportedError, match="belongs to a catalog"):
        table.tag("t")


def commit_many(path: str, options: dict[str, str], start: int, count: int) -> None:
    table = lakebed.open(path, options)
    assert isinstance(table, IcebergTable)
    for number in range(start, start + count):
        commits.append(table.operations, [data_file(table, [number])], properties={"commit.retry.num-retries": "200"})


@pytest.mark.slow
@pytest.mark.parametrize("place", ["path", "catalog"])
def test_threads_that_commit_at_once_all_land(tmp_path: Path, place: str) -> None:
    options = {
        "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/c.db",
        "lakebed.catalog.warehouse": str(tmp_path / "wh"),
    }  # fmt: skip
    location = str(tmp_path / "t") if place == "path" else "cat:db.t"
    create(location, **({} if place == "path" else options))
    given = {} if place == "path" else options
    threads = [threading.Thread(target=commit_many, args=(location, given, 10 * n, 4)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = lakebed.open(location, given)
    assert isinstance(table, IcebergTable)
    assert ids(table) == sorted(10 * n + m for n in range(4) for m in range(4))
    assert len(table.history()) == 16
    lists = {s.manifest_list.rpartition("/")[2] for s in table.table_metadata.snapshots.values()}
    names = {name for name in metadata_files(table) if name.startswith("snap-")}
    assert names == lists  # no lost attempt left its list behind


@pytest.mark.slow
def test_processes_that_commit_at_once_all_land(tmp_path: Path) -> None:
    create(tmp_path / "t")
    context: Any = multiprocessing.get_context("spawn")
    workers = [context.Process(target=commit_many, args=(str(tmp_path / "t"), {}, 10 * n, 3)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    table = lakebed.open(tmp_path / "t")
    assert isinstance(table, IcebergTable)
    assert ids(table) == [0, 1, 2, 10, 11, 12]


def test_old_metadata_files_go_where_the_table_wants_it(tmp_path: Path) -> None:
    table = create(
        tmp_path / "t",
        **{"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"},
    )
    for number in range(5):
        commits.append(table.operations, [data_file(table, [number])])
    left = {path.name for path in (tmp_path / "t/metadata").glob("*.json")}
    assert left == {"v4.metadata.json", "v5.metadata.json", "v6.metadata.json"}
    assert ids(table) == [0, 1, 2, 3, 4]


ONLY_NEWEST = {"older-than": "2100-01-01", "retain-last": 1}
CLEANS = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], None]) -> None:
    """Let the next commit do something between its last look and its claim of a name."""
    claim = hadoop.HadoopTable._claim

    def claims(self: hadoop.HadoopTable, name: str, data: bytes) -> None:
        monkeypatch.setattr(hadoop.HadoopTable, "_claim", claim)
        act(name)
        claim(self, name, data)

    monkeypatch.setattr(hadoop.HadoopTable, "_claim", claims)


@pytest.mark.parametrize("base_stays", [False, True])
def test_a_claim_that_comes_after_its_version_was_cleaned_up_is_withdrawn(
    base_stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a commit that died before it had cleaned up has left the claim's base."""
    table = create(tmp_path / "t", **CLEANS)
    other = lakebed.open(tmp_path / "t")
    assert isinstance(other, IcebergTable)
    metadata = tmp_path / "t/metadata"
    kept = (metadata / "v1.metadata.json").read_bytes()

    def act(name: str) -> None:
        for number in range(5):
            commits.append(other.operations, [data_file(table, [number])])
        other.expire(options=ONLY_NEWEST)  # no snapshot tells any more who had the claim's number
        if base_stays:
            (metadata / "v1.metadata.json").write_bytes(kept)

    between(monkeypatch, act)
    with pytest.raises(CommitUnknownError):
        commits.append(table.operations, [data_file(table, [9])])
    assert not (metadata / "v2.metadata.json").exists()
    newest = lakebed.open(tmp_path / "t")
    assert isinstance(newest, IcebergTable)
    assert ids(newest) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("others", "expires"),
    [(2, False), (5, False), (2, True)],
    ids=["log", "sequence-number", "log-of-an-older-version"],
)
def test_a_claim_that_came_too_late_for_certain_is_made_again(
    others: int, expires: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table tells that another commit had the claim's version."""
    table = create(tmp_path / "t", **CLEANS)
    other = lakebed.open(tmp_path / "t")
    assert isinstance(other, IcebergTable)

    def act(name: str) -> None:
        for number in range(others):
            commits.append(other.operations, [data_file(table, [number])])
        if expires:
            other.expire(options=ONLY_NEWEST)
        (tmp_path / "t/metadata" / name).unlink(missing_ok=True)

    between(monkeypatch, act)
    commits.append(table.operations, [data_file(table, [9])])
    newest = lakebed.open(tmp_path / "t")
    assert isinstance(newest, IcebergTable)
    assert ids(newest) == [*range(others), 9]
    assert not (tmp_path / "t/metadata/v2.metadata.json").exists()


def test_a_claim_that_came_too_late_is_not_known_by_the_time_of_a_clock_that_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version has the time of its base then, whoever made it."""
    table = create(tmp_path / "t", **CLEANS)
    commits.append(table.operations, [data_file(table, [1])])
    other = lakebed.open(tmp_path / "t")
    monkeypatch.setattr(hadoop.clock, "now_ms", lambda: 1)

    def act(name: str) -> None:
        for number in range(3):
            other.tag(f"other-{number}")
        assert not (tmp_path / "t/metadata" / name).exists()

    between(monkeypatch, act)
    with pytest.raises(CommitUnknownError):
        table.tag("mine")
    assert sorted(ref.name for ref in lakebed.open(tmp_path / "t").refs()) == ["main", "other-0", "other-1", "other-2"]


@pytest.mark.parametrize("followed_at_once", [True, False])
def test_a_claim_is_known_by_its_file_where_clocks_are_behind(
    followed_at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit removes a file that the newest version has in its log, so the one that stands there came in time. Not
    so where only the hint is behind: it names a version from before the name was free again."""
    table = create(tmp_path / "t", **{**CLEANS, "write.metadata.previous-versions-max": "2"})
    commits.append(table.operations, [data_file(table, [1])])
    other, metadata = lakebed.open(tmp_path / "t"), tmp_path / "t/metadata"
    monkeypatch.setattr(hadoop.clock, "now_ms", lambda: 1)
    put = LocalStore.put_if_absent

    def followed(store: LocalStore, path: str, data: bytes) -> PutOutcome:
        monkeypatch.setattr(LocalStore, "put_if_absent", put)
        outcome = put(store, path, data)
        other.tag("other")
        return outcome

    def act(name: str) -> None:
        if followed_at_once:
            monkeypatch.setattr(LocalStore, "put_if_absent", followed)
            return
        for number in range(4):
            other.tag(f"other-{number}")
        assert not (metadata / name).exists()
        (metadata / "version-hint.text").write_text("4")

    between(monkeypatch, act)
    if followed_at_once:
        table.tag("mine")
        assert sorted(ref.name for ref in lakebed.open(tmp_path / "t").refs()) == ["main", "mine", "other"]
    else:
        with pytest.raises(CommitUnknownError):
            table.tag("mine")
    assert (metadata / "v3.metadata.json").exists() is followed_at_once


def test_a_claim_that_came_too_late_and_is_gone_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one has removed what it left, which was all of it."""
    table = create(tmp_path / "t", **CLEANS)
    other = lakebed.open(tmp_path / "t")
    assert isinstance(other, IcebergTable)
    put = LocalStore.put_if_absent

    def removed(store: LocalStore, path: str, data: bytes) -> PutOutcome:
        monkeypatch.setattr(LocalStore, "put_if_absent", put)
        outcome = put(store, path, data)
        (tmp_path / "t" / path).unlink()
        return outcome

    def act(name: str) -> None:
        for number in range(3):
            commits.append(other.operations, [data_file(table, [number])])
        assert not (tmp_path / "t/metadata" / name).exists()
        monkeypatch.setattr(LocalStore, "put_if_absent", removed)

    between(monkeypatch, act)
    commits.append(table.operations, [data_file(table, [9])])
    newest = lakebed.open(tmp_path / "t")
    assert isinstance(newest, IcebergTable)
    assert ids(newest) == [0, 1, 2, 9]


@pytest.mark.parametrize("others", [1, 5])
def test_a_claim_that_landed_unheard_is_not_put_again(
    others: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer came when others had committed after it and had cleaned its version up, so that its name was free: a
    hint that points back to it would bring the old rows back."""
    table = create(tmp_path / "t", **CLEANS)
    other = lakebed.open(tmp_path / "t")
    assert isinstance(other, IcebergTable)
    metadata, put = tmp_path / "t/metadata", LocalStore.put_if_absent

    def unheard(store: LocalStore, path: str, data: bytes) -> PutOutcome:
        monkeypatch.setattr(LocalStore, "put_if_absent", put)
        assert put(store, path, data) is PutOutcome.CREATED
        for number in range(others):
            commits.append(other.operations, [data_file(table, [number])])
        return PutOutcome.UNKNOWN

    between(monkeypatch, lambda _: monkeypatch.setattr(LocalStore, "put_if_absent", unheard))
    commits.append(table.operations, [data_file(table, [9])])
    newest = lakebed.open(tmp_path / "t")
    assert isinstance(newest, IcebergTable)
    assert ids(newest) == [*range(others), 9]
    assert (metadata / "version-hint.text").read_text() == str(2 + others)
    assert (metadata / "v2.metadata.json").exists() is (others == 1)


@pytest.mark.parametrize("late", [False, True])
def test_a_claim_that_cannot_be_judged_is_acknowledged_only_where_the_table_has_it(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path / "t", **CLEANS)
    other = lakebed.open(tmp_path / "t")
    assert isinstance(other, IcebergTable)

    def act(name: str) -> None:
        for number in range(5 if late else 0):
            commits.append(other.operations, [data_file(table, [number])])
        monkeypatch.setattr(hadoop.HadoopTable, "_later", fails)

    def fails(*_: object) -> None:
        raise StorageError("no answer")

    between(monkeypatch, act)
    if late:
        with pytest.raises(CommitUnknownError, match="came in time cannot be read"):
            commits.append(table.operations, [data_file(table, [9])])
    else:
        commits.append(table.operations, [data_file(table, [9])])
    newest = lakebed.open(tmp_path / "t")
    assert isinstance(newest, IcebergTable)
    assert ids(newest) == ([0, 1, 2, 3, 4] if late else [9])


@pytest.mark.parametrize(("limit", "told"), [("0", False), ("1", False), ("2", True)])
def test_counts_of_each_partition_where_few_changed(limit: str, told: bool, tmp_path: Path) -> None:
    table = create(tmp_path / "t", **{"write.summary.partition-limit": limit})
    commits.append(table.operations, [data_file(table, [1, 2]), data_file(table, [3]), data_file(table, [4], "b c")])
    summary = table.history()[-1].summary
    assert summary["changed-partition-count"] == "2"
    assert ("partition-summaries-included" in summary) is told
    found = {key: dict(pair.split("=") for pair in text.split(",")) for key, text in summary.items() if "p=" in key}
    assert set(found) == ({"partitions.p=a", "partitions.p=b+c"} if told else set())
    if told:
        assert (found["partitions.p=a"]["added-data-files"], found["partitions.p=a"]["added-records"]) == ("2", "3")
