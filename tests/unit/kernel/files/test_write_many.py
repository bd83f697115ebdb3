"""Files that are written together."""

import os
from pathlib import Path

import pytest

from lakebed.errors import RetryableError, StorageError, UnsupportedError
from lakebed.kernel.files.local import LocalStore
from lakebed.testing.faults import Fault, FaultyStore, Kind


def test_all_are_written_and_nothing_else_stays(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.write("old/2", b"before")
    files = {f"{folder}/{number}": f"{folder} {number}".encode() for folder in ("new", "old") for number in range(20)}
    store.write_many(files)
    assert {info.path: store.read(info.path) for info in store.walk()} == files
    assert sorted(os.listdir(tmp_path)) == ["new", "old"]


def test_one_that_cannot_be_written_hides_no_other(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.write("file", b"in the way")
    with pytest.raises(StorageError, match="file/b"):
        store.write_many({"a": b"1", "file/b": b"2", "c": b"3"})
    assert (store.read("a"), store.read("c")) == (b"1", b"3")


def test_a_link_out_of_the_table_is_refused_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "table" / "a").mkdir(parents=True)
    (tmp_path / "table" / "a" / "away").symlink_to(tmp_path / "outside")
    store = LocalStore(str(tmp_path / "table"))
    with pytest.raises(UnsupportedError, match="link out of the table"):
        store.write_many({"a/away/deeper/file": b"1", "a/here": b"2"})
    assert not any((tmp_path / "outside").iterdir())


def test_a_store_that_fails_on_purpose_counts_each(tmp_path: Path) -> None:
    store = FaultyStore(LocalStore(str(tmp_path)), Fault(2, Kind.ERROR_BEFORE))
    with pytest.raises(RetryableError):
        store.write_many({"a": b"1", "b": b"2", "c": b"3"})
    assert [call.path for call in store.changes] == ["a", "b", "c"]
    assert not store.exists("b")
    assert store.exists("c")
