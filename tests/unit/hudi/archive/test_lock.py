"""Who may archive when: the table's own lock where it is a file, a lease elsewhere, and writers beside the archiver."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import CommitConflictError, UnsupportedError
from lakebed.formats.hudi.archive.write_v1 import archive_files
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.kernel.files import open_store
from lakebed.kernel.scratch import Scratch
from lakebed.testing.faults import FaultyStore
from tests.tables.hudi.timelines import FREE, Lake, commit_metadata, times

FILE_LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


@pytest.mark.parametrize("provider", ["", "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"])
def test_two_archivers_at_once_one_after_the_other(tmp_path: Path, provider: str) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 40))
    options = {
        **FREE,
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "lakebed.archive.lock": "auto",
        "hoodie.write.lock.provider": provider,
        "hoodie.write.lock.wait_time_ms": 20_000,
    }
    results: list[Any] = []

    def work() -> None:
        results.append(lakebed.open(tmp_path).archive(options=options).archived)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(result) for result in results) == [0, 0, 0, 37]
    assert lake.archived() == times(range(1, 38))
    files = archive_files(open_store(tmp_path), ".hoodie/archived")
    entries = [e for info in files for e in parse_archive([(tmp_path / info.path).read_bytes()], Scratch()).entries]
    assert len(entries) == 3 * 37
    assert not (tmp_path / ".hoodie/lock").exists()
    assert not list((tmp_path / ".hoodie").glob(".lakebed/archiver-*"))


def test_a_held_lock_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    (tmp_path / ".hoodie/lock").write_text('{"lockThreadName": "writer 7"}')
    before = lake.names()
    file_lock = {
        "hoodie.write.lock.provider": "x.FileSystemBasedLockProvider",
        "hoodie.write.lock.wait_time_ms": 0,
        "lakebed.archive.lock": "auto",
    }
    with pytest.raises(CommitConflictError, match="writer 7"):
        lake.archive(2, 3, **file_lock)
    lease = tmp_path / ".hoodie/.lakebed/archiver-x.json"
    lease.parent.mkdir()
    lease.write_text(json.dumps({"owner": "another machine", "process": 1, "ends": time.time() + 60}))
    with pytest.raises(CommitConflictError, match="another archiver"):
        lake.archive(2, 3, **{"lakebed.archive.lock": "auto", "hoodie.write.lock.wait_time_ms": 0})
    assert lake.names() == before
    long_ago = time.time() - 700  # the lease is told by the times of files, not by what the other machine's clock says
    os.utime(lease, (long_ago, long_ago))
    result = lake.archive(2, 3, **{"lakebed.archive.lock": "auto", "hoodie.write.lock.wait_time_ms": 0})
    assert len(result.archived) == 6


def test_a_lock_without_a_client_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    zookeeper = {"lakebed.archive.lock": "auto", "hoodie.write.lock.provider": "a.b.ZookeeperBasedLockProvider"}
    with pytest.raises(UnsupportedError, match=r"ZookeeperBasedLockProvider.*lakebed\.archive\.lock"):
        lake.archive(2, 3, **zookeeper)
    assert lake.archive(2, 3, **{**zookeeper, "lakebed.archive.lock": "lease"}).archived


@pytest.mark.parametrize("folder", ["", "{table}/.hoodie/locks", "file://{table}/.hoodie/locks", "file:{table}/locks/"])
def test_the_lock_that_the_tables_properties_name_is_taken_and_given_back(tmp_path: Path, folder: str) -> None:
    where = folder.format(table=tmp_path)
    properties = {"hoodie.write.lock.provider": FILE_LOCK, "hoodie.write.lock.filesystem.path": where}
    lake = Lake(tmp_path, properties={key: value for key, value in properties.items() if value})
    lake.commit(*range(1, 9))
    lock = f"{where.partition(str(tmp_path))[2].strip('/') or '.hoodie'}/lock"
    store = FaultyStore(open_store(tmp_path))
    options = {**FREE, "lakebed.archive.lock": "auto", "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    assert lakebed.open(store).archive(options=options).archived == tuple(times(range(1, 7)))
    changes = [(call.verb, call.path) for call in store.changes]
    assert changes[0] == ("put_if_absent", lock) and changes[-1] == ("delete", lock)
    assert not any("archiver-" in path for _, path in changes)
    (tmp_path / lock).parent.mkdir(exist_ok=True)
    (tmp_path / lock).write_text("a writer")
    with pytest.raises(CommitConflictError, match="a writer"):
        lakebed.open(tmp_path).archive(options={**options, "hoodie.write.lock.wait_time_ms": 0})


def test_a_lock_folder_elsewhere_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.commit(*range(1, 9))
    elsewhere = {
        "lakebed.archive.lock": "auto",
        "hoodie.write.lock.provider": FILE_LOCK,
        "hoodie.write.lock.filesystem.path": str(tmp_path / "locks"),
    }
    with pytest.raises(UnsupportedError, match=r"is not in the table.*lakebed\.archive\.lock=none"):
        lake.archive(2, 3, **elsewhere)
    assert lake.archived() == []


@pytest.mark.parametrize(
    "provider",
    [
        "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
        "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
        "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
        "com.acme.OwnLockProvider",
    ],
)
def test_every_other_kind_is_refused_before_anything_changes(tmp_path: Path, provider: str) -> None:
    lake = Lake(tmp_path, properties={"hoodie.write.lock.provider": provider})
    lake.commit(*range(1, 9))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedError, match=provider.rpartition(".")[2]):
        lake.archive(2, 3, **{"lakebed.archive.lock": "auto"})
    assert sorted(tmp_path.rglob("*")) == before
    assert lake.archive(2, 3, dry_run=True, **{"lakebed.archive.lock": "auto"}).archived == tuple(times(range(1, 7)))


@pytest.mark.parametrize("provider", ["", "a.InProcessLockProvider", "a.NoopLockProvider"])
def test_without_a_lock_between_processes_a_lease_is_taken(tmp_path: Path, provider: str) -> None:
    lake = Lake(tmp_path, properties={"hoodie.write.lock.provider": provider} if provider else {})
    lake.commit(*range(1, 9))
    store = FaultyStore(open_store(tmp_path))
    options = {**FREE, "lakebed.archive.lock": "auto", "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    lakebed.open(store).archive(options=options)
    first, last = store.changes[0], store.changes[-1]
    assert first.verb == "write" and first.path.startswith(".hoodie/.lakebed/archiver-")
    assert (last.verb, last.path) == ("delete", first.path)


@pytest.mark.parametrize("version", [6, 8])
def test_a_writer_beside_the_archiver_loses_nothing(tmp_path: Path, version: int) -> None:
    """A writer commits step by step while archivers run one after another: at the end each commit is there once."""
    lake = Lake(tmp_path, version)
    lake.commit(1, 2, 3)
    last = 60
    stop = threading.Event()
    failures: list[BaseException] = []

    def archive_on() -> None:
        try:
            while not stop.is_set():
                lake.archive(2, 3, **{"lakebed.archive.lock": "auto"})
        except BaseException as error:
            failures.append(error)

    archiver = threading.Thread(target=archive_on)
    archiver.start()
    for number in range(4, last + 1):
        lake.pending(number, state="requested")
        lake.pending(number)
        staged = lake.put("staged", commit_metadata())
        staged.rename(lake.timeline / lake.done_name(number, "commit"))
    stop.set()
    archiver.join()
    assert failures == []
    lake.archive(2, 3)
    assert lake.history() == [(time, "commit") for time in times(range(1, last + 1))]
    # three are not more than the maximum: the last archiver may have come just before the last commit
    assert lake.active() in (times([last - 1, last]), times([last - 2, last - 1, last]))


def test_an_instant_that_is_rolled_back_under_the_archiver_stops_it_and_nothing_is_lost(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))

    class RolledBack(FaultyStore):
        """Takes an instant away as soon as its files are to be read."""

        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            if path.endswith(f"{times([4])[0]}.commit"):
                self.real.delete(path)
            return super().read(path, start, length)

    options = {**FREE, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    with pytest.raises(CommitConflictError, match="vanished while it was being archived"):
        lakebed.open(RolledBack(open_store(tmp_path))).archive(options=options)
    assert lake.archived() == []
    assert lake.active() == times(range(1, 9))
