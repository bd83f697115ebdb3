"""The places that a table may touch, and what a local store refuses to open."""

import os
import socket
from pathlib import Path

import pytest

from lakebed.errors import StorageError, UnsupportedError, UsageError
from lakebed.kernel.files.credentials import credentials_from
from lakebed.kernel.files.local import LocalStore
from lakebed.kernel.files.places import PLACES, Places, named_places
from lakebed.kernel.files.unpublished import STAGING


def test_a_place_is_a_root_and_what_lies_below_it() -> None:
    places = Places("/t", ("/t", "s3://b/landing", "s3://c"))
    assert places.root_of("/t") == "/t" == places.root_of("/t/data/f")
    assert places.root_of("s3://b/landing/x") == "s3://b/landing"
    assert places.root_of("s3://c/any/thing") == "s3://c"
    for outside in ("/tt/f", "/", "/t/../u", "s3://b/land", "s3://b/landing/../x", "s3://cc/x", "http://h/t"):
        assert places.root_of(outside) is None, outside
    assert Places("/t", ("/",)).root_of("/any") == "/"


def test_the_caller_names_places_in_an_option() -> None:
    given = {"Lakebed.Storage.Places": "s3a://b/x/, file:///tmp/with%20space", "other": "/no"}
    assert named_places(given, ["/more", "/more/"]) == ("s3://b/x", "/tmp/with space", "/more")
    assert named_places({}) == ()
    assert credentials_from({PLACES: "/x"}) == credentials_from({})
    with pytest.raises(UsageError, match="empty place"):
        named_places({PLACES: "/x,"})


def test_a_link_in_the_place_of_the_staging_folder_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "old").write_text("precious")
    os.utime(victim / "old", (0, 0))
    for number, target in enumerate((victim, victim / "old", tmp_path / "none")):
        root = tmp_path / f"t{number}"
        root.mkdir()
        (root / STAGING).symlink_to(target)
        store = LocalStore(str(root))
        for put in (store.write, store.put_if_absent):
            with pytest.raises(UnsupportedError, match="is a link or a file"):
                put("f", b"x")
        assert os.listdir(root) == [STAGING]
    assert os.listdir(victim) == ["old"] and (victim / "old").read_text() == "precious"
    assert not (tmp_path / "none").exists()


def test_the_sweep_of_strays_takes_files_only(tmp_path: Path) -> None:
    (tmp_path / STAGING).mkdir()
    (tmp_path / "kept").write_text("x")
    for name in ("link", "stray"):
        (tmp_path / STAGING / name).symlink_to("../kept") if name == "link" else (tmp_path / STAGING / name).write_text(
            "x"
        )
        os.utime(tmp_path / STAGING / name, (0, 0), follow_symlinks=False)
    LocalStore(str(tmp_path)).write("f", b"x")
    assert os.listdir(tmp_path / STAGING) == ["link"] and (tmp_path / "kept").exists()


@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a device"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    odd = folder / "odd"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(folder)  # a socket's path may be no longer than 107 bytes
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind("odd")
        finally:
            os.chdir(here)
    else:
        odd.symlink_to("/dev/zero")
    store = LocalStore(str(folder))
    calls = (
        lambda: store.read("odd"), lambda: store.read("odd", 1, 2), lambda: store.read_many(["odd", "odd"]),
        lambda: store.open_input("odd"), lambda: store.size("odd"), lambda: store.open_output("odd").__enter__(),
    )  # fmt: skip
    for call in calls:
        with pytest.raises((StorageError, UnsupportedError), match=r"not a file|link out of the table"):
            call()
    store.write("odd2", b"x")
    assert store.read("odd2") == b"x"
