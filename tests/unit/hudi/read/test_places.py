"""What a Hudi table's own files say leads nowhere outside its folder."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import LakebedError, UnsupportedError
from lakebed.kernel.files.local import LocalStore
from tests.golden import unpack


@pytest.mark.parametrize("key", ["hoodie.timeline.path", "hoodie.archivelog.folder", "hoodie.timeline.history.path"])
@pytest.mark.parametrize("name", ["archived_v6", "archived_v9"])
def test_folders_of_the_timeline_stay_inside(key: str, name: str, tmp_path: Path) -> None:
    table = unpack("hudi", name, into=tmp_path / "lake")
    victim = tmp_path / "victim"
    shutil.copytree(table / ".hoodie", victim)
    before = sorted(str(path) for path in victim.rglob("*"))
    settings = table / ".hoodie" / "hoodie.properties"
    settings.write_text(settings.read_text() + f"\n{key}=../../../victim\n")
    opened: Any = lakebed.open(table)
    for act in (lambda: opened.history(archived=True), lambda: opened.archive(), lambda: opened.read().read_all()):
        try:
            act()
        except LakebedError as error:
            assert isinstance(error, UnsupportedError) and "leaves the table" in str(error), error
    assert sorted(str(path) for path in victim.rglob("*")) == before


# The engine that wrote some of these tables cleaned files that a delete needs, and a read says so.
@pytest.mark.filterwarnings("ignore:deletes of:lakebed.errors.ReadWarning")
@pytest.mark.slow
def test_nothing_outside_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that a table lies in is not what its files say: it can be copied anywhere, and is read there."""
    actual: set[str] = set()
    real = LocalStore.local_path

    def recorded(store: LocalStore, path: str) -> str:
        actual.add(f"{store.location}/{path}")
        return real(store, path)

    monkeypatch.setattr(LocalStore, "local_path", recorded)
    for name in ("cow_v6", "mor_v6", "mor_v9"):
        table = unpack("hudi", name, into=tmp_path)
        opened: Any = lakebed.open(table)
        assert opened.read().read_all().num_rows
        opened.changes().read_all()
        opened.inspect()
        opened.archive(dry_run=True)
        assert {path for path in actual if not path.startswith(f"{table}/")} == set()
        actual.clear()
