"""The local disk: links, staging, races."""

import multiprocessing
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import StorageError, UnsupportedError
from lakebed.kernel.files import PutOutcome, open_store
from lakebed.kernel.files.local import LocalStore
from lakebed.kernel.files.unpublished import STAGING


@pytest.fixture
def table(tmp_path: Path) -> LocalStore:
    (tmp_path / "table").mkdir()
    return LocalStore(str(tmp_path / "table"))


def test_a_link_out_of_the_table_is_refused(table: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"hush")
    os.symlink(tmp_path / "secret", Path(table.location, "link"))
    os.symlink(tmp_path, Path(table.location, "folder"))
    for call in (
        lambda: table.read("link"), lambda: table.open_input("link"), lambda: table.read("folder/secret"),
        lambda: table.list("folder"), lambda: list(table.walk()), lambda: table.write("folder/new", b"x"),
        lambda: table.put_if_absent("folder/new", b"x"), lambda: table.delete("folder/secret"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match="link out of the table"):
            call()
    assert sorted(os.listdir(tmp_path)) == ["secret", "table"]


def test_links_inside_are_followed_but_not_round_and_round(table: LocalStore) -> None:
    table.write("dt=1/f", b"abc")
    os.symlink("dt=1/f", Path(table.location, "same"))
    os.symlink("..", Path(table.location, "dt=1", "up"))
    assert table.read("same") == b"abc"
    assert sorted(info.path for info in table.walk()) == ["dt=1/f", "same"]


def test_a_table_may_be_opened_through_a_link(table: LocalStore, tmp_path: Path) -> None:
    table.write("f", b"abc")
    os.symlink(table.location, tmp_path / "alias")
    alias = open_store(tmp_path / "alias")
    assert alias.read("f") == b"abc" and alias.location == str(tmp_path / "alias")


def test_a_link_that_leads_nowhere_is_listed_and_fails_when_read(table: LocalStore) -> None:
    os.symlink("gone", Path(table.location, "link"))
    assert [info.path for info in table.list().files] == ["link"]
    with pytest.raises(FileNotFoundError):
        table.read("link")


def test_a_file_that_goes_while_its_folder_is_listed_hides_no_other(
    table: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        table.write(name, b"x")
    real = os.scandir

    class Racing:
        """Removes `b` after it was seen."""

        def __init__(self, path: int) -> None:
            with real(path) as entries:
                self.entries = list(entries)
            os.unlink("b", dir_fd=path)

        def __enter__(self) -> object:
            return iter(self.entries)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Racing)
    assert [info.path for info in table.list().files] == ["a", "c"]


def test_folders_are_no_files(table: LocalStore) -> None:
    table.write("folder/f", b"x")
    assert not table.exists("folder")
    for call in (table.size, table.open_input):
        with pytest.raises(FileNotFoundError, match="is a folder"):
            call("folder")
    with pytest.raises(StorageError, match="cannot read folder"):
        table.read("folder")
    with pytest.raises(StorageError, match="cannot write folder"):
        table.write("folder", b"x")
    with pytest.raises(StorageError, match="cannot delete folder"):
        table.delete("folder")


def test_a_file_created_while_it_is_looked_for_is_there_or_not(
    table: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write("folder/other", b"x")
    real, full = os.stat, f"{table.location}/folder/new"

    def stat_then_create(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        try:
            return real(path, *args, **kwargs)
        finally:
            if path == full:
                Path(full).write_bytes(b"new")

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", stat_then_create)
        assert not table.exists("folder/new")
    assert table.exists("folder/new")
    assert table.size("folder/new") == 3


def test_a_file_where_a_folder_should_be_is_an_error(table: LocalStore) -> None:
    table.write("f", b"x")
    for call in (table.write, table.put_if_absent):
        with pytest.raises(StorageError, match="cannot write f/g"):
            call("f/g", b"x")


def test_open_input_maps_the_file(table: LocalStore) -> None:
    table.write("f", b"abc")
    assert isinstance(table.open_input("f"), pa.MemoryMappedFile)


def test_no_permission_is_a_storage_error_that_names_the_file(
    table: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match=r"cannot write snapshot-1.*Permission denied"):
        table.put_if_absent("snapshot-1", b"x")
    assert os.listdir(table.location) == []


def test_a_file_system_without_hard_links_is_named(table: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="need a file system with hard links"):
        table.put_if_absent("snapshot-1", b"x")


def test_a_link_whose_answer_got_lost_is_ours(table: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def twice(source: str, target: str, **how: Any) -> None:
        real(source, target, **how)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", twice)
    assert table.put_if_absent("snapshot-1", b"x") is PutOutcome.CREATED


def test_a_full_disk_is_a_storage_error(table: LocalStore) -> None:
    with pytest.raises(StorageError, match=r"cannot write f.*No space left"), table.open_output("f"):
        raise OSError(28, "No space left on device")
    assert not table.exists("f")


def test_staging_is_invisible_and_old_strays_are_swept(table: LocalStore) -> None:
    staging = Path(table.location, STAGING)
    staging.mkdir()
    (staging / "old").write_bytes(b"x")
    (staging / "young").write_bytes(b"x")
    os.utime(staging / "old", (0, time.time() - 7200))
    assert table.list().folders == () and list(table.walk()) == []
    table.write("f", b"x")
    assert os.listdir(staging) == ["young"]
    (staging / "young").unlink()
    table.write("f", b"y")
    assert os.listdir(table.location) == ["f"]


def test_a_folder_that_others_delete_too(table: LocalStore) -> None:
    for n in range(60):
        table.write(f"d/{n % 10}/{n}", b"x")
    threads = [threading.Thread(target=table.delete_folder, args=("d",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.listdir(table.location) == []


def test_pickles_as_its_path(table: LocalStore) -> None:
    table.write("f", b"x")
    copy = pickle.loads(pickle.dumps(table))
    assert copy.location == table.location and copy.read("f") == b"x"


def _claim(root: str, barrier: Any, wins: Any, count: int) -> None:
    store = LocalStore(root)
    for n in range(count):
        claim = f"{os.getpid()} {n}"
        barrier.wait(60)
        if store.put_if_absent(f"snapshot/snapshot-{n}", claim.encode()) is PutOutcome.CREATED:
            wins.put(claim)


def test_of_eight_processes_one_wins_each_name(table: LocalStore) -> None:
    processes, names = 8, 6
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lakebed.kernel.files.local", "pytest"])
    barrier, wins = context.Barrier(processes), context.Queue()
    claimants = [context.Process(target=_claim, args=(table.location, barrier, wins, names)) for _ in range(processes)]
    for claimant in claimants:
        claimant.start()
    for claimant in claimants:
        claimant.join()
    assert [claimant.exitcode for claimant in claimants] == [0] * processes
    won = [wins.get(timeout=10) for _ in range(names)]
    assert wins.empty()
    assert sorted(won) == sorted(table.read(f"snapshot/snapshot-{n}").decode() for n in range(names))
    assert os.listdir(table.location) == ["snapshot"]
    assert len(os.listdir(Path(table.location, "snapshot"))) == names


def test_many_files_are_deleted_though_one_cannot_be(table: LocalStore, tmp_path: Path) -> None:
    for name in ("a/1", "a/2", "b/3"):
        table.write(name, b"x")
    Path(table.location, "a/folder").mkdir()
    with pytest.raises(StorageError, match="a/folder"):
        table.delete_many(["a/1", "a/folder", "a/missing", "a/2", "b/3"])
    assert [info.path for info in table.walk()] == []
    os.symlink(tmp_path, Path(table.location, "out"))
    (tmp_path / "secret").write_bytes(b"hush")
    with pytest.raises(UnsupportedError, match="link out of the table"):
        table.delete_many(["out/secret"])
    assert (tmp_path / "secret").exists()


def test_files_deleted_in_order_stop_at_one_that_cannot_be(table: LocalStore) -> None:
    for name in ("a/1", "a/3"):
        table.write(name, b"x")
    Path(table.location, "a/2").mkdir()
    with pytest.raises(StorageError, match="a/2"):
        table.delete_in_order(["a/0", "a/1", "a/2", "a/3"])
    assert [info.path for info in table.walk()] == ["a/3"]


def test_many_files_are_read_and_none_through_a_link_out_of_the_table(table: LocalStore, tmp_path: Path) -> None:
    for name in ("a/1", "a/2"):
        table.write(name, name.encode())
    os.symlink("1", Path(table.location, "a/again"))
    assert table.read_many(["a/2", "a/again", "a/1"]) == [b"a/2", b"a/1", b"a/1"]
    (tmp_path / "secret").write_bytes(b"hush")
    os.symlink(tmp_path / "secret", Path(table.location, "a/out"))
    os.symlink(tmp_path, Path(table.location, "out"))
    for path in ("a/out", "out/secret"):
        with pytest.raises(UnsupportedError, match="link out of the table"):
            table.read_many([path])
    with pytest.raises(StorageError, match="cannot read a"):
        table.read_many(["a"])


def test_many_files_go_through_one_descriptor_a_folder_and_none_stays_open(
    table: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.urandom(100_000)
    for name in ("a/1", "a/2", "b/3", "4"):
        table.write(name, large + name.encode())
    real, opened = os.open, []

    def counted(path: str, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_DIRECTORY:
            opened.append(os.path.relpath(path, table.location))
        return real(path, flags, *rest, **more)

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "open", counted)
    paths = ["a/1", "a/2", "b/3", "4"]
    assert table.read_many(paths) == [large + name.encode() for name in paths]
    assert opened == ["a", "b", "."]
    with pytest.raises(FileNotFoundError, match="a/5"):
        table.read_many(["a/1", "a/5"])
    with pytest.raises(FileNotFoundError, match="none/1"):
        table.read_many(["none/1"])
    table.delete_many(["a/1", "none/1", "b/3"])
    table.delete_in_order(["a/2", "none/1", "4"])
    assert [*table.walk()] == []
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("path", ["../x", "a/..", "a/../../x", "/etc/passwd", "a\0b", "a/\0"])
def test_many_paths_that_leave_the_table_are_refused(table: LocalStore, path: str) -> None:
    table.write("a/f", b"x")
    for call in (table.read_many, table.delete_many, table.delete_in_order):
        with pytest.raises(UnsupportedError, match="leaves the table"):
            call([path])
    assert table.read("a/f") == b"x"


def test_a_name_too_long_for_the_disk_is_not_there(table: LocalStore) -> None:
    path = f"{'x' * 300}/f"
    with pytest.raises(StorageError, match=r"cannot write .* shorter partition value.* at most 255 bytes.* has 300"):
        table.write(path, b"x")
    table.delete(path)
    table.delete_many([path])


def test_a_replaced_file_leaves_no_checksum_of_hadoop_behind(table: LocalStore) -> None:
    Path(table.location, "name").write_bytes(b"old")
    for other in (".name.crc", ".other.crc"):
        Path(table.location, other).write_bytes(b"crc")
    table.write("name", b"new")
    assert sorted(os.listdir(table.location)) == [".other.crc", "name"]
